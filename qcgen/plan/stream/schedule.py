"""The static schedule of a stream: which stage computes its next rows when, and how many rows each tensor keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from qcgen.plan.memory import RowsName
from qcgen.plan.stream.stages import RowWindow, Stage


@dataclass(frozen=True)
class Kept:
    """The rows of a tensor that a stream keeps, oldest first, in a buffer of ``rows`` rows.

    The first ``above`` hold ``padding`` at the start: a code, or what a tensor holds. After each call of the stage
    ``reader`` the oldest ``dropped`` rows go, and those behind them move to the front.
    """

    rows: int
    above: int
    padding: int | str | None
    reader: int
    dropped: int


@dataclass(frozen=True)
class Action:
    """What is done next: ``stage`` computes its next rows, or ``fills`` a row of padding below the image.

    ``start`` is the row from which it reads an input that is there as a whole, or else its first one, ``to`` the row of
    its output's buffer to which it writes; of tensors that are there as a whole, rows of the image.
    """

    stage: int | None
    fills: RowsName | None
    start: int
    to: int


@dataclass(frozen=True)
class Schedule:
    """``kept`` by tensor; ``starts``: of each stage the rows from which it reads its inputs, which never change.

    None for those that begin where an action says. ``storages``: of tensors
    over whose rows an output is written, the tensor in whose buffer these rows lie.
    """

    kept: Mapping[RowsName, Kept]
    actions: tuple[Action, ...]
    starts: tuple[tuple[int | None, ...], ...]
    storages: Mapping[RowsName, RowsName]

    def storage(self, tensor: RowsName) -> RowsName:
        """The tensor in whose buffer the rows of a tensor lie: mostly itself."""
        return self.storages.get(tensor, tensor)


def schedule(stages: Sequence[Stage], heights: Mapping[RowsName, int]) -> Schedule | None:
    """Each row of the last stage as soon as it can be, and nothing before it is needed.

    ``heights``: rows of every tensor, of each image of a batch. Tensors that no stage computes, and the last one, are
    there as a whole. None if a tensor's rows cannot be kept in such a buffer: two readers overtake each other, or pad
    with different codes.
    """
    readers = _readers(stages)
    for reading in readers.values():
        if len({window.padding for _, window in reading if window.padding is not None}) > 1:
            return None
    # The reader that is furthest behind: mostly the last one in the program. Where it is not, a run tells.
    behind = dict.fromkeys(readers, -1)
    while True:
        designated = {tensor: reading[behind[tensor]][0] for tensor, reading in readers.items()}
        found = _Simulation(stages, heights, designated, readers)
        if found.run():
            return found.schedule()
        tensor = found.missed
        if tensor is None or -behind[tensor] == len(readers[tensor]):
            return None
        behind[tensor] -= 1


def _readers(stages: Sequence[Stage]) -> dict[RowsName, list[tuple[int, RowWindow]]]:
    """The stages that read each tensor that another stage computes."""
    computed = {stage.y for stage in stages}
    readers: dict[RowsName, list[tuple[int, RowWindow]]] = {}
    for number, stage in enumerate(stages):
        for window in stage.windows:
            if window.tensor in computed:
                readers.setdefault(window.tensor, []).append((number, window))
    return readers


def _storages(stages: Sequence[Stage]) -> dict[RowsName, RowsName]:
    """The tensors in whose buffers others lie, over whose rows they are written."""
    computed = {stage.y for stage in stages}
    storages: dict[RowsName, RowsName] = {}
    for stage in reversed(stages):
        if stage.overwritten in computed and stage.overwritten is not None:
            storages[stage.overwritten] = storages.get(stage.y, stage.y)
    return storages


class _Simulation:
    """A run of the stream in which rows are counted."""

    def __init__(
        self,
        stages: Sequence[Stage],
        heights: Mapping[RowsName, int],
        designated: Mapping[RowsName, int],
        readers: Mapping[RowsName, Sequence[tuple[int, RowWindow]]],
    ) -> None:
        self._stages, self._heights, self._designated, self._readers = stages, heights, designated, readers
        self._producers = {stage.y: number for number, stage in enumerate(stages)}
        self._storages = _storages(stages)
        self._above = {tensor: max(w.above for _, w in reading) for tensor, reading in readers.items()}
        self._base = {tensor: -above for tensor, above in self._above.items()}  # the oldest row that is kept
        self._newest = dict.fromkeys(readers, 0)  # the row behind the newest one
        self._rows = dict(self._above)
        self._done = [0] * len(stages)
        self._image = 0
        self.missed: RowsName | None = None
        self._actions: list[Action] = []
        self._starts: list[set[tuple[int | None, ...]]] = [set() for _ in stages]

    def run(self) -> bool:
        """Whether every row was there when it was needed."""
        last = len(self._stages) - 1
        for image in range(self._stages[last].images):
            if image:
                self._begin(image)
            for _ in range(self._stages[last].calls):
                if not self._call(last):
                    return False
        jumping = {window.tensor for stage in self._stages for window in stage.windows if window.places}
        return all(len(starts) <= 1 for starts in self._starts) and jumping.isdisjoint(self._base)

    def schedule(self) -> Schedule:
        """What the run found."""
        kept = {
            tensor: Kept(
                rows=self._rows[tensor],
                above=self._above[tensor],
                padding=next((w.padding for _, w in reading if w.padding is not None), None),
                reader=self._designated[tensor],
                dropped=next(w.step for number, w in reading if number == self._designated[tensor]),
            )
            for tensor, reading in self._readers.items()
            if tensor not in self._storages
        }
        starts = tuple(next(iter(starts), ()) for starts in self._starts)
        return Schedule(kept, tuple(self._actions), starts, self._storages)

    def _begin(self, image: int) -> None:
        """All is as it was before the first image of a batch, and rows of padding above stand where others stood."""
        self._image, self._done = image, [0] * len(self._stages)
        for tensor, above in self._above.items():
            self._base[tensor], self._newest[tensor] = -above, 0
            self._actions += [Action(None, tensor, 0, row) for row in range(above)]

    def _call(self, number: int) -> bool:
        stage = self._stages[number]
        starts = [window.start(self._done[number]) for window in stage.windows]
        ends = {w.tensor: self._end(number, w, start) for w, start in zip(stage.windows, starts, strict=True)}
        # The branch that reads furthest ahead first: the other one may then drop rows that both of them read.
        for tensor in sorted(ends, key=lambda tensor: -self._reads_ahead(tensor, ends[tensor])):
            if not self._provide(tensor, ends[tensor]):
                return False
        kept = [w.tensor in self._base for w in stage.windows]
        places = [
            start - self._base[w.tensor] if k else start + self._first_row(w.tensor) * (w.step > 0)
            for start, w, k in zip(starts, stage.windows, kept, strict=True)
        ]
        for window, place, is_kept in zip(stage.windows, places, kept, strict=True):
            if place < 0 and is_kept:
                self.missed = window.tensor  # a row that another reader has dropped
                return False
        whole = [place for place, w, k in zip(places, stage.windows, kept, strict=True) if w.step and not k]
        if len(set(whole)) > 1:
            return False  # an action names one row
        first, start = stage.windows[0].tensor, whole[0] if whole else places[0]
        read = zip(stage.windows, kept, strict=True)
        named = [w.step > 0 and (not is_kept if whole else w.tensor == first) for w, is_kept in read]
        self._starts[number].add(tuple(None if n else place for n, place in zip(named, places, strict=True)))
        to = self._next_row(self._storages.get(stage.y, stage.y))
        if to < 0:
            return False
        self._actions.append(Action(number, None, start, to))
        self._done[number] += 1
        if stage.y in self._newest:
            self._add(stage.y, stage.rows)
        for tensor, step in {window.tensor: window.step for window in stage.windows}.items():
            if self._designated.get(tensor) == number:
                self._base[tensor] += step
        return True

    def _next_row(self, tensor: RowsName) -> int:
        """The row of a tensor's buffer that is written next.

        Of one that lies in another's it is the other's: its only reader writes there, before anything else is done.
        """
        if tensor in self._base:
            return self._newest[tensor] - self._base[tensor]
        number = self._producers[tensor]
        return self._first_row(tensor) + self._done[number] * self._stages[number].rows

    def _first_row(self, tensor: RowsName) -> int:
        """That of the image in a tensor that is there as a whole; constants are the same for all."""
        return self._image * self._heights.get(tensor, 0)

    def _end(self, number: int, window: RowWindow, start: int) -> int:
        """The row before which all must be there: what the window reads, and what goes with it unread."""
        end = start + window.rows
        if self._designated.get(window.tensor) != number:
            return end
        return max(end, min(start + window.step, self._heights[window.tensor]))

    def _provide(self, tensor: RowsName, end: int) -> bool:
        """Computes rows of a tensor until those before row ``end`` are there."""
        if tensor not in self._newest:
            return True
        while self._newest[tensor] < end:
            if self._newest[tensor] < self._heights[tensor]:
                if not self._call(self._producers[tensor]):
                    return False
            else:
                to = self._newest[tensor] - self._base[tensor]
                if to >= 0:  # else a stride beyond the window leaves the row out
                    self._actions.append(Action(None, tensor, 0, to))
                self._add(tensor, 1)
        return True

    def _reads_ahead(self, tensor: RowsName, end: int) -> int:
        """The rows of what the stream reads that the rows before ``end`` of a tensor need, rows of padding counted."""
        if tensor not in self._producers:
            return end
        stage, inside = self._stages[self._producers[tensor]], min(end, self._heights[tensor])
        last = -(-inside // stage.rows) - 1
        return end - inside + max(self._reads_ahead(w.tensor, last * w.step - w.above + w.rows) for w in stage.windows)

    def _add(self, tensor: RowsName, rows: int) -> None:
        self._newest[tensor] += rows
        self._rows[tensor] = max(self._rows[tensor], self._newest[tensor] - self._base[tensor])


def dropped_by(found: Schedule, number: int) -> Iterator[tuple[RowsName, Kept]]:
    """The tensors whose oldest rows go after a call of a stage."""
    for tensor, kept in found.kept.items():
        if kept.reader == number:
            yield tensor, kept
