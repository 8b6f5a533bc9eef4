"""A .tflite file, read as hostile input, becomes a Graph; variables that it keeps from call to call become states."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from qcgen.errors import ModelRejected, Problem
from qcgen.ir.graph import Node, Origin, Value
from qcgen.ir.program import State
from qcgen.ir.types import Array, DType
from qcgen.tflite.graph import AGAIN, EXTENDED, OPERATORS, OPTIONS, TYPES, TfliteCodes, TfliteGraph

IDENTIFIER = b"TFL3"
MOST_RANK = 8
MOST_OF_A_KIND = 2**16
"""Tensors, operators and buffers that a model may have of each: no network for a microcontroller comes near it."""


def tflite_bytes(model: object) -> bytes | None:
    """The bytes of a model, given as a path or as bytes, if it is a .tflite file; else None."""
    if isinstance(model, str | os.PathLike):
        try:
            with Path(model).open("rb") as file:
                return file.read() if file.read(8)[4:] == IDENTIFIER and not file.seek(0) else None
        except (OSError, ValueError):
            return None
    return model if isinstance(model, bytes) and model[4:8] == IDENTIFIER else None


def read_tflite(data: bytes, name: str) -> TfliteGraph:
    """The graph of a file's first subgraph. Raises ModelRejected for what is damaged or no network for qcgen."""
    try:
        return _graph(FlatTable.root(data), data, name)
    except DamagedFile as damage:
        raise ModelRejected(
            [Problem("model", f"the file is damaged: {damage}", "download or convert it again")]
        ) from None


def _graph(model: FlatTable, data: bytes, name: str) -> TfliteGraph:
    subgraphs = model.tables(2)
    if (version := model.integer(0, "I")) != 3:
        raise ModelRejected([Problem("model", f"its schema has version {version}, not 3", AGAIN)])
    if not subgraphs:
        raise ModelRejected([Problem("model", "it has no subgraph", AGAIN)])
    graph = _read(model, subgraphs[0], data, name, is_main=True)

    def once(number: int) -> TfliteGraph:
        if not 0 < number < len(subgraphs):
            what = f"it runs subgraph {number} of {len(subgraphs)} once"
            raise ModelRejected([Problem("model", what, AGAIN)])
        return _read(model, subgraphs[number], data, name, is_main=False)

    return _with_states(graph, once)


def _read(model: FlatTable, subgraph: FlatTable, data: bytes, name: str, *, is_main: bool) -> TfliteGraph:
    reader = _Reader(model, subgraph, data)
    graph = reader.graph(name, is_main=is_main)
    if reader.problems:
        raise ModelRejected(reader.problems)
    return graph


