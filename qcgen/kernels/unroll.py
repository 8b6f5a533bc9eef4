"""How loops are written: in copies of their body, in blocks of several widths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Unrolled:
    """A loop of ``count`` rounds of ``unroll`` copies, then ``rest`` more copies."""

    total: int
    unroll: int
    count: int
    rest: int

    @property
    def copies(self) -> range:
        """The copies in the loop."""
        return range(self.unroll)

    @property
    def rest_copies(self) -> range:
        """The copies behind the loop."""
        return range(self.rest)


def unrolled(total: int, most: int, whole: int = 0) -> Unrolled:
    """How a loop of ``total`` rounds is written: in copies that divide it, if there are enough of these.

    There are at most ``most`` copies in a loop, and up to ``whole`` if that saves it.
    """
    if total <= max(most, whole):
        return Unrolled(total, total, 1 if total else 0, 0)
    unroll = max((n for n in range(max(1, most // 2), most + 1) if total % n == 0), default=most)
    return Unrolled(total, unroll, total // unroll, total % unroll)


def sized_loop(unroll: int) -> Unrolled:
    """A loop whose rounds each layer counts, one or more, of so many copies."""
    return Unrolled(2 * unroll, unroll, 2, 0)


@dataclass(frozen=True)
class ChannelBlocks:
    """Blocks of ``width`` output channels, from ``first`` on and before ``beyond``, summed at the same time."""

    width: int
    first: int
    beyond: int

    @property
    def channels(self) -> range:
        """The channels of a block, counted from its first."""
        return range(self.width)

    @property
    def size(self) -> int:
        """How many channels there are in all blocks."""
        return self.beyond - self.first

    @property
    def last(self) -> int:
        """The last channel of all."""
        return self.beyond - 1


def divided(total: int, widths: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """``total`` in blocks of these widths, the largest first: each width with where its blocks begin and end.

    >>> list(divided(7, (4, 2, 1)))
    [(4, 0, 4), (2, 4, 6), (1, 6, 7)]
    """
    first = 0
    for width in widths:
        beyond = first + (total - first) // width * width
        if beyond > first:
            yield width, first, beyond
        first = beyond
