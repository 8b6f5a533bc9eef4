"""A place for every tensor and scratch buffer: what lies in the arena, how long, over what, what is copied to it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from qcgen.ir.plan import C_BYTES, AccessOrder, ArenaGrowth, Argument, InArena, Place, PlacedBuffer
from qcgen.ir.program import Tensor, inputs_of
from qcgen.kernels import Prepared
from qcgen.kernels.kernel import Scratch
from qcgen.plan.arrange import Arranged
from qcgen.plan.functions import Work
from qcgen.plan.memory import (
    WORD,
    Buffer,
    BufferName,
    CopiedRows,
    Memories,
    MovedTensor,
    Over,
    Placement,
    RowSums,
    ScratchMemory,
    Split,
    TurnNumber,
    accesses,
    place,
    split,
)
from qcgen.plan.names import SLOW, STATE
from qcgen.plan.prices import cycles_of_kernel
from qcgen.plan.sharing import Boundary, Storage, bytes_of, is_done, owners_of, require_inside, storages_of, tensors_of


@dataclass(frozen=True)
class InRows:
    """Steps ``first`` to ``last``, which run row by row, together: ``bytes`` of the rows of each inner tensor.

    They read ``source`` and write ``y`` in this ``order``.
    """

    first: int
    last: int
    bytes: Mapping[BufferName, int]
    source: str
    y: str
    order: AccessOrder


@dataclass(frozen=True)
class Stored:
    """The place of every tensor and of every step's scratch buffers; ``done`` are the steps with nothing left to do.

    ``computed``: where tensors are computed that are moved to their places afterwards. ``buffers`` are for people.
    ``split``: what lies in a second memory, if there are two; ``placement`` is then that of the first.
    """

    places: Mapping[BufferName, Place]
    scratch: Sequence[tuple[Place, ...]]
    placement: Placement
    align: int
    done: frozenset[int]
    computed: Mapping[str, InArena]
    buffers: tuple[PlacedBuffer, ...]
    split: Split | None = None

    def free_bytes(self, step: int) -> int:
        """The most bytes of the arena that are free side by side while a step runs, from a multiple of WORD on."""
        return max((size for _, size in self._gaps(step)), default=0)

    def with_scratch(self, step: int, scratch: Sequence[Scratch]) -> Stored:
        """These places with other scratch buffers of a step that has had none: each in the lowest gap that holds it."""
        placed = self
        for each in scratch:
            offset = next(at for at, size in placed._gaps(step) if each.bytes <= size and at % each.align == 0)
            added = PlacedBuffer("", "scratch", offset, each.bytes, step, step)
            places = [(*own, InArena(offset)) if index == step else own for index, own in enumerate(placed.scratch)]
            buffers = tuple(sorted((*placed.buffers, added), key=lambda buffer: buffer.first))
            placed = replace(placed, scratch=places, align=max(placed.align, each.align), buffers=buffers)
        return placed

    def _gaps(self, step: int) -> Iterator[tuple[int, int]]:
        """Offset and bytes of what is free while a step runs, in ascending order."""
        end = 0
        alive = [each for each in self.buffers if each.first <= step <= each.last and not each.is_slow]
        for offset, past in [*sorted((b.offset, b.offset + b.bytes) for b in alive), (self.placement.bytes,) * 2]:
            start = -(-end // WORD) * WORD
            if start < offset:
                yield start, offset - start
            end = max(end, past)


BEFORE = -1
"""The step before the first one, in which the caller writes inputs in the arena."""


def store(
    steps: Sequence[Arranged],
    prepared: Sequence[Prepared | None],
    boundary: Boundary,
    chains: Sequence[InRows] = (),
    moved: Collection[str] = (),
    room: int | None = None,
    memories: Memories | None = None,
) -> Stored:
    """A place for every tensor that ``steps`` compute and for the scratch buffers of their kernels.

    Tensors that are ``moved``, of those that ``movable`` names, get one to be computed in, too. ``room``: the first
    placement of at most as many bytes, as in ``place``. ``memories``: the arena lies in two.
    """
    ports = boundary.of_caller
    uses = _last_uses(steps, boundary, chains)
    storages = storages_of(steps, prepared, boundary, uses)
    require_inside(steps, storages, boundary)
    owners = owners_of(storages, ports)
    buffers = _buffers(steps, prepared, storages, uses, owners, boundary, chains)
    arranged = _with_moved(buffers, moved)
    parts = split(arranged, accesses(steps, prepared, storages), [*boundary.kept], memories) if memories else None
    placement = parts.fast if parts else place(arranged, room)
    at = _places(placement, parts)
    places: dict[BufferName, Place] = {port.tensor.name: Argument(port.symbol) for port in ports}
    rows = {name for chain in chains for name in chain.bytes}
    for name, storage in storages.items():
        if storage.root in owners:
            places[name] = Argument(owners[storage.root], storage.offset)
        elif storage.root in boundary.state_at:
            places[name] = Argument(STATE, boundary.state_at[storage.root] + storage.offset, is_block=True)
        elif name not in rows:
            root = MovedTensor(storage.root) if storage.root in moved else storage.root
            places[name] = replace(at[root], offset=at[root].offset + storage.offset)
    places |= {name: at[name] for name in rows}
    scratch = [_scratch_places(index, packed, at, chains) for index, packed in enumerate(prepared)]
    done = frozenset(index for index, step in enumerate(steps) if is_done(step, storages))
    computed = {name: InArena(placement.offsets[name]) for name in moved}
    computed = {name: at for name, at in computed.items() if at != places[name]}
    align = max((buffer.align for buffer in buffers), default=1)
    lived = [replace(b, first=b.first // 2, last=b.last // 2) for b in arranged] if moved else arranged
    placed = (
        _placed(b, at[b.name], rows, boundary.kept) for b in sorted(lived, key=lambda each: each.first) if b.bytes
    )
    return Stored(places, scratch, placement, align, done, computed, tuple(placed), parts)


def _places(placement: Placement, parts: Split | None) -> dict[BufferName, Place]:
    """The place of each buffer in the arena, or in the slow memory of an arena in two parts."""
    places: dict[BufferName, Place] = {name: InArena(offset) for name, offset in placement.offsets.items()}
    slow = {} if parts is None else parts.slow.offsets
    return places | {name: Argument(SLOW, offset, is_block=True) for name, offset in slow.items()}


def _placed(buffer: Buffer, at: Place, rows: Collection[BufferName], states: Collection[str]) -> PlacedBuffer:
    """The buffer as people see it."""
    kind: Literal["tensor", "rows", "scratch", "turn", "state"]
    match buffer.name:
        case str(name) if name in states:
            kind = "state"
        case str(name) | MovedTensor(name):
            kind = "rows" if name in rows else "tensor"
        case CopiedRows(source=name) | RowSums(name):
            kind = "rows"
        case ScratchMemory():
            name, kind = "", "scratch"
        case TurnNumber():
            name, kind = "", "turn"
    is_slow = isinstance(at, Argument)
    return PlacedBuffer(name, kind, at.offset, buffer.bytes, buffer.first, buffer.last, is_slow)


def movable(steps: Sequence[Arranged], prepared: Sequence[Prepared | None], boundary: Boundary) -> dict[str, int]:
    """The tensors that can be moved right after they were computed, with their bytes: they begin their memory."""
    uses = _last_uses(steps, boundary, ())
    storages = storages_of(steps, prepared, boundary, uses)
    lasts = {buffer.name: buffer.last for buffer in whole_buffers(steps, prepared, boundary)}
    first: dict[str, str] = {}
    for step in steps:
        first.setdefault(storages[step.op.y.name].root, step.op.y.name)
    found = {step.op.y.name: bytes_of(step.op.y) for step in steps if not step.is_view}
    indexes = {step.op.y.name: index for index, step in enumerate(steps)}
    return {
        name: size
        for name, size in found.items()
        if name in lasts and first.get(name) == name and lasts[name] > indexes[name]
    }


def _with_moved(buffers: Sequence[Buffer], moved: Collection[str]) -> list[Buffer]:
    """The buffers; those that are moved are two: the first until it has been copied, the second from then on.

    A move comes between two steps, so that steps have even numbers here. Its output may lie anywhere over its input.
    """
    if not moved:
        return list(buffers)
    later: dict[BufferName, MovedTensor] = {name: MovedTensor(name) for name in moved}
    found = []
    for buffer in buffers:
        first, last = 2 * buffer.first, 2 * buffer.last
        over = {later.get(name, name): how for name, how in buffer.over.items()}
        if buffer.name in later:
            found.append(replace(buffer, first=first, last=first + 1, over=over))
            anywhere = {buffer.name: Over(-buffer.bytes)}
            found.append(replace(buffer, name=later[buffer.name], first=first + 1, last=last, over=anywhere))
        else:
            found.append(replace(buffer, first=first, last=last, over=over))
    return found


def _scratch_places(
    index: int, packed: Prepared | None, at: Mapping[BufferName, Place], chains: Sequence[InRows]
) -> tuple[Place, ...]:
    first, last = _shared(index, chains)
    count = len(packed.scratch) if packed else 0
    return tuple(at[ScratchMemory(first, last, number)] for number in range(count))


def lent_by_caller(steps: Sequence[Arranged], prepared: Sequence[Prepared | None], boundary: Boundary) -> set[str]:
    """The computed tensors that live in outputs of the caller: as a view, a part, or written over one that does."""
    storages = storages_of(steps, prepared, boundary, _last_uses(steps, boundary, ()))
    owners = owners_of(storages, boundary.of_caller)
    return {name for name, storage in storages.items() if storage.root in owners or storage.root in boundary.state_at}


def whole_buffers(steps: Sequence[Arranged], prepared: Sequence[Prepared | None], boundary: Boundary) -> list[Buffer]:
    """The buffers of steps that are all computed whole."""
    uses = _last_uses(steps, boundary, ())
    storages = storages_of(steps, prepared, boundary, uses)
    return _buffers(steps, prepared, storages, uses, owners_of(storages, boundary.of_caller), boundary, ())


def _buffers(
    steps: Sequence[Arranged],
    prepared: Sequence[Prepared | None],
    storages: Mapping[str, Storage],
    uses: Mapping[str, int],
    owners: Mapping[str, str],
    boundary: Boundary,
    chains: Sequence[InRows],
) -> list[Buffer]:
    """What lies in the arena: tensors, the rows that chains keep of theirs, scratch memory."""
    inputs = boundary.inputs_in_arena
    computed = [each for each in _tensor_buffers(steps, storages, uses, inputs) if each.name not in owners]
    computed = [each for each in computed if each.name not in boundary.state_at]
    computed = [replace(each, last=len(steps)) if each.name in boundary.kept else each for each in computed]
    whole = _with_overlaps(computed, steps, prepared, storages)
    for chain in chains:
        whole = [_while_rows_run(buffer, chain) for buffer in whole if buffer.name not in chain.bytes]
        whole = _with_output_over_source(whole, chain, storages)
        whole += [Buffer(name, size, WORD, chain.first, chain.last) for name, size in chain.bytes.items()]
    return whole + _scratch_buffers(prepared, chains)


def _with_output_over_source(buffers: Sequence[Buffer], chain: InRows, storages: Mapping[str, Storage]) -> list[Buffer]:
    """The buffers; that of a chain's output may lie over the one of what the chain reads, if it reads it last."""
    by_name = {buffer.name: buffer for buffer in buffers}
    x, y = storages.get(chain.source), storages[chain.y]
    if x is None or x.root not in by_name or y.root not in by_name or x.root == y.root:
        return list(buffers)
    read, written = by_name[x.root], by_name[y.root]
    if read.last == chain.last and written.first == chain.first:
        distance = chain.order.distance - x.offset + y.offset
        over = {**written.over, x.root: Over(distance + -distance % WORD)}
        by_name[y.root] = replace(written, over=over)
    return list(by_name.values())


