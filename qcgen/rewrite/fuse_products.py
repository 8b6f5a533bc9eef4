"""Dequantized data and weights, Conv, MatMul or Gemm, QuantizeLinear: one product of codes of 8 bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from qcgen.ir.graph import Node
from qcgen.ir.types import Array
from qcgen.rewrite.bias import Accumulator, integer_bias
from qcgen.rewrite.kept_in_float import is_product_kept
from qcgen.rewrite.quantization import (
    Dequantized,
    Quantizer,
    activation,
    dequantized,
    named,
    quantizer,
)
from qcgen.rewrite.wiring import Change, Wiring

Tensors = tuple[Dequantized, Dequantized, Quantizer]
"""What is multiplied with the weights, the weights, the result."""


def fuse_convolution(wiring: Wiring, node: Node) -> Change | None:
    """Conv on data per tensor and 8-bit weights, per tensor or per output channel, whose output is quantized."""
    if (node.domain, node.op_type) != ("", "Conv"):
        return None
    tensors = _tensors(wiring, node, weights(wiring, node.input(1), 0))
    bias = None if tensors is None else _bias(wiring, node, 0, tensors, strict=True)
    if tensors is None or bias is None:
        return None
    operands, constants = quantized_operands(wiring, tensors)
    fused = Node(node.name, "QLinearConv", "", (*operands, *bias), (tensors[2].output,), node.attributes)
    return _fused(wiring, node, tensors, fused, {**constants, **bias})


def fuse_matmul(wiring: Wiring, node: Node) -> Change | None:
    """MatMul of data per tensor with 8-bit data, or with constant weights, per tensor or per column."""
    if (node.domain, node.op_type) != ("", "MatMul"):
        return None
    tensors = _tensors(wiring, node, activation(wiring, node.input(1)) or weights(wiring, node.input(1), 1))
    if tensors is None:
        return None
    operands, constants = quantized_operands(wiring, tensors)
    fused = Node(node.name, "QLinearMatMul", "", operands, (tensors[2].output,), {})
    return _fused(wiring, node, tensors, fused, constants)


def fuse_gemm(wiring: Wiring, node: Node) -> Change | None:
    """Gemm on data per tensor and 8-bit weights, per tensor or per column of the product."""
    if (node.domain, node.op_type) != ("", "Gemm"):
        return None
    axis, factors = 0 if node.attributes.get("transB") else 1, factors_of(node)
    tensors = _tensors(wiring, node, weights(wiring, node.input(1), axis))
    if tensors is None or factors is None:
        return None
    x, w, y = tensors
    if wiring.known(w.codes).ndim != 2 or x.quantization.dtype is not y.quantization.dtype:
        return None  # QGemm has one type for both, and onnxruntime computes float
    # QGemm multiplies its bias by alpha too and has no beta. As onnxruntime, fuse other factors only without a bias.
    if node.input(2) and not factors.alpha == factors.beta == 1.0:
        return None
    bias = _bias(wiring, node, axis, tensors, strict=False)
    if bias is None:
        return None
    operands, constants = quantized_operands(wiring, tensors)
    attributes = {key: node.attributes[key] for key in ("transA", "transB", "alpha") if key in node.attributes}
    inputs = (*operands[:6], next(iter(bias), ""), *operands[6:])
    fused = Node(node.name, "QGemm", "com.microsoft", inputs, (y.output,), attributes)
    return _fused(wiring, node, tensors, fused, {**constants, **bias})


def _tensors(wiring: Wiring, node: Node, w: Dequantized | None) -> Tensors | None:
    """The codes of 8 bits that a node reads and writes; None if any of them are not such."""
    x, y = activation(wiring, node.input(0)), quantizer(wiring, node.outputs[0])
    return None if x is None or w is None or y is None else (x, w, y)


def _fused(wiring: Wiring, node: Node, tensors: Tensors, fused: Node, constants: Mapping[str, Array]) -> Change:
    """The operator of codes in the place of the node and of the QuantizeLinear behind it."""
    x, w, y = tensors
    kept = is_product_kept(wiring, node, x, w, y)
    return Change(y.node, (replace(fused, in_float=kept, written=node.operator),), remove=(node,), constants=constants)


def weights(wiring: Wiring, tensor: str, axis: int) -> Dequantized | None:
    """Constant 8-bit weights, dequantized per tensor or along an axis."""
    found = dequantized(wiring, tensor)
    if found is None or wiring.constant(found.codes) is None or not found.quantization.dtype.is_quantized:
        return None
    return found if found.quantization.axis in (None, axis) else None


def quantized_operands(
    wiring: Wiring, tensors: tuple[Dequantized, Dequantized, Quantizer]
) -> tuple[tuple[str, ...], Mapping[str, Array]]:
    """(x, its scale and zero point, w, its scale and zero point, y's scale and zero point), with new constants."""
    x, w, y = tensors
    x_meaning, x_constants = named(wiring, x.quantization, x.codes)
    w_meaning, w_constants = named(wiring, w.quantization, w.codes)
    y_meaning, y_constants = named(wiring, y.quantization, y.output)
    operands = (x.codes, *x_meaning.names, w.codes, *w_meaning.names, *y_meaning.names)
    return operands, {**x_constants, **w_constants, **y_constants}


def _bias(wiring: Wiring, node: Node, axis: int, tensors: Tensors, *, strict: bool) -> Mapping[str, Array] | None:
    """The bias, a node's third input, as a constant by its name: none if it is absent; None if it cannot be int32.

    ``axis`` of the weights is that of the output channels.
    """
    if not node.input(2):
        return {}
    x, w, y = tensors
    channels = wiring.graph.constants[w.codes].shape[axis]
    scale = x.quantization.scale * w.quantization.scale
    if not np.all(np.isfinite(scale) & (scale > 0)):
        return None
    bias = integer_bias(wiring, node.input(2), channels, Accumulator(scale, y.quantization.scale, strict))
    return None if bias is None else {_bias_name(wiring, node, bias): bias}


def _bias_name(wiring: Wiring, node: Node, bias: Array) -> str:
    """The name of the model's own constant if it holds these elements, else a new one."""
    found = dequantized(wiring, node.input(2))
    own = None if found is None else wiring.constant(found.codes)
    if found is not None and own is not None and own.dtype == bias.dtype and np.array_equal(own, bias):
        return found.codes
    return wiring.fresh(f"{node.input(2)}_quantized")


@dataclass(frozen=True)
class Factors:
    """alpha * A * B + beta * C."""

    alpha: float
    beta: float


def factors_of(node: Node) -> Factors | None:
    """alpha and beta, None unless they are numbers and alpha is positive."""
    alpha, beta = node.attributes.get("alpha", 1.0), node.attributes.get("beta", 1.0)
    if not isinstance(alpha, int | float) or not isinstance(beta, int | float) or alpha <= 0:
        return None
    return Factors(float(alpha), float(beta))
