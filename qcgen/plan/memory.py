"""Where every buffer lies for the whole time that it is alive: in an arena, or in one over two memories."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import prod
from typing import NamedTuple

from qcgen.errors import ModelRejected, Problem
from qcgen.ir.program import Conv, Operator, inputs_of, macs_of
from qcgen.kernels import Prepared
from qcgen.options import spelt
from qcgen.plan.arrange import Arranged
from qcgen.plan.sharing import Storage, bytes_of

TRIES = 1000  # changes of the best placement that are tried when the plain orders miss the lower bound
HIGHER = (64, 32, 16, 8, 4)  # parts of the lower bound by which buffers may lie above it where it is missed
SAME_TOP = 0.8  # of the changes; the others try another top, too, at most HIGHER[-1] above the bound
WORK = 10_000_000  # pairs of buffers that are looked at in all these tries: fewer tries for networks of many nodes


@dataclass(frozen=True)
class CopiedRows:
    """Rows of a tensor that is there as a whole, copied so that rows of padding can stand beside them.

    ``reader``: the first step of the stream that copies them; another stream may copy rows of the same tensor.
    """

    source: str
    reader: int


@dataclass(frozen=True)
class RowSums:
    """What the calls of a mean add up in."""

    y: str


@dataclass(frozen=True)
class MovedTensor:
    """A tensor from the move on that brings it to its place."""

    name: str


@dataclass(frozen=True)
class ScratchMemory:
    """Scratch buffer ``number`` of the steps ``first`` to ``last``, which share it."""

    first: int
    last: int
    number: int


@dataclass(frozen=True)
class TurnNumber:
    """The number of the next turn, between rows that are pushed."""


RowsName = str | CopiedRows
"""What a stream reads or computes row by row: a tensor, or the copied rows of one."""

BufferName = RowsName | RowSums | MovedTensor | ScratchMemory | TurnNumber
"""What has a place in the arena."""


WORD = 4  # buffers begin at multiples of it where they can: loads of words at other addresses take longer


@dataclass(frozen=True)
class Over:
    """A buffer may begin ``distance`` bytes before another one and lie over it, or earlier by multiples of ``step``."""

    distance: int
    step: int = 1


@dataclass(frozen=True)
class Buffer:
    """Bytes that are alive from call ``first`` to call ``last``, both included; ``align`` is a power of two.

    ``over``: buffers that this one may lie over though both are alive, because of the order in which the call that
    writes this one reads the other.
    """

    name: BufferName
    bytes: int
    align: int
    first: int
    last: int
    over: Mapping[BufferName, Over] = field(default_factory=dict)


@dataclass(frozen=True)
class Placement:
    """The offset of every buffer by name, the bytes that all of them need, and how few they could not undercut."""

    offsets: Mapping[BufferName, int]
    bytes: int
    lower_bound: int


PlacingOrder = tuple[tuple[int, bool], ...]
"""Numbers of buffers in the order in which they are placed; True for those that are put as high as the bound allows."""


def place(buffers: Sequence[Buffer], room: int | None = None) -> Placement:
    """Offsets such that no two buffers overlap while both are alive, but those that may, in few bytes.

    Each order of the buffers gives a placement: one after the other goes to the lowest place that is free for its whole
    life, or to the highest below the lower bound, so that an output finds room below its input. Several plain orders
    are tried, then, where outputs over inputs need more room, below higher tops; then seeded changes of the best and of
    its top, until the lower bound is met.

    ``room``: the search ends with the first placement of at most as many bytes; where the lower bound is above it, one
    of the plain orders is returned.
    """
    if len({buffer.name for buffer in buffers}) < len(buffers):
        raise AssertionError("two buffers have one name: each would get the other's place")
    bound, rivals = lower_bound(buffers), _rivals(buffers)

    def lay(order: PlacingOrder, top: int) -> tuple[list[int], int]:
        return _lay(buffers, order, rivals, top)

    enough = bound if room is None else room
    keys: tuple[Callable[[Buffer], tuple[int, ...]], ...] = (
        lambda b: (-b.bytes, b.first),
        lambda b: (-b.bytes * (b.last - b.first + 1), b.first),
        lambda b: (-(b.last - b.first), -b.bytes),
        lambda b: (b.first, -b.bytes),
        lambda b: (-b.last, -b.bytes),
    )
    starts = [tuple((i, is_high) for i in _sorted(buffers, key)) for key in keys for is_high in (False, True)]
    best, top = min(((order, bound) for order in starts), key=lambda way: lay(*way)[1])
    offsets, used = lay(best, top)
    if enough < bound:
        return _placement(buffers, offsets, used, bound)
    if used > enough:
        ways = [(order, bound + bound // part) for part in HIGHER for order in starts]
        best, top = min([(best, top), *ways], key=lambda way: lay(*way)[1])
        offsets, used = lay(best, top)
    shuffler = random.Random(0)
    for _ in range(min(TRIES, WORK // (1 + sum(map(len, rivals))))):
        if used <= enough:
            break
        order = _changed(best, shuffler)
        high = top if shuffler.random() < SAME_TOP else bound + shuffler.randrange(bound // HIGHER[-1] + 1)
        found, size = lay(order, high)
        if size <= used:
            best, top, offsets, used = order, high, found, size
    return _placement(buffers, offsets, used, bound)


def _sorted(buffers: Sequence[Buffer], key: Callable[[Buffer], tuple[int, ...]]) -> list[int]:
    return sorted(range(len(buffers)), key=lambda number: key(buffers[number]))


def _placement(buffers: Sequence[Buffer], offsets: Sequence[int], used: int, bound: int) -> Placement:
    return Placement({buffer.name: offset for buffer, offset in zip(buffers, offsets, strict=True)}, used, bound)


def lower_bound(buffers: Sequence[Buffer]) -> int:
    """The largest sum of bytes that are alive at the same time, less what outputs share with the inputs under them."""
    most, alive = 0, dict[BufferName, Buffer]()
    for moment, group in groupby(sorted(buffers, key=_first), key=_first):
        alive = {b.name: b for b in alive.values() if b.last >= moment} | {b.name: b for b in group}
        most = max(most, _together(alive))
    return most


def _first(buffer: Buffer) -> int:
    return buffer.first


def alive_at(moment: int, buffers: Sequence[Buffer]) -> int:
    """The bytes that are alive at a call, less what outputs share with the inputs under them."""
    return _together({b.name: b for b in buffers if b.first <= moment <= b.last})


def _together(alive: Mapping[BufferName, Buffer]) -> int:
    shared = 0
    for y in alive.values():
        for name, over in y.over.items():
            if name in alive:
                x = alive[name]
                shared += max(0, x.bytes + y.bytes - max(x.bytes + max(over.distance, 0), y.bytes))
    return sum(b.bytes for b in alive.values()) - shared


@dataclass(frozen=True)
class _Grid:
    """Between two offsets, both excluded, a buffer may begin only at ``only`` plus a multiple of ``step``."""

    low: int
    high: int
    only: int
    step: int


class _Rival(NamedTuple):
    """A buffer that is alive together with another one, which may not begin between two offsets, both excluded.

    All offsets are relative to that of the buffer with this ``number``.
    """

    number: int
    low: int
    high: int
    grid: _Grid | None


def _rival(buffer: Buffer, other: Buffer, number: int) -> _Rival:
    """What another buffer leaves to one that is alive at the same time."""
    low, high, only, step = -buffer.bytes, other.bytes, 0, 1
    if other.name in buffer.over:
        over = buffer.over[other.name]
        low, only, step = max(low, -over.distance), -over.distance, over.step
    if buffer.name in other.over:
        over = other.over[buffer.name]
        high, only, step = min(high, over.distance), over.distance, over.step
    return _Rival(number, low, high, _Grid(-buffer.bytes, other.bytes, only, step) if step > 1 else None)


def _rivals(buffers: Sequence[Buffer]) -> list[list[_Rival]]:
    """The other buffers that are alive at some time together with each."""
    rivals: list[list[_Rival]] = [[] for _ in buffers]
    alive: list[int] = []
    for number in _sorted(buffers, lambda buffer: (buffer.first,)):
        buffer = buffers[number]
        alive = [other for other in alive if buffers[other].last >= buffer.first]
        for other in alive:
            rivals[number].append(_rival(buffer, buffers[other], other))
            rivals[other].append(_rival(buffers[other], buffer, number))
        alive.append(number)
    return rivals


def _changed(order: PlacingOrder, shuffler: random.Random) -> PlacingOrder:
    """One buffer is placed at another time, or from the other side."""
    changed = list(order)
    i, j = shuffler.randrange(len(changed)), shuffler.randrange(len(changed))
    number, is_high = changed.pop(i)
    changed.insert(j, (number, is_high != (shuffler.random() < 0.5)))
    return tuple(changed)


def _lay(
    buffers: Sequence[Buffer], order: PlacingOrder, rivals: Sequence[Sequence[_Rival]], bound: int
) -> tuple[list[int], int]:
    """The lowest or highest free place for each buffer in turn, and where the last of them ends."""
    offsets = [-1] * len(buffers)
    top = 0
    for number, is_high in order:
        buffer = buffers[number]
        taken = _Taken(buffer)
        for rival in rivals[number]:
            if offsets[rival.number] >= 0:
                taken.add(rival, offsets[rival.number])
        high = taken.highest(bound - buffer.bytes) if is_high else None
        offset = taken.lowest() if high is None else high
        offsets[number] = offset
        top = max(top, offset + buffer.bytes)
    return offsets, top


class _Taken:
    """Where a buffer may not begin: strictly inside ``spans``, and off each of ``grids``.

    Places are multiples of WORD where no grid forbids that. Most of the time of planning is spent here.
    """

    def __init__(self, buffer: Buffer) -> None:
        self.align = buffer.align
        self.spans: list[tuple[int, int]] = []
        self.grids: list[tuple[int, _Grid]] = []

    def add(self, rival: _Rival, at: int) -> None:
        """Counts what a rival takes that was placed ``at`` an offset."""
        self.spans.append((at + rival.low, at + rival.high))
        if rival.grid is not None:
            self.grids.append((at, rival.grid))

    def lowest(self) -> int:
        """The lowest free offset."""
        align, offset = self._multiple(), 0
        if not self.spans:
            return offset
        self.spans.sort()
        while True:
            for low, high in self.spans:
                if low >= offset:
                    break
                if high > offset:
                    offset = high + -high % align
            if not self.grids or not self._is_off(offset):
                return offset
            offset += align

    def highest(self, most: int) -> int | None:
        """The highest free offset up to ``most``, None if there is none."""
        align = self._multiple()
        offset = most - most % align
        self.spans.sort(key=_end, reverse=True)
        while offset >= 0:
            for low, high in self.spans:
                if high <= offset:
                    break
                if low < offset:
                    offset = low - low % align
            if offset < 0 or not self.grids or not self._is_off(offset):
                break
            offset -= align
        return offset if offset >= 0 else None

    def _multiple(self) -> int:
        is_apart = self.grids and any(grid.step % WORD for _, grid in self.grids)
        return self.align if is_apart else max(self.align, WORD)

    def _is_off(self, offset: int) -> bool:
        return any(
            grid.low < offset - at < grid.high and (offset - at - grid.only) % grid.step for at, grid in self.grids
        )


def _end(span: tuple[int, int]) -> int:
    return span[1]


# An arena over two memories: what is read and written most, for each of its bytes, lies in the fast one. Accesses are
# estimated from what operators do, not from how their kernels do it: a convolution reads each element of its windows
# once for each four output channels, or gathers the windows in scratch memory and reads that as often.

CHANNELS = 4  # of the output, which kernels compute together: each element that is read serves all of them


@dataclass(frozen=True)
class Memories:
    """How many bytes an arena may have in the fast memory, and how many in the slow one."""

    fast: int
    slow: int


@dataclass(frozen=True)
class Split:
    """The placements of an arena's two parts; ``share`` of all accesses, by the estimate, go to the fast one."""

    fast: Placement
    slow: Placement
    share: float


