"""Tensors that are moved between two layers, where that lets a network fit into fewer bytes.

Where every layer writes its output some bytes before its input, the tensors of a chain wander down through the arena,
and the arena must be so much larger. A memmove of one of them between two layers takes it back.
"""

from __future__ import annotations

from collections.abc import Sequence

from qcgen.kernels import Prepared
from qcgen.plan.arrange import Arranged
from qcgen.plan.sharing import Boundary, bytes_of
from qcgen.plan.storage import Stored, movable, store

MOVED = 0.7  # instructions for each byte of a tensor that moves
SMALL = 4  # tensors of less than one part in so many of the lower bound decide nothing


def with_moves(
    steps: Sequence[Arranged], prepared: Sequence[Prepared | None], boundary: Boundary, arena: int | None
) -> Stored | None:
    """Places in ``arena`` bytes, or in the fewest that are found, with few tensors that move; None if none fit."""
    whole = store(steps, prepared, boundary)
    roots = movable(steps, prepared, boundary)
    moved = {name: size for name, size in roots.items() if size * SMALL > whole.placement.lower_bound}
    best = _stored(steps, prepared, boundary, moved)
    limit = best.placement.bytes if arena is None else arena
    if best.placement.bytes > limit or best.placement.bytes >= whole.placement.bytes:
        return None
    for name in sorted(moved, key=lambda name: -moved[name]):
        fewer = {other: size for other, size in moved.items() if other != name}
        found = _stored(steps, prepared, boundary, fewer)
        if found.placement.bytes <= limit:
            best, moved = found, fewer
    return best


def extra_of(stored: Stored, steps: Sequence[Arranged]) -> float:
    """The instructions that moves take, estimated."""
    return MOVED * sum(bytes_of(step.op.y) for step in steps if step.op.y.name in stored.computed)


def _stored(
    steps: Sequence[Arranged], prepared: Sequence[Prepared | None], boundary: Boundary, moved: dict[str, int]
) -> Stored:
    return store(steps, prepared, boundary, moved=frozenset(moved))
