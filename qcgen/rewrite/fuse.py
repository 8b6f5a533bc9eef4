"""Operators between DequantizeLinear and QuantizeLinear become integer operators."""

from __future__ import annotations

from qcgen.ir.graph import Node
from qcgen.ir.types import Array, DType
from qcgen.rewrite.fuse_products import factors_of, weights
from qcgen.rewrite.quantization import (
    activation,
    dequantized,
    named,
    quantizer_to_codes,
)
from qcgen.rewrite.wiring import Change, Wiring

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
