"""Activations of 16 bits: an operator between DequantizeLinear and QuantizeLinear becomes one of qcgen's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from qcgen.infer.wide import WIDE_ADD, WIDE_CONV, WIDE_GEMM, WIDE_MATMUL, WIDE_MEAN, WIDE_MUL, WIDE_SUB
from qcgen.ir.graph import Node
from qcgen.ir.types import Array
from qcgen.rewrite.bias import nearest_bias
from qcgen.rewrite.fuse import factors_of
from qcgen.rewrite.fuse_convolution import quantized_operands, weights
from qcgen.rewrite.quantization import Dequantized, Quantizer, activation_of_codes, named, quantizer_to_codes
from qcgen.rewrite.wiring import Change, Wiring

MOST_PIXELS = 2**14
"""Of an image whose mean is taken: sums of codes of 16 bits stay within int32, wherever they start."""

Tensors = tuple[Dequantized, Dequantized, Quantizer]
"""What is multiplied with the weights, the weights, the result."""


def fuse_wide(wiring: Wiring, node: Node) -> Change | None:
    """Conv, Gemm, MatMul with constant 8-bit weights, Add, Mul, Sub or a mean, where some activation has 16 bits."""
    fuse = _FUSED.get((node.domain, node.op_type))
    y = quantizer_to_codes(wiring, node.outputs[0]) if fuse is not None else None
    x = None if y is None else activation_of_codes(wiring, node.input(0))
    return None if fuse is None or x is None or y is None else fuse(wiring, node, x, y)


def _has_16_bits(*tensors: Dequantized | Quantizer) -> bool:
    return any(tensor.quantization.dtype.is_16_bit for tensor in tensors)


def _conv(wiring: Wiring, node: Node, x: Dequantized, y: Quantizer) -> Change | None:
    w = weights(wiring, node.input(1), 0)
    if w is None or not _has_16_bits(x, y):
        return None
    bias = _bias(wiring, node, 0, (x, w, y))
    if bias is None:
        return None
    operands, constants = quantized_operands(wiring, (x, w, y))
    domain, op_type = WIDE_CONV
    fused = Node(node.name, op_type, domain, (*operands, *bias), (y.output,), node.attributes)
    return Change(y.node, (fused,), remove=(node,), constants={**constants, **bias})


def _gemm(wiring: Wiring, node: Node, x: Dequantized, y: Quantizer) -> Change | None:
    axis, factors = 0 if node.attributes.get("transB") else 1, factors_of(node)
    w = weights(wiring, node.input(1), axis)
    if w is None or factors is None or not factors.alpha == factors.beta == 1.0 or not _has_16_bits(x, y):
        return None
    bias = _bias(wiring, node, axis, (x, w, y))
    if bias is None or wiring.graph.constants[w.codes].ndim != 2:
        return None
    operands, constants = quantized_operands(wiring, (x, w, y))
    attributes = {key: value for key, value in node.attributes.items() if key in ("transA", "transB")}
    inputs = (*operands[:6], next(iter(bias), ""), *operands[6:])
    domain, op_type = WIDE_GEMM
    fused = Node(node.name, op_type, domain, inputs, (y.output,), attributes)
    return Change(y.node, (fused,), remove=(node,), constants={**constants, **bias})


def _matmul(wiring: Wiring, node: Node, x: Dequantized, y: Quantizer) -> Change | None:
    w = weights(wiring, node.input(1), 1)
    if w is None or wiring.graph.constants[w.codes].ndim != 2 or not _has_16_bits(x, y):
        return None
    operands, constants = quantized_operands(wiring, (x, w, y))
    domain, op_type = WIDE_MATMUL
    fused = Node(node.name, op_type, domain, operands, (y.output,), {})
    return Change(y.node, (fused,), remove=(node,), constants=constants)


def _binary(wiring: Wiring, node: Node, x: Dequantized, y: Quantizer) -> Change | None:
    other = activation_of_codes(wiring, node.input(1))
    if other is None or not _has_16_bits(x, other, y):
        return None
    operands, constants = quantized_operands(wiring, (x, other, y))
    domain, op_type = _BINARY[node.op_type]
    fused = Node(node.name, op_type, domain, operands, (y.output,), {})
    return Change(y.node, (fused,), remove=(node,), constants=constants)


def _mean(wiring: Wiring, node: Node, x: Dequantized, y: Quantizer) -> Change | None:
    shape = wiring.graph.value(node.input(0)).shape
    sizes = [size for size in shape or () if isinstance(size, int)]
    if shape is None or len(sizes) < len(shape) or prod(sizes[2:]) > MOST_PIXELS or not _has_16_bits(x, y):
        return None
    x_meaning, x_constants = named(wiring, x.quantization, x.codes)
    y_meaning, y_constants = named(wiring, y.quantization, y.output)
    domain, op_type = WIDE_MEAN
    operands = (x.codes, *x_meaning.names, *y_meaning.names)
    fused = Node(node.name, op_type, domain, operands, (y.output,), {})
    return Change(y.node, (fused,), remove=(node,), constants={**x_constants, **y_constants})


_BINARY = {"Add": WIDE_ADD, "Mul": WIDE_MUL, "Sub": WIDE_SUB}

_FUSED: Mapping[tuple[str, str], Callable[[Wiring, Node, Dequantized, Quantizer], Change | None]] = {
    ("", "Add"): _binary,
    ("", "Conv"): _conv,
    ("", "Gemm"): _gemm,
    ("", "GlobalAveragePool"): _mean,
    ("", "MatMul"): _matmul,
    ("", "Mul"): _binary,
    ("", "Sub"): _binary,
}


def _bias(wiring: Wiring, node: Node, axis: int, tensors: Tensors) -> Mapping[str, Array] | None:
    """The bias as a new constant by its name: none if it is absent; None if it has no int32 form."""
    if not node.input(2):
        return {}
    x, w, _ = tensors
    scale = x.quantization.scale.astype(np.float64) * w.quantization.scale.astype(np.float64)
    bias = nearest_bias(wiring, node.input(2), wiring.graph.constants[w.codes].shape[axis], scale)
    return None if bias is None else {wiring.fresh(f"{node.input(2)}_quantized"): bias}
