"""A plan carried out on tags instead of numbers: every byte of memory says which byte of which tensor it holds.

It shares no code with the planner: what a call reads follows from the operator's geometry, what it finds from the
places, moves and turns of the plan. A byte that holds something else than what is read is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from qcgen.ir.plan import Argument, Call, InArena, Plan, Port, RowsAt, Stream, TensorMove, Turn, View
from qcgen.ir.program import (
    AveragePool,
    Concat,
    Conv,
    Extremes,
    GlobalAveragePool,
    MaxPool,
    Operator,
    Resize,
    Tensor,
    inputs_of,
)
from qcgen.ir.types import Layout
from qcgen.plan.stream.stages import images_of

NOTHING, PADDING = -1, -2
SUMS = -3  # of no rows; of n rows n below
SIZE = 1 << 32  # more than any tensor has: byte i of tensor n is n * SIZE + i


@dataclass
class Interpreter:
    """``memory`` by name, "" for the arena; ``numbers`` of tensors, those of views by the tensors they are views of."""

    plan: Plan
    memory: dict[str, np.ndarray] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        """Carries the plan out; fails at the first byte that is read and holds something else."""
        self.memory[""] = np.full(self.plan.arena_bytes, NOTHING)
        for port in self.plan.ports:
            if port.offset is None:  # of an input that comes in rows all are here, and a turn gets one of them
                self.memory[port.symbol] = np.full(port.tensor.size * port.tensor.dtype.bytes, NOTHING)
        for port in self.plan.inputs:
            self.at(port)[:] = self.whole(port.tensor)
        for port in self.plan.inputs:
            self.expect(self.at(port), self.whole(port.tensor), f"input {port.symbol}")
        for step in self.plan.steps:
            match step:
                case View():
                    self.view(step)
                case Call():
                    self.call(step)
                case TensorMove():
                    self.move(step)
                case Stream():
                    self.stream(step)
        for port in self.plan.outputs:
            self.expect(self.at(port), self.whole(port.tensor), f"output {port.symbol}")

    def at(self, port: Port) -> np.ndarray:
        """The bytes of an input or output, in the arena or in memory of its own."""
        if port.offset is None:
            return self.memory[port.symbol]
        return self.memory[""][port.offset : port.offset + port.tensor.size * port.tensor.dtype.bytes]

    def move(self, step: TensorMove) -> None:
        """The tensor is there, and goes where it is read."""
        arena = self.memory[""]
        found = arena[step.source.offset : step.source.offset + step.bytes].copy()
        self.expect(found, self.whole(step.tensor), f"move of {step.tensor.name}")
        arena[step.place.offset : step.place.offset + step.bytes] = found

    def view(self, step: View) -> None:
        """The parts of a Concat that were computed in place are now the whole."""
        xs = inputs_of(step.op)
        if not isinstance(step.op, Concat):
            self.sources[step.op.y.name] = self.sources.get(xs[0].name, xs[0].name)
            return
        parts, whole = np.concatenate([self.whole(x) for x in xs]), self.whole(step.op.y)
        for memory in self.memory.values():
            for start in np.flatnonzero(memory == parts[0]):
                if np.array_equal(memory[start : start + parts.size], parts):
                    memory[start : start + parts.size] = whole

    def whole(self, tensor: Tensor) -> np.ndarray:
        """The tags of a tensor that lies in memory as a whole."""
        name = self.sources.get(tensor.name, tensor.name)
        return self.numbers.setdefault(name, len(self.numbers)) * SIZE + np.arange(tensor.size * tensor.dtype.bytes)

    def place(self, where: InArena | Argument) -> tuple[np.ndarray, int]:
        """A memory, and the offset in it."""
        return self.memory[where.symbol if isinstance(where, Argument) else ""], where.offset

    def expect(self, found: np.ndarray, wanted: np.ndarray, what: str) -> None:
        """Fails where bytes are not those that are wanted."""
        wrong = np.flatnonzero(found != wanted)
        if wrong.size:
            first = wrong[0]
            raise AssertionError(f"{what}: byte {first} of {wanted.size} holds {found[first]}, not {wanted[first]}")

    def call(self, call: Call) -> None:
        """All inputs are whole before; then the output is. Over its input it is written step by step."""
        tensors = [x for x in inputs_of(call.op) if x.name not in self.constants]
        for x, where in zip(tensors, call.arguments, strict=False):
            memory, offset = self.place(where)
            self.expect(
                memory[offset : offset + x.size * x.dtype.bytes], self.whole(x), f"{call.symbol} reads {x.name}"
            )
        memory, offset = self.place(call.arguments[len(tensors)])
        written = self.whole(call.op.y)
        if call.overlap is None:
            memory[offset : offset + written.size] = written
        else:
            self.overlapped(call, memory, offset, written)

    @property
    def constants(self) -> set[str]:
        """Inputs of operators that no step computes and no caller passes."""
        ops = [step.op for step in self.plan.steps if not isinstance(step, TensorMove | Stream)]
        ops += [call.op for call in self.plan.calls]
        known = {op.y.name for op in ops} | {port.tensor.name for port in self.plan.inputs}
        return {x.name for op in ops for x in inputs_of(op)} - known

    def overlapped(self, call: Call, memory: np.ndarray, offset: int, written: np.ndarray) -> None:
        """Each step writes up to where the kernel says; what later steps read must still be there."""
        x, order, done = inputs_of(call.op)[0], call.access, 0
        assert order is not None
        _, source = self.place(call.arguments[0])
        tags = self.whole(x)
        for unit in range(order.units):
            end = max(done, int(order.writes[unit]))
            memory[offset + done : offset + end] = written[done:end]
            done = end
            lowest = int(order.reads[unit + 1 if order.gathers else unit :].min(initial=tags.size))
            found = memory[source + lowest : source + tags.size] if lowest < tags.size else tags[:0]
            self.expect(found, tags[lowest : lowest + found.size], f"{call.symbol} reads on behind step {unit}")
        assert done == written.size, f"{call.symbol} writes {done} of {written.size} bytes"

    def stream(self, stream: Stream) -> None:
        """The turns of a stream, in its order; where it runs twice, the first time with another last turn."""
        if stream.first_pass is not None:
            nothing = stream.first_pass.nothing
            self.write(nothing.at, 0, np.full(nothing.bytes, SUMS))
            self.one_pass(stream, (*stream.turns[:-1], stream.first_pass.turn))
            for call in stream.first_pass.calls:
                self.call(call)
        self.one_pass(stream, stream.turns)

    def one_pass(self, stream: Stream, turns: tuple[Turn, ...]) -> None:
        """All of its turns once."""
        for fill in stream.above:
            is_padding = any(fill.at.place == at.place for turn in stream.turns for at in turn.rows)
            self.write(fill.at, 0, np.full(fill.bytes, PADDING if is_padding else SUMS))
        entries = stream.order.values.tolist()
        calls = {number: sum(entry[0] == number for entry in entries) for number in range(len(turns))}
        done = [0] * len(turns)
        for number, start, to in entries:
            if number >= len(turns):
                fill = stream.below[number - len(turns)]
                self.write(fill.at, to, np.full(fill.bytes, PADDING))
                continue
            turn = turns[number]
            if turn.call is None:
                source = turn.rows[0] if stream.turn is None else replace(turn.rows[0], row=done[number])
                self.write(turn.rows[1], to, self.read(source, start, turn.row_bytes).copy())
                if stream.turn is not None:
                    self.keep(stream.turn)
            else:
                self.turn(turn, turn.call, (start, to), done[number], calls[number])
            for move in turn.moves:
                memory, front = self.place(move.front)
                _, kept = self.place(move.kept)
                memory[front : front + move.bytes] = memory[kept : kept + move.bytes].copy()
            done[number] += 1

    def keep(self, turn: InArena) -> None:
        """The number of the next turn is written while rows are awaited, over nothing that is needed."""
        self.memory[""][turn.offset : turn.offset + 4] = NOTHING

    def turn(self, turn: Turn, call: Call, entry: tuple[int, int], done: int, calls: int) -> None:
        """One of ``calls`` calls: the rows of its windows must be there, rows outside the image as padding."""
        start, to = entry
        out, op = turn.rows[-1], call.op
        if isinstance(op, GlobalAveragePool):
            self.add_rows(turn, call, start, done, calls)
            return
        if isinstance(op, Extremes):
            self.gather(turn, call, start, done, calls)
            return
        rows = op.y.size * op.y.dtype.bytes // out.row_bytes // calls
        image, first = divmod(done * rows, calls * rows // images_of(op.y))
        read = [x for x in inputs_of(op) if x.name not in self.constants]
        places = [at for at in turn.rows[:-1] if not isinstance(at.place, Argument) or at.place.symbol in self.memory]
        for x, at in zip(read, places, strict=True):  # the others are tables
            tags = self.whole(x).reshape(-1, at.row_bytes)
            if len(tags) == 1:
                self.expect(self.read(at, 0, tags.size), tags[0], f"{call.symbol}, call {done}, reads {x.name}")
                continue
            tags = np.split(tags, images_of(op.y))[image]
            needed = window(op, first, rows)
            outside = np.full(at.row_bytes, PADDING)
            wanted = np.concatenate([tags[row] if 0 <= row < len(tags) else outside for row in needed])
            found = self.read(at, to if at.row == "to" else start, wanted.size)
            self.expect(found, wanted, f"{call.symbol}, call {done}, reads {x.name} from row {needed[0]} on")
        begin = done * rows * out.row_bytes
        written = self.whole(op.y)[begin : begin + rows * out.row_bytes]
        if call.overlap is None:
            self.write(out, to, written)
        else:
            self.over_rows(
                call, wanted, self.read(turn.rows[0], start, wanted.size), self.read(out, to, written.size), written
            )

    def add_rows(self, turn: Turn, call: Call, start: int, done: int, calls: int) -> None:
        """A row that is there is added to sums of all rows before; the last call writes the output."""
        [x], at = inputs_of(call.op), turn.rows[0]
        row = self.whole(x).reshape(-1, at.row_bytes)[done]
        self.expect(self.read(at, start, row.size), row, f"{call.symbol}, call {done}, reads {x.name}")
        memory, offset = self.place(call.arguments[-1])
        size = 4 * (x.size // call.op.pixels * call.op.sums + 1)
        self.expect(memory[offset : offset + size], np.full(size, SUMS - done), f"{call.symbol}, call {done}, sums")
        memory[offset : offset + size] = SUMS - done - 1
        assert len(self.whole(x)) == calls * at.row_bytes, f"{call.symbol} misses rows"
        if done == calls - 1:
            self.write(turn.rows[-1], 0, self.whole(call.op.y))

    def gather(self, turn: Turn, call: Call, start: int, done: int, calls: int) -> None:
        """Rows that are there change what all rows before have made of the output; the last call leaves that."""
        [x], [at, out] = inputs_of(call.op), turn.rows
        rows = np.split(self.whole(x), calls)
        self.expect(self.read(at, start, rows[done].size), rows[done], f"{call.symbol}, call {done}, reads {x.name}")
        y = self.whole(call.op.y)
        before = self.read(out, 0, y.size)
        self.expect(before, np.full(y.size, SUMS - done), f"{call.symbol}, call {done}, what it adds to")
        self.write(out, 0, y if done == calls - 1 else before - 1)

    def over_rows(self, call: Call, wanted: np.ndarray, x: np.ndarray, y: np.ndarray, written: np.ndarray) -> None:
        """Each step writes up to where the kernel says; what later steps read of the rows must still be there."""
        order, done = call.access, 0
        assert order is not None
        for unit in range(order.units):
            end = max(done, int(order.writes[unit]))
            y[done:end] = written[done:end]
            done = end
            lowest = int(order.reads[unit + 1 if order.gathers else unit :].min(initial=x.size))
            self.expect(x[lowest:], wanted[lowest:], f"{call.symbol} reads on behind step {unit}")
        assert done == written.size, f"{call.symbol} writes {done} of {written.size} bytes"

    def read(self, at: RowsAt, row: int, size: int) -> np.ndarray:
        """The bytes of a row, or of several."""
        memory, offset = self.place(at.place)
        offset += (at.row if isinstance(at.row, int) else row) * at.row_bytes
        assert 0 <= offset <= memory.size - size, "a row outside its memory"
        return memory[offset : offset + size]

    def write(self, at: RowsAt, row: int, tags: np.ndarray) -> None:
        """The same bytes, written."""
        self.read(at, row, tags.size)[:] = tags


def window(op: Operator, first: int, count: int) -> range:
    """The rows that ``count`` rows of outputs from ``first`` on read; some may lie outside the image."""
    if isinstance(op, Resize):
        places = op.places[1 if op.x.layout is Layout.CHANNELS_LAST else 2]
        return range(places[first], places[first + count - 1] + 1)
    if not isinstance(op, Conv | MaxPool | AveragePool):
        return range(first, first + count)
    g = op.geometry
    begin = first * g.strides[0] - g.pads_begin[0]
    return range(begin, begin + (count - 1) * g.strides[0] + (g.kernel[0] - 1) * g.dilations[0] + 1)
