"""Streams: chains of layers that compute their rows as soon as the rows that they need are there.

The chains and places with which a network fits an arena of so many bytes, or of as few as can be; a chain with its
kernels and places as the stream that the C runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from qcgen.errors import ModelRejected, Problem, prove
from qcgen.ir.plan import (
    Argument,
    Call,
    Fill,
    FirstPass,
    InArena,
    KeptRows,
    Move,
    Place,
    Port,
    Row,
    RowsAt,
    Stream,
    Table,
    Turn,
)
from qcgen.ir.program import Operator, inputs_of
from qcgen.kernels import Prepared
from qcgen.options import spelt
from qcgen.plan.arrange import Arranged
from qcgen.plan.memory import BufferName, RowsName, TurnNumber
from qcgen.plan.sharing import Boundary, bytes_of
from qcgen.plan.storage import InRows, Stored, lent_by_caller, movable, store, whole_buffers
from qcgen.plan.stream.choose import IMPOSSIBLE, TURN_BYTES, Chain, Choice, Chooser
from qcgen.plan.stream.schedule import Action, Kept, dropped_by
from qcgen.plan.stream.stages import COPY, MOST_ROWS, Stage, stage_of

SHARES = (1, 0.9, 0.75, 0.6)  # of a limit: chains that need more are avoided where tensors find no places


def fit(
    steps: Sequence[Arranged],
    prepared: Sequence[Prepared | None],
    boundary: Boundary,
    arena: int | Literal["least"] | None,
    prepare: Callable[[Stage], Prepared],
    constants: Collection[str],
) -> tuple[tuple[Chain, ...], Stored]:
    """The chains that run row by row, none if the network fits as it is, and the places of all tensors.

    Of the ways that fit ``arena`` the one with the fewest extra instructions, by a plain estimate. None as ``arena`` is
    as many bytes as the cheapest choice needs. Raises ModelRejected if no choice fits ``arena``, with the least that
    was reached, or if the input cannot be pushed row by row.
    """
    if boundary.is_pushed and (problem := _require_one_input(boundary.ports)):
        raise ModelRejected([problem])
    whole = None if boundary.is_pushed else store(steps, prepared, boundary)
    if whole is not None and arena != "least" and _fits(whole, arena):
        return (), whole
    moved = None if boundary.is_pushed else _with_moves(steps, prepared, boundary, _budget(arena))
    chooser = _chooser(steps, prepared, boundary, prepare, constants)
    least = chooser.least()
    if least is None:
        raise ModelRejected([_why_not_pushed(steps, boundary.ports)])

    def placed(choice: Choice) -> Stored:
        return _stored(steps, prepared, boundary, choice.chains, prepare)

    if arena != "least":
        found = _cheapest(chooser, placed, arena)
        if moved is not None and (found is None or _extra_of(moved, steps) <= found[0].extra):
            return (), moved
        if found is not None:
            return found[0].chains, found[1]
    ways: list[tuple[tuple[Chain, ...], Stored]] = [((), way) for way in (whole, moved) if way is not None]
    ways += [(choice.chains, placed(choice)) for choice in _choices_for_least(chooser, least)]
    smallest = min(ways, key=lambda way: way[1].placement.bytes)
    if isinstance(arena, int) and not _fits(smallest[1], arena):
        raise _too_small(arena, steps, *smallest)
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
    constants: Collection[str],
) -> Chooser:
    buffers = whole_buffers(steps, prepared, boundary)
    not_over = [each and replace(each, in_place=()) for each in prepared]
    apart = whole_buffers(steps, not_over, boundary)
    pushed = next((port.tensor.name for port in boundary.ports), None) if boundary.is_pushed else None
    lent = lent_by_caller(steps, prepared, boundary) | lent_by_caller(steps, not_over, boundary)
    return Chooser(steps, buffers, apart, boundary.wanted, constants, prepare, pushed, lent)


def _stored(
    steps: Sequence[Arranged],
    prepared: Sequence[Prepared | None],
    boundary: Boundary,
    chains: Sequence[Chain],
    prepare: Callable[[Stage], Prepared],
) -> Stored:
    in_rows = list(prepared)
    for chain in chains:
        for stage in chain.every_stage:
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


def _too_small(arena: int, steps: Sequence[Arranged], chains: Sequence[Chain], least: Stored) -> ModelRejected:
    bytes_ = least.placement.bytes
    fullest = max(range(len(steps)), key=lambda index: _taken(least, index))
    is_in_rows = any(chain.first <= fullest <= chain.last for chain in chains)
    how = "runs row by row" if is_in_rows else "is computed as a whole"
    what = (
        f"it does not fit an arena of {arena} bytes; the least that was reached is {bytes_} bytes, most of them for"
        f" {_node(steps[fullest].op)}, which {how}"
    )
    return ModelRejected([Problem("the network", what, f"use {spelt(arena=bytes_)} or {spelt(arena='least')}")])


def _taken(stored: Stored, step: int) -> int:
    """The bytes of the arena that something takes while a step runs."""
    taken = end = 0
    alive = [buffer for buffer in stored.buffers if buffer.first <= step <= buffer.last]
    for buffer in sorted(alive, key=lambda buffer: buffer.offset):
        past = buffer.offset + buffer.bytes
        taken += max(0, past - max(end, buffer.offset))
        end = max(end, past)
    return taken


# Tensors that are moved between two layers, where that lets a network fit into fewer bytes.
#
# Where every layer writes its output some bytes before its input, the tensors of a chain wander down through the arena,
# and the arena must be so much larger. A memmove of one of them between two layers takes it back.

MOVED = 0.7  # instructions for each byte of a tensor that moves
SMALL = 4  # tensors of less than one part in so many of the lower bound decide nothing


def _with_moves(
    steps: Sequence[Arranged], prepared: Sequence[Prepared | None], boundary: Boundary, arena: int | None
) -> Stored | None:
    """Places in ``arena`` bytes, or in the fewest that are found, with few tensors that move; None if none fit."""
    whole = store(steps, prepared, boundary)
    roots = movable(steps, prepared, boundary)
    moved = {name: size for name, size in roots.items() if size * SMALL > whole.placement.lower_bound}
    best = _stored_moved(steps, prepared, boundary, moved)
    limit = best.placement.bytes if arena is None else arena
    if best.placement.bytes > limit or best.placement.bytes >= whole.placement.bytes:
        return None
    for name in sorted(moved, key=lambda name: -moved[name]):
        fewer = {other: size for other, size in moved.items() if other != name}
        found = _stored_moved(steps, prepared, boundary, fewer)
        if found.placement.bytes <= limit:
            best, moved = found, fewer
    return best


def _extra_of(stored: Stored, steps: Sequence[Arranged]) -> float:
    """The instructions that moves take, estimated."""
    return MOVED * sum(bytes_of(step.op.y) for step in steps if step.op.y.name in stored.computed)


def _stored_moved(
    steps: Sequence[Arranged], prepared: Sequence[Prepared | None], boundary: Boundary, moved: dict[str, int]
) -> Stored:
    return store(steps, prepared, boundary, moved=frozenset(moved))


# Why a network cannot get its input row by row.


def _require_one_input(ports: Sequence[Port]) -> Problem | None:
    """What is wrong if there is not exactly one input."""
    inputs = [port for port in ports if port.direction == "input"]
    if len(inputs) == 1:
        return None
    what = f"it has {len(inputs)} inputs, and rows are pushed of a single one"
    return Problem("the network", what, f"leave {spelt(input='rows')} out")


def _why_not_pushed(steps: Sequence[Arranged], ports: Sequence[Port]) -> Problem:
    """The first cause for which no chain of layers starts with rows of the only input."""
    [x] = [port for port in ports if port.direction == "input"]
    hint = f"leave {spelt(input='rows')} out"
    where = f"input {x.tensor.name!r}"
    if not x.tensor.dtype.is_quantized:
        what = f"its elements are {x.tensor.dtype.value}, and layers of 8-bit integers alone run row by row"
        return Problem(where, what, f"use {spelt(io='quantized')} if the network begins with QuantizeLinear, or {hint}")
    if len(x.tensor.shape) != 4 or x.tensor.shape[0] != 1:
        shape = ", ".join(map(str, x.tensor.shape))
        return Problem(where, f"its shape is [{shape}], and rows are those of one image", hint)
    first = steps[0].op
    if "channels first" in x.layout:
        what = "its channels lie first, so that no row lies in one piece"
        return Problem(where, what, f"use {spelt(layout='nhwc')}, or {hint}")
    if x.shape[1] > MOST_ROWS:
        what = f"it has {x.shape[1]:,} rows, and images of at most {MOST_ROWS:,} run row by row"
        return Problem(where, what, hint)
    if steps[0].is_view or stage_of(steps[0], 0, 1) is None:
        what = "it reads the input and does not run row by row"
        return Problem(_node(first), what, hint)
    readers = [step.op for step in steps if any(each.name == x.tensor.name for each in inputs_of(step.op))]
    if len(readers) > 1:
        what = "it reads the input, too, and no chain of layers that run row by row reaches from the first one to it"
        return Problem(_node(readers[-1]), what, hint)
    what = "it computes an output while rows come, before the caller says where outputs lie"
    return Problem(_node(first), what, f"use {spelt(io_memory='arena')}, or {hint}")


def _node(op: Operator) -> str:
    return f"node {op.name!r} ({op.op_type})"


# A chain of layers, their kernels and their places as the stream that the C runs.


def stream_of(
    chain: Chain,
    symbol: str,
    calls: Mapping[int, Call],
    places: Mapping[BufferName, Place],
    turn: InArena | None = None,
) -> Stream:
    """The stream of a chain. ``calls`` by the index of their steps; ``places`` of tensors and of rows that are kept.

    ``turn``: where the number of the next turn lies if rows of what the chain reads are pushed.
    """
    kept = {tensor: rows for tensor, rows in chain.schedule.kept.items() if tensor not in chain.over_old_rows}
    places = _with_fronts(chain, places)
    tensors = [*kept]
    padded = [tensor for tensor in tensors if any(action.fills == tensor for action in chain.schedule.actions)]
    turns = tuple(_turn(chain, number, stage, calls, places) for number, stage in enumerate(chain.stages))
    if turn is not None:  # a pushed row is a tensor of its own
        copy = turns[0]
        turns = (replace(copy, rows=(replace(copy.rows[0], row=0), copy.rows[1])), *turns[1:])
    above = tuple(_fill(chain, tensor, places, above=True) for tensor in tensors if kept[tensor].above)
    above += tuple(_zeros(stage, places) for stage in chain.stages if stage.sums)
    below = tuple(_fill(chain, tensor, places, above=False) for tensor in padded)
    entries = np.array([_entry(action, len(turns), padded) for action in chain.schedule.actions])
    prove(entries.min() >= 0, f"{symbol}: rows are written where they are kept")
    meaning = (
        f"the order of {len(entries)} turns: which one, from which row of its input on, to which row of its output."
    )
    order = Table("order", f"{symbol}_order", "uint8_t" if entries.max() < 256 else "uint16_t", entries, meaning)
    rows = tuple(
        KeptRows(image.name, kept[tensor].rows, image.rows, chain.kept_bytes[tensor])
        for tensor, image in ((tensor, chain.images[tensor]) for tensor in tensors)
    )
    return Stream(symbol, order, turns, above, below, rows, turn, first_pass=_first_pass(chain, calls, places))


def _first_pass(chain: Chain, calls: Mapping[int, Call], places: Mapping[BufferName, Place]) -> FirstPass | None:
    """What is done in place of the last turn in the first of two passes, and behind it."""
    if chain.first_pass is None:
        return None
    stage = chain.first_pass.extremes
    turn = _turn(chain, len(chain.stages) - 1, stage, calls, places)
    at = turn.rows[-1]
    nothing = Fill("no number is there yet", at, at.row_bytes, 0)
    return FirstPass(nothing, turn, tuple(calls[index] for index in chain.first_pass.between))


def _with_fronts(chain: Chain, places: Mapping[BufferName, Place]) -> dict[BufferName, Place]:
    """The places, where an output lies over old rows: it at the start of their memory, they ``front`` bytes behind."""
    found = dict(places)
    for y, x in chain.over_old_rows.items():
        start = places[x]
        assert isinstance(start, InArena), "rows that are kept lie in the arena"
        found |= {y: start, x: InArena(start.offset + chain.fronts[x])}
    return found


def _entry(action: Action, turns: int, padded: Sequence[RowsName]) -> tuple[int, int, int]:
    if action.stage is not None:
        return action.stage, action.start, action.to
    assert action.fills is not None
    return turns + padded.index(action.fills), 0, action.to


def _turn(
    chain: Chain, number: int, stage: Stage, calls: Mapping[int, Call], places: Mapping[BufferName, Place]
) -> Turn:
    starts = {action.start for action in chain.schedule.actions if action.stage == number}
    start: Row = starts.pop() if len(starts) == 1 else "start"
    rows = [
        _at(chain, window.tensor, places, start if row is None else row)
        for window, row in zip(stage.windows, chain.schedule.starts[number], strict=not stage.gathers)
    ]
    rows.append(_at(chain, stage.y, places, 0 if stage.sums or stage.gathers else "to"))
    if stage.over is not None and stage.overwritten is not None:
        rows[stage.over] = _at(chain, stage.overwritten, places, "to")
    row_bytes = chain.images[stage.y].row_bytes
    part = None if stage.sums or stage.gathers else stage.op
    return Turn(calls.get(stage.index), part, tuple(rows), tuple(_moves(chain, number, places)), row_bytes)


def _moves(chain: Chain, number: int, places: Mapping[BufferName, Place]) -> list[Move]:
    found = []
    for tensor, kept in _dropped_after(chain, number):
        place, row = places[tensor], chain.images[tensor].row_bytes
        assert isinstance(place, InArena), "rows that are kept lie in the arena"
        if kept.rows > kept.dropped:
            behind = InArena(place.offset + kept.dropped * row)
            found.append(Move(place, behind, (kept.rows - kept.dropped) * row))
    return found


def _dropped_after(chain: Chain, number: int) -> Iterator[tuple[RowsName, Kept]]:
    """The tensors whose oldest rows go after a call; not while an output lies there that the next call reads."""
    stage = chain.stages[number]
    if stage.front is None:
        yield from dropped_by(chain.schedule, number)
    over = chain.over_old_rows.get(stage.windows[0].tensor)
    if over is not None:
        yield over, chain.schedule.kept[over]


def _at(chain: Chain, tensor: RowsName, places: Mapping[BufferName, Place], row: Row) -> RowsAt:
    storage, image = chain.schedule.storage(tensor), chain.images[tensor]
    dtype, is_argument = chain.images[storage].dtype, isinstance(places[storage], Argument)
    is_cast, element_bytes = is_argument and dtype is not image.dtype, dtype.bytes if is_argument else 1
    return RowsAt(places[storage], image.row_bytes, row, is_cast, element_bytes)


def _fill(chain: Chain, tensor: RowsName, places: Mapping[BufferName, Place], *, above: bool) -> Fill:
    kept, row = chain.schedule.kept[tensor], chain.images[tensor].row_bytes
    assert kept.padding is not None, "a tensor without padding is not read outside"
    at = RowsAt(places[tensor], row, 0 if above else "to")
    side = "above" if above else "below" if chain.stages[-1].images == 1 else "outside"
    meaning = f"{side} {chain.images[tensor].name}"
    code = places[kept.padding] if isinstance(kept.padding, str) else kept.padding
    return Fill(meaning, at, kept.above * row if above else row, code)


def _zeros(stage: Stage, places: Mapping[BufferName, Place]) -> Fill:
    return Fill("no row is added yet", RowsAt(places[stage.sums_name], stage.sums, 0), stage.sums, 0)
