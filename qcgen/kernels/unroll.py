"""How loops are written: in copies of their body."""

from __future__ import annotations

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
    unroll = max((n for n in range(most // 2, most + 1) if total % n == 0), default=most)
    return Unrolled(total, unroll, total // unroll, total % unroll)
