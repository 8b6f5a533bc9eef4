"""Layers of .tflite networks that sum products: convolutions, products of matrices, and those that remember calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import frexp, prod

import numpy as np

from qcgen.geometry import MOST_PHASES, TransposedAxis
from qcgen.intervals import accumulators, partial_sums
from qcgen.ir.program import (
    Concat,
    Conv,
    ConvGeometry,
    IntegerLstm,
    IntegerRows,
    Lookup,
    MatMul,
    Operator,
    Reshape,
    RoundOnce,
    RoundTwice,
    Slice,
    Tensor,
    Transpose,
)
from qcgen.ir.types import Array, DType, Layout
from qcgen.lower.linear import row_geometry
from qcgen.tflite.fixed_point import bounds, multiplier_of, overflows, round_twice, rounded_up
from qcgen.tflite.graph import ACTIVATIONS, AGAIN, CONVERT_INT8, PADDINGS, Refused, TfliteCodes, TfliteOperands

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
        return _sums_of_products(source, x, y, geometry, weights, by, bias, rounded_up(scales, low, high))
    epilogue = round_twice(scales, y.zero_point or 0, low, high)
    return _sums_of_products(source, x, y, geometry, weights, by, bias, epilogue)


def _sums_of_products(
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


def lower_svdf(source: TfliteOperands) -> tuple[Operator, ...]:
    """SVDF: a product whose results of the last M calls go through a convolution of M taps.

    x (N, I), weights (F, I) and (F, M), memory (N, M, F), y (N, F / rank). Each result is clamped to the memory's type
    before its zero point is added, and then wraps; the zero point of int16 codes is 0. Source: EvalIntegerSvdfReference
    and PrepareSvdf in micro/kernels/svdf_common.cc, in the version that recorded; a later one adds the zero point
    first.
    """
    x, y, memory = source.x(), source.y(of=2), source.x(4, Layout.CHANNELS_LAST, (DType.INT8, DType.INT16))
    kept = source.kept(0, memory)
    features, features_by = source.weights(2)
    time, time_by = source.weights(2, 2, (memory.dtype.numpy.type,))
    rank, (filters, calls) = source.option("rank"), time.shape
    units = filters // rank if rank > 0 else 0
    shapes = (x.shape[1:], features.shape, memory.shape, y.shape)
    batch = x.shape[0] if x.shape else 0
    fitting = (features.shape[1:], (filters, *x.shape[1:]), (batch, calls, filters), (batch, units))
    if len(x.shape) != 2 or not units or filters % rank or shapes != fitting:
        what = f"weights {features.shape} and {time.shape} of rank {rank}"
        raise Refused(f"{what} do not fit its input, memory and output", AGAIN)
    if calls < 2:
        raise Refused("its memory holds one call", "convert the model with FULLY_CONNECTED instead")
    if memory.dtype is DType.INT16 and memory.zero_point:
        raise Refused(f"the zero point of its memory is {memory.zero_point}: of int16 codes it is 0", AGAIN)
    if features_by.scales.size != 1 or time_by.scales.size != 1:
        raise Refused("its weights have several scales", AGAIN)
    name, op_type = source.node.name, source.node.op_type
    scale, state, result = (np.float32(tensor.scale or 1) for tensor in (x, memory, y))
    first, second = features_by.scales[0] * scale / state, time_by.scales[0] * state / result

    found = replace(source.inner("found", memory, (batch, filters)), zero_point=0)
    by = round_twice(np.array([first] * filters), 0, memory.dtype.low, memory.dtype.high)
    zeros = np.zeros(filters, np.int32)
    geometry = row_geometry(x, filters)
    product = _sums_of_products(source, x, found, geometry, features[:, :, None], features_by, zeros, by)

    zero_point = memory.zero_point or 0
    codes = np.arange(memory.dtype.low, memory.dtype.high + 1) + zero_point
    wrapped = (codes - memory.dtype.low) % len(codes) + memory.dtype.low
    coded = source.inner("codes", memory, found.shape) if zero_point else found
    newest = replace(source.inner("newest", memory, (batch, 1, filters)), layout=memory.layout)
    older = replace(source.inner("older", memory, (batch, calls - 1, filters)), layout=memory.layout)

    along = ConvGeometry(
        batch, units, filters, units, (calls,), (calls,), (1,), (1,), pads_begin=(0,), pads_end=(0,), output=(1,)
    )
    over_time = replace(source.inner("sums", y, (batch, 1, units)), layout=memory.layout)
    by = round_twice(np.array([second] * units), y.zero_point or 0, y.dtype.low, y.dtype.high)
    taps, bias = time.reshape(units, rank, calls), source.bias(units, 3)
    return (
        product,
        *((Lookup(name, op_type, found, coded, wrapped),) if zero_point else ()),
        Reshape(name, op_type, coded, newest),
        Slice(name, op_type, memory, older, (0, 1, 0), (1, 1, 1)),
        Concat(name, op_type, (older, newest), kept, 1),
        # Of int16 codes sums leave int32 for some inputs: C++ has no result then, the judge's machine wraps.
        _sums_of_products(source, kept, over_time, along, taps, time_by, bias, by, wraps=memory.dtype is DType.INT16),
        Reshape(name, op_type, over_time, y),
    )


WITHOUT = {"peepholes": range(9, 12), "a projection": range(16, 18), "layer normalization": range(20, 24)}
"""Inputs by which an LSTM of TensorFlow Lite has what TensorFlow Lite Micro does not compute."""


def lower_lstm(source: TfliteOperands) -> tuple[Operator, ...]:
    """UNIDIRECTIONAL_SEQUENCE_LSTM of int8 with a cell of int16; x (B, T, I), with time_major (T, B, I).

    Source: PrepareGateParametersInteger in micro/kernels/lstm_eval_common.cc.
    """
    node, name, op_type = source.node, source.node.name, source.node.op_type
    for what, indices in WITHOUT.items():
        if any(node.inputs[index] for index in indices if index < len(node.inputs)):
            raise Refused(f"it has {what}", "use an LSTM without: TensorFlow Lite Micro does not compute it, either")
    if source.option("activation") != ACTIVATIONS.index("TANH"):
        raise Refused("its activation is not TANH", "use the activation of Keras' LSTM, tanh")
    x, y, h = source.x(), source.y(of=3), source.x(18)
    c, power = _cell(source)
    is_by_step = bool(source.option("time_major")) and x.shape[:1] != (1,)
    before: tuple[Operator, ...] = ()
    after: tuple[Operator, ...] = ()
    result = y
    if is_by_step:
        given = source.inner("sequences", x, (x.shape[1], x.shape[0], *x.shape[2:]))
        result = source.inner("states", y, (y.shape[1], y.shape[0], *y.shape[2:]))
        before = (Transpose(name, op_type, x, given, (1, 0, 2)),)
        after = (Transpose(name, op_type, result, y, (1, 0, 2)),)
        x = given
    weights = [source.weights(2, index) for index in range(1, 9)]
    units = len(weights[0][0])
    if (
        len(x.shape) != 3
        or {codes.shape for codes, _ in weights[:4]} != {(units, x.shape[2])}
        or {codes.shape for codes, _ in weights[4:]} != {(units, units)}
        or (h.shape, c.shape, result.shape) != ((x.shape[0], units), (x.shape[0], 2 * units), (*x.shape[:2], units))
    ):
        raise Refused(f"its weights do not fit its input {x.shape} and its output {result.shape}", AGAIN)
    if any(by.scales.size != 1 or by.zero_points.any() for _, by in weights):
        raise Refused("its weights have several scales, or zero points", AGAIN)
    biases = [source.bias(units, index) for index in range(12, 16)]
    batch, steps = x.shape[:2]
    rows = replace(source.inner("rows", y, (batch, steps + 2, units)), scale=None, zero_point=None)
    clip = node.attributes["cell_clip"]
    assert isinstance(clip, int | float), "the reader gives a number"
    lstm = IntegerLstm(
        name=name,
        op_type=op_type,
        x=x,
        h=h,
        c=c,
        y=rows,
        weights=_rows(x, weights[:4], biases),
        state_weights=_rows(h, weights[4:], [np.zeros(units, np.int64)] * 4),
        forget_by=multiplier_of(2.0**-15),
        input_by=multiplier_of(2.0**-30 / 2.0**power),
        output_by=multiplier_of(2.0**-30 / float(h.scale or 1)),
        zero_point=h.zero_point or 0,
        power=power,
        clip=int(min(clip / 2.0**power, 2**15 - 1)) if clip > 0 else 2**15,
    )
    if lstm.output_by[1] > 0:
        raise Refused(f"the scale of its state is {h.scale}", "quantize with the range that its output has")
    ends = [source.kept(0, h), source.kept(1, c)]
    parts = [replace(source.inner(f"last{n}", y, (batch, 1 + n, units)), scale=None, zero_point=None) for n in (0, 1)]
    one = (1, 1, 1)
    return (
        *before,
        lstm,
        Slice(name, op_type, rows, result, (0, 0, 0), one),
        Slice(name, op_type, rows, parts[0], (0, steps - 1, 0), one),
        Reshape(name, op_type, parts[0], ends[0]),
        Slice(name, op_type, rows, parts[1], (0, steps, 0), one),
        Reshape(name, op_type, parts[1], ends[1]),
        *after,
    )


def _cell(source: TfliteOperands) -> tuple[Tensor, int]:
    """The bytes of the cell, and the power of 2 that its scale is."""
    name = source.node.inputs[19] if len(source.node.inputs) > 19 else ""
    value, by = source.graph.value(name), source.graph.codes.get(name)
    scale = float(by.scales[0]) if by is not None else 0.0
    fraction, power = frexp(scale)
    if value.dtype is not DType.INT8 or fraction != 0.5 or not -30 <= power - 1 <= 2:
        raise Refused("its cell has not int16 codes whose scale is a power of 2", CONVERT_INT8)
    return Tensor(name, DType.INT8, value.fixed_shape or ()), power - 1


def _rows(x: Tensor, weights: Sequence[tuple[Array, TfliteCodes]], biases: Sequence[Array]) -> IntegerRows:
    """The weights of x, of the four gates, with its zero point in the biases."""
    codes, zero_point = np.stack([each for each, _ in weights]), x.zero_point or 0
    starts = np.stack(biases).astype(np.int64) - zero_point * codes.sum(axis=-1, dtype=np.int64)
    found = [multiplier_of(float(x.scale or 1) * float(by.scales[0]) / 2.0**-12) for _, by in weights]
    reach = np.abs(codes.astype(np.int64)).sum(axis=-1)
    largest = np.abs(starts) + 128 * reach
    most = max(exponent for _, exponent in found)
    if most > 30 or int(largest.max()) << max(most, 0) >= 2**31:
        raise Refused(TOO_LARGE, "quantize with a smaller range of weights, or give the layer fewer inputs")
    first, second, third, fourth = found
    return IntegerRows(codes, starts, (first, second, third, fourth))
