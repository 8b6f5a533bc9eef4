"""A .tflite file, read as hostile input, becomes a Graph with what the codes of its tensors mean."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from qcgen.errors import ModelRejected, Problem
from qcgen.ir.graph import Node, Origin, Value
from qcgen.ir.types import Array, DType
from qcgen.tflite.graph import AGAIN, EXTENDED, OPERATORS, OPTIONS, TYPES, TfliteCodes, TfliteGraph
from qcgen.tflite.variables import kept_by, with_states

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

    return with_states(graph, once)


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
