"""Convolutions of several sizes in one function: what it reads from a layer's struct, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import gcd, inf, prod

from qcgen.ir.context import LayerField, own
from qcgen.ir.program import ConvGeometry
from qcgen.ir.types import Layout
from qcgen.kernels.arm_dsp.segment import Form, Segment, Tail, segment_numbers, sized
from qcgen.kernels.arm_dsp.weights import PackedConstants, block_widths, form_of
from qcgen.kernels.arm_dsp.window import MAX_UNROLL, dsp_windows
from qcgen.kernels.kernel import SizesPrice
from qcgen.kernels.text import divided, sized_loop, unrolled

WORD = 4  # elements
WINDOWS = "dsp_windows"  # of a layer: a struct of the library
MAX_COPIES = 4  # of the body of the loop that widens words
ROUND_COST = 3  # instructions of a round of the loop over a window
PIXELS_COST = 70  # instructions more for two pixels
FUNCTION_BYTES = 1300  # of a layer's own functions


@dataclass(frozen=True)
class ConvSizes:
    """Where the C of a function for layers of several sizes has what belongs to the output and to two windows.

    ``last`` is the last pixel that has one behind it; ``pair_words``: those of two windows when they are widened.
    """

    out_channels: LayerField
    last: LayerField
    pair_words: LayerField


def conv_sizes() -> ConvSizes:
    """What the function shows for layers that can share it (``can_share``)."""
    return ConvSizes(**{each.name: own(each.name) for each in fields(ConvSizes)})


def conv_numbers(g: ConvGeometry, padding: int) -> dict[str, int]:
    """What a layer has for itself, by the names of its struct."""
    numbers = {
        "out_channels": g.out_channels,
        "last": prod(g.output) - 2,
        "pair_words": 2 * _pairs(g),
        "padding": padding,
    }
    windows = asdict(dsp_windows(g, Layout.CHANNELS_LAST))
    return numbers | {f"{WINDOWS}.{name}": value for name, value in windows.items()}


def copies_of(sizes: Sequence[ConvGeometry]) -> int:
    """How many words of a tap the body of the loop over them widens."""
    return gcd(MAX_COPIES, *(g.in_channels // WORD for g in sizes))


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
