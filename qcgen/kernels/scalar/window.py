"""How the windows of a convolution lie in a channels-last image, and how the generated C loops over them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from qcgen.ir.program import ConvGeometry
from qcgen.ir.types import Layout
from qcgen.kernels.axes import INDENT, Axis, any_at_border, axes
from qcgen.kernels.unroll import Unrolled, unrolled
from qcgen.kernels.windows import Runs

MAX_GATHERED = 256  # elements of a window at the border that are collected beforehand
FEW_CHANNELS = 16  # up to which a tap is too short to be widened by itself
MAX_ALTERNATING = 16  # elements of a run whose words are written out for even and for odd places
MAX_RUNS = 32  # of a window: the C function keeps pointers to those of two windows on its stack, 4 bytes each


@dataclass(frozen=True)
class AlternatingRun:
    """The ``places`` of a run's words, and how far behind them those of the next run are counted from."""

    places: tuple[int, ...]
    step: int


@dataclass(frozen=True)
class WidenedWindow(Runs):
    """A window as ``runs`` of ``run`` elements, each widened by ``steps``.

    ``is_gathered``: at the border, rows of taps that leave the image are collected beforehand; otherwise runs there
    are single taps, which leave the image as a whole. ``is_positioned``: windows do
    not follow each other pixel by pixel.
    """

    runs: int
    run: int
    is_positioned: bool
    is_gathered: bool
    steps: Unrolled
    is_by_word: bool = False

    def by_word(self) -> WidenedWindow:
        """The same window for sums by word."""
        steps = unrolled(self.run // 2, max(1, self.steps.unroll // 2))
        return replace(self, is_by_word=True, steps=steps)

    @property
    def can_be_by_word(self) -> bool:
        """Whether the words of two elements may lie side by side: pairs may begin in one run and end in the next."""
        return self.run % 2 == 0 or self.runs == 1 or self.run <= MAX_ALTERNATING

    @property
    def alternates(self) -> bool:
        """Whether every second run begins with the second element of a pair."""
        return self.is_by_word and self.run % 2 == 1 and self.runs > 1

    @property
    def has_tail(self) -> bool:
        """Whether the only run ends with the first element of a pair."""
        return self.is_by_word and self.run % 2 == 1 and self.runs == 1

    @property
    def is_filled(self) -> bool:
        """Whether a word of 0 makes the elements even in number."""
        return self.is_by_word and self.run * self.runs % 2 == 1

    @property
    def tail(self) -> int:
        """The element behind all pairs of the run, counted from those behind the last round."""
        return 2 * self.steps.rest

    @property
    def runs_of_two(self) -> tuple[AlternatingRun, AlternatingRun]:
        """Where the words of a run lie that begins with the first element of a pair, and of the one behind it."""
        return (
            AlternatingRun(tuple(4 * (k // 2) + k % 2 for k in range(self.run)), 2 * (self.run - 1)),
            AlternatingRun(tuple(4 * (k // 2) + k % 2 for k in range(1, self.run + 1)), 2 * (self.run + 1)),
        )

    @property
    def widened(self) -> int:
        """The elements of a round of the loop that widens."""
        return self.steps.unroll * (2 if self.is_by_word else 1)

    @property
    def wrapping(self) -> tuple[Axis, ...]:
        """The axes on which the next pixel may be the first again, innermost first."""
        return tuple(replace(axis, indent=INDENT * i) for i, axis in enumerate(self.axes[:0:-1]))

    @property
    def wrapped(self) -> str:
        """The indent within all of them."""
        return INDENT * (len(self.axes) - 1)


def window(g: ConvGeometry, unroll: int) -> WidenedWindow:
    """The window of a channels-last image without groups, in rows of taps where that serves, else tap by tap.

    ``unroll`` elements are widened in a round of the loop.
    """
    spatial = axes(g, Layout.CHANNELS_LAST)
    has_border = any_at_border(spatial)
    is_row = g.dilations[-1] == 1 or g.kernel[-1] == 1
    is_short = g.taps <= MAX_GATHERED and g.in_channels < FEW_CHANNELS
    is_gathered = is_row and has_border and (is_short or prod(g.kernel) > MAX_RUNS)
    is_rows = is_row and (is_gathered or not has_border)
    run = g.in_channels * (g.kernel[-1] if is_rows else 1)
    return WidenedWindow(
        axes=spatial,
        is_rows=is_rows,
        depth=0,
        runs=g.taps // run,
        run=run,
        is_positioned=prod(g.kernel) > 1 or g.is_padded or set(g.strides) != {1},
        is_gathered=is_gathered,
        steps=Unrolled(run, 1, run, 0) if unroll == 1 else unrolled(run, unroll),
    )