def accesses(
    steps: Sequence[Arranged], prepared: Sequence[Prepared | None], storages: Mapping[str, Storage]
) -> Counter[BufferName]:
    """Bytes that one inference reads and writes of each buffer: an estimate."""
    found: Counter[BufferName] = Counter()
    for index, (step, packed) in enumerate(zip(steps, prepared, strict=True)):
        if packed is None:
            continue
        op, scratch = step.op, sum(each.bytes for each in packed.scratch)
        found[storages[op.y.name].root] += bytes_of(op.y)
        for x in inputs_of(op):
            if x.name in storages:
                found[storages[x.name].root] += _gathered(op, bytes_of(x)) if scratch else _read(op, bytes_of(x))
        for number, each in enumerate(packed.scratch):
            reads = _read(op, bytes_of(inputs_of(op)[0])) * each.bytes // max(1, scratch)
            found[ScratchMemory(index, index, number)] += each.bytes + reads
    return found


def _read(op: Operator, least: int) -> int:
    """Bytes of an input that a kernel reads where it computes some output channels together."""
    if isinstance(op, Conv):
        return max(least, macs_of(op) // min(CHANNELS, op.geometry.out_channels // op.geometry.group))
    return max(least, macs_of(op) // CHANNELS)


def _gathered(op: Operator, least: int) -> int:
    """Bytes of an input that a kernel reads which copies each window, for all output channels."""
    if isinstance(op, Conv):
        g = op.geometry
        return max(least, g.batch * prod(g.output) * prod(g.kernel) * g.in_channels)
    return least


def split(
    buffers: Sequence[Buffer], counts: Mapping[BufferName, int], kept: Sequence[BufferName], most: Memories
) -> Split:
    """A place for every buffer in one of two memories; those that are ``kept`` from call to call lie in the fast one.

    The others go there in the order of their accesses for each byte, as long as it has room. Raises ModelRejected if
    what is left does not fit the slow one, and if nothing is left.
    """
    order = sorted(buffers, key=lambda each: (each.name not in kept, -counts[each.name] / max(1, each.bytes)))
    fast: list[Buffer] = []
    placed = Placement({}, 0, 0)
    for buffer in order:
        wanted = [*fast, buffer]
        if lower_bound(wanted) > most.fast:
            continue
        tried = place(wanted, most.fast)
        if tried.bytes <= most.fast:
            fast, placed = wanted, tried
    names = {buffer.name for buffer in fast}
    # In the slow memory outputs lie beside their inputs, not over them: nothing then depends on the order of accesses.
    rest = [replace(buffer, over={}) for buffer in buffers if buffer.name not in names]
    slow = place(rest)
    if problem := _problem(rest, slow, kept, most):
        raise ModelRejected([problem])
    total = sum(counts[buffer.name] for buffer in buffers)
    return Split(placed, slow, sum(counts[name] for name in names) / max(1, total))


def _problem(rest: Sequence[Buffer], slow: Placement, kept: Sequence[BufferName], most: Memories) -> Problem | None:
    where = f"{most.fast}+{most.slow}"
    if not rest:
        what = "all tensors fit into the fast memory"
        return Problem(spelt(arena=where), what, f"use {spelt(arena=most.fast)}")
    if any(buffer.name in kept for buffer in rest):
        what = f"states, which stay from call to call, do not fit {most.fast} bytes of fast memory"
        return Problem(spelt(arena=where), what, f"give it more, or use {spelt(state='caller')}")
    if slow.bytes > most.slow:
        what = f"beside {most.fast} bytes of fast memory tensors need {slow.bytes} bytes of slow memory"
        return Problem("the network", what, f"use {spelt(arena=f'{most.fast}+{slow.bytes}')}")
    return None
