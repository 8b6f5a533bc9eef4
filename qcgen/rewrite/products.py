"""Products of matrices in all their spellings, and what is added to them or scales them."""

from __future__ import annotations

import numpy as np

from qcgen.ir.graph import Node
from qcgen.rewrite.quantization import dequantized
from qcgen.rewrite.wiring import Change, Wiring

# A product of two computed matrices whose operands are scaled is scaled behind: onnxruntime's products have a factor.


def scale_behind_product(wiring: Wiring, node: Node) -> Change | None:
    """(s a) (t b) u becomes (a b) (s t u), for numbers s, t, u; division by a number is multiplication by 1 over it.

    Source: MatMulScaleFusion, tried with 1.32.0.
    """
    if not node.is_a("MatMul") or node.in_float or any(wiring.constant(name) is not None for name in node.inputs):
        return None
    if _is_of_codes(wiring, node) or _is_gemm(wiring, node):
        return None
    inputs, last, factor, steps = node.inputs, node, np.float32(1), list[Node]()
    while True:
        before = [_scaled(wiring, wiring.producers.get(name)) for name in inputs]
        before = [None if each is None or _is_scaled_product(wiring, each[1]) else each for each in before]
        behind = _scaled(wiring, wiring.only_reader(last.outputs[0]))
        found = [each for each in (*before, behind) if each is not None]
        if not found:
            break
        for step, _, by in found:
            factor, steps = np.float32(factor * by), [*steps, step]
        inputs = tuple(name if each is None else each[1] for name, each in zip(inputs, before, strict=True))
        last = last if behind is None else behind[0]
    if not steps or (len(steps) == 1 and last.op_type == "Mul"):
        return None
    product, number = wiring.fresh(f"{node.name}_product"), wiring.fresh(f"{node.name}_factor")
    joined = Node(node.name, "MatMul", "", inputs, (product,), {})
    scaled = Node(wiring.fresh(f"{node.name}_scaled"), "Mul", "", (product, number), last.outputs, {})
    return Change(last, (joined, scaled), (node,), {number: np.asarray(factor)})


def _is_scaled_product(wiring: Wiring, name: str) -> bool:
    """Whether a tensor is a product of floats that is read once: it is what is scaled, not what reads it."""
    maker = wiring.producers.get(name)
    if maker is None or not maker.is_a("MatMul") or wiring.only_reader(name) is None:
        return False
    return not _is_of_codes(wiring, maker)


def _is_gemm(wiring: Wiring, product: Node) -> bool:
    """Whether onnxruntime joins a product with the Add behind it. Source: MatMulAddFusion."""
    add = wiring.only_reader(product.outputs[0])
    if add is None or not add.is_a("Add"):
        return False
    names = (*product.inputs, add.input_beside(product.outputs[0]))
    a, b, bias = (wiring.shape(name) or () for name in names)
    is_matrix = len(a) == len(bias) == 2 == len(b) and bias[0] in (1, a[0]) and bias[1] in (1, b[1])
    return is_matrix or (len(b) == 2 and bias == b[1:])


def _is_of_codes(wiring: Wiring, product: Node) -> bool:
    """Whether onnxruntime has MatMulIntegerToFloat."""
    return all(dequantized(wiring, name) is not None for name in product.inputs)


def _scaled(wiring: Wiring, node: Node | None) -> tuple[Node, str, np.float32] | None:
    """A node that multiplies by a constant number, what it multiplies, and that number; None if it does not."""
    if node is None or not node.is_a("Mul", "Div"):
        return None
    for index in (0, 1) if node.op_type == "Mul" else (1,):
        number, other = wiring.floats(node.input(index)), wiring.graph.value(node.input(1 - index)).shape
        if number is not None and number.size == 1 and number.ndim <= len(other or ()):
            value = np.float32(number.reshape(()))
            return node, node.input(1 - index), value if node.op_type == "Mul" else np.float32(1) / value
    return None


# MatMul followed by a bias is Gemm.


def join_matmul_add(wiring: Wiring, node: Node) -> Change | None:
    """MatMul of a dequantized matrix with one of numbers or codes that are constant, then Add of such a vector.

    Data with other than two axes is reshaped before and behind a Gemm, as in onnxruntime: there float weights can
    become codes, and those of a bias are added. Source: MatMulAddFusion of onnxruntime.
    """
    add = wiring.only_reader(node.outputs[0])
    if not node.is_a("MatMul") or node.in_float or add is None or not add.is_a("Add"):
        return None
    (a, b), bias = node.inputs, add.input_beside(node.outputs[0])
    x, rows, w = dequantized(wiring, a), wiring.graph.value(a), wiring.graph.value(b).fixed_shape
    found, by = dequantized(wiring, bias), dequantized(wiring, b)
    if x is None or wiring.constant(b if by is None else by.codes) is None or w is None or len(w) != 2:
        return None
    if wiring.constant(bias if found is None else found.codes) is None or wiring.graph.value(bias).shape != w[1:]:
        return None
    if rows.shape is not None and len(rows.shape) == 2:
        return Change(add, (Node(node.name, "Gemm", "", (a, b, bias), add.outputs, {}),), remove=(node,))
    if rows.fixed_shape is None:
        return None
    matrix, product, to_rows, back = (
        wiring.fresh(f"{node.name}_{role}") for role in ("matrix", "product", "matrix_shape", "shape")
    )
    shapes = (-1, rows.fixed_shape[-1]), (*rows.fixed_shape[:-1], w[1])
    constants = {name: np.array(shape, np.int64) for name, shape in zip((to_rows, back), shapes, strict=True)}
    nodes = (
        Node(wiring.fresh(f"{matrix}_reshape"), "Reshape", "", (a, to_rows), (matrix,), {}),
        Node(node.name, "Gemm", "", (matrix, b, bias), (product,), {}),
        Node(wiring.fresh(f"{product}_reshape"), "Reshape", "", (product, back), add.outputs, {}),
    )
    return Change(add, nodes, remove=(node,), constants=constants)
