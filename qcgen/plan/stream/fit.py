"""A network in an arena of so many bytes, or of as few as can be: chains of layers, and places for what they keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from qcgen.errors import ModelRejected, Problem
from qcgen.kernels import Prepared
from qcgen.options import spelt
from qcgen.plan.arrange import Arranged
from qcgen.plan.memory import TurnNumber
from qcgen.plan.moves import extra_of, with_moves
from qcgen.plan.sharing import Boundary
from qcgen.plan.storage import InRows, Stored, lent_by_caller, store, whole_buffers
from qcgen.plan.stream.choose import IMPOSSIBLE, TURN_BYTES, Chain, Choice, Chooser
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

    Of the ways that fit ``arena`` the one with the fewest extra instructions, by a plain estimate. None as ``arena`` is
    as many bytes as the cheapest choice needs. Raises ModelRejected if no choice fits ``arena``, with the least that
    was reached, or if the input cannot be pushed row by row.
    """
    if boundary.is_pushed and (problem := require_one_input(boundary.ports)):
        raise ModelRejected([problem])
    whole = None if boundary.is_pushed else store(steps, prepared, boundary)
    if whole is not None and arena != "least" and _fits(whole, arena):
        return (), whole
    moved = None if boundary.is_pushed else with_moves(steps, prepared, boundary, _budget(arena))
    chooser = _chooser(steps, prepared, boundary, prepare)
    least = chooser.least()
    if least is None:
        raise ModelRejected([why_not_pushed(steps, boundary.ports)])

    def placed(choice: Choice) -> Stored:
        return _stored(steps, prepared, boundary, choice.chains, prepare)

    if arena != "least":
        found = _cheapest(chooser, placed, arena)
        if moved is not None and (found is None or extra_of(moved, steps) <= found[0].extra):
            return (), moved
        if found is not None:
            return found[0].chains, found[1]
    ways: list[tuple[tuple[Chain, ...], Stored]] = [((), way) for way in (whole, moved) if way is not None]
    ways += [(choice.chains, placed(choice)) for choice in _choices_for_least(chooser, least)]
    smallest = min(ways, key=lambda way: way[1].placement.bytes)
    if isinstance(arena, int) and not _fits(smallest[1], arena):
        raise _too_small(arena, smallest[1])
    return smallest


def _cheapest(chooser: Chooser, placed: Callable[[Choice], Stored], arena: int | None) -> tuple[Choice, Stored] | None:
    """The choice with the least extra work whose tensors find places in the arena.

    Places may take more than what is alive at once. So each next choice has less alive than the one before; what is
    tried for an arena is tried for every larger one, too, and more bytes never cost more instructions.
    """
    choice = chooser.choose(IMPOSSIBLE if arena is None else arena, IMPOSSIBLE)
    while choice is not None:
        stored = placed(choice)
        if _fits(stored, arena):
            return choice, stored
        choice = chooser.choose(choice.bytes - 1, IMPOSSIBLE)
    return None


def _choices_for_least(chooser: Chooser, least: int) -> Iterator[Choice]:
    """Choices of as few bytes alive as there can be, with fewer and fewer chains that need nearly all of them."""
    found = (chooser.choose(least, least * share) for share in SHARES)
    yield from (choice for choice in found if choice is not None)


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
    not_over = [each and replace(each, in_place=()) for each in prepared]
    apart = whole_buffers(steps, not_over, boundary)
    pushed = next((port.tensor.name for port in boundary.ports), None) if boundary.is_pushed else None
    lent = lent_by_caller(steps, prepared, boundary) | lent_by_caller(steps, not_over, boundary)
    return Chooser(steps, buffers, apart, boundary.wanted, prepare, pushed, lent)


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
        InRows(chain.first, chain.last, chain.kept_bytes, chain.source, steps[chain.last].op.y.name, chain.order)
        for chain in chains
    ]
    if boundary.is_pushed:
        rows[0] = replace(rows[0], bytes={**rows[0].bytes, TurnNumber(): TURN_BYTES})
    return store(steps, in_rows, boundary, rows)


def alone(prepared: Prepared) -> Prepared:
    """What a stage's call needs: its output lies over no input, as rows of both are kept."""
    return replace(prepared, access=None, in_place=())


def _too_small(arena: int, least: Stored) -> ModelRejected:
    bytes_ = least.placement.bytes
    what = f"it does not fit an arena of {arena} bytes; the least that was reached is {bytes_} bytes"
    return ModelRejected([Problem("the network", what, f"use {spelt(arena=bytes_)} or {spelt(arena='least')}")])
