"""Quantization by axis or block, written out."""

from __future__ import annotations

import numpy as np

from qcgen.ir.graph import Node
from qcgen.ir.types import Array
from qcgen.rewrite.quantization import (
    by_element,
    is_dequantize,
    is_quantize,
)
from qcgen.rewrite.wiring import Change, NoMatch, Steps, Wiring

# What is left divides or multiplies by the scales in float32, each number as onnxruntime does.


def write_out_scales(wiring: Wiring, node: Node) -> Change | None:
    """QuantizeLinear and DequantizeLinear of computed tensors by axis or block."""
    x = wiring.graph.value(node.input(0))
    scale, zero = wiring.constant(node.input(1)), wiring.constant(node.input(2))
    if not (is_quantize(node) or is_dequantize(node)) or scale is None or scale.size == 1 or x.fixed_shape is None:
        return None
    if scale.dtype != np.float32 or (node.input(2) and (zero is None or zero.shape != scale.shape)):
        return None
    scales = _by_element(node, scale, x.fixed_shape)
    if is_quantize(node):
        return _divided(wiring, node, scales, zero, x.fixed_shape)
    if zero is None and x.dtype is not None:
        zero = np.zeros(scale.shape, x.dtype.numpy)
    return None if zero is None else _multiplied(wiring, node, scales, zero, x.fixed_shape)


def _by_element(node: Node, parameter: Array, shape: tuple[int, ...]) -> Array:
    axis, block = node.attributes.get("axis", 1), node.attributes.get("block_size", 0)
    if not isinstance(axis, int) or not isinstance(block, int):
        raise NoMatch
    found = by_element(parameter, shape, axis, block)
    if found is None:
        raise NoMatch
    return found


def _divided(wiring: Wiring, node: Node, scales: Array, zero: Array | None, shape: tuple[int, ...]) -> Change | None:
    """x / scale, which QuantizeLinear rounds and saturates; with several zero points they are added between."""
    dtype = wiring.graph.value(node.outputs[0]).dtype
    if dtype is None or not dtype.is_code:
        return None
    steps = Steps(wiring, node)
    number, only = steps.step("Div", node.inputs[0], steps.constant("scales", scales)), np.zeros((), dtype.numpy)
    if zero is not None and np.ptp(zero):
        addend = _by_element(node, zero, shape).astype(np.float32)
        number = steps.step("Add", steps.step("Round", number), steps.constant("zero_points", addend))
    elif zero is not None:
        only = zero.reshape(-1)[0]
    steps.step("QuantizeLinear", number, *steps.units(only), is_last=True)
    return steps.change()


def _multiplied(wiring: Wiring, node: Node, scales: Array, zero: Array, shape: tuple[int, ...]) -> Change:
    """(code - zero point) * scale."""
    steps, one_zero = Steps(wiring, node), not np.ptp(zero)
    only = zero.reshape(-1)[0] if one_zero else np.zeros((), zero.dtype)
    number = steps.step("DequantizeLinear", node.inputs[0], *steps.units(only))
    if not one_zero:
        subtrahend = _by_element(node, zero, shape).astype(np.float32)
        number = steps.step("Sub", number, steps.constant("zero_points", subtrahend))
    steps.step("Mul", number, steps.constant("scales", scales), is_last=True)
    return steps.change()
