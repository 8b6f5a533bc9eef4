"""Variables that a .tflite network keeps from call to call become pairs of an input and an output: its states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Literal, TypeAlias

import numpy as np

from qcgen.errors import ModelRejected, Problem
from qcgen.ir.graph import Node, Value
from qcgen.ir.program import State
from qcgen.ir.types import Array, DType
from qcgen.tflite.graph import AGAIN, TfliteCodes, TfliteGraph

VARIABLES = frozenset({"ASSIGN_VARIABLE", "CALL_ONCE", "READ_VARIABLE", "VAR_HANDLE"})
"""Operators that are resolved here."""

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


def with_states(graph: TfliteGraph, once: Callable[[int], TfliteGraph]) -> TfliteGraph:
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
