"""Where in the arena every buffer lies, for the whole time that it is alive."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

TRIES = 400  # shuffled orders that are tried when the obvious ones miss the lower bound


@dataclass(frozen=True)
class Buffer:
    """Bytes that are alive from call ``first`` to call ``last``, both included; ``align`` is a power of two."""

    name: str
    bytes: int
    align: int
    first: int
    last: int


@dataclass(frozen=True)
class Placement:
    """The offset of every buffer by name, the bytes that all of them need, and how few they could not undercut."""

    offsets: Mapping[str, int]
    bytes: int
    lower_bound: int


def place(buffers: Sequence[Buffer]) -> Placement:
    """Offsets such that no two buffers overlap while both are alive, in few bytes.

    Each order of the buffers gives a placement: one after the other goes to the lowest place that is free for its whole
    life. Several plain orders are tried, then seeded shuffles of the best, until the lower bound is met.
    """
    bound = lower_bound(buffers)
    orders: tuple[Callable[[Buffer], tuple[int, ...]], ...] = (
        lambda b: (-b.bytes, b.first),
        lambda b: (-b.bytes * (b.last - b.first + 1), b.first),
        lambda b: (-(b.last - b.first), -b.bytes),
        lambda b: (b.first, -b.bytes),
        lambda b: (-b.last, -b.bytes),
    )
    best_order = min((sorted(buffers, key=key) for key in orders), key=lambda order: _lay(order)[1])
    offsets, used = _lay(best_order)
    shuffler = random.Random(0)
    for _ in range(TRIES):
        if used <= bound:
            break
        order = list(best_order)
        i, j = shuffler.randrange(len(order)), shuffler.randrange(len(order))
        order.insert(j, order.pop(i))
        found, size = _lay(order)
        if size <= used:
            best_order, offsets, used = order, found, size
    return Placement(offsets, used, bound)


def lower_bound(buffers: Sequence[Buffer]) -> int:
    """The largest sum of the bytes that are alive at the same time."""
    moments = {buffer.first for buffer in buffers}
    return max((sum(b.bytes for b in buffers if b.first <= moment <= b.last) for moment in moments), default=0)


def _lay(order: Sequence[Buffer]) -> tuple[dict[str, int], int]:
    """The lowest free place for each buffer in turn."""
    offsets: dict[str, int] = {}
    laid: list[Buffer] = []
    for buffer in order:
        offset = 0
        others = sorted(
            (offsets[other.name], other.bytes)
            for other in laid
            if other.first <= buffer.last and buffer.first <= other.last
        )
        for start, size in others:
            if offset + buffer.bytes <= start:
                break
            end = start + size
            offset = max(offset, end + -end % buffer.align)
        offsets[buffer.name] = offset
        laid.append(buffer)
    return offsets, max((offsets[b.name] + b.bytes for b in laid), default=0)
