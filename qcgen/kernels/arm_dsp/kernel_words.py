"""A depthwise kernel's taps as words of two, and what a window of a plane's row is multiplied with."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

from qcgen.kernels.windows import PlaneAxis

Tap = tuple[int, int]  # row and column of the kernel
Pair = tuple[Tap | None, Tap | None]  # lower and upper half of a word, None for a half that is zero


@dataclass(frozen=True)
class KernelWords:
    """The taps of a kernel, two in a word; ``width`` is the axis along its rows."""

    width: PlaneAxis
    words: tuple[Pair, ...]

    def products(self, row: int, start: int) -> list[tuple[int, str, int]]:
        """(word of the plane's row, primitive, word of weights) for a window's ``row`` that begins at ``start``."""
        span, is_odd = self.width.span, start % 2
        found = [((start + t) // 2, "dot", self._pair(row, t)) for t in range(is_odd, span - 1, 2)]
        if is_odd:
            found.append((start // 2, *self._single("high", (row, 0))))
        if (start + span) % 2:
            found.append(((start + span - 1) // 2, *self._single("low", (row, self.width.kernel - 1))))
        return [(word, by, weight) for word, by, weight in found if weight is not None]

    def _pair(self, row: int, t: int) -> int | None:
        """The word of two neighbours, None if both are zero."""
        pair = _neighbours(self.width, row, t)
        return None if pair == (None, None) else self.words.index(pair)

    def _single(self, half: str, tap: Tap) -> tuple[str, int]:
        """The product of one half of an image's word with a tap, wherever that stands."""
        [(place, weight), *_] = [(pair.index(tap), i) for i, pair in enumerate(self.words) if tap in pair]
        return f"{half}_by_{('low', 'high')[place]}", weight


def kernel_words(height: PlaneAxis, width: PlaneAxis) -> KernelWords:
    """The words of a kernel.

    Of each row neighbours from every even element on and, if windows start at odd elements too, from every odd one.
    Otherwise the last element of a row may be left over: those of two rows share a word.
    """
    starts_odd = width.stride % 2 == 1 and width.output > 1
    words: list[Pair] = []
    for row in range(height.kernel):
        firsts = [*range(0, width.span - 1, 2), *(range(1, width.span - 1, 2) if starts_odd else ())]
        words += [_neighbours(width, row, t) for t in firsts]
    lasts = [(row, width.kernel - 1) for row in range(height.kernel)]
    if width.span == 1 and starts_odd:
        words += [(last, None) for last in lasts]
    elif width.span % 2 and not starts_odd:
        words += zip_longest(lasts[::2], lasts[1::2])
    return KernelWords(width, tuple(pair for pair in words if pair != (None, None)))


def _neighbours(width: PlaneAxis, row: int, t: int) -> Pair:
    """Elements ``t`` and ``t`` + 1 of a kernel's row, which has no tap where dilation leaves a gap."""
    low, high = ((row, i // width.dilation) if i % width.dilation == 0 else None for i in (t, t + 1))
    return low, high
