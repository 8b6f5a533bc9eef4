"""Convolutions and products of matrices of .tflite networks: sums of products, requantized in two roundings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np

from qcgen.geometry import MOST_PHASES, TransposedAxis
from qcgen.intervals import accumulators, partial_sums
from qcgen.ir.program import (
    Conv,
    ConvGeometry,
    MatMul,
    Operator,
    Reshape,
    RoundOnce,
    RoundTwice,
    Slice,
    Tensor,
    Transpose,
)
from qcgen.ir.types import Array, Layout
from qcgen.lower.linear import row_geometry
from qcgen.tflite.fixed_point import bounds, overflows, round_twice, rounded_up
from qcgen.tflite.graph import AGAIN, PADDINGS, TfliteCodes
from qcgen.tflite.operands import Refused, TfliteOperands

TOO_LARGE = "some input makes a sum leave int32, of which C++ does not say what TensorFlow Lite Micro computes"


def lower_conv(source: TfliteOperands) -> tuple[Operator, ...]:
    """CONV_2D: scales of weights per tensor or per output channel; groups; weights (M, kH, kW, C / groups)."""
    weights, by = source.weights(4)
    x = require_image(source.x(layout=Layout.CHANNELS_LAST))
    group = x.shape[-1] // weights.shape[3]
    if group * weights.shape[3] != x.shape[-1] or weights.shape[0] % group:
        raise Refused(f"weights for {weights.shape[3]} channels do not fit an image of {x.shape[-1]}", AGAIN)
    return (_conv(source, x, weights.transpose(0, 3, 1, 2), by, 0, group),)


def lower_depthwise(source: TfliteOperands) -> tuple[Operator, ...]:
    """DEPTHWISE_CONV_2D: the same, with any multiplier of channels; weights (1, kH, kW, C * multiplier)."""
    weights, by = source.weights(4)
    x = require_image(source.x(layout=Layout.CHANNELS_LAST))
    if weights.shape[0] != 1 or weights.shape[3] % x.shape[-1]:
        raise Refused(f"weights for {weights.shape[3]} channels do not fit an image of {x.shape[-1]}", AGAIN)
    return (_conv(source, x, weights.transpose(3, 0, 1, 2), by, 3, x.shape[-1]),)


def require_image(x: Tensor) -> Tensor:
    """A tensor that should be an image (N, H, W, C); another one is refused."""
    if len(x.shape) != 4:
        raise Refused(f"its input has {len(x.shape)} axes, not 4", AGAIN)
    return x


def _conv(source: TfliteOperands, x: Tensor, weights: Array, by: TfliteCodes, axis: int, group: int) -> Conv:
    """A convolution with weights (M, C / group, kH, kW), whose scales lie along ``axis`` of those in the file."""
    y = require_image(source.y(Layout.CHANNELS_LAST))
    _require_weights(by, axis, weights.shape[0])
    geometry = window_geometry(source, x, weights.shape[2:], weights.shape[0], group)
    if y.shape != (geometry.batch, *geometry.output, geometry.out_channels):
        raise Refused(f"its output should be {geometry.output} with {geometry.out_channels} channels", AGAIN)
    return _product(source, x, y, geometry, np.ascontiguousarray(weights), by, source.bias(weights.shape[0]))


def _require_weights(by: TfliteCodes, axis: int, channels: int) -> None:
    """The same, and that their zero points are 0."""
    _require_scales(by, axis, channels)
    if by.zero_points.any():
        raise Refused("the zero point of its weights is not 0", AGAIN)


def _require_scales(by: TfliteCodes, axis: int, channels: int) -> None:
    """That weights have one scale, or one of each output channel, which are along ``axis``."""
    if by.scales.size > 1 and (by.axis, by.scales.size) != (axis, channels):
        what = f"its weights have {by.scales.size} scales along axis {by.axis}, not {channels} along axis {axis}"
        raise Refused(what, AGAIN)


def window_geometry(
    source: TfliteOperands, x: Tensor, kernel: tuple[int, ...], out_channels: int, group: int
) -> ConvGeometry:
    """Windows of an image (N, H, W, C), padded as the option says."""
    strides = source.option("stride_h"), source.option("stride_w")
    dilations = source.option("dilation_h", 1), source.option("dilation_w", 1)
    padding = source.option("padding")
    if not all(0 < n < 2**15 for n in (*strides, *dilations)) or padding not in (0, 1):
        raise Refused("its strides, dilations or padding are not valid", AGAIN)
    begin: list[int] = []
    end: list[int] = []
    output: list[int] = []
    for size, k, stride, dilation in zip(x.shape[1:3], kernel, strides, dilations, strict=True):
        reach = (k - 1) * dilation + 1
        count = -(-size // stride) if PADDINGS[padding] == "SAME" else (size - reach) // stride + 1
        if count < 1:
            raise Refused(f"its window of {reach} is larger than the image of {size}", AGAIN)
        pad = max((count - 1) * stride + reach - size, 0)
        begin.append(pad // 2)
        end.append(pad - pad // 2)
        output.append(count)
    sizes = (x.shape[0], group, x.shape[-1], out_channels)
    pads = (tuple(begin), tuple(end))
    return ConvGeometry(*sizes, x.shape[1:3], tuple(kernel), strides, dilations, *pads, tuple(output))


def _product(
    source: TfliteOperands, x: Tensor, y: Tensor, geometry: ConvGeometry, weights: Array, by: TfliteCodes, bias: Array
) -> Conv:
    """Sums of products, requantized by the scales of x and weights over that of y, in float64.

    Source: PopulateConvolutionQuantizationParams in kernels/kernel_util.cc.
    """
    channels = geometry.out_channels
    scales = np.broadcast_to(by.scales.astype(np.float64), (channels,)) * float(x.scale or 1) / float(y.scale or 1)
    low, high = bounds(source.activation(), y.scale or 1, y.zero_point or 0, y.dtype)
    if low > high:
        raise Refused("its fused activation leaves no code", AGAIN)
    if source.sums_in_64_bits():
        return sums_of_products(source, x, y, geometry, weights, by, bias, rounded_up(scales, low, high))
    epilogue = round_twice(scales, y.zero_point or 0, low, high)
    return sums_of_products(source, x, y, geometry, weights, by, bias, epilogue)


def sums_of_products(
    source: TfliteOperands,
    x: Tensor,
    y: Tensor,
    geometry: ConvGeometry,
    weights: Array,
    by: TfliteCodes,
    bias: Array,
    epilogue: RoundTwice | RoundOnce,
    *,
    wraps: bool = False,
) -> Conv:
    """The convolution; one with some input for which a sum leaves int32 is refused, unless sums may wrap."""
    zero_points = np.array(np.broadcast_to(by.zero_points.astype(np.int32), (geometry.out_channels,)))
    conv = Conv(
        name=source.node.name,
        op_type=source.node.op_type,
        x=x,
        y=y,
        geometry=geometry,
        x_zero_point=x.zero_point or 0,
        weights=weights,
        w_zero_point=zero_points,
        bias=bias,
        epilogue=epilogue,
    )
    if isinstance(epilogue, RoundTwice) and not (wraps and epilogue.exponent.max() <= 0):
        _require_room(conv, epilogue)
    return conv


def _require_room(conv: Conv, epilogue: RoundTwice) -> None:
    reached = accumulators(
        conv, *(np.full(conv.geometry.in_channels, end) for end in (conv.x.dtype.low, conv.x.dtype.high))
    )
    if reached.wraps or overflows(epilogue, np.maximum(np.abs(reached.lo), np.abs(reached.hi))):
        raise Refused(TOO_LARGE, "quantize with a smaller range of weights, or give the layer fewer inputs")


def lower_fully_connected(source: TfliteOperands) -> tuple[Operator, ...]:
    """FULLY_CONNECTED: the same; weights (N, K), inputs of any shape, in rows of K."""
    weights, by = source.weights(2)
    if source.option("weights_format"):
        raise Refused("its weights are shuffled", AGAIN)
    x, y = source.x(), source.y()
    count, terms = weights.shape
    _require_scales(by, 0, count)
    if prod(x.shape) % terms or prod(y.shape) != prod(x.shape) // terms * count:
        raise Refused(f"weights {count}x{terms} do not fit its input and output", AGAIN)
    rows = prod(x.shape) // terms
    before: tuple[Operator, ...] = ()
    after: tuple[Operator, ...] = ()
    given, result = x, y
    if x.shape[-1:] != (terms,):
        given = source.inner("rows", x, (rows, terms))
        before = (Reshape(source.node.name, source.node.op_type, x, given),)
    if y.shape != (*given.shape[:-1], count):
        result = source.inner("product", y, (*given.shape[:-1], count))
        after = (Reshape(source.node.name, source.node.op_type, result, y),)
    geometry = row_geometry(given, count)
    return (*before, _product(source, given, result, geometry, weights[:, :, None], by, source.bias(count)), *after)


def lower_transpose_conv(source: TfliteOperands) -> tuple[Operator, ...]:
    """TRANSPOSE_CONV: as CONV_2D, weights (M, kH, kW, C); a convolution that computes the phases of the output."""
    weights, by = source.weights(4)
    x, y = require_image(source.x(2, Layout.CHANNELS_LAST)), require_image(source.y(Layout.CHANNELS_LAST))
    channels = weights.shape[0]
    if (weights.shape[3], y.shape[0], y.shape[3]) != (x.shape[3], x.shape[0], channels):
        raise Refused(f"weights {weights.shape} do not make its output {y.shape} of its input {x.shape}", AGAIN)
    _require_weights(by, 0, channels)
    axes = [_transposed_axis(source, x, y, weights, axis) for axis in (1, 2)]
    strides = [axis.stride for axis in axes]
    phases = prod(strides)
    if phases > MOST_PHASES:
        raise Refused(f"its strides are {strides}", f"use strides whose product is {MOST_PHASES} at most")
    counts = [axis.size + sum(axis.pads) - axis.reach + 1 for axis in axes]
    made = (x.shape[0], *counts, channels * phases)
    geometry = ConvGeometry(
        batch=x.shape[0],
        group=1,
        in_channels=x.shape[3],
        out_channels=channels * phases,
        input=x.shape[1:3],
        kernel=tuple(axis.reach for axis in axes),
        strides=(1, 1),
        dilations=(1, 1),
        pads_begin=tuple(axis.pads[0] for axis in axes),
        pads_end=tuple(axis.pads[1] for axis in axes),
        output=tuple(counts),
    )
    is_plain = phases == 1 and not any(axis.is_cut for axis in axes)
    result = y if is_plain else replace(source.inner("phases", y, made), layout=Layout.CHANNELS_LAST)
    bias = np.tile(source.bias(channels, 3), phases)
    each = np.tile(np.broadcast_to(by.scales, (channels,)), phases)
    codes = TfliteCodes(each, np.zeros(each.size, np.int64), 0)
    conv = _product(source, x, result, geometry, _phase_weights(weights, axes), codes, bias)
    return (conv,) if is_plain else (conv, *_side_by_side(source, result, y, axes, counts))


def _transposed_axis(source: TfliteOperands, x: Tensor, y: Tensor, weights: Array, axis: int) -> TransposedAxis:
    """Axis 1 or 2 of a TRANSPOSE_CONV, padded as a convolution from y to x would be.

    Source: CalculateOpData in micro/kernels/transpose_conv.cc.
    """
    stride, kernel = source.option("stride_h" if axis == 1 else "stride_w"), weights.shape[axis]
    padding = source.option("padding")
    if not 0 < stride < 2**15 or padding not in (0, 1):
        raise Refused("its strides or padding are not valid", AGAIN)
    size, outputs = x.shape[axis], y.shape[axis]
    count = -(-outputs // stride) if PADDINGS[padding] == "SAME" else (outputs - kernel) // stride + 1
    pad = max((count - 1) * stride + kernel - outputs, 0) // 2
    found = TransposedAxis(size, kernel, stride, 1, pad, outputs)
    unread = size + sum(found.pads) - found.reach + 1 - -(-(found.first + outputs) // stride)
    if found.pads[0] < 0 or found.pads[1] >= found.reach or unread >= found.reach:
        raise Refused(f"its output has {outputs} places along axis {axis}, which do not come of {size}", AGAIN)
    return found


def _phase_weights(weights: Array, axes: Sequence[TransposedAxis]) -> Array:
    """Weights (phases * M, C, reach, reach), 0 where a phase has fewer taps, of (M, kH, kW, C)."""
    down, across = axes
    made = np.zeros((down.stride, across.stride, weights.shape[0], weights.shape[3], down.reach, across.reach), np.int8)
    for row, column in product(range(down.stride), range(across.stride)):
        for (top, i), (left, j) in product(down.taps(row), across.taps(column)):
            made[row, column, :, :, top, left] = weights[:, i, j]
    return made.reshape(-1, *made.shape[3:])


def _side_by_side(
    source: TfliteOperands, x: Tensor, y: Tensor, axes: Sequence[TransposedAxis], counts: Sequence[int]
) -> tuple[Operator, ...]:
    """The phases, which are channels of x, become neighbours in y; what is beyond y is cut off."""
    name, op_type, batch, channels = source.node.name, source.node.op_type, y.shape[0], y.shape[3]
    (height, width), (down, across) = counts, (axis.stride for axis in axes)
    shapes = [
        (batch, height, width, down, across, channels),
        (batch, height, down, width, across, channels),
        (batch, height * down, width * across, channels),
    ]
    parted, moved = (source.inner(word, y, shape) for word, shape in zip(("parted", "moved"), shapes, strict=False))
    is_cut = any(axis.is_cut for axis in axes)
    whole = replace(source.inner("whole", y, shapes[2]), layout=Layout.CHANNELS_LAST) if is_cut else y
    operators = (
        Reshape(name, op_type, x, parted),
        Transpose(name, op_type, parted, moved, (0, 1, 3, 2, 4, 5)),
        Reshape(name, op_type, moved, whole),
    )
    starts = (0, *(axis.first for axis in axes), 0)
    return (*operators, Slice(name, op_type, whole, y, starts, (1, 1, 1, 1))) if is_cut else operators


def lower_batch_matmul(source: TfliteOperands) -> tuple[Operator, ...]:
    """BATCH_MATMUL: of two tensors, either of them transposed."""
    a, b, y = source.x(0), source.x(1), source.y()
    name, op_type = source.node.name, source.node.op_type
    is_turned = [bool(source.option(key)) for key in ("adj_x", "adj_y")]
    if min(len(a.shape), len(b.shape)) < 2:
        raise Refused(f"it multiplies {a.shape} with {b.shape}", AGAIN)
    before: list[Operator] = []
    parts = []
    for word, x, turn in zip(("left", "right"), (a, b), is_turned, strict=True):
        rank = len(x.shape)
        part = source.inner(word, x, (*x.shape[:-2], x.shape[-1], x.shape[-2])) if turn else x
        before += [Transpose(name, op_type, x, part, (*range(rank - 2), rank - 1, rank - 2))] if turn else []
        parts.append(part)
    left, right = parts
    try:
        shape = (*np.broadcast_shapes(left.shape[:-2], right.shape[:-2]), left.shape[-2], right.shape[-1])
    except ValueError:
        shape = ()
    if shape != y.shape or left.shape[-1] != right.shape[-2]:
        raise Refused(f"the product of {left.shape} and {right.shape} is not its output {y.shape}", AGAIN)
    scale = float(a.scale or 1) * float(b.scale or 1) / float(y.scale or 1)
    epilogue = round_twice(np.array([scale]), y.zero_point or 0, y.dtype.low, y.dtype.high)
    matmul = MatMul(name, op_type, left, right, y, left.zero_point or 0, right.zero_point or 0, epilogue)
    lo, hi = partial_sums(matmul)
    if max(-lo, hi) >= 2**31 or overflows(epilogue, np.array([max(-lo, hi)])):
        raise Refused(TOO_LARGE, "quantize with the range that its output has, or multiply smaller matrices")
    return (*before, matmul)
