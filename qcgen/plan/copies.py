"""Which layers copy their constants to RAM first: where boards of the core wait for flash, and the arena has room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from qcgen.ir.plan import C_BYTES
from qcgen.kernels.kernel import Scratch
from qcgen.plan.arrange import Arranged
from qcgen.plan.functions import Work
from qcgen.plan.sharing import Boundary
from qcgen.plan.storage import Stored, store

FEWEST_PASSES = 16
"""Passes over constants from which a copy pays: without wait states it then costs 2 % of the layer's cycles at most."""


def with_copies(
    steps: Sequence[Arranged], works: Sequence[Work | None], stored: Stored, boundary: Boundary, room: int
) -> tuple[list[Work | None], Stored]:
    """The works, some of which copy their constants, and all places: as many as an arena of ``room`` bytes holds.

    Layers that read most come first.
    """
    found = list(works)
    copying = {index: copy for index, work in enumerate(works) if work is not None and (copy := _copying(work))}
    order = sorted(copying, key=lambda index: -_reads(copying[index]))
    for more in [order, *([index] for index in order)] if order else []:
        tried = [copying[index] if index in more else work for index, work in enumerate(found)]
        placed = store(steps, [None if work is None else work.prepared for work in tried], boundary)
        if placed.placement.bytes <= room:
            found, stored = tried, placed
            if more is order:
                break
    return found, stored


def _copying(work: Work) -> Work | None:
    """The work with a copy of its constants, None if there is no use in one."""
    setting, prepared = work.setting, work.prepared
    is_slow = setting.optimize == "speed" and setting.target.waits_for_constants
    if prepared.copying is None or not is_slow or prepared.passes < FEWEST_PASSES:
        return None
    table = prepared.constants[0]
    copy = Scratch(table.values.size * C_BYTES[table.c_type], C_BYTES[table.c_type])
    return replace(work, prepared=replace(prepared, context=prepared.copying, scratch=(*prepared.scratch, copy)))


def _reads(work: Work) -> int:
    """The elements of the table that are read, those of all passes."""
    return work.prepared.passes * work.prepared.constants[0].values.size
