"""Dequantized data and weights, Conv, QuantizeLinear: one QLinearConv."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from qcgen.ir.graph import Node
from qcgen.ir.types import Array
from qcgen.rewrite.bias import Accumulator, integer_bias
from qcgen.rewrite.kept_in_float import is_product_kept
from qcgen.rewrite.quantization import Dequantized, Quantizer, activation, dequantized, named, quantizer
from qcgen.rewrite.wiring import Change, Wiring


def fuse_convolution(wiring: Wiring, node: Node) -> Change | None:
    """Conv on 8-bit data per tensor and 8-bit weights, per tensor or per output channel, whose output is quantized."""
    if (node.domain, node.op_type) != ("", "Conv"):
        return None
    x, w, y = activation(wiring, node.input(0)), weights(wiring, node.input(1), 0), quantizer(wiring, node.outputs[0])
    if x is None or w is None or y is None:
        return None
    bias = bias_operand(wiring, node, 0, (x, w, y), 1.0, strict=True)
    if bias is None:
        return None
    operands, constants = quantized_operands(wiring, (x, w, y))
    fused = Node(
        node.name,
        "QLinearConv",
        "",
        (*operands, *bias),
        (y.output,),
        node.attributes,
        in_float=is_product_kept(wiring, node, x, w, y),
    )
    return Change(y.node, (fused,), remove=(node,), constants={**constants, **bias})


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


def bias_operand(
    wiring: Wiring,
    node: Node,
    axis: int,
    tensors: tuple[Dequantized, Dequantized, Quantizer],
    factor: float,
    *,
    strict: bool,
) -> Mapping[str, Array] | None:
    """The bias, a node's third input, as a constant by its name: none if it is absent; None if it cannot be int32.

    ``axis`` of the weights is that of the output channels; ``factor`` multiplies the accumulator's scale.
    """
    if not node.input(2):
        return {}
    x, w, y = tensors
    scale = x.quantization.scale * w.quantization.scale * np.float32(factor)
    if not np.all(np.isfinite(scale) & (scale > 0)):
        return None
    accumulator = Accumulator(scale, y.quantization.scale, strict)
    bias = integer_bias(wiring, node.input(2), wiring.graph.constants[w.codes].shape[axis], accumulator)
    return None if bias is None else {_bias_name(wiring, node, bias): bias}


def _bias_name(wiring: Wiring, node: Node, bias: Array) -> str:
    """The name of the model's own constant if it holds these elements, else a new one."""
    found = dequantized(wiring, node.input(2))
    own = None if found is None else wiring.constant(found.codes)
    if found is not None and own is not None and own.dtype == bias.dtype and np.array_equal(own, bias):
        return found.codes
    return wiring.fresh(f"{node.input(2)}_quantized")