def _while_rows_run(buffer: Buffer, chain: InRows) -> Buffer:
    """A buffer that is alive at some step of a chain is alive at all of them."""
    if buffer.last < chain.first or chain.last < buffer.first:
        return buffer
    return replace(buffer, first=min(buffer.first, chain.first), last=max(buffer.last, chain.last))


def _last_uses(steps: Sequence[Arranged], boundary: Boundary, chains: Sequence[InRows]) -> dict[str, int]:
    """The last step that reads or writes each tensor; outputs, and all that the caller lends, are used after them.

    So is what a call leaves to the next one, until it is where that finds it.
    """
    ends = {index: chain.last for chain in chains for index in range(chain.first, chain.last + 1)}
    inputs = boundary.inputs_in_arena
    uses = dict.fromkeys(inputs, BEFORE)
    for index, step in enumerate(steps):
        uses[step.op.y.name] = index
        uses |= {x.name: ends.get(index, index) for x in inputs_of(step.op)}
    after = {*(port.tensor.name for port in boundary.ports), *boundary.left} - inputs.keys()
    return uses | dict.fromkeys(after, len(steps))


def _tensor_buffers(
    steps: Sequence[Arranged], storages: Mapping[str, Storage], uses: Mapping[str, int], inputs: Mapping[str, Tensor]
) -> list[Buffer]:
    """One buffer per root, alive from the first tensor that is written in it to the last use of any."""
    tensors = tensors_of(steps, inputs)
    buffers = {name: Buffer(name, bytes_of(x), x.dtype.bytes, BEFORE, uses[name]) for name, x in inputs.items()}
    for index, step in enumerate(steps):
        name = step.op.y.name
        storage = storages[name]
        if storage.root not in tensors:
            continue  # the memory of an input of the caller's
        root = tensors[storage.root]
        grown = buffers.get(storage.root, Buffer(storage.root, bytes_of(root), root.dtype.bytes, index, index))
        align = max(grown.align, tensors[name].dtype.bytes)
        buffers[storage.root] = replace(grown, align=align, last=max(grown.last, uses[name], index))
    return list(buffers.values())


