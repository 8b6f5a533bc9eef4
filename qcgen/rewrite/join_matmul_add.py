"""MatMul followed by a bias is Gemm."""

from __future__ import annotations

import numpy as np

from qcgen.ir.graph import Node
from qcgen.rewrite.quantization import dequantized
from qcgen.rewrite.wiring import Change, Wiring


def join_matmul_add(wiring: Wiring, node: Node) -> Change | None:
    """MatMul of a dequantized matrix with one that is constant or dequantized, then Add of a vector of the same kind.

    Data with other than two axes is reshaped before and behind a Gemm of constant weights: as in onnxruntime, those can
    become codes, which those of a MatMul cannot. Source: MatMulAddFusion of onnxruntime.
    """
    if (node.domain, node.op_type) != ("", "MatMul"):
        return None
    add = wiring.only_reader(node.outputs[0])
    if add is None or (add.domain, add.op_type) != ("", "Add"):
        return None
    a, b = node.inputs
    has_floats = wiring.constant(b) is not None
    if dequantized(wiring, a) is None or not (has_floats or dequantized(wiring, b) is not None):
        return None
    bias = add.inputs[1] if add.inputs[0] == node.outputs[0] else add.inputs[0]
    columns = wiring.graph.value(b).fixed_shape
    if columns is None or not _is_constant(wiring, bias) or wiring.graph.value(bias).shape != columns[1:]:
        return None
    if _rank(wiring, b) != 2 or not (has_floats or _rank(wiring, a) == 2):
        return None
    if _rank(wiring, a) == 2:
        return Change(add, (Node(node.name, "Gemm", "", (a, b, bias), add.outputs, {}),), remove=(node,))
    return _reshaped(wiring, node, add, bias)


def _reshaped(wiring: Wiring, node: Node, add: Node, bias: str) -> Change | None:
    """Reshape to a matrix, Gemm, Reshape back."""
    shape = wiring.graph.value(node.inputs[0]).fixed_shape
    columns = wiring.graph.value(node.inputs[1]).fixed_shape
    if shape is None or columns is None:
        return None
    matrix, product, rows, back = (
        wiring.fresh(f"{node.name}_{role}") for role in ("matrix", "product", "matrix_shape", "shape")
    )
    constants = {
        rows: np.array((-1, shape[-1]), np.int64),
        back: np.array((*shape[:-1], columns[1]), np.int64),
    }
    nodes = (
        Node(wiring.fresh(f"{matrix}_reshape"), "Reshape", "", (node.inputs[0], rows), (matrix,), {}),
        Node(node.name, "Gemm", "", (matrix, node.inputs[1], bias), (product,), {}),
        Node(wiring.fresh(f"{product}_reshape"), "Reshape", "", (product, back), add.outputs, {}),
    )
    return Change(add, nodes, remove=(node,), constants=constants)


def _rank(wiring: Wiring, tensor: str) -> int | None:
    shape = wiring.graph.value(tensor).shape
    return None if shape is None else len(shape)


def _is_constant(wiring: Wiring, tensor: str) -> bool:
    found = dequantized(wiring, tensor)
    return wiring.constant(tensor if found is None else found.codes) is not None
