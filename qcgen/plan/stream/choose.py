"""Which layers run row by row: the least extra work with which a network fits an arena."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeVar

import numpy as np

from qcgen.ir.plan import NOTHING, AccessOrder
from qcgen.ir.program import Conv, GlobalAveragePool, inputs_of, macs_of
from qcgen.ir.types import DType
from qcgen.kernels import Prepared
from qcgen.plan.arrange import Arranged
from qcgen.plan.memory import Buffer, BufferName, CopiedRows, RowsName, alive_at
from qcgen.plan.stream.schedule import Schedule, schedule
from qcgen.plan.stream.stages import (
    Stage,
    images_of,
    lies_in_rows,
    over_old_rows,
    rows_of,
    stage_of,
    with_copied_source,
    written_over,
)
from qcgen.plan.stream.twice import Floats, RangePass, floats_of

ROWS = (1, 2, 4)  # a call; more rows mean fewer calls and more memory
CALL = 60  # instructions of a call of a stage: the entry of the schedule, arguments, the head of the kernel
CHANNEL = 25  # of a depthwise kernel at each call, for each channel: its weights are loaded anew
IMPOSSIBLE = sys.maxsize  # bytes that no arena has
HARD = 1e9  # instructions; more than any chain takes
TURN_BYTES = 4  # where the number of the next turn is kept between rows that are pushed
ADDED = 2  # for each element of a row that is added to sums in memory
AGAIN = 2  # for each multiply-add of a layer that is computed twice
FLOAT = 60  # for each element of it that becomes a float twice
EXTREMES_BYTES = 8  # the least and the largest float of such a layer
MOVED = 0.4  # for each byte of the rows that move to the front of their buffer


@dataclass(frozen=True)
class StreamedImage:
    """A tensor that can be computed in rows: how many each of its ``images`` has, and the bytes of one.

    ``name`` is that of the model.
    """

    name: str
    dtype: DType
    rows: int
    row_bytes: int
    images: int = 1

    @property
    def bytes(self) -> int:
        """Of the whole tensor."""
        return self.images * self.rows * self.row_bytes


@dataclass(frozen=True)
class Chain:
    """Steps ``first`` to ``last``, which run row by row, from the rows of ``source`` on.

    ``first_pass``: what is different in the first of two passes, if there are two; ``stages`` are those of the second.
    """

    first: int
    last: int
    source: str
    stages: tuple[Stage, ...]
    schedule: Schedule
    images: Mapping[RowsName, StreamedImage]
    first_pass: RangePass | None = None

    @property
    def every_stage(self) -> tuple[Stage, ...]:
        """Those of all passes."""
        return self.stages if self.first_pass is None else (*self.stages, self.first_pass.extremes)

    @property
    def kept_bytes(self) -> Mapping[BufferName, int]:
        """Bytes of the rows that are kept of each tensor; none of those that lie in another's rows.

        Where an output begins before the rows that it lies over, the bytes in front of them are theirs.
        """
        kept: dict[BufferName, int] = {
            tensor: kept.rows * self.images[tensor].row_bytes for tensor, kept in self.schedule.kept.items()
        }
        kept |= {x: kept[x] + front for x, front in self.fronts.items()}
        kept |= {stage.sums_name: stage.sums for stage in self.stages if stage.sums}
        return kept | dict.fromkeys((*self.schedule.storages, *self.over_old_rows), 0)

    @property
    def over_old_rows(self) -> Mapping[RowsName, RowsName]:
        """Tensors whose rows lie over the oldest ones of another, and that one."""
        return {stage.y: stage.windows[0].tensor for stage in self.stages if stage.front is not None}

    @property
    def fronts(self) -> Mapping[RowsName, int]:
        """By how many bytes these begin before, by the tensor whose rows they lie over."""
        return {stage.windows[0].tensor: stage.front for stage in self.stages if stage.front is not None}

    @property
    def order(self) -> AccessOrder:
        """The order in which the chain reads ``source`` and writes its output, turn by turn."""
        y = self.stages[-1].y
        source_row, row = self.images[self.source].row_bytes, self.images[y].row_bytes
        reads, writes = [], []
        for action in self.schedule.actions:
            stage = None if action.stage is None else self.stages[action.stage]
            is_reader = stage is not None and any(window.tensor == self.source for window in stage.windows)
            is_writer = stage is not None and self.schedule.storage(stage.y) == y
            reads.append(action.start * source_row if is_reader else NOTHING)
            writes.append((action.to + stage.rows) * row if is_writer and stage is not None else 0)
        if self.stages[-1].sums:
            writes[-1] = row  # the last call writes all
        return AccessOrder(np.array(reads), np.array(writes), gathers=False)


@dataclass(frozen=True)
class Choice:
    """Chains that run row by row, their estimated ``extra`` instructions, the most ``bytes`` alive at once."""

    chains: tuple[Chain, ...]
    extra: float
    bytes: int


class Chooser:
    """The steps of a program and what each costs, whole or row by row.

    ``prepare`` packs the operator of a stage's call for its kernel; ``buffers`` are those of the steps computed whole,
    ``apart`` the same ones where no output takes an input's place; ``outputs`` are tensors that no chain may keep in
    rows, ``constants`` those that are in tables. ``pushed`` is the input that is there row by row: a chain reads it, of
    one layer or more, and computes none of the tensors ``lent`` by the caller, whose memory is not known yet.
    """

    def __init__(
        self,
        steps: Sequence[Arranged],
        buffers: Sequence[Buffer],
        apart: Sequence[Buffer],
        outputs: frozenset[str],
        constants: Collection[str],
        prepare: Callable[[Stage], Prepared],
        pushed: str | None = None,
        lent: Collection[str] = (),
    ) -> None:
        self._steps, self._buffers, self._outputs = steps, apart, outputs
        self._pushed, self._lent = pushed, lent
        numbered = list(enumerate(steps))
        self._stages = {rows: [_in_rows(rows, partial(stage_of, step, i)) for i, step in numbered] for rows in ROWS}
        self._floats = {rows: [list(floats_of(steps, i, constants, rows)) for i, _ in numbered] for rows in ROWS}
        every = [stage for stages in self._stages.values() for stage in stages if stage is not None]
        every += [
            stage
            for found in self._floats.values()
            for layers in found
            for each in layers
            for stage in each.every_stage
        ]
        self._packed = {(stage.index, stage.rows): prepare(stage) for stage in every}
        self._images = {name: image for stage in every for name, image in _images_of(stage, steps[stage.index])}
        self._constants = constants
        self._whole = [alive_at(index, buffers) for index in range(len(steps))]
        if pushed is not None:
            self._whole[0] = IMPOSSIBLE
        self._kept: dict[tuple[RowsName, int, int, tuple[int, ...]], int | None] = {}

    def least(self) -> int | None:
        """The least arena that some choice needs, before tensors are given places; None if there is no choice."""
        best = [0]
        for end in range(1, len(self._steps) + 1):
            pieces = [(piece.first, piece.bytes) for piece in self._pieces.get(end, ())]
            ways = [max(best[first], needed) for first, needed in [(end - 1, self._whole[end - 1]), *pieces]]
            best.append(min(ways))
        return best[-1] if best[-1] < IMPOSSIBLE else None

    def choose(self, limit: int, easy: float) -> Choice | None:
        """The chains with the least extra work of those that fit ``limit`` bytes; None if nothing does.

        Chains that need more than ``easy`` bytes are taken only where nothing else fits: few of them, and the places of
        all tensors are found more easily.
        """
        best: list[_Way | None] = [_Way(0, 0, ())]
        for end in range(1, len(self._steps) + 1):
            before, whole = best[end - 1], self._whole[end - 1]
            ways = []
            if before is not None and whole <= min(limit, IMPOSSIBLE - 1):
                ways.append(replace(before, bytes=max(before.bytes, whole)))
            for piece in self._pieces.get(end, ()):
                start = best[piece.first]
                if start is not None and piece.bytes <= limit:
                    ways.append(start.then(piece, HARD if piece.bytes > easy else 0))
            best.append(min(ways, key=lambda way: way.cost, default=None))
        found = best[-1]
        if found is None:
            return None
        extra = sum(piece.extra for piece in found.pieces)
        return Choice(tuple(self._chain(piece) for piece in found.pieces), extra, found.bytes)

    @cached_property
    def _pieces(self) -> dict[int, list[_Piece]]:
        """Every run of steps that can be a chain, by its end."""
        found: dict[int, list[_Piece]] = {}
        for first in range(len(self._steps)):
            for piece in self._on_floats(first):
                found.setdefault(piece.end, []).append(piece)
            for end in range(first + 1, len(self._steps) + 1):
                stage = self._stages[1][end - 1]
                if stage is None:
                    break
                source = self._source(first, end)
                if source is not None and self._is_chain(source, first, end):
                    found.setdefault(end, []).extend(self._ways(first, end, source))
                if stage.sums:
                    break  # nothing of a mean is there before its last row was added
        return found

    def _is_chain(self, source: str, first: int, end: int) -> bool:
        """Whether steps that read ``source`` alone are worth it, or must run so, and may."""
        if source == self._pushed:
            return self._steps[end - 1].op.y.name not in self._lent and self._images[source].images == 1
        return end - first > 1

    def _ways(self, first: int, end: int, source: str) -> Iterator[_Piece]:
        """The same chain with more rows at each call, as long as that saves work."""
        for rows in ROWS:
            stages = self._stages_of([stage for stage in self._stages[rows][first:end] if stage is not None], source)
            bytes_ = self._bytes(first, end, stages, self._shared(stages[0].windows[0].tensor, stages[-1].y, end))
            if bytes_ is not None:
                yield _Piece(first, end, rows, bytes_, self._extra(stages))

    def _on_floats(self, first: int) -> Iterator[_Piece]:
        """What begins with a step and can run row by row on floats, once or twice."""
        for rows in ROWS:
            for layer in self._floats[rows][first]:
                read = {window.tensor for stage in layer.every_stage for window in stage.windows}
                if self._pushed in read or self._is_read(first, layer):
                    continue
                chain = self._chain_on_floats(first, layer)
                if chain is None:
                    continue
                stages = chain.stages
                shared = self._shared(chain.source, stages[-1].y, layer.end, chain.order.distance)
                bytes_ = self._bytes(first, layer.end, stages, shared)
                if bytes_ is not None:
                    extra = self._extra(stages)
                    if layer.first_pass is not None:
                        ops = [step.op for step in self._steps[first : layer.end]]
                        again = [op for op in ops if isinstance(op, Conv)] or ops[:1]
                        extra = 2 * extra + sum(AGAIN * macs_of(op) + FLOAT * op.y.size for op in again)
                        bytes_ += EXTREMES_BYTES
                    yield _Piece(first, layer.end, rows, bytes_, extra, layer)

    def _stages_on_floats(self, layer: Floats) -> list[Stage]:
        """The stages of a layer, which may read several tensors that are there as a whole."""
        stages = written_over(layer.stages, lambda stage: self._packed[stage.index, stage.rows].in_place)
        source, computed = stages[0].windows[0].tensor, {stage.y for stage in stages}
        windows = [window for stage in stages for window in stage.windows if window.tensor not in computed]
        padded = [window.tensor for window in windows if window.padding is not None]
        for tensor in dict.fromkeys([source, *padded]):
            assert isinstance(tensor, str), "rows are copied of tensors"
            stages = with_copied_source(stages, tensor, self._images[tensor].rows)
        return self._over_old_rows(stages)

    def _chain_on_floats(self, first: int, layer: Floats) -> Chain | None:
        """A layer as a chain, its output over as much as can be of what it reads; None if it has no schedule."""
        stages = self._stages_on_floats(layer)
        found = schedule(stages, self._heights(stages))
        if found is None:
            return None
        computed = {stage.y for stage in layer.stages}.union(self._constants)
        read = [str(w.tensor) for stage in layer.stages for w in stage.windows if w.step and w.tensor not in computed]
        chains = [
            Chain(first, layer.end - 1, source, tuple(stages), found, self._images, layer.first_pass)
            for source in dict.fromkeys(read)
        ]
        y = stages[-1].y
        return max(chains, key=lambda chain: self._shared(chain.source, y, layer.end, chain.order.distance))

    def _is_read(self, first: int, layer: Floats) -> bool:
        """Whether any later step reads what is there in rows alone, or the range of floats."""
        hidden = {stage.y for stage in layer.every_stage} - {layer.stages[-1].y}
        hidden |= {step.op.y.name for step in self._steps[first : layer.end] if step.is_view}
        later = {x.name for step in self._steps[layer.end :] for x in inputs_of(step.op)} | self._outputs
        return not hidden.isdisjoint(later)

    def _source(self, first: int, end: int) -> str | None:
        """The only tensor that these steps read from outside; None if there are more, or inner ones are read later."""
        inside = {step.op.y.name for step in self._steps[first:end]}
        read = {x.name for step in self._steps[first:end] for x in inputs_of(step.op)} - inside
        later = {x.name for step in self._steps[end:] for x in inputs_of(step.op)} | self._outputs
        hidden = inside - {self._steps[end - 1].op.y.name} | {self._pushed}
        return next(iter(read)) if len(read) == 1 and not hidden & later else None

    def _stages_of(self, own: Sequence[Stage], source: str) -> list[Stage]:
        stages = written_over(own, lambda stage: self._packed[stage.index, stage.rows].in_place)
        is_pushed = source == self._pushed
        stages = with_copied_source(stages, source, self._images[source].rows, is_pushed=is_pushed)
        return self._over_old_rows(stages)

    def _over_old_rows(self, stages: Sequence[Stage]) -> list[Stage]:
        packed = self._packed
        return over_old_rows(
            stages, lambda stage: packed[stage.index, stage.rows].access, lambda name: self._images[name].row_bytes
        )

    def _bytes(self, first: int, end: int, stages: Sequence[Stage], shared: int) -> int | None:
        """What is alive while a chain runs, None if it has no schedule."""
        inner = {stage.y for stage in stages[:-1] if stage.front is None} - {stage.overwritten for stage in stages}
        fronts = sum(stage.front for stage in stages if stage.front is not None)
        kept = 0
        for name in inner:
            rows_kept = self._rows_kept(name, stages)
            if rows_kept is None:
                return None
            kept += rows_kept * self._images[name].row_bytes
        beside = [
            buffer.bytes
            for buffer in self._buffers
            if buffer.first < end and buffer.last >= first and not (first <= buffer.first and buffer.last < end)
        ]
        fronts += sum(stage.sums for stage in stages)
        turn = TURN_BYTES if stages[0].windows[0].tensor == self._pushed else 0
        return sum(beside) + kept + fronts + turn - shared + max(map(self._scratch_bytes, stages))

    def _scratch_bytes(self, stage: Stage) -> int:
        if stage.op is None:
            return 0
        return sum(each.bytes + -each.bytes % each.align for each in self._packed[stage.index, stage.rows].scratch)

    def _shared(self, source: RowsName, y: RowsName, end: int, distance: int | None = None) -> int:
        """The bytes that the output of a chain shares with what the chain reads, if nothing reads that later.

        Without the ``distance`` by which it begins before, about so many: the output runs ahead by a row, and by what
        it is larger. The order of the turns, which takes longer, tells.
        """
        by_name = {buffer.name: buffer for buffer in self._buffers if buffer.name in (source, y)}
        if len(by_name) < 2 or by_name[source].last >= end:
            return 0
        x_bytes, y_bytes = by_name[source].bytes, by_name[y].bytes
        if distance is None:
            distance = max(y_bytes - x_bytes, 0) + self._images[y].row_bytes
        return max(0, x_bytes + y_bytes - max(x_bytes + max(distance, 0), y_bytes))

    def _rows_kept(self, name: RowsName, stages: Sequence[Stage]) -> int | None:
        """Rows that are kept of a tensor: as many as the stages from its producer to where its readers join need.

        None if these stages have no schedule.
        """
        first = next(i for i, stage in enumerate(stages) if stage.y == name)
        part = stages[first : _joined(stages, first) + 1]
        key = name, part[0].index, part[-1].index, tuple(stage.rows for stage in part)
        if key not in self._kept:
            found = schedule(part, self._heights(part))
            self._kept[key] = None if found is None else found.kept[name].rows
        return self._kept[key]

    def _heights(self, stages: Sequence[Stage]) -> dict[RowsName, int]:
        tensors = (name for stage in stages for name in (stage.y, *(w.tensor for w in stage.windows)))
        return {name: self._images[name].rows for name in tensors if name not in self._constants}

    def _extra(self, stages: Sequence[Stage]) -> float:
        """Instructions that a chain takes beyond those of its layers computed whole."""
        extra = 0.0
        for stage in stages:
            each = float(CALL)
            for window in stage.windows:
                each += MOVED * max(0, window.rows - window.step) * self._images[window.tensor].row_bytes
            if stage.op is None:
                each += MOVED * self._images[stage.y].row_bytes
            elif stage.sums:
                each += ADDED * self._images[stage.windows[0].tensor].row_bytes
            elif isinstance(stage.op, Conv) and stage.op.geometry.group > 1:
                each += CHANNEL * stage.op.geometry.out_channels
            extra += stage.images * stage.calls * each
        return extra

    def _chain(self, piece: _Piece) -> Chain:
        if piece.floats is not None:
            chain = self._chain_on_floats(piece.first, piece.floats)
            assert chain is not None, "a piece has a schedule"
        else:
            own, source = self._stages[piece.rows][piece.first : piece.end], self._source(piece.first, piece.end)
            assert source is not None, "a piece reads one tensor"
            stages = self._stages_of([stage for stage in own if stage is not None], source)
            found = schedule(stages, self._heights(stages))
            assert found is not None, "its parts have schedules"
            chain = Chain(piece.first, piece.end - 1, source, tuple(stages), found, self._images)
        named = (
            *(stage.y for stage in chain.every_stage),
            *(w.tensor for stage in chain.stages for w in stage.windows),
        )
        return replace(chain, images={name: self._images[name] for name in (*named, chain.source)})


@dataclass(frozen=True)
class _Piece:
    """Steps from ``first`` to before ``end`` as a chain of ``rows`` rows a call: bytes alive, extra instructions.

    ``floats``: how they run, if they do so on floats.
    """

    first: int
    end: int
    rows: int
    bytes: int
    extra: float
    floats: Floats | None = None


@dataclass(frozen=True)
class _Way:
    """Chains up to some step: what they cost, the most bytes that are alive at once."""

    cost: float
    bytes: int
    pieces: tuple[_Piece, ...]

    def then(self, piece: _Piece, penalty: float) -> _Way:
        """The same with one chain more."""
        cost = self.cost + piece.extra + penalty
        return _Way(cost, max(self.bytes, piece.bytes), (*self.pieces, piece))


def _images_of(stage: Stage, step: Arranged) -> Iterator[tuple[RowsName, StreamedImage]]:
    """What a step reads and computes, and the copies of rows of what it reads."""
    for tensor, order in ((step.op.y, step.y), *zip(inputs_of(step.op), step.xs, strict=True)):
        is_mean = isinstance(step.op, GlobalAveragePool) and tensor is step.op.y
        is_in_rows = lies_in_rows(tensor, order) and not is_mean
        rows, images = (rows_of(tensor, order), images_of(tensor)) if is_in_rows else (1, 1)
        if any(window.tensor == tensor.name and window.step for window in stage.windows) and not is_in_rows:
            rows = stage.calls * stage.rows  # a constant
        row_bytes = tensor.size * tensor.dtype.bytes // (rows * images)
        image = StreamedImage(tensor.name, tensor.dtype, rows, row_bytes, images)
        yield tensor.name, image
        yield CopiedRows(tensor.name, stage.index), image


_Found = TypeVar("_Found")


def _in_rows(most: int, way: Callable[[int], _Found | None]) -> _Found | None:
    """What runs with ``most`` rows a call, or as many of a half, a quarter of them as divide the rows of outputs."""
    found = (way(rows) for rows in ROWS[::-1] if rows <= most)
    return next((each for each in found if each is not None), None)


def _joined(stages: Sequence[Stage], first: int) -> int:
    """The stage in which all branches from stage ``first`` have come together again, once its output has been read."""
    last = {w.tensor: number for number, stage in enumerate(stages) for w in stage.windows}
    number, end = first, last[stages[first].y]
    while number < end:
        end = max(end, last.get(stages[number].y, number))
        number += 1
    return end
