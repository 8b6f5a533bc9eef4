"""Depthwise layers of several sizes in one function: each channel is copied to a plane with padding, then convolved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, inf, prod

from qcgen.ir.context import Own, own
from qcgen.ir.program import ConvGeometry
from qcgen.kernels.kernel import SizesPrice
from qcgen.kernels.plane import PlaneAxis, plane_axes

MAX_PLANE = 400  # elements of 16 bits that the C function has on its stack
MAX_TAPS = 9  # whose words registers hold besides what loops need
MAX_COPIES = 4, 2  # of the bodies of the loops that fill a row of the plane, and that compute a row of outputs

FILL_COST, OUTPUT_COST = 4, 6  # instructions more for an element of the image and of the output
FUNCTION_BYTES = 2000  # of a layer's own functions: one of 1000, and one more where the common shift brings guard bands


@dataclass(frozen=True)
class PlaneTap:
    """Two taps of a row that one word holds, or a single one; ``by``: the product with the word of weights."""

    index: int  # in the plane, from the window's first
    is_pair: bool
    by: str
    weight: int  # the number of the word


@dataclass(frozen=True)
class PlaneSizes:
    """Where the C of a function for layers of several sizes has them, and what is the same in all.

    ``channels``, ``rows`` and ``columns`` of the image, ``out_rows`` and ``out_columns``; ``first``: where the image
    begins in the plane, whose rows are ``pitch`` apart; ``zero_point`` is that of x, ``scale`` what weights are times.
    """

    channels: Own
    rows: Own
    columns: Own
    out_rows: Own
    out_columns: Own
    first: Own
    zero_point: Own
    scale: Own
    plane: int  # elements
    pitch: int
    copies: range  # of the body of the loop that fills a row
    row_step: int  # from a window to the next below
    column_step: int  # to the first on the right that the loop over columns has not computed
    outputs: tuple[tuple[PlaneTap, ...], ...]  # the taps of each output in the body of this loop


def plane_sizes(sizes: Sequence[ConvGeometry]) -> PlaneSizes:
    """What the function shows for layers of these sizes, of which all can share it (``why_no_plane``)."""
    axes = [plane_axes(g) for g in sizes]
    height, width = axes[0]
    pitch = _pitch(sizes)
    copies = gcd(MAX_COPIES[0], *(width.input for _, width in axes))
    outputs = gcd(MAX_COPIES[1], *(width.output for _, width in axes))
    return PlaneSizes(
        channels=own("channels"),
        rows=own("rows"),
        columns=own("columns"),
        out_rows=own("out_rows"),
        out_columns=own("out_columns"),
        first=own("first"),
        zero_point=own("zero_point"),
        scale=own("scale"),
        plane=_elements(sizes),
        pitch=pitch,
        copies=range(copies),
        row_step=height.stride * pitch,
        column_step=outputs * width.stride,
        outputs=tuple(_taps(height, width, pitch, output * width.stride) for output in range(outputs)),
    )


def plane_numbers(g: ConvGeometry, sizes: Sequence[ConvGeometry], zero_point: int, scale: int) -> dict[str, int]:
    """What a layer has for itself, by the names of its struct."""
    height, width = plane_axes(g)
    return {
        "channels": g.in_channels,
        "rows": height.input,
        "columns": width.input,
        "out_rows": height.output,
        "out_columns": width.output,
        "first": height.pad * _pitch(sizes) + width.pad,
        "zero_point": zero_point,
        "scale": scale,
    }


def can_share(sizes: Sequence[ConvGeometry]) -> bool:
    """Whether layers of these sizes have the same kernel and strides, and a plane that the stack has room for."""
    alike = {(g.kernel, g.strides, g.dilations, g.batch) for g in sizes}
    g = sizes[0]
    is_small = prod(g.kernel) <= MAX_TAPS and set(g.dilations) == {1} and g.batch == 1
    return len(alike) == 1 and is_small and _elements(sizes) <= MAX_PLANE


def _pitch(sizes: Sequence[ConvGeometry]) -> int:
    return max(_length(plane_axes(g)[1]) for g in sizes)


def _elements(sizes: Sequence[ConvGeometry]) -> int:
    """Those of the plane: the last word of a window of an odd number of taps reads no further than its last tap."""
    return _pitch(sizes) * max(_length(plane_axes(g)[0]) for g in sizes)


def _length(axis: PlaneAxis) -> int:
    """Elements of the image with its padding."""
    return max(axis.pad + axis.input, axis.reached)


def _taps(height: PlaneAxis, width: PlaneAxis, pitch: int, first: int) -> tuple[PlaneTap, ...]:
    """Pairs of a row, then those that are left over: two of these are the halves of a word of weights."""
    pairs = [first + row * pitch + column for row in range(height.kernel) for column in _pairs(width)]
    found = [PlaneTap(index, True, "dot", number) for number, index in enumerate(pairs)]
    if width.kernel % 2:
        for row in range(height.kernel):
            by = "low_by_high" if row % 2 else "low_by_low"
            found.append(PlaneTap(first + row * pitch + width.kernel - 1, False, by, len(pairs) + row // 2))
    return tuple(found)


def _pairs(width: PlaneAxis) -> range:
    return range(0, width.kernel - 1, 2)


def plane_words(g: ConvGeometry) -> tuple[tuple[int, int, int | None], ...]:
    """The words of weights: number, taps in the lower and in the upper half."""
    _, width = plane_axes(g)
    rows = range(0, prod(g.kernel), width.kernel)
    halves: list[tuple[int, int | None]] = [
        (row + column, row + column + 1) for row in rows for column in _pairs(width)
    ]
    if width.kernel % 2:
        last = [row + width.kernel - 1 for row in rows]
        halves += [(low, last[i + 1] if i + 1 < len(last) else None) for i, low in enumerate(last) if i % 2 == 0]
    return tuple((number, low, high) for number, (low, high) in enumerate(halves))


def _more_instructions(g: ConvGeometry, sizes: Sequence[ConvGeometry]) -> float:
    """What copying takes, and loops without copies of their bodies; infinite if the layers cannot share."""
    if not can_share(sizes):
        return inf
    return g.in_channels * (FILL_COST * prod(g.input) + OUTPUT_COST * prod(g.output))


SIZES = SizesPrice(FUNCTION_BYTES, _more_instructions)
