"""Rules for what flows between nodes: float numbers in a quantized network."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from qcgen.check.model import node_place
from qcgen.errors import Problem
from qcgen.ir.graph import Graph, Node
from qcgen.ir.types import DType

MOVEMENT = frozenset(
    "Concat Dropout Flatten Identity Pad Reshape Resize Slice Split Squeeze Transpose Unsqueeze".split()
)
"""Operators that hand numbers on as they are."""

CLAMPS = frozenset(("Clip", "Relu"))
"""Operators that the QuantizeLinear behind them absorbs."""

PRODUCTS = frozenset(("Conv", "Gemm", "MatMul"))
"""Operators that every quantizer surrounds; what lies between, such as means, residuals and activations, many leave
in float up to the next QuantizeLinear, and so does the C.
"""

BORDERS = frozenset(("DequantizeLinear", "QuantizeLinear"))


def float_problems(graph: Graph, already_reported: Collection[str]) -> Iterator[Problem]:
    """Float tensors from one computation into a product, with quantized tensors before and behind them.

    Tensors in ``already_reported`` are left out.
    """
    makers = {name: node for node in graph.nodes for name in node.outputs if name}
    before, behind = _reached(graph, makers)
    for node in graph.nodes:
        if node.op_type not in PRODUCTS or not _computes(graph, node) or node.name not in behind:
            continue
        for name in dict.fromkeys(node.inputs):
            if name in already_reported:
                continue
            maker = _maker(name, makers)
            if maker is not None and maker.name in before and _computes(graph, maker) and _is_float(graph, name):
                what = f"its input {name!r}, which {node_place(maker)} computes, is float inside the quantized network"
                hint = "a QuantizeLinear and a DequantizeLinear are missing between the two: quantize this tensor, too"
                yield Problem(node_place(node), what, hint)


def _reached(graph: Graph, makers: Mapping[str, Node]) -> tuple[set[str], set[str]]:
    """The nodes that depend on a DequantizeLinear, and those on which a QuantizeLinear depends."""
    before: set[str] = set()
    for node in graph.nodes:
        inputs = [makers[name].name for name in node.inputs if name in makers]
        if node.op_type == "DequantizeLinear" or before.intersection(inputs):
            before.add(node.name)
    behind: set[str] = set()
    for node in reversed(graph.nodes):
        if node.op_type == "QuantizeLinear" or node.name in behind:
            behind |= {makers[name].name for name in node.inputs if name in makers}
    return before, behind


def _maker(name: str, makers: Mapping[str, Node]) -> Node | None:
    """The node that computes a tensor; those that only move or clamp it are passed by."""
    node = makers.get(name)
    while node is not None and node.op_type in MOVEMENT | CLAMPS:
        node = makers.get(node.input(0))
    return node


def _computes(graph: Graph, node: Node) -> bool:
    """Whether a node computes float numbers from float numbers."""
    if node.op_type in MOVEMENT or node.operator in BORDERS:
        return False
    return any(_is_float(graph, name) for name in node.outputs) and any(_is_float(graph, name) for name in node.inputs)


def _is_float(graph: Graph, name: str) -> bool:
    return name not in graph.constants and graph.value(name).dtype is DType.FLOAT32