class _Reader:
    """The tensors and operators of one subgraph."""

    def __init__(self, model: FlatTable, subgraph: FlatTable, data: bytes) -> None:
        self.problems: list[Problem] = []
        self._data = data
        self._buffers = _few(model.tables(4), "buffers")
        self._operators = [_operator_name(code) for code in _few(model.tables(1), "operator codes")]
        self._subgraph = subgraph
        self._tensors = _few(subgraph.tables(0), "tensors")
        self._names = list(_unique(tensor.text(3) for tensor in self._tensors))

    def graph(self, name: str, *, is_main: bool) -> TfliteGraph:
        """The subgraph as a graph; one that is not the main one need not compute anything."""
        values: dict[str, Value] = {}
        constants: dict[str, Array] = {}
        codes: dict[str, TfliteCodes] = {}
        named = self._named()
        for index, tensor in enumerate(self._tensors):
            called, where = self._names[index], f"tensor {self._names[index]!r}"
            shape = tensor.integers(0)
            dtype = TYPES.get(tensor.integer(1, "b"), DType.OTHER)
            if index not in named:  # of an LSTM there are such, of no elements
                values[called] = Value(called, DType.OTHER, None)
                continue
            if len(shape) > MOST_RANK or any(not 0 < size < 2**31 for size in shape) or prod(shape) >= 2**31:
                what = f"its shape is {'x'.join(map(str, shape[:MOST_RANK]))}"
                self.problems.append(Problem(where, what, "convert the model with shapes that are fixed and not empty"))
                continue
            values[called] = Value(called, dtype, shape)
            if (array := self._elements(tensor, dtype, shape, where)) is not None:
                constants[called] = array
            if (meaning := self._codes(tensor, where)) is not None:
                codes[called] = meaning
        nodes = tuple(self._nodes())
        inputs, outputs = (self._called(self._subgraph.integers(part), "the model") for part in (1, 2))
        self._check_flow(nodes, inputs, outputs, constants)
        if is_main and not (outputs and nodes):
            self.problems.append(Problem("model", "it computes nothing", AGAIN))
        digest = hashlib.sha256(self._data).hexdigest()
        origin = Origin(self._data)
        return TfliteGraph(
            name, nodes, inputs, outputs, values, constants, {"tflite": 3}, digest, origin=origin, codes=codes
        )

    def _named(self) -> set[int]:
        """The tensors that operators read or write, and those of the model."""
        tables = [(table, (1, 2)) for table in (self._subgraph, *self._subgraph.tables(3))]
        return {number for table, parts in tables for part in parts for number in table.integers(part)}

    def _elements(self, tensor: FlatTable, dtype: DType, shape: Sequence[int], where: str) -> Array | None:
        """The elements of a constant; None of a tensor that is computed."""
        number = tensor.integer(2, "I")
        if number >= len(self._buffers):
            what = f"its buffer is number {number} of {len(self._buffers)}"
            self.problems.append(Problem(where, what, AGAIN))
            return None
        buffer = self._buffers[number]
        content = buffer.array(0, "uint8")
        offset, size = buffer.integer(1, "Q"), buffer.integer(2, "Q")
        if offset > 1:  # in files beyond 2 GiB, and in those written for them, behind the flatbuffer
            if offset + size > len(self._data):
                self.problems.append(Problem(where, "its elements lie beyond the end of the file", AGAIN))
                return None
            content = np.frombuffer(self._data, np.uint8, size, offset)
        if not content.size or dtype is DType.OTHER:
            return None
        if content.size != prod(shape) * dtype.bytes:
            what = f"its buffer has {content.size} bytes, its shape and type {prod(shape) * dtype.bytes}"
            self.problems.append(Problem(where, what, AGAIN))
            return None
        return content.view(dtype.numpy.newbyteorder("<")).astype(dtype.numpy).reshape(shape)

    def _codes(self, tensor: FlatTable, where: str) -> TfliteCodes | None:
        given = tensor.table(4)
        if given is None:
            return None
        scales, zero_points, axis = given.array(2, "float32"), given.array(3, "int64"), given.integer(6)
        if not scales.size:
            return None
        zero_points = zero_points if zero_points.size else np.zeros(scales.size, np.int64)
        what = ""
        if not (np.isfinite(scales) & (scales > 0)).all():
            what = "a scale is not positive and finite"
        elif zero_points.size != scales.size or (np.abs(zero_points) >= 2**31).any():
            what = f"it has {scales.size} scales and {zero_points.size} zero points, or one beyond 32 bits"
        if what:
            self.problems.append(Problem(where, what, AGAIN))
            return None
        return TfliteCodes(scales.astype(np.float32), zero_points.astype(np.int64), axis)

    def _nodes(self) -> Iterator[Node]:
        for index, operator in enumerate(_few(self._subgraph.tables(3), "operators")):
            code = operator.integer(0, "I")
            if code >= len(self._operators):
                what = f"its code is number {code} of {len(self._operators)}"
                self.problems.append(Problem(f"operator {index}", what, AGAIN))
                continue
            kind = self._operators[code]
            name = f"{kind}_{index}"
            inputs, outputs = (self._called(operator.integers(part), f"operator {name!r}") for part in (1, 2))
            options = operator.table(4)
            attributes = {
                key: default if options is None else _option(options, at, letter, default)
                for key, (at, letter, default) in OPTIONS.get(kind, {}).items()
            }
            yield Node(name, kind, "", inputs, outputs, attributes)

    def _called(self, numbers: Sequence[int], where: str) -> tuple[str, ...]:
        """The names of tensors by their numbers; "" for one that is left out."""
        wrong = [number for number in numbers if not -1 <= number < len(self._names)]
        if wrong:
            what = f"it names tensor {wrong[0]} of {len(self._names)}"
            self.problems.append(Problem(where, what, AGAIN))
            return ()
        return tuple("" if number < 0 else self._names[number] for number in numbers)

    def _check_flow(
        self, nodes: Sequence[Node], inputs: Sequence[str], outputs: Sequence[str], constants: Mapping[str, Array]
    ) -> None:
        """Every tensor is computed once, before it is read."""
        known = {"", *inputs, *constants}
        kept = {name for name, tensor in zip(self._names, self._tensors, strict=True) if tensor.integer(5, "b")}
        for node in nodes:
            where = f"node {node.name!r}"
            own = [name for name in kept_by(node) if name in kept]
            missing = [name for name in node.inputs if name not in (*known, *own)]
            twice = [name for name in node.outputs if name in known]
            if missing and node.op_type in OPTIONS:
                self.problems.append(
                    Problem(where, f"it reads {missing[0]!r}, which nothing computes before it", AGAIN)
                )
            if twice:
                self.problems.append(Problem(where, f"it computes {twice[0]!r}, which is there already", AGAIN))
            known |= set(node.outputs)
        if absent := [name for name in outputs if name not in known or not name]:
            self.problems.append(Problem(f"output {absent[0]!r}", "nothing computes it", AGAIN))


