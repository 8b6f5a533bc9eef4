"""Activations with a scale for each channel, as before NNCF's depthwise convolutions, or for each block."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qcgen.ir.graph import Node
from qcgen.ir.types import Array
from qcgen.rewrite.fold_constants import float_constant
from qcgen.rewrite.quantization import (
    Dequantized,
    GraphQuantization,
    by_element,
    is_dequantize,
    is_quantize,
    quantization_of,
    weights,
)
from qcgen.rewrite.wiring import Change, NoMatch, Steps, Wiring

ONE = np.asarray(1, np.float32)

# The scales of a convolution's channels become part of those of its weights, so that its codes are per tensor.


def scale_weights_by_input(wiring: Wiring, node: Node) -> Change | None:
    """A depthwise convolution of codes with a scale by channel: sum of w * s[c] * (q - zero point)."""
    w, maker = _weights(wiring, node), wiring.producers.get(node.input(0))
    x = None if maker is None or not is_dequantize(maker) else _by_channel(wiring, maker)
    if w is None or maker is None or x is None:
        return None
    outputs, per_group, *_ = wiring.graph.constants[w.codes].shape
    if per_group != 1 or node.attributes.get("group", 1) != x.scale.size or outputs % x.scale.size:
        return None
    steps = Steps(wiring, node)
    plain = steps.step("DequantizeLinear", maker.inputs[0], *_units(steps, x.zero_point[0]))
    scaled = _scaled(steps, w, np.repeat(x.scale, outputs // x.scale.size))
    steps.nodes.append(replace(node, inputs=(plain, scaled, *node.inputs[2:]), in_float=True))
    return steps.change()


def scale_weights_by_output(wiring: Wiring, node: Node) -> Change | None:
    """A convolution whose output, or its Relu, is quantized with a scale by channel: w / s[c], and bias / s[c]."""
    w, between, last = _weights(wiring, node), [node], wiring.only_reader(node.outputs[0])
    while last is not None and last.op_type == "Relu":
        between.append(last)
        last = wiring.only_reader(last.outputs[0])
    y = None if last is None or not is_quantize(last) else _by_channel(wiring, last)
    if w is None or last is None or y is None or wiring.graph.constants[w.codes].shape[0] != y.scale.size:
        return None
    steps, bias = Steps(wiring, last), float_constant(wiring, node.input(2))
    if bias is None and node.input(2):
        return None
    scaled = _scaled(steps, w, ONE / y.scale)
    inputs = (node.inputs[0], scaled, *(() if bias is None else (steps.constant("bias", bias / y.scale),)))
    steps.nodes += (replace(node, inputs=inputs, in_float=True), *between[1:])
    steps.step("QuantizeLinear", last.inputs[0], *_units(steps, y.zero_point[0]), is_last=True)
    return steps.change(remove=between)


def _by_channel(wiring: Wiring, node: Node) -> GraphQuantization | None:
    """How 8-bit codes are quantized with a scale by channel and one zero point."""
    found = quantization_of(wiring, node)
    is_alike = found is not None and found.axis == 1 and found.dtype.is_quantized and not np.ptp(found.zero_point)
    return found if is_alike else None


def _weights(wiring: Wiring, node: Node) -> Dequantized | None:
    return weights(wiring, node.input(1), 0) if (node.domain, node.op_type) == ("", "Conv") else None


def _units(steps: Steps, zero_point: Array) -> tuple[str, str]:
    """The scale 1 and the one zero point."""
    return steps.constant("unit", ONE), steps.constant("zero_point", zero_point)


def _scaled(steps: Steps, w: Dequantized, factors: Array) -> str:
    """The weights with their scales times ``factors`` (M,)."""
    by = w.quantization
    scale, zero_point = by.scale * factors, np.broadcast_to(by.zero_point, factors.shape)
    constants = steps.constant("scales", scale), steps.constant("zero_points", zero_point)
    return steps.step("DequantizeLinear", w.codes, *constants, axis=0)


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
    steps.step("QuantizeLinear", number, *_units(steps, only), is_last=True)
    return steps.change()


def _multiplied(wiring: Wiring, node: Node, scales: Array, zero: Array, shape: tuple[int, ...]) -> Change:
    """(code - zero point) * scale."""
    steps, one_zero = Steps(wiring, node), not np.ptp(zero)
    only = zero.reshape(-1)[0] if one_zero else np.zeros((), zero.dtype)
    number = steps.step("DequantizeLinear", node.inputs[0], *_units(steps, only))
    if not one_zero:
        subtrahend = _by_element(node, zero, shape).astype(np.float32)
        number = steps.step("Sub", number, steps.constant("zero_points", subtrahend))
    steps.step("Mul", number, steps.constant("scales", scales), is_last=True)
    return steps.change()