def _with_overlaps(
    buffers: Sequence[Buffer],
    steps: Sequence[Arranged],
    prepared: Sequence[Prepared | None],
    storages: Mapping[str, Storage],
) -> list[Buffer]:
    """The buffers with what each may lie over: the input of the call that writes it first and reads the input last."""
    by_name = {buffer.name: buffer for buffer in buffers}
    for index, (step, packed) in enumerate(zip(steps, prepared, strict=True)):
        if packed is None or packed.access is None:
            continue
        x, y = storages.get(inputs_of(step.op)[0].name), storages[step.op.y.name]
        if x is None or x.root not in by_name or y.root not in by_name or x.root == y.root:
            continue
        read, written = by_name[x.root], by_name[y.root]
        others = [storages.get(other.name) for other in inputs_of(step.op)[1:]]
        if read.last == index == written.first and all(other is None or other.root != x.root for other in others):
            distance, every = packed.access.distance - x.offset + y.offset, packed.access.multiple
            over = {**written.over, x.root: Over(distance + (-distance % WORD if every == 1 else 0), every)}
            by_name[y.root] = replace(written, over=over)
    return list(by_name.values())


def _scratch_buffers(prepared: Sequence[Prepared | None], chains: Sequence[InRows]) -> list[Buffer]:
    """Those of a chain's steps share memory: one call is made after the other."""
    buffers: dict[BufferName, Buffer] = {}
    for index, packed in enumerate(prepared):
        first, last = _shared(index, chains)
        for number, scratch in enumerate(packed.scratch if packed else ()):
            name = ScratchMemory(first, last, number)
            shared = buffers.get(name, Buffer(name, 0, 1, first, last))
            size, align = max(shared.bytes, scratch.bytes), max(shared.align, scratch.align)
            buffers[name] = replace(shared, bytes=size, align=align)
    return list(buffers.values())


