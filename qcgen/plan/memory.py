"""Where in the arena every buffer lies, for the whole time that it is alive."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

TRIES = 1000  # changes of the best placement that are tried when the plain orders miss the lower bound
HIGHER = (64, 32, 16, 8, 4)  # parts of the lower bound by which buffers may lie above it where it is missed
SAME_TOP = 0.8  # of the changes; the others try another top, too, at most HIGHER[-1] above the bound
WORK = 10_000_000  # pairs of buffers that are looked at in all these tries: fewer tries for networks of many nodes


WORD = 4  # buffers begin at multiples of it where they can: loads of words at other addresses take longer


@dataclass(frozen=True)
class Over:
    """A buffer may begin ``distance`` bytes before another one and lie over it, or earlier by multiples of ``step``."""

    distance: int
    step: int = 1


@dataclass(frozen=True)
class Buffer:
    """Bytes that are alive from call ``first`` to call ``last``, both included; ``align`` is a power of two.

    ``over``: buffers that this one may lie over though both are alive, by name, because of the order in which the call
    that writes this one reads the other.
    """

    name: str
    bytes: int
    align: int
    first: int
    last: int
    over: Mapping[str, Over] = field(default_factory=dict)


@dataclass(frozen=True)
class Placement:
    """The offset of every buffer by name, the bytes that all of them need, and how few they could not undercut."""

    offsets: Mapping[str, int]
    bytes: int
    lower_bound: int


Order = tuple[tuple[Buffer, bool], ...]
"""Buffers in the order in which they are placed; True for those that are put as high as the lower bound allows."""


def place(buffers: Sequence[Buffer]) -> Placement:
    """Offsets such that no two buffers overlap while both are alive, but those that may, in few bytes.

    Each order of the buffers gives a placement: one after the other goes to the lowest place that is free for its whole
    life, or to the highest below the lower bound, so that an output finds room below its input. Several plain orders
    are tried, then, where outputs over inputs need more room, below higher tops; then seeded changes of the best and of
    its top, until the lower bound is met.
    """
    bound, rivals = lower_bound(buffers), _rivals(buffers)
    keys: tuple[Callable[[Buffer], tuple[int, ...]], ...] = (
        lambda b: (-b.bytes, b.first),
        lambda b: (-b.bytes * (b.last - b.first + 1), b.first),
        lambda b: (-(b.last - b.first), -b.bytes),
        lambda b: (b.first, -b.bytes),
        lambda b: (-b.last, -b.bytes),
    )
    starts = [tuple((b, is_high) for b in sorted(buffers, key=key)) for key in keys for is_high in (False, True)]
    best, top = min(((order, bound) for order in starts), key=lambda way: _lay(way[0], rivals, way[1])[1])
    offsets, used = _lay(best, rivals, top)
    if used > bound:
        ways = [(order, bound + bound // part) for part in HIGHER for order in starts]
        best, top = min([(best, top), *ways], key=lambda way: _lay(way[0], rivals, way[1])[1])
        offsets, used = _lay(best, rivals, top)
    shuffler = random.Random(0)
    for _ in range(min(TRIES, WORK // (1 + sum(map(len, rivals.values()))))):
        if used <= bound:
            break
        order = _changed(best, shuffler)
        high = top if shuffler.random() < SAME_TOP else bound + shuffler.randrange(bound // HIGHER[-1] + 1)
        found, size = _lay(order, rivals, high)
        if size <= used:
            best, top, offsets, used = order, high, found, size
    return Placement(offsets, used, bound)


def lower_bound(buffers: Sequence[Buffer]) -> int:
    """The largest sum of bytes that are alive at the same time, less what outputs share with the inputs under them."""
    most, alive = 0, dict[str, Buffer]()
    for moment, group in groupby(sorted(buffers, key=_first), key=_first):
        alive = {b.name: b for b in alive.values() if b.last >= moment} | {b.name: b for b in group}
        most = max(most, _together(alive))
    return most


def _first(buffer: Buffer) -> int:
    return buffer.first


def alive_at(moment: int, buffers: Sequence[Buffer]) -> int:
    """The bytes that are alive at a call, less what outputs share with the inputs under them."""
    return _together({b.name: b for b in buffers if b.first <= moment <= b.last})


def _together(alive: Mapping[str, Buffer]) -> int:
    shared = 0
    for y in alive.values():
        for name, over in y.over.items():
            if name in alive:
                x = alive[name]
                shared += max(0, x.bytes + y.bytes - max(x.bytes + max(over.distance, 0), y.bytes))
    return sum(b.bytes for b in alive.values()) - shared


def _rivals(buffers: Sequence[Buffer]) -> dict[str, list[Buffer]]:
    """The other buffers that are alive at some time together with each, by its name."""
    rivals: dict[str, list[Buffer]] = {buffer.name: [] for buffer in buffers}
    alive: list[Buffer] = []
    for buffer in sorted(buffers, key=_first):
        alive = [other for other in alive if other.last >= buffer.first]
        for other in alive:
            rivals[buffer.name].append(other)
            rivals[other.name].append(buffer)
        alive.append(buffer)
    return rivals


def _changed(order: Order, shuffler: random.Random) -> Order:
    """One buffer is placed at another time, or from the other side."""
    changed = list(order)
    i, j = shuffler.randrange(len(changed)), shuffler.randrange(len(changed))
    buffer, is_high = changed.pop(i)
    changed.insert(j, (buffer, is_high != (shuffler.random() < 0.5)))
    return tuple(changed)


def _lay(order: Order, rivals: Mapping[str, Sequence[Buffer]], bound: int) -> tuple[dict[str, int], int]:
    """The lowest or highest free place for each buffer in turn."""
    offsets: dict[str, int] = {}
    for buffer, is_high in order:
        laid = [other for other in rivals[buffer.name] if other.name in offsets]
        taken = [_taken(buffer, other, offsets[other.name]) for other in laid]
        high = _highest(buffer, taken, bound - buffer.bytes) if is_high else None
        offsets[buffer.name] = _lowest(buffer, taken) if high is None else high
    return offsets, max((offsets[b.name] + b.bytes for b, _ in order), default=0)


@dataclass(frozen=True)
class Taken:
    """Offsets at which a buffer may not begin: those between ``low`` and ``high``, both excluded.

    ``only``: from ``apart_low`` to ``apart_high``, both excluded, those alone are free that leave the same rest as
    ``only`` when divided by ``step``.
    """

    low: int
    high: int
    apart_low: int
    apart_high: int
    only: int
    step: int

    def rules_out(self, offset: int) -> bool:
        """Whether a buffer may not begin here."""
        is_off = self.apart_low < offset < self.apart_high and (offset - self.only) % self.step != 0
        return is_off or self.low < offset < self.high


def _taken(buffer: Buffer, other: Buffer, offset: int) -> Taken:
    """What another buffer at ``offset`` leaves to a buffer that is alive at the same time."""
    apart_low, apart_high = offset - buffer.bytes, offset + other.bytes
    low, high, only, step = apart_low, apart_high, 0, 1
    if other.name in buffer.over:
        over = buffer.over[other.name]
        low, only, step = max(low, offset - over.distance), offset - over.distance, over.step
    if buffer.name in other.over:
        over = other.over[buffer.name]
        high, only, step = min(high, offset + over.distance), offset + over.distance, over.step
    return Taken(low, high, apart_low, apart_high, only, step)


def _lowest(buffer: Buffer, taken: Sequence[Taken]) -> int:
    """The lowest free offset, at a multiple of WORD unless steps forbid that."""
    align = _align(buffer, taken)
    offset = 0
    while ruling := [each for each in taken if each.rules_out(offset)]:
        offset = max(max(each.high, offset + 1) if each.low < offset < each.high else offset + 1 for each in ruling)
        offset += -offset % align
    return offset


def _highest(buffer: Buffer, taken: Sequence[Taken], most: int) -> int | None:
    """The highest free offset up to ``most``, None if there is none."""
    align = _align(buffer, taken)
    offset = most - most % align
    while offset >= 0 and (ruling := [each for each in taken if each.rules_out(offset)]):
        offset = min(min(each.low, offset - 1) if each.low < offset < each.high else offset - 1 for each in ruling)
        offset -= offset % align
    return offset if offset >= 0 else None


def _align(buffer: Buffer, taken: Sequence[Taken]) -> int:
    return buffer.align if any(each.step % WORD for each in taken if each.step > 1) else max(buffer.align, WORD)
