"""Which layers copy their constants to RAM first: where boards of the core wait for flash, and the arena has room.

The arena grows for them where that gains enough (docs/decisions/0034-the-arena-grows-for-cycles.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from qcgen.ir.plan import C_BYTES, ArenaGrowth
from qcgen.kernels.kernel import Scratch
from qcgen.plan.arrange import Arranged
from qcgen.plan.functions import Work
from qcgen.plan.prices import cycles_of_kernel
from qcgen.plan.sharing import Boundary
from qcgen.plan.storage import Stored, store

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
