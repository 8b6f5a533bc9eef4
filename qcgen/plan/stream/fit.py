"""A network in an arena of so many bytes, or of as few as can be: chains of layers, and places for what they keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from qcgen.errors import ModelRejected, Problem
from qcgen.kernels import Prepared
from qcgen.plan.arrange import Arranged
from qcgen.plan.moves import with_moves
from qcgen.plan.sharing import Boundary
from qcgen.plan.storage import TURN, InRows, Stored, store, whole_buffers
from qcgen.plan.stream.choose import IMPOSSIBLE, TURN_BYTES, Chain, Chooser
from qcgen.plan.stream.pushed import require_one_input, why_not_pushed
from qcgen.plan.stream.stages import COPY, Stage

SHARES = (1, 0.9, 0.75, 0.6)  # of a limit: chains that need more are avoided where tensors find no places


def fit(
    steps: Sequence[Arranged],
    prepared: Sequence[Prepared | None],
    boundary: Boundary,
    arena: int | Literal["least"] | None,
    prepare: Callable[[Stage], Prepared],
) -> tuple[tuple[Chain, ...], Stored]:
    """The chains that run row by row, none if the network fits as it is, and the places of all tensors.

    None as ``arena`` is as many bytes as the cheapest choice needs. Raises ModelRejected if no choice fits ``arena``,
    with the least that was reached, or if the input cannot be pushed row by row.
    """
    if boundary.is_pushed and (problem := require_one_input(boundary.ports)):
        raise ModelRejected([problem])
    best: tuple[tuple[Chain, ...], Stored] | None = (
        None if boundary.is_pushed else ((), store(steps, prepared, boundary))
    )
    if best is not None and arena != "least" and _fits(best[1], arena):
        return best
    moved = None if boundary.is_pushed else with_moves(steps, prepared, boundary, _budget(arena))
    if moved is not None:
        best = (), moved
        if arena != "least":
            return best
    chooser = _chooser(steps, prepared, boundary, prepare)
    least = chooser.least()
    if least is None:
        raise ModelRejected([why_not_pushed(steps, boundary.ports)])
    for limit, easy in _limits(least, arena):
        chains = chooser.choose(limit, easy)
        assert chains is not None, "the least arena has a choice"
        stored = _stored(steps, prepared, boundary, chains, prepare)
        if best is None or stored.placement.bytes < best[1].placement.bytes:
            best = chains, stored
        if arena != "least" and _fits(stored, arena):
            return best
    assert best is not None, "there is a limit to try"
    if arena is None or arena == "least":
        return best
    smallest = fit(steps, prepared, boundary, "least", prepare)
    if not _fits(smallest[1], arena):
        raise _too_small(arena, smallest[1])
    return smallest


def _limits(least: int, arena: int | Literal["least"] | None) -> Iterator[tuple[int, float]]:
    """What to choose chains for: the places of tensors may take more than what is alive at once, so less is tried, too.

    The bytes that may be alive, and those beyond which chains are avoided.
    """
    if arena is None:
        yield IMPOSSIBLE, IMPOSSIBLE
        return
    most = least if arena == "least" else max(arena, least)
    yield from ((most, most * share) for share in SHARES)
    yield from ((limit, limit) for limit in (int(most * share) for share in SHARES[1:]) if limit > least)


def _budget(arena: int | Literal["least"] | None) -> int | None:
    return None if arena == "least" else arena


def _fits(stored: Stored, arena: int | None) -> bool:
    return arena is None or stored.placement.bytes <= arena


def _chooser(
    steps: Sequence[Arranged],
    prepared: Sequence[Prepared | None],
    boundary: Boundary,
    prepare: Callable[[Stage], Prepared],
) -> Chooser:
    buffers = whole_buffers(steps, prepared, boundary)
    apart = whole_buffers(steps, [each and replace(each, in_place=()) for each in prepared], boundary)
    outputs = frozenset(port.tensor.name for port in boundary.ports if port.direction == "output")
    pushed = next((port.tensor.name for port in boundary.ports), None) if boundary.is_pushed else None
    return Chooser(steps, buffers, apart, outputs, prepare, pushed, () if boundary.is_in_arena else outputs)


def _stored(
    steps: Sequence[Arranged],
    prepared: Sequence[Prepared | None],
    boundary: Boundary,
    chains: Sequence[Chain],
    prepare: Callable[[Stage], Prepared],
) -> Stored:
    in_rows = list(prepared)
    for chain in chains:
        for stage in chain.stages:
            if stage.index != COPY:
                in_rows[stage.index] = alone(prepare(stage))
    rows = [
        InRows(chain.first, chain.last, chain.kept_bytes, chain.source, chain.stages[-1].y, chain.order)
        for chain in chains
    ]
    if boundary.is_pushed:
        rows[0] = replace(rows[0], bytes={**rows[0].bytes, TURN: TURN_BYTES})
    return store(steps, in_rows, boundary, rows)


def alone(prepared: Prepared) -> Prepared:
    """What a stage's call needs: its output lies over no input, as rows of both are kept."""
    return replace(prepared, access=None, in_place=())


def _too_small(arena: int, least: Stored) -> ModelRejected:
    bytes_ = least.placement.bytes
    what = f"it does not fit an arena of {arena} bytes; the least that was reached is {bytes_} bytes"
    return ModelRejected([Problem("the network", what, f"use --arena {bytes_} or --arena least")])