def _shared(index: int, chains: Sequence[InRows]) -> tuple[int, int]:
    """The steps that share scratch memory with a step."""
    return next(((c.first, c.last) for c in chains if c.first <= index <= c.last), (index, index))


# Which layers copy their constants to RAM first: where boards of the core wait for flash, and the arena has room. The
# arena grows for them where that gains enough (docs/decisions/0034-the-arena-grows-for-cycles.md).

FEWEST_PASSES = 16
"""Passes over constants from which a copy pays: without wait states it then costs 2 % of the layer's cycles at most."""

LEAST_GAIN = 0.05
"""Of the network's cycles: what the arena grows for saves as much, each time that it grows."""

COPY_CYCLES = 0.75
"""What a byte of a copy takes without wait states: keyword spotting, counted on a Cortex-M4 with gcc -O3."""


@dataclass(frozen=True)
class Copied:
    """What each step does, some of them with copies, and all places; ``growth``: None if the arena needs its size."""

    works: Sequence[Work | None]
    stored: Stored
    growth: ArenaGrowth | None = None

    @property
    def arena_bytes(self) -> int:
        """Those of the arena."""
        return self.stored.placement.bytes

    @property
    def cycles(self) -> float:
        """An estimate: those of the kernels, and what they wait for the table that they read again and again."""
        return sum(_cycles(work) for work in self.works if work is not None)