def _option(options: FlatTable, field: int, kind: str, default: int) -> int | float | str:
    if kind == "s":
        return options.text(field)
    return options.number(field, kind, default) if kind == "f" else options.integer(field, kind, default)


def _few(tables: Sequence[FlatTable], what: str) -> Sequence[FlatTable]:
    if len(tables) > MOST_OF_A_KIND:
        raise ModelRejected(
            [Problem("model", f"it has {len(tables)} {what}", f"give one with {MOST_OF_A_KIND} at most")]
        )
    return tables


def _operator_name(code: FlatTable) -> str:
    older, newer = code.integer(0, "b"), code.integer(3)
    number = newer if older == EXTENDED else max(older, newer)
    if 0 <= number < len(OPERATORS):
        return f"CUSTOM {code.text(1)}" if OPERATORS[number] == "CUSTOM" else OPERATORS[number]
    return f"BUILTIN_{number}"


def _unique(names: Iterator[str]) -> Iterator[str]:
    """A name for every tensor: its own, or its number; of equal ones the later ones get theirs besides."""
    taken: set[str] = set()
    for index, name in enumerate(names):
        called = name or f"tensor_{index}"
        while called in taken:
            called += f"_{index}"
        taken.add(called)
        yield called


# Tables of a flatbuffer, read with every offset and length checked: a model file is hostile input.


class DamagedFile(Exception):
    """A flatbuffer leads beyond its end; the text says what lies there."""


