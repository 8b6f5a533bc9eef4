"""MatMul followed by a bias is Gemm."""

from __future__ import annotations

from qcgen.ir.graph import Node
from qcgen.rewrite.quantization import dequantized
from qcgen.rewrite.wiring import Change, Wiring


def join_matmul_add(wiring: Wiring, node: Node) -> Change | None:
    """MatMul of two dequantized matrices, then Add of a vector that is constant or a dequantized constant."""
    if (node.domain, node.op_type) != ("", "MatMul"):
        return None
    add = wiring.only_reader(node.outputs[0])
    if add is None or (add.domain, add.op_type) != ("", "Add"):
        return None
    if any(dequantized(wiring, name) is None or _rank(wiring, name) != 2 for name in node.inputs):
        return None
    bias = add.inputs[1] if add.inputs[0] == node.outputs[0] else add.inputs[0]
    columns = wiring.graph.value(node.inputs[1]).fixed_shape
    if columns is None or not _is_constant(wiring, bias) or wiring.graph.value(bias).shape != columns[1:]:
        return None
    gemm = Node(node.name, "Gemm", "", (*node.inputs, bias), add.outputs, {})
    return Change(add, (gemm,), remove=(node,))


def _rank(wiring: Wiring, tensor: str) -> int | None:
    shape = wiring.graph.value(tensor).shape
    return None if shape is None else len(shape)


def _is_constant(wiring: Wiring, tensor: str) -> bool:
    found = dequantized(wiring, tensor)
    return wiring.constant(tensor if found is None else found.codes) is not None
