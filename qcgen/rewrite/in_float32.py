"""What a model computes in float16 is computed in float32, as onnxruntime does, and rounded where it does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qcgen.infer import RULES
from qcgen.ir.graph import Graph, Node, element_type, fresh, number_of
from qcgen.ir.types import Array, DType

IN_FLOAT16 = frozenset(
    """Clip Concat Expand Flatten Gather Identity LayerNormalization Max Min Reshape Round Sign Slice Split Squeeze
    Transpose Unsqueeze""".split()
)
"""Operators of ai.onnx that onnxruntime 1.32.0 computes in float16 on x86-64, unless only others are around them."""

CODED = frozenset(("DequantizeLinear", "QuantizeLinear"))
"""Operators between which numbers stand for codes."""


def in_float32(graph: Graph) -> Graph:
    """The graph without tensors of float16 but at its boundary and between the two Casts that round a tensor.

    Numbers between operators that are computed in float32 are not rounded, also not by a Cast to float16 before one or
    from float16 behind one. Source: InsertCastTransformer and RemoveDuplicateCastTransformer of 1.32.0, on x86-64.

    Where codes are quantized from or dequantized to float16, no number is rounded to it, so that integers take the
    place of all of these; onnxruntime computes such nodes in float, and rounds some of them.
    """
    has_halves = any(graph.dtype(name) is DType.FLOAT16 for name in (*graph.values, *graph.constants))
    return _Rounding(graph).changed() if has_halves else graph


class _Rounding:
    """``single`` and ``rounded``: by the name of each float16 tensor, that of its numbers in float32, if it has one.

    ``halves`` are the float16 tensors that are there, ``exact`` those whose numbers in float32 are already rounded.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._nodes: list[Node] = []
        self._constants: dict[str, Array] = {}
        self._single: dict[str, str] = {}
        self._rounded: dict[str, str] = {}
        self._halves = set(graph.inputs)
        self._exact: set[str] = set()
        self._is_coded = any(node.op_type in CODED and self._touches(node) for node in graph.nodes)
        self._taken = {*graph.values, *graph.constants, *(node.name for node in graph.nodes)}

    def changed(self) -> Graph:
        """The graph with all changes."""
        for node in self._graph.nodes:
            if not self._touches(node):
                self._nodes.append(node)
            elif node.is_a("Cast") and node.input(0) and node.outputs:
                self._cast(node)
            elif node.is_a("Cast") or not self._is_known(node):
                for name in node.inputs:
                    self._half(name)
                self._nodes.append(node)
                self._halves.update(node.outputs)
            else:
                self._compute(node)
        for name in self._graph.outputs:
            self._half(name)
        graph = self._graph
        return replace(graph, nodes=tuple(self._nodes), constants={**graph.constants, **self._constants})

    def _is_half(self, name: str) -> bool:
        return self._graph.dtype(name) is DType.FLOAT16

    def _touches(self, node: Node) -> bool:
        return any(self._is_half(name) for name in (*node.inputs, *node.outputs))

    def _is_known(self, node: Node) -> bool:
        is_quantized = node.op_type.startswith(("QGemm", "QLinear")) and node.op_type != "QLinearMatMul"
        return (node.domain, node.op_type) in RULES and not is_quantized  # whose scales are float32

    def _is_single(self, node: Node | None) -> bool:
        """Whether a node is computed in float32 wherever it stands."""
        if node is None or node.is_a("Cast") or not self._is_known(node):
            return False
        return self._is_coded or bool(node.domain) or node.op_type not in IN_FLOAT16

    def _is_alone(self, node: Node) -> bool:
        """Whether all nodes right before and behind a node are computed in float32, so that it is, too."""
        before = [name for name in node.inputs if self._is_half(name) and name not in self._graph.constants]
        behind = [reader for name in node.outputs for reader in self._graph.readers.get(name, ())]
        makers = [self._graph.producers.get(name) for name in before]
        is_read = behind and not set(node.outputs) & set(self._graph.outputs)
        return bool(makers and is_read) and all(self._is_single(each) for each in (*makers, *behind))

    def _cast(self, node: Node) -> None:
        """A Cast that the model has: to float16, which rounds unless float32 is computed with, or from it."""
        x, y = node.inputs[0], node.outputs[0]
        if self._is_half(x):
            maker = self._graph.producers.get(x)
            is_single = element_type(node.integer("to", 0)) is not DType.FLOAT16 and self._is_computed(maker)
            self._nodes.append(replace(node, inputs=(self._single[x] if is_single else self._half(x),)))
            return
        self._nodes.append(node)
        self._halves.add(y)
        if self._graph.value(x).dtype is DType.FLOAT32:
            self._single[y] = x

    def _is_computed(self, node: Node | None) -> bool:
        return node is not None and (self._is_single(node) or (self._is_known(node) and self._is_alone(node)))

    def _compute(self, node: Node) -> None:
        """A node of float32 tensors; what it reads is rounded before, and what it writes behind, if it is float16's."""
        is_single = self._is_single(node) or self._is_alone(node)
        read = [self._number(name, is_single) if self._is_half(name) else name for name in node.inputs]
        written = []
        for name in node.outputs:
            if self._is_half(name):
                written.append(self._fresh(f"{name} in float32"))
                self._single[name] = written[-1]
                if not is_single and node.op_type != "LayerNormalization":  # which is the only one that rounds
                    self._exact.add(name)
            else:
                written.append(name)
        attributes = dict(node.attributes)
        if "output_dtype" in attributes and node.op_type == "DequantizeLinear":
            attributes["output_dtype"] = number_of(DType.FLOAT32)
        inside = replace(node, inputs=tuple(read), outputs=tuple(written), attributes=attributes)
        self._nodes.append(replace(inside, in_float=self._is_coded))

    def _number(self, name: str, is_single: bool) -> str:
        """The numbers of a float16 tensor in float32, which need not be rounded if ``is_single``."""
        array = self._graph.constants.get(name)
        if array is not None:
            if name not in self._single:
                self._single[name] = self._fresh(f"{name} in float32")
                self._constants[self._single[name]] = array.astype(np.float32)
            return self._single[name]
        maker = self._graph.producers.get(name)
        if name in self._exact or (is_single and name in self._single and self._keeps(maker)):
            return self._single[name]
        if name not in self._rounded:
            self._rounded[name] = self._fresh(f"{name} in float32")
            self._convert(self._half(name), DType.FLOAT32, self._rounded[name])
            if name not in self._single:
                self._single[name] = self._rounded[name]
        return self._rounded[name]

    def _keeps(self, maker: Node | None) -> bool:
        """Whether numbers that a node of float32 reads keep the digits that the maker has found."""
        return maker is None or maker.is_a("Cast") or self._is_computed(maker)

    def _half(self, name: str) -> str:
        """The tensor itself, in float16."""
        if name in self._single and name not in self._halves and self._is_half(name):
            self._convert(self._single[name], DType.FLOAT16, name)
            self._halves.add(name)
        return name

    def _convert(self, x: str, to: DType, y: str) -> None:
        name = self._fresh(f"{x if to is DType.FLOAT32 else y} to {to.numpy}")
        self._nodes.append(Node(name, "Cast", "", (x,), (y,), {"to": number_of(to)}))

    def _fresh(self, base: str) -> str:
        name = fresh(base, self._taken)
        self._taken.add(name)
        return name
