"""The spatial axes of a convolution under the names that the generated C gives them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from qcgen.ir.program import ConvGeometry
from qcgen.ir.types import Layout

INDENT = "    "

_NAMES = (("t", "TIME"), ("z", "DEPTH"), ("y", "HEIGHT"), ("x", "WIDTH"))
"""Letter and label of up to four axes; an image of fewer axes uses the last ones."""


@dataclass(frozen=True)
class Axis:
    """One spatial axis: ``letter`` as in oy, ``label`` as in IN_HEIGHT; ``indent`` is the depth of its loop in C.

    Output positions ``inside_begin`` <= o < ``inside_end`` have windows that lie wholly within the image; there are
    none if the two are equal. ``step`` is the distance in memory between neighbours on the axis, ``position`` the C
    expression of the output position, given ``pixel``.
    """

    letter: str
    label: str
    indent: str
    input: int
    output: int
    kernel: int
    stride: int
    dilation: int
    pad: int
    inside_begin: int
    inside_end: int
    step: int
    position: str

    @property
    def tap_step(self) -> int:
        """The distance in memory between two taps of a window on this axis."""
        return self.step * self.dilation

    @property
    def span(self) -> int:
        """Elements from the first tap of a window to its last one."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def stride_step(self) -> int:
        """The distance in memory between the windows of neighbouring outputs on this axis."""
        return self.step * self.stride


def axes(geometry: ConvGeometry, layout: Layout) -> tuple[Axis, ...]:
    """The axes of a geometry, outermost first, for an input image in ``layout``."""
    return tuple(_axis(geometry, layout, index) for index in range(geometry.rank))


def _axis(geometry: ConvGeometry, layout: Layout, index: int) -> Axis:
    letter, label = _NAMES[-geometry.rank :][index]
    size, count = geometry.input[index], geometry.output[index]
    kernel, stride = geometry.kernel[index], geometry.strides[index]
    dilation, pad = geometry.dilations[index], geometry.pads_begin[index]
    begin = min(-(-pad // stride), count)
    last = (size - 1 - (kernel - 1) * dilation + pad) // stride
    end = min(max(last + 1, begin), count)
    step = prod(geometry.input[index + 1 :]) * (geometry.in_channels if layout is Layout.CHANNELS_LAST else 1)
    depth = index + (1 if layout is Layout.CHANNELS_LAST else 2)  # channels first: a loop over channels around it
    position = _position(geometry, index)
    return Axis(letter, label, INDENT * depth, size, count, kernel, stride, dilation, pad, begin, end, step, position)


def _position(geometry: ConvGeometry, index: int) -> str:
    """The C expression of the output position on one axis, given ``pixel``, which counts through all of them."""
    labels = [label for _, label in _NAMES[-geometry.rank :]]
    inner = [f"OUT_{label}" for label in labels[index + 1 :]]
    divided = "pixel" + (f" / {inner[0]}" if len(inner) == 1 else f" / ({' * '.join(inner)})" if inner else "")
    return f"{divided} % OUT_{labels[index]}" if index else divided


def any_at_border(spatial: tuple[Axis, ...]) -> bool:
    """Whether some window reaches beyond the image."""
    return any(axis.inside_begin > 0 or axis.inside_end < axis.output for axis in spatial)


def any_inside(spatial: tuple[Axis, ...]) -> bool:
    """Whether some window lies wholly within the image."""
    return all(axis.inside_begin < axis.inside_end for axis in spatial)


def output_numbers(spatial: tuple[Axis, ...]) -> tuple[str, ...]:
    """The enumerators, a line for each axis, for output positions and the first elements of windows in the image."""
    places = any_inside(spatial)
    lines = (
        ([f"OUT_{axis.label} = {axis.output}"] if number else [])
        + ([f"{name}_{axis.label} = {value}" for name, value in _first_tap(axis)] if places else [])
        for number, axis in enumerate(spatial)
    )
    return tuple(", ".join(line) for line in lines if line)


def _first_tap(axis: Axis) -> tuple[tuple[str, int], ...]:
    return ("STRIDE", axis.stride), ("PAD", axis.pad), ("STEP", axis.step)


def inside_numbers(spatial: tuple[Axis, ...]) -> tuple[str, ...]:
    """The enumerators, a line for each axis, that tell windows within the image; none where all windows are alike."""
    if not (any_inside(spatial) and any_at_border(spatial)):
        return ()
    return tuple(
        f"INSIDE_{axis.label} = {axis.inside_begin}, BEYOND_{axis.label} = {axis.inside_end}" for axis in spatial
    )
