"""A chain of layers, their kernels and their places as the stream that the C runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from qcgen.errors import prove
from qcgen.ir.plan import (
    Argument,
    Call,
    Fill,
    FirstPass,
    InArena,
    KeptRows,
    Move,
    Place,
    Row,
    RowsAt,
    Stream,
    Table,
    Turn,
)
from qcgen.plan.memory import BufferName, RowsName
from qcgen.plan.stream.choose import Chain
from qcgen.plan.stream.schedule import Action, Kept, dropped_by
from qcgen.plan.stream.stages import Stage


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
    meaning = f"{'above' if above else 'below'} {chain.images[tensor].name}"
    code = places[kept.padding] if isinstance(kept.padding, str) else kept.padding
    return Fill(meaning, at, kept.above * row if above else row, code)


def _zeros(stage: Stage, places: Mapping[BufferName, Place]) -> Fill:
    return Fill("no row is added yet", RowsAt(places[stage.sums_name], stage.sums, 0), stage.sums, 0)
