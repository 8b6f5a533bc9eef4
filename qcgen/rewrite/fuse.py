"""Operators between DequantizeLinear and QuantizeLinear become integer operators."""

from __future__ import annotations

from collections.abc import Mapping

from qcgen.ir.graph import Attribute, Node
from qcgen.ir.types import Array, DType
from qcgen.rewrite.fuse_products import factors_of, weights
from qcgen.rewrite.kept_in_float import is_kept
from qcgen.rewrite.one_type import operand_of_type
from qcgen.rewrite.quantization import (
    activation,
    dequantized,
    named,
    quantizer,
    quantizer_to_codes,
)
from qcgen.rewrite.wiring import Change, Wiring

# Two dequantized tensors, Add, Mul or Sub, QuantizeLinear: one QLinearAdd or QLinearMul, or one of qcgen's own.

BINARY = {("", "Add"): "QLinearAdd", ("", "Mul"): "QLinearMul"}
"""The operators of com.microsoft, by the operator that they compute."""


def fuse_binary(wiring: Wiring, node: Node) -> Change | None:
    """Add or Mul of 8-bit tensors, one of which may be constant; all get the output's type."""
    key = node.domain, node.op_type
    if key not in BINARY or len(node.inputs) != 2:
        return None
    a, b = (activation(wiring, name) for name in node.inputs)
    y = quantizer(wiring, node.outputs[0])
    if a is None or b is None or y is None:
        return None
    dtype = y.quantization.dtype
    first = operand_of_type(wiring, a, dtype, node, "a")
    second = operand_of_type(wiring, b, dtype, node, "b")
    meaning, constants = named(wiring, y.quantization, y.output)
    inputs = (*first.names, *second.names, *meaning.names)
    kept = is_kept(wiring, y, a, b)
    fused = Node(node.name, BINARY[key], "com.microsoft", inputs, (y.output,), {}, in_float=kept, written=node.operator)
    constants = {**first.constants, **second.constants, **constants}
    return Change(y.node, (*first.nodes, *second.nodes, fused), remove=(node,), constants=constants)


# A dequantized tensor, an operator that has an integer form of one input, QuantizeLinear: that form.

UNARY = {
    ("", "AveragePool"): "QLinearAveragePool",
    ("", "GlobalAveragePool"): "QLinearGlobalAveragePool",
    ("", "Softmax"): "QLinearSoftmax",
}
"""The operators of com.microsoft, by the operator that they compute."""


def fuse_unary(wiring: Wiring, node: Node) -> Change | None:
    """AveragePool, GlobalAveragePool or Softmax on 8-bit codes, which get the output's type."""
    op_type = UNARY.get((node.domain, node.op_type))
    if op_type is None or _is_dilated(node):
        return None
    x, y = activation(wiring, node.input(0)), quantizer(wiring, node.outputs[0])
    if x is None or y is None:
        return None
    operand = operand_of_type(wiring, x, y.quantization.dtype, node, "x")
    meaning, constants = named(wiring, y.quantization, y.output)
    attributes = _attributes(node)
    inputs, kept = (*operand.names, *meaning.names), is_kept(wiring, y, x) or node.in_float
    fused = Node(
        node.name, op_type, "com.microsoft", inputs, (y.output,), attributes, in_float=kept, written=node.operator
    )
    constants = {**operand.constants, **constants}
    return Change(y.node, (*operand.nodes, fused), remove=(node,), constants=constants)


def _is_dilated(node: Node) -> bool:
    """Whether windows skip elements, which QLinearAveragePool cannot say."""
    dilations = node.attributes.get("dilations", ())
    return not isinstance(dilations, tuple) or any(dilation != 1 for dilation in dilations)


def _attributes(node: Node) -> Mapping[str, Attribute]:
    """The node's attributes and those that only the integer form has."""
    match node.op_type:
        case "GlobalAveragePool" | "AveragePool":
            kept = {name: value for name, value in node.attributes.items() if name != "dilations"}
            return {**kept, "channels_last": 0}
        case "Softmax":
            return {"axis": -1 if node.version >= 13 else 1, **node.attributes, "opset": node.version}
    return node.attributes


# Dequantized data and weights, Gemm or MatMul, and no QuantizeLinear: a QGemm with a float output.


def fuse_float_gemm(wiring: Wiring, node: Node) -> Change | None:
    """The product of 8-bit matrices in integers, times their scales; weights per tensor, an int32 bias or none.

    This is the last layer of classifiers whose output stays float. As in onnxruntime, a float bias keeps the layer in
    float. It is tried last: where QuantizeLinear can still move to the product, the output is not a float.
    """
    if (node.domain, node.op_type) not in (("", "Gemm"), ("", "MatMul")):
        return None
    x, w, factors = activation(wiring, node.input(0)), weights(wiring, node.input(1), 1), factors_of(node)
    if x is None or w is None or w.quantization.axis is not None or factors is None:
        return None
    if wiring.graph.constants[w.codes].ndim != 2 or len(wiring.graph.value(x.codes).shape or ()) != 2:
        return None
    columns = wiring.graph.constants[w.codes].shape[0 if node.attributes.get("transB") else 1]
    bias = _int32_codes(wiring, node.input(2), columns) if node.input(2) else ""
    if bias is None or (bias and not factors.alpha == factors.beta == 1.0):
        return None
    y = quantizer_to_codes(wiring, node.outputs[0])
    if y is not None and y.quantization.dtype.is_16_bit:
        return None
    x_meaning, x_constants = named(wiring, x.quantization, x.codes)
    w_meaning, w_constants = named(wiring, w.quantization, w.codes)
    inputs = (x.codes, *x_meaning.names, w.codes, *w_meaning.names, *((bias,) if bias else ()))
    attributes = {key: value for key, value in node.attributes.items() if key in ("transA", "transB", "alpha")}
    fused = Node(node.name, "QGemm", "com.microsoft", inputs, node.outputs, attributes, written=node.operator)
    constants: dict[str, Array] = {**x_constants, **w_constants}
    return Change(node, (fused,), constants=constants)


def _int32_codes(wiring: Wiring, tensor: str, columns: int) -> str | None:
    """The codes of a bias that is dequantized from int32 constants, one a column or one in all, zero point 0."""
    found = dequantized(wiring, tensor)
    constant = None if found is None else wiring.constant(found.codes)
    if found is None or constant is None or found.quantization.zero_point.any():
        return None
    is_row = constant.size in (1, columns) and constant.shape[-1:] in ((), (1,), (columns,))
    return found.codes if is_row and DType.of(constant) is DType.INT32 and found.quantization.axis is None else None
