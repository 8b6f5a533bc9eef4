"""How the windows of a convolution lie in a channels-last image, and how the generated C loops over them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from qcgen.ir.program import ConvGeometry
from qcgen.ir.types import Layout
from qcgen.kernels.text import unrolled
from qcgen.kernels.windows import any_at_border, axes

MAX_GATHERED = 256  # elements of a window at the border that are collected beforehand
FEW_CHANNELS = 16  # up to which a tap is too short to be widened by itself
MAX_ALTERNATING = 16  # elements of a run whose words are written out for even and for odd places
MAX_RUNS = 32  # of a window: the C function keeps pointers to those of two windows on its stack, 4 bytes each


@dataclass(frozen=True)
class WidenedWindow:
    """A window as ``runs`` of ``run`` elements, which are widened in rounds of ``round`` of them.

    ``is_gathered``: at the border, rows of taps that leave the image are collected beforehand; otherwise runs there
    are single taps, which leave the image as a whole. ``is_positioned``: windows do not follow each other pixel by
    pixel. ``axes`` are the numbers of four structs, of axes that the image lacks first.
    """

    axes: tuple[tuple[int, ...], ...]
    runs: int
    run: int
    is_rows: bool
    has_border: bool
    is_positioned: bool
    is_gathered: bool
    round: int
    is_by_word: bool = False

    def by_word(self) -> WidenedWindow:
        """The same window for sums by word, whose rounds are whole pairs of elements."""
        pairs = unrolled(self.run // 2, max(1, self.round // 2))
        return replace(self, is_by_word=True, round=2 * max(1, pairs.unroll))

    @property
    def operations(self) -> dict[str, float]:
        """What calls of the library's functions become: fitted to what gcc -O2 makes of 207 layers for three cores."""
        elements = self.round + self.run % self.round
        widen = 5.0 + 3.5 * elements * (2 if self.is_by_word and self.run % 2 else 1) + (9.0 if self.runs > 1 else 0.0)
        return {"scalar_widen": widen, "scalar_find_window": 75.0 if self.has_border else 20.0}

    @property
    def can_be_by_word(self) -> bool:
        """Whether the words of two elements may lie side by side: pairs may begin in one run and end in the next."""
        return self.run % 2 == 0 or self.runs == 1 or self.run <= MAX_ALTERNATING


def window(g: ConvGeometry, unroll: int) -> WidenedWindow:
    """The window of a channels-last image without groups, in rows of taps where that serves, else tap by tap.

    ``unroll`` elements are widened in a round of the loop.
    """
    spatial = axes(g, Layout.CHANNELS_LAST)
    has_border = any_at_border(spatial)
    is_row = g.dilations[-1] == 1
    is_short = g.taps <= MAX_GATHERED and g.in_channels < FEW_CHANNELS
    is_gathered = is_row and has_border and (is_short or prod(g.kernel) > MAX_RUNS)
    is_rows = is_row and (is_gathered or not has_border)
    run = g.in_channels * (g.kernel[-1] if is_rows else 1)
    return WidenedWindow(
        axes=_numbers(g),
        runs=g.taps // run,
        run=run,
        is_rows=is_rows,
        has_border=has_border,
        is_positioned=prod(g.kernel) > 1 or g.is_padded or set(g.strides) != {1},
        is_gathered=is_gathered,
        round=run if unroll == 1 else unrolled(run, unroll).unroll,
    )


def _numbers(g: ConvGeometry) -> tuple[tuple[int, ...], ...]:
    """For each of four axes the image, the outputs, kernel, stride, dilation and padding along it."""
    own = zip(g.input, g.output, g.kernel, g.strides, g.dilations, g.pads_begin, strict=True)
    return (*[(1, 1, 1, 1, 1, 0)] * (4 - g.rank), *own)