class FileBytes:
    """The bytes of a file, and how many elements of vectors may yet be read.

    Vectors may overlap, so a small file could stand for endless ones; a converter writes few things that are shared.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._left = 4 * len(data) + 2**20

    def number(self, at: int, kind: str) -> int:
        """A number at an offset."""
        size = struct.calcsize(f"<{kind}")
        if not 0 <= at <= len(self.data) - size:
            raise DamagedFile(f"an offset leads to byte {at} of {len(self.data)}")
        [value] = struct.unpack_from(f"<{kind}", self.data, at)
        return value  # type: ignore[no-any-return]  # a float where the letter is f

    def require(self, start: int, count: int, size: int) -> None:
        """That a vector lies within the file, and is not read once more than a file can be."""
        if start + count * size > len(self.data):
            raise DamagedFile(f"a vector of {count} elements leaves the file")
        self._left -= count
        if self._left < 0:
            raise DamagedFile("its vectors overlap")


@dataclass(frozen=True)
class FlatTable:
    """A table at ``position`` of ``file``; fields are numbered in the order in which the schema declares them.

    An absent field is its default, an absent vector or text is empty. Raises DamagedFile for whatever leaves the file.
    """

    file: FileBytes
    position: int

    @classmethod
    def root(cls, data: bytes) -> FlatTable:
        """The table that a file begins with."""
        file = FileBytes(data)
        return cls(file, file.number(0, "I"))

    def number(self, field: int, kind: str, default: float = 0) -> float:
        """A number, ``kind`` being the letter that its type has in Python's struct."""
        at = self.field(field)
        return default if at is None else self.file.number(at, kind)

    def integer(self, field: int, kind: str = "i", default: int = 0) -> int:
        """A number that is an integer."""
        return int(self.number(field, kind, default))

    def table(self, field: int) -> FlatTable | None:
        """Another table."""
        at = self.field(field)
        return None if at is None else FlatTable(self.file, at + self.file.number(at, "I"))

    def tables(self, field: int) -> Sequence[FlatTable]:
        """A vector of tables."""
        start, count = self._vector(field, 4)
        places = range(start, start + 4 * count, 4)
        return [FlatTable(self.file, at + self.file.number(at, "I")) for at in places]

    def array(self, field: int, dtype: str) -> Array:
        """A vector of numbers, ``dtype`` being numpy's name of their type, little-endian."""
        kind = np.dtype(dtype).newbyteorder("<")
        start, count = self._vector(field, kind.itemsize)
        return np.frombuffer(self.file.data, kind, count, start)

    def integers(self, field: int) -> tuple[int, ...]:
        """A vector of int32."""
        return tuple(self.array(field, "int32").tolist())

    def text(self, field: int) -> str:
        """A text; bytes that are not UTF-8 are replaced."""
        return self.array(field, "uint8").tobytes().decode(errors="replace")

    def place(self, field: int) -> int:
        """Where a vector begins with its length."""
        at = self.field(field)
        return 0 if at is None else at + self.file.number(at, "I")

    def _vector(self, field: int, size: int) -> tuple[int, int]:
        """Where the elements of a vector begin, and how many there are."""
        start = self.place(field)
        if not start:
            return 0, 0
        count = self.file.number(start, "I")
        self.file.require(start + 4, count, size)
        return start + 4, count

    def field(self, field: int) -> int | None:
        """Where a field's number or offset lies; None if it is absent."""
        table = self.position - self.file.number(self.position, "i")
        place = 4 + 2 * field
        if place + 2 > self.file.number(table, "H"):
            return None
        offset = self.file.number(table + place, "H")
        return self.position + offset if offset else None


# Variables become pairs of an input and an output: the states of the Program.

VARIABLES = frozenset({"ASSIGN_VARIABLE", "CALL_ONCE", "READ_VARIABLE", "VAR_HANDLE"})
"""Operators that are resolved when a file is read."""

Own: TypeAlias = Literal["memory", "state", "cell"]
"""How an operator's own variable lies in the Program: as in the file; by calls; its int16 codes as bytes."""

KEPT: dict[str, dict[int, Own]] = {
    "SVDF": {4: "memory"},
    "UNIDIRECTIONAL_SEQUENCE_LSTM": {18: "state", 19: "cell"},
}
"""Inputs of operators that are variables of their own: what a call leaves there, the next one reads."""


def kept_by(node: Node) -> dict[str, Own]:
    """The variables that an operator keeps itself, in the order of its outputs behind the first."""
    own = KEPT.get(node.op_type, {})
    return {node.inputs[index]: kind for index, kind in own.items() if index < len(node.inputs)}


def _with_states(graph: TfliteGraph, once: Callable[[int], TfliteGraph]) -> TfliteGraph:
    """The graph whose variables are states; ``once`` reads the subgraph of a CALL_ONCE, by its number.

    What is read first becomes an input, what is assigned last an output. A variable that is read only is a constant.
    Operators that keep variables themselves get an output for each, behind their own.
    Raises ModelRejected for variables whose values do not fit them.
    """
    if VARIABLES.union(KEPT).isdisjoint(node.op_type for node in graph.nodes):
        return graph
    walk = _Walk(graph)
    for node in graph.nodes:
        walk.pass_by(node, once)
    if walk.problems:
        raise ModelRejected(walk.problems)
    return walk.result()