def with_copies(
    steps: Sequence[Arranged], works: Sequence[Work | None], stored: Stored, boundary: Boundary, room: int | None
) -> Copied:
    """The works, some of which copy their constants: as many as an arena of ``room`` bytes holds.

    None: one of the size that it needs anyway, or of a larger one where that gains LEAST_GAIN; of a layer by itself
    nobody knows what it gains of a network's cycles.
    """
    plain = Copied(works, stored)
    copying = {index: copy for index, work in enumerate(works) if work is not None and (copy := _copying(work))}
    if not copying:
        return plain
    copies = _Copies(steps, plain, boundary, copying)
    small = copies.within(plain.arena_bytes)
    if room is not None:
        found = copies.within(room)
    elif sum(work is not None for work in works) > 1:
        found = copies.grown(small)
    else:
        return small
    if found.arena_bytes <= small.arena_bytes:
        return found
    growth = ArenaGrowth(found.arena_bytes - small.arena_bytes, round(found.cycles), round(small.cycles))
    return replace(found, growth=growth)


@dataclass(frozen=True)
class _Copies:
    """A network without copies, and the steps that can copy, as they are then."""

    steps: Sequence[Arranged]
    plain: Copied
    boundary: Boundary
    copying: Mapping[int, Work]

    def within(self, room: int) -> Copied:
        """As many copies as an arena of ``room`` bytes holds, of the layers that read most first."""
        order = sorted(self.copying, key=lambda index: -_reads(self.copying[index]))
        found = self.plain
        for more in [order, *([index] for index in order)]:
            tried = self._with(found, more, room)
            if tried.arena_bytes <= room:
                found = tried
                if more is order:
                    break
        return found if found is self.plain else self._with(found, ())

    def grown(self, small: Copied) -> Copied:
        """With a larger arena: each time that it grows it gains LEAST_GAIN, and most for a byte."""
        arena, stored = self.plain.arena_bytes, self.plain.stored
        needs = {index: arena + _bytes(copy) - stored.free_bytes(index) for index, copy in self.copying.items()}
        found = small
        while True:
            steps = [
                [index for index in needs if needs[index] <= need]
                for need in sorted(set(needs.values()))
                if need > found.arena_bytes
            ]
            enough = LEAST_GAIN * found.cycles
            larger = [self._with(found, step) for step in steps if self._saved(found, step) >= enough]
            if not larger:
                return found
            found = max(larger, key=partial(_gain, found))

    def _with(self, found: Copied, indices: Sequence[int], room: int | None = None) -> Copied:
        """With copies in these steps, too; ``room`` is that of ``store``."""
        works = [self.copying[index] if index in indices else work for index, work in enumerate(found.works)]
        prepared = [None if work is None else work.prepared for work in works]
        return Copied(works, store(self.steps, prepared, self.boundary, room=room))

    def _saved(self, found: Copied, indices: Sequence[int]) -> float:
        """The cycles that copies in these steps save."""
        pairs = ((found.works[index], self.copying[index]) for index in indices)
        return sum(_cycles(work) - _cycles(copy) for work, copy in pairs if work is not None)


def _gain(before: Copied, after: Copied) -> float:
    """The cycles that are saved for each byte of the arena."""
    return (before.cycles - after.cycles) / max(1, after.arena_bytes - before.arena_bytes)


def _copying(work: Work) -> Work | None:
    """The work with a copy of its constants, None if there is no use in one."""
    setting, prepared = work.setting, work.prepared
    is_slow = setting.optimize == "speed" and setting.target.constant_wait > 0
    if prepared.copying is None or not is_slow or prepared.passes < FEWEST_PASSES:
        return None
    copy = Scratch(_bytes(work), C_BYTES[prepared.constants[0].c_type])
    return replace(work, prepared=replace(prepared, context=prepared.copying, scratch=(*prepared.scratch, copy)))


def _cycles(work: Work) -> float:
    setting, prepared = work.setting, work.prepared
    counted = prepared.cycles
    if counted is None:
        counted = cycles_of_kernel(work.op, work.selection.kernel.name, setting.optimize, setting.target.name)
    if prepared.copying is None:
        return counted
    wait = setting.target.constant_wait
    if prepared.context is prepared.copying:
        return counted + _bytes(work) * (COPY_CYCLES + wait)
    return counted + _reads(work) * wait


def _reads(work: Work) -> int:
    """The bytes of the table that are read, those of all passes."""
    return work.prepared.passes * _bytes(work)


def _bytes(work: Work) -> int:
    """Those of the table that can be copied."""
    table = work.prepared.constants[0]
    return table.values.size * C_BYTES[table.c_type]
