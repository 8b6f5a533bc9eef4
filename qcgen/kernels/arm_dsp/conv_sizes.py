"""Convolutions of several sizes in one function: what it reads from a layer's struct, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd, inf, prod

from qcgen.ir.context import LayerField, own
from qcgen.ir.program import ConvGeometry
from qcgen.kernels.arm_dsp.segment import Form, Segment, Tail, segment_numbers, sized
from qcgen.kernels.arm_dsp.weights import PackedConstants, block_widths, form_of
from qcgen.kernels.arm_dsp.window import MAX_UNROLL
from qcgen.kernels.kernel import SizesPrice
from qcgen.kernels.plane import plane_axes
from qcgen.kernels.unroll import divided, sized_loop, unrolled

WORD = 4  # elements
MAX_COPIES = 4  # of the body of the loop that widens words
ROUND_COST = 3  # instructions of a round of the loop over a window
PIXELS_COST = 70  # instructions more for two pixels
FUNCTION_BYTES = 1300  # of a layer's own functions


@dataclass(frozen=True)
class ConvSizes:
    """Where the C of a function for layers of several sizes has them: those of the image, the output and the kernel.

    ``last`` is the last pixel that has one behind it. A tap has ``tap_words`` words of the image, ``pair_words`` are
    those of two windows when they are widened, ``row_step`` elements lie from a row of the image to the next;
    ``padding`` is the element outside. ``copies``: of the body of the loop that widens words.
    """

    rows: LayerField
    columns: LayerField
    out_columns: LayerField
    out_channels: LayerField
    last: LayerField
    kernel_rows: LayerField
    kernel_columns: LayerField
    row_stride: LayerField
    column_stride: LayerField
    row_pad: LayerField
    column_pad: LayerField
    tap_words: LayerField
    row_words: LayerField
    inner_rows: LayerField
    inner_columns: LayerField
    row_step: LayerField
    pair_words: LayerField
    padding: LayerField
    copies: range


def conv_sizes(sizes: Sequence[ConvGeometry]) -> ConvSizes:
    """What the function shows for layers of these sizes, of which all can share it (``can_share``)."""
    names = conv_numbers(sizes[0], 0)
    copies = gcd(MAX_COPIES, *(g.in_channels // WORD for g in sizes))
    return ConvSizes(**{name: own(name) for name in names}, copies=range(copies))


def conv_numbers(g: ConvGeometry, padding: int) -> dict[str, int]:
    """What a layer has for itself, by the names of its struct."""
    height, width = plane_axes(g)
    return {
        "rows": height.input,
        "columns": width.input,
        "out_columns": width.output,
        "out_channels": g.out_channels,
        "last": prod(g.output) - 2,
        "kernel_rows": height.kernel,
        "kernel_columns": width.kernel,
        "row_stride": height.stride,
        "column_stride": width.stride,
        "row_pad": height.pad,
        "column_pad": width.pad,
        "tap_words": g.in_channels // WORD,
        "row_words": width.kernel * g.in_channels // WORD,
        "inner_rows": max(height.input - height.kernel + 1, 0),
        "inner_columns": max(width.input - width.kernel + 1, 0),
        "row_step": width.input * g.in_channels,
        "pair_words": 2 * _pairs(g),
        "padding": padding,
    }


def can_share(sizes: Sequence[ConvGeometry]) -> bool:
    """Whether layers of these sizes have pixels of whole words on one or two axes, and two outputs or more."""
    return all(
        g.rank <= 2 and g.batch == 1 and g.in_channels % WORD == 0 and set(g.dilations) == {1} and prod(g.output) > 1
        for g in sizes
    )


def shown_segments(
    packed: PackedConstants, tail: Tail, sizes: Sequence[ConvGeometry], widths: tuple[int, ...]
) -> tuple[tuple[Segment, ...], dict[str, int]]:
    """The segments as the function shows them, and the layer's own numbers of them."""
    found = {segment.width: segment for segment in packed.segments}
    of_layers = [{width for width, _, _ in divided(g.out_channels, block_widths(packed.form, widths))} for g in sizes]
    shown: list[Segment] = []
    numbers: dict[str, int] = {}
    for width in sorted(set().union(*of_layers), reverse=True):
        form = form_of(width, packed.form)
        steps = sized_loop(_unroll(sizes, form))
        empty = Segment(width, 0, 0, form, steps, 0, tail, is_outlined=True, for_speed=False, blocks=unrolled(2, 1))
        s = found.get(width, empty)
        factors = packed.element_factors if form == "nibbles" else ()
        numbers |= segment_numbers(s)
        is_optional = not all(width in each for each in of_layers)
        looped = replace(s, steps=steps, is_outlined=True, element_factors=factors)
        shown.append(sized(looped, is_optional=is_optional))
    return tuple(shown), numbers


def _pairs(g: ConvGeometry) -> int:
    """Of a window, when it is widened."""
    return g.taps // 2


def _unroll(sizes: Sequence[ConvGeometry], form: Form) -> int:
    """How many steps the body of the loop over a window takes: as many as divide those of all layers."""
    steps = gcd(*map(_pairs, sizes)) // (2 if form == "bytes" else 1)
    return max(n for n in range(1, MAX_UNROLL + 1) if steps % n == 0)


def _more_instructions(g: ConvGeometry, sizes: Sequence[ConvGeometry]) -> float:
    """What reading sizes takes for every two pixels, and shorter loops; infinite if the layers cannot share."""
    if not can_share(sizes):
        return inf
    rounds = _pairs(g) * (1 / _unroll(sizes, "shared") - 1 / _unroll([g], "shared"))
    blocks = g.out_channels / 4
    return -(-prod(g.output) // 2) * (PIXELS_COST + ROUND_COST * rounds * blocks)


SIZES = SizesPrice(lambda _: FUNCTION_BYTES, _more_instructions)
