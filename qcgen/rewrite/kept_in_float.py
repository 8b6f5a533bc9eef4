"""Which of the operators that become integers here onnxruntime computes in float, for the user to be told."""

from __future__ import annotations

from qcgen.ir.graph import Node
from qcgen.ir.types import DType
from qcgen.rewrite.bias import is_in_units
from qcgen.rewrite.quantization import Dequantized, Quantizer, dequantized
from qcgen.rewrite.wiring import Wiring

CROSSED = frozenset({"MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})
"""The operators in front of which onnxruntime, too, moves a QuantizeLinear."""


def stops_quantization(node: Node, codes: tuple[int, int] | None, dtype: DType) -> bool:
    """Whether a QuantizeLinear stays behind this node in onnxruntime, so that what is in front of it stays in float.

    ``codes`` are the bounds of a Relu or Clip, None for a movement: one that reaches from end to end of the codes'
    type is dropped there. Source: models as onnxruntime 1.32.0 optimizes them, with session.qdqisint8allowed=1.
    """
    return node.op_type not in CROSSED if codes is None else codes != (dtype.low, dtype.high)


def is_kept(wiring: Wiring, y: Quantizer, *xs: Dequantized) -> bool:
    """Whether onnxruntime computes what ``y`` quantizes in float: there all codes must be of one type of 8 bits."""
    types = (x.quantization.dtype is not y.quantization.dtype or x.codes in wiring.graph.narrow for x in xs)
    return y.node.in_float or any(types)


def is_product_kept(wiring: Wiring, node: Node, x: Dequantized, w: Dequantized, y: Quantizer) -> bool:
    """Whether onnxruntime computes the product of ``x`` and ``w`` in float.

    It has integer kernels for int8 by int8, and uint8 by both, whose bias is in units of the accumulator; x and y have
    one type.
    """
    return (
        is_kept(wiring, y, x)
        or node.in_float
        or w.codes in wiring.graph.narrow
        or (x.quantization.dtype is DType.INT8 and w.quantization.dtype is DType.UINT8)
        or _has_foreign_bias(wiring, node, x, w)
    )


def _has_foreign_bias(wiring: Wiring, node: Node, x: Dequantized, w: Dequantized) -> bool:
    bias = dequantized(wiring, node.input(2)) if node.op_type == "Conv" and node.input(2) else None
    codes = None if bias is None else wiring.constant(bias.codes)
    if bias is None or codes is None:
        return False
    return not is_in_units(codes, bias, x.quantization.scale * w.quantization.scale)
