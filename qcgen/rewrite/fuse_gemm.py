"""Dequantized data and weights, Gemm, QuantizeLinear: one QGemm."""

from __future__ import annotations

from dataclasses import dataclass

from qcgen.ir.graph import Node
from qcgen.rewrite.fuse_convolution import bias_operand, quantized_operands, weights
from qcgen.rewrite.kept_in_float import is_product_kept
from qcgen.rewrite.quantization import activation, quantizer
from qcgen.rewrite.wiring import Change, Wiring


@dataclass(frozen=True)
class Factors:
    """alpha * A * B + beta * C."""

    alpha: float
    beta: float


def fuse_gemm(wiring: Wiring, node: Node) -> Change | None:
    """Gemm on 8-bit data per tensor and 8-bit weights, per tensor or per column of the product."""
    if (node.domain, node.op_type) != ("", "Gemm"):
        return None
    axis, factors = 0 if node.attributes.get("transB") else 1, factors_of(node)
    x, w, y = (
        activation(wiring, node.input(0)),
        weights(wiring, node.input(1), axis),
        quantizer(wiring, node.outputs[0]),
    )
    if x is None or w is None or y is None or factors is None or len(wiring.graph.constants[w.codes].shape) != 2:
        return None
    if x.quantization.dtype is not y.quantization.dtype:  # QGemm has one type for both, and onnxruntime computes float
        return None
    # QGemm multiplies its bias by alpha too and has no beta. As onnxruntime, fuse other factors only without a bias.
    plain = factors.alpha == factors.beta == 1.0
    if node.input(2) and not plain:
        return None
    bias = bias_operand(wiring, node, axis, (x, w, y), 1.0, strict=False)
    if bias is None:
        return None
    operands, constants = quantized_operands(wiring, (x, w, y))
    attributes = {key: value for key, value in node.attributes.items() if key in ("transA", "transB", "alpha")}
    inputs = (*operands[:6], next(iter(bias), ""), *operands[6:])
    fused = Node(
        node.name,
        "QGemm",
        "com.microsoft",
        inputs,
        (y.output,),
        attributes,
        in_float=is_product_kept(wiring, node, x, w, y),
    )
    return Change(y.node, (fused,), remove=(node,), constants={**constants, **bias})


def factors_of(node: Node) -> Factors | None:
    """alpha and beta, None unless they are numbers and alpha is positive."""
    alpha, beta = node.attributes.get("alpha", 1.0), node.attributes.get("beta", 1.0)
    if not isinstance(alpha, int | float) or not isinstance(beta, int | float) or alpha <= 0:
        return None
    return Factors(float(alpha), float(beta))