@dataclass
class _Walk:
    """One walk through the nodes: who holds what."""

    graph: TfliteGraph
    problems: list[Problem] = field(default_factory=list)
    handles: dict[str, tuple[str, str]] = field(default_factory=dict)  # the variables, by the tensors that name them
    initial: dict[tuple[str, str], Array] = field(default_factory=dict)
    held: dict[tuple[str, str], str] = field(default_factory=dict)  # the tensor that a variable holds now
    read: dict[tuple[str, str], str] = field(default_factory=dict)  # what the first reading of it gives
    own: dict[str, str] = field(default_factory=dict)  # what operators keep themselves, and what becomes of it
    nodes: list[Node] = field(default_factory=list)

    def pass_by(self, node: Node, once: Callable[[int], TfliteGraph]) -> None:
        """Notes what a node does to variables; other nodes stay."""
        match node.op_type, node.inputs, node.outputs:
            case "VAR_HANDLE", _, (handle,):
                self.handles[handle] = _key(node)
            case "CALL_ONCE", _, _:
                self._initialize(node, once)
            case "READ_VARIABLE", (handle,), (name,) if handle in self.handles:
                self._read(node, self.handles[handle], name)
            case "ASSIGN_VARIABLE", (handle, name), () if handle in self.handles:
                self.held[self.handles[handle]] = name
            case kind, _, _ if kind in VARIABLES:
                self._refuse(node, "its tensors are not a variable and its value")
            case _:
                self.nodes.append(self._with_own(node))

    def _with_own(self, node: Node) -> Node:
        """A node with an output for each variable that it keeps itself."""
        outputs = list(node.outputs)
        for name in kept_by(node):
            if name in self.own or name in self.graph.constants or not name:
                self._refuse(node, f"the variable {name!r} that it keeps is not its own")
                continue
            self.own[name] = self.graph.unused(f"{name}.kept")
            self.graph = _in_program(self.graph, node, name)
            outputs.append(self.own[name])
        return replace(node, outputs=tuple(outputs))

    def _read(self, node: Node, key: tuple[str, str], name: str) -> None:
        if key in self.held:
            self.nodes.append(replace(node, inputs=(self.held[key],)))
        else:
            self.held[key] = self.read[key] = name

    def _initialize(self, node: Node, once: Callable[[int], TfliteGraph]) -> None:
        number = node.attributes["subgraph"]
        assert isinstance(number, int), "the reader gives a number"
        if self.held:
            self._refuse(node, "it stands behind an operator that reads or assigns a variable")
            return
        part, handles = once(number), dict[str, tuple[str, str]]()
        for each in part.nodes:
            match each.op_type, each.inputs, each.outputs:
                case "VAR_HANDLE", _, (handle,):
                    handles[handle] = _key(each)
                case "ASSIGN_VARIABLE", (handle, name), () if handle in handles and name in part.constants:
                    self.initial[handles[handle]] = part.constants[name]
                case _:
                    self._refuse(node, f"it runs {each.name}: only constants are assigned to variables there")

    def _refuse(self, node: Node, what: str) -> None:
        self.problems.append(Problem(f"node {node.name!r}", what, AGAIN))

    def result(self) -> TfliteGraph:
        """The graph without variables."""
        graph = replace(self.graph, nodes=tuple(self.nodes))
        problems = []
        for key, name in self.read.items():
            value, held = graph.value(name), graph.value(self.held[key])
            initial = None if value.dtype in (None, DType.OTHER) else self._initial_of(key, name)
            if (value.dtype, value.shape) != (held.dtype, held.shape) or initial is None:
                what = f"variable {key[1]!r} has not the shape and type of {name!r} everywhere"
                problems.append(Problem(f"tensor {name!r}", what, AGAIN))
            elif self.held[key] == name:
                unchanged = (*graph.unchanged, name)
                graph = replace(graph, constants={**graph.constants, name: initial}, unchanged=unchanged)
            else:
                graph = _with_state(graph, name, self.held[key], initial)
        for name, kept in self.own.items():
            value, codes = graph.value(name), graph.codes
            codes = {**codes, kept: codes[name]} if name in codes else codes
            graph = replace(graph, values={**graph.values, kept: replace(value, name=kept)}, codes=codes)
            if value.dtype not in (None, DType.OTHER):
                graph = _with_state(graph, name, kept, _filled(value, graph.codes.get(name)))
        if problems:
            raise ModelRejected(problems)
        return graph

    def _initial_of(self, key: tuple[str, str], name: str) -> Array | None:
        """What a variable holds before the first call, in its shape; None if that is something else.

        TensorFlow Lite Micro fills those that nothing initializes with the zero point of what is assigned to them.
        """
        value, by = self.graph.value(name), self.graph.codes.get(self.held[key])
        assert value.dtype is not None, "a tensor that was read has a type"
        shape, dtype = value.fixed_shape or (), value.dtype.numpy
        if key in self.initial:
            array = self.initial[key]
            return array.reshape(shape) if (array.dtype, array.size) == (dtype, prod(shape)) else None
        return _filled(value, by)


