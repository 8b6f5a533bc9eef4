"""Images, their axes and their windows as the generated C sees them, and how it finds or copies a window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from qcgen.ir.context import Context, Struct
from qcgen.ir.program import ConvGeometry
from qcgen.ir.types import Layout
from qcgen.kernels.text import INDENT

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


@dataclass(frozen=True)
class PlaneAxis:
    """One axis of the image; rank 1 has a height of one."""

    input: int
    output: int
    kernel: int
    stride: int
    dilation: int
    pad: int

    @property
    def span(self) -> int:
        """Elements from a window's first to its last."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def reached(self) -> int:
        """Elements that windows reach, padding included."""
        return (self.output - 1) * self.stride + self.span

    @property
    def copied(self) -> int:
        """Elements of the image that windows reach."""
        return max(min(self.input, self.reached - self.pad), 0)


@dataclass(frozen=True)
class OutputGroups:
    """``outputs`` of a row that are summed together; ``count`` such groups, each ``step`` further on."""

    outputs: int
    count: int
    step: int


def plane_axes(g: ConvGeometry) -> tuple[PlaneAxis, PlaneAxis]:
    """Height and width of an image of one or two axes."""
    found = [
        PlaneAxis(*sizes)
        for sizes in zip(g.input, g.output, g.kernel, g.strides, g.dilations, g.pads_begin, strict=True)
    ]
    return (found[0], found[1]) if len(found) == 2 else (PlaneAxis(1, 1, 1, 1, 1, 0), found[0])


def first_taps(axis: PlaneAxis) -> Iterable[int]:
    """The first tap on the image of each window along an axis; the kernel's size or more if there is none."""
    return (max(0, -(-(axis.pad - o * axis.stride) // axis.dilation)) for o in range(axis.output))


def beyond_taps(axis: PlaneAxis) -> Iterable[int]:
    """What follows the last tap on the image; 0 or less if there is none."""
    ends = (-(-(axis.input + axis.pad - o * axis.stride) // axis.dilation) for o in range(axis.output))
    return (min(axis.kernel, end) for end in ends)


@dataclass(frozen=True)
class Images(Context):
    """The distances between the images of a batch, in elements."""

    x_image: int  # from one image of x to the next
    y_image: int  # from one image of y to the next


@dataclass(frozen=True)
class OutputSteps(Context):
    """The distances between outputs, in elements."""

    y_pixel: int  # from one pixel to the next
    y_channel: int  # from one channel of a pixel to the next


def images(g: ConvGeometry) -> Images:
    """Of a convolution or pooling."""
    return Images(g.in_channels * prod(g.input), g.out_channels * prod(g.output))


def output_steps(g: ConvGeometry, layout: Layout) -> OutputSteps:
    """Of an output in ``layout``."""
    return OutputSteps(g.out_channels, 1) if layout is Layout.CHANNELS_LAST else OutputSteps(1, prod(g.output))


@dataclass(frozen=True)
class CopyWindow(Context):
    """The names that templates/kernels/copy_window.c.jinja uses, besides those of the convolution itself."""

    windows: Struct
    has_border: bool  # some window reaches beyond the image

    @property
    def operations(self) -> dict[str, float]:
        """What copying a window becomes, about."""
        rank = sum(map(bool, self.windows.arrays["step"]))
        return {"spatial_window": 14.0 + rank * (18 if self.has_border else 4)}


def copy_window(g: ConvGeometry, layout: Layout, x_bytes: int, order: Layout | None = None) -> CopyWindow:
    """How windows of an image in ``layout`` are copied: taps in ``order``, or as they lie in memory."""
    is_last, is_whole = layout is Layout.CHANNELS_LAST, (order or layout) is Layout.CHANNELS_LAST
    pixel = g.group_in if is_whole else 1
    is_contiguous = g.dilations[-1] == 1 and not (is_last and (g.group > 1 or not is_whole))
    copied = {"planes": g.group_in // pixel, "plane_step": 0 if is_whole else 1 if is_last else prod(g.input)}
    copied |= {"pixel": pixel, "row": pixel * (g.kernel[-1] if is_contiguous else 1), "x_bytes": x_bytes}
    spatial = axes(g, layout)
    return CopyWindow(spatial_struct(spatial, copied), any_at_border(spatial))


def spatial_struct(spatial: tuple[Axis, ...], numbers: Mapping[str, int]) -> Struct:
    """What the library knows of an image and its windows: sizes by axis, and these numbers."""
    sizes = {"in": "input", "out": "output"} | {name: name for name in ("kernel", "stride", "dilation", "pad", "step")}
    arrays = {
        name: (int(name not in {"pad", "step"}),) * (4 - len(spatial)) + tuple(getattr(axis, field) for axis in spatial)
        for name, field in sizes.items()
    }
    return Struct("spatial", (), numbers, arrays=arrays)
