"""Products of onnxruntime's optimizer that end in float become the operators that they were made of."""

from __future__ import annotations

from qcgen.ir.graph import Node
from qcgen.ir.types import DType
from qcgen.rewrite.decompose_float_ops import Steps
from qcgen.rewrite.wiring import Change, Wiring

CAST_TO_FLOAT = 1
"""ONNX's number of float."""


def write_out_products(wiring: Wiring, node: Node) -> Change | None:
    """DynamicQuantizeMatMul and MatMulIntegerToFloat of a constant matrix: sum * (a_scale * b_scale) + bias.

    Each operation is rounded by itself, as in onnxruntime.
    """
    if node.domain != "com.microsoft" or any(node.outputs[1:]):
        return None
    steps = Steps(wiring, node)
    if node.op_type == "DynamicQuantizeMatMul":
        x, b, b_scale, b_zero, bias = (node.input(index) for index in range(5))
        if wiring.constant(x) is not None or wiring.graph.value(x).dtype is not DType.FLOAT32:
            return None
        a, a_scale, a_zero = steps.dynamic_codes(x)
    elif node.op_type == "MatMulIntegerToFloat":
        a, b, a_scale, b_scale, a_zero, b_zero, bias = (node.input(index) for index in range(7))
    else:
        return None
    matrix = wiring.constant(b)
    if matrix is None or matrix.ndim != 2 or not a_scale or not b_scale:
        return None
    sums = steps.step("MatMulInteger", a, b, a_zero, b_zero)
    numbers = steps.step("Cast", sums, to=CAST_TO_FLOAT)
    unit = steps.step("Mul", a_scale, b_scale)
    scaled = steps.step("Mul", numbers, unit, is_last=not bias)
    if bias:
        steps.step("Add", scaled, bias, is_last=True)
    return steps.change()
