"""Dequantized matrices, MatMul, QuantizeLinear: one QLinearMatMul."""

from __future__ import annotations

from qcgen.ir.graph import Node
from qcgen.rewrite.fuse_convolution import quantized_operands, weights
from qcgen.rewrite.kept_in_float import is_product_kept
from qcgen.rewrite.quantization import activation, quantizer
from qcgen.rewrite.wiring import Change, Wiring


def fuse_matmul(wiring: Wiring, node: Node) -> Change | None:
    """MatMul of 8-bit data per tensor with 8-bit data, or with constant weights, per tensor or per column."""
    if (node.domain, node.op_type) != ("", "MatMul"):
        return None
    a, y = activation(wiring, node.input(0)), quantizer(wiring, node.outputs[0])
    b = activation(wiring, node.input(1)) or weights(wiring, node.input(1), 1)
    if a is None or b is None or y is None:
        return None
    operands, constants = quantized_operands(wiring, (a, b, y))
    fused = Node(
        node.name, "QLinearMatMul", "", operands, (y.output,), {}, in_float=is_product_kept(wiring, node, a, b, y)
    )
    return Change(y.node, (fused,), remove=(node,), constants=constants)
