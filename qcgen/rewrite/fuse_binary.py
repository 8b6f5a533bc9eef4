"""Two dequantized tensors, Add or Mul, QuantizeLinear: one QLinearAdd or QLinearMul."""

from __future__ import annotations

from qcgen.ir.graph import Node
from qcgen.rewrite.kept_in_float import is_kept
from qcgen.rewrite.one_type import operand_of_type
from qcgen.rewrite.quantization import activation, named, quantizer
from qcgen.rewrite.wiring import Change, Wiring

FUSED = {("", "Add"): "QLinearAdd", ("", "Mul"): "QLinearMul"}
"""The operators of com.microsoft, by the operator that they compute."""


def fuse_binary(wiring: Wiring, node: Node) -> Change | None:
    """Add or Mul of 8-bit tensors, one of which may be constant; all codes get the output's type."""
    op_type = FUSED.get((node.domain, node.op_type))
    if op_type is None or len(node.inputs) != 2:
        return None
    a, b, y = (*(activation(wiring, name) for name in node.inputs), quantizer(wiring, node.outputs[0]))
    if a is None or b is None or y is None:
        return None
    dtype = y.quantization.dtype
    first = operand_of_type(wiring, a, dtype, node, "a")
    second = operand_of_type(wiring, b, dtype, node, "b")
    meaning, constants = named(wiring, y.quantization, y.output)
    inputs = (*first.names, *second.names, *meaning.names)
    fused = Node(node.name, op_type, "com.microsoft", inputs, (y.output,), {}, in_float=is_kept(y, a, b))
    constants = {**first.constants, **second.constants, **constants}
    return Change(y.node, (*first.nodes, *second.nodes, fused), remove=(node,), constants=constants)
