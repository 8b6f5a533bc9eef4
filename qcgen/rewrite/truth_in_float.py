"""Truth values become the float32 numbers 1 and 0: only inputs and outputs of the model stay bool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from qcgen.infer import RULES
from qcgen.infer.select import COMPARISONS, SELECT
from qcgen.ir.element_types import element_type, number_of
from qcgen.ir.graph import Attribute, Graph, Node
from qcgen.ir.types import Array, DType
from qcgen.rewrite.wiring import Wiring

EXACT = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16)
"""Integers that float32 holds, so that they compare as their numbers do."""

INPUTS = {"Cast": 1, "Not": 1, "Where": 3, **dict.fromkeys(("And", "Or", "Xor", *COMPARISONS), 2)}
"""The number of inputs of a well-formed node; check reports the others."""

JOINED = {"And": "Mul", "Or": "Max"}
"""The operator of the numbers 0 and 1, by that of truth values."""


def truth_in_float(graph: Graph) -> Graph:
    """The graph in which comparisons give 1 and 0, and what reads these reads numbers.

    A bool input is converted once, and so is an output. Nodes of other types stay, and check refuses them.
    """
    if not any(graph.dtype(name) is DType.BOOL for node in graph.nodes for name in (*node.inputs, *node.outputs)):
        return graph
    return _Numbers(graph).changed()


class _Numbers:
    """By the name of a bool tensor, ``number`` is the float32 tensor that stands for it, ``made`` its comparison."""

    def __init__(self, graph: Graph) -> None:
        self._graph, self._wiring = graph, Wiring(graph)
        self._nodes: list[Node] = []
        self._constants: dict[str, Array] = {}
        self._number: dict[str, str] = {}
        self._truth: dict[str, str] = {}
        self._made: dict[str, Node] = {}

    def changed(self) -> Graph:
        """The graph with all changes."""
        for node in self._graph.nodes:
            self._nodes += self._forms(node) or [node]
        for name in self._graph.outputs:
            if name in self._number and name not in (*self._graph.inputs, *self._graph.constants):
                self._nodes.append(self._cast(self._number[name], DType.BOOL, name))
        graph = self._graph
        return replace(graph, nodes=tuple(self._nodes), constants={**graph.constants, **self._constants})

    def _forms(self, node: Node) -> list[Node]:
        """The nodes that take a node's place; none if it stays."""
        is_bool = [name and self._graph.dtype(name) is DType.BOOL for name in (*node.inputs, *node.outputs[:1])]
        if node.domain or not any(is_bool) or not node.outputs or not node.outputs[0]:
            return []
        if node.op_type in INPUTS and (not all(node.inputs) or len(node.inputs) != INPUTS[node.op_type]):
            return []
        match node.op_type:
            case "Cast":
                return self._cast_of(node)
            case "Where":
                return self._choice(node)
            case "And" | "Or" if all(is_bool):
                inputs = [self._read(name) for name in node.inputs]
                return [replace(node, op_type=JOINED[node.op_type], inputs=tuple(inputs), outputs=(self._write(node),))]
            case "Not" | "Xor" if all(is_bool):
                a, b = [self._read(name) for name in node.inputs] + ([] if node.inputs[1:] else [self._one])
                return [self._select(node, "equal", (a, b, self._zero, self._one), self._write(node))]
            case "Equal" if all(is_bool):
                a, b = (self._read(name) for name in node.inputs)
                return [self._select(node, "equal", (a, b, self._one, self._zero), self._write(node))]
            case _ if node.op_type in COMPARISONS:
                return self._comparison(node)
            case _ if ("", node.op_type) in RULES and is_bool[0] and is_bool[-1]:
                read = (
                    self._read(name) if name and self._graph.dtype(name) is DType.BOOL else name for name in node.inputs
                )
                written = tuple(self._write(node, index) for index in range(len(node.outputs)))
                return [replace(node, inputs=tuple(read), outputs=written)]
        return []

    def _comparison(self, node: Node) -> list[Node]:
        """1 where two numbers compare so, else 0; integers that float32 holds are converted before."""
        types, inputs, casts = [self._graph.dtype(name) for name in node.inputs], [], []
        if any(dtype not in (*EXACT, DType.FLOAT32) for dtype in types):
            return []
        for name, dtype in zip(node.inputs, types, strict=True):
            if dtype is not DType.FLOAT32:
                casts.append(self._cast(name, DType.FLOAT32, self._fresh(f"{name} as a number")))
                name = casts[-1].outputs[0]
            inputs.append(name)
        self._made[node.outputs[0]] = replace(node, inputs=tuple(inputs))
        one_or_zero = (*inputs, self._one, self._zero)
        return [*casts, self._select(node, COMPARISONS[node.op_type], one_or_zero, self._write(node))]

    def _choice(self, node: Node) -> list[Node]:
        """Where of float32 numbers by a comparison of others, or by numbers that are 0 or not."""
        if any(self._graph.dtype(name) is not DType.FLOAT32 for name in node.inputs[1:]):
            return []
        condition, *chosen = node.inputs
        maker, is_negated = self._wiring.producers.get(condition), False
        if maker is not None and (maker.domain, maker.op_type) == ("", "Not"):
            condition, is_negated = maker.inputs[0], True
        made = self._made.get(condition)
        if made is not None:
            kind, compared = COMPARISONS[made.op_type], made.inputs
        else:
            kind, compared = "greater", (self._read(condition), self._zero)
        return [self._select(node, kind, (*compared, *chosen), node.outputs[0], is_negated)]

    def _cast_of(self, node: Node) -> list[Node]:
        """A Cast to bool compares with 0; one from bool converts 0 and 1."""
        x, to = node.inputs[0], node.attributes.get("to")
        dtype = element_type(to) if isinstance(to, int) else None
        if self._graph.dtype(x) is DType.BOOL:
            return [] if dtype is None else [replace(node, inputs=(self._read(x),))]
        casts = []
        if self._graph.dtype(x) is not DType.FLOAT32:
            casts.append(self._cast(x, DType.FLOAT32, self._fresh(f"{x} as a number")))
            x = casts[0].outputs[0]
        return [*casts, self._select(node, "equal", (x, self._zero, self._zero, self._one), self._write(node))]

    def _select(self, node: Node, kind: str, inputs: tuple[str, ...], y: str, is_negated: bool = False) -> Node:
        domain, op_type = SELECT
        own: Mapping[str, Attribute] = {"comparison": kind, "negated": int(is_negated)}
        return Node(node.name, op_type, domain, inputs, (y,), own, in_float=node.in_float)

    def _read(self, name: str) -> str:
        """The numbers of a bool tensor; a constant's and an input's are made where they are first read."""
        if name not in self._number:
            number = self._number[name] = self._fresh(f"{name} as a number")
            if name in self._graph.constants:
                self._constants[number] = self._graph.constants[name].astype(np.float32)
            else:
                self._nodes.append(self._cast(name, DType.FLOAT32, number))
        return self._number[name]

    def _write(self, node: Node, index: int = 0) -> str:
        name = node.outputs[index]
        self._number[name] = self._fresh(f"{name} as a number")
        return self._number[name]

    @property
    def _one(self) -> str:
        return self._constant("true", 1)

    @property
    def _zero(self) -> str:
        return self._constant("false", 0)

    def _constant(self, role: str, value: float) -> str:
        if role not in self._truth:
            self._truth[role] = self._fresh(role)
            self._constants[self._truth[role]] = np.asarray(value, np.float32)
        return self._truth[role]

    def _cast(self, x: str, to: DType, y: str) -> Node:
        return Node(self._fresh(f"{x} to {to.value}"), "Cast", "", (x,), (y,), {"to": number_of(to)})

    def _fresh(self, base: str) -> str:
        name = self._wiring.fresh(base)
        self._wiring.readers[name] = ()
        return name