def _in_program(graph: TfliteGraph, node: Node, name: str) -> TfliteGraph:
    """The graph with an operator's own variable as the Program has it; where its shape does not fit, as it is.

    The memory of an SVDF, (N, F * M), becomes (N, M, F): a call's results side by side. The cell of an LSTM, (N, H) of
    int16, becomes (N, 2 * H) of int8: its bytes.
    """
    value = graph.value(name)
    shape, time = value.fixed_shape or (), graph.value(node.inputs[2]).fixed_shape or ()
    match kept_by(node)[name]:
        case "memory" if len(shape) == 2 and len(time) == 2 and shape[1] == prod(time):
            value = replace(value, shape=(shape[0], time[1], time[0]))
        case "cell" if len(shape) == 2 and value.dtype is DType.INT16:
            value = replace(value, shape=(shape[0], 2 * shape[1]), dtype=DType.INT8)
    return replace(graph, values={**graph.values, name: value})


def in_file(array: Array, kind: Own) -> Array:
    """An operator's own variable as the file has it."""
    if kind == "memory":
        return array.transpose(0, 2, 1).reshape(len(array), -1)
    return np.ascontiguousarray(array).view("<i2").astype(np.int16) if kind == "cell" else array


def in_program(array: Array, kind: Own, shape: Sequence[int]) -> Array:
    """The other way round."""
    if kind == "memory":
        batch, calls, filters = shape
        return array.reshape(batch, filters, calls).transpose(0, 2, 1)
    return (array.astype("<i2").view(np.int8) if kind == "cell" else array).reshape(shape)


def _filled(value: Value, by: TfliteCodes | None) -> Array:
    """The zero point of int8 codes in the shape of a variable; zeros of other types.

    Source: ResetVariableTensor in micro/micro_allocator.cc.
    """
    assert value.dtype is not None, "a tensor that was read has a type"
    dtype = value.dtype.numpy
    code = int(by.zero_points[0]) if by is not None and dtype == np.int8 else 0
    return np.full(value.fixed_shape or (), code if -128 <= code < 128 else 0, dtype)


def _key(node: Node) -> tuple[str, str]:
    """What tells a variable from others: its container and its name."""
    container, name = node.attributes["container"], node.attributes["shared_name"]
    return str(container or ""), str(name or "")


def _with_state(graph: TfliteGraph, read: str, held: str, initial: Array) -> TfliteGraph:
    """The graph with one more state; what is not computed, or is an output already, is copied first."""
    if held in graph.outputs or held in graph.inputs or held in graph.constants:
        name = graph.unused(f"{held}.kept")
        values = {**graph.values, name: replace(graph.value(held), name=name)}
        codes = graph.codes if held not in graph.codes else {**graph.codes, name: graph.codes[held]}
        copy = Node(f"ASSIGN_VARIABLE of {read}", "ASSIGN_VARIABLE", "", (held,), (name,), {})
        graph, held = replace(graph, values=values, codes=codes, nodes=(*graph.nodes, copy)), name
    return replace(
        graph,
        inputs=(*graph.inputs, read),
        outputs=(*graph.outputs, held),
        states=(*graph.states, State(read, held, initial)),
    )
