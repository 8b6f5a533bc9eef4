"""What every accumulator and every tensor channel can be, propagated from the inputs through the Program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import assert_never

import numpy as np

from qcgen import arithmetic
from qcgen.arithmetic import Quantization
from qcgen.intervals.accumulators import (
    INT32_MAX,
    INT32_MIN,
    AccumulatorInterval,
    Range,
    accumulator_interval,
    accumulators,
    all_meet_image,
    element_sums,
    full,
    has_range,
    image_channel_axis,
    is_large,
    partial_sums,
    pixel_sums,
    tightest,
    union,
    weight_differences,
    window_kinds,
    window_patterns,
)
from qcgen.ir.program import (
    ArgMax,
    AveragePool,
    ChannelLookup,
    Concat,
    Conv,
    Convert,
    Dequantize,
    DynamicParameter,
    DynamicQuantize,
    Embedding,
    Extremes,
    FloatActivation,
    FloatBinary,
    FloatOutput,
    FloatSoftmax,
    FloatUnary,
    GatherElements,
    GlobalAveragePool,
    InstanceNorm,
    Int64s,
    IntegerLogSoftmax,
    IntegerLstm,
    IntegerSoftmax,
    IntegerUnary,
    Interpolate,
    LayerNorm,
    Lookup,
    MatMul,
    MaxPool,
    Movement,
    Operator,
    OrionConv,
    Pad,
    Program,
    Quantize,
    QuantizedBinary,
    RawAccumulator,
    Recurrent,
    Reduce,
    Requantize,
    Reshape,
    Resize,
    RoundOnce,
    Select,
    Slice,
    Softmax,
    Tensor,
    TopK,
    Transpose,
    WideSoftmax,
    ZeroPointCorrection,
    inputs_of,
)
from qcgen.ir.types import Array

__all__ = [
    "INT32_MAX",
    "INT32_MIN",
    "AccumulatorInterval",
    "Range",
    "accumulator_interval",
    "accumulators",
    "all_meet_image",
    "annotate",
    "channel_ranges",
    "element_sums",
    "image_channel_axis",
    "is_large",
    "partial_sums",
    "weight_differences",
    "window_kinds",
    "window_patterns",
]


def annotate(program: Program) -> Program:
    """Every integer convolution and product with its ``accumulator_range``; the last change before planning.

    Intervals are those of output channels: they stay true when a kernel or the planner reorders the input's channels.
    """
    ranges = channel_ranges(program)
    return replace(program, operators=tuple(_annotated(op, ranges) for op in program.operators))


def _annotated(op: Operator, ranges: Ranges) -> Operator:
    if isinstance(op, MatMul) and not op.is_float:
        return replace(op, accumulator_range=partial_sums(op, ranges[op.a.name], ranges[op.b.name]))
    if not isinstance(op, Conv) or not op.x.dtype.is_code:
        return op
    reached = accumulators(op, *ranges[op.x.name].along(image_channel_axis(op.x), op.geometry.in_channels))
    return replace(op, accumulator_range=(reached.lo, reached.hi))


Ranges = Mapping[str, Range]


def channel_ranges(program: Program) -> Ranges:
    """For every tensor of integers, by name, bounds of its elements for every input of the model."""
    ranges = {tensor.name: full(tensor.dtype) for tensor in program.inputs if has_range(tensor)}
    for name, values in program.constants.items():
        if np.issubdtype(values.dtype, np.integer) and np.can_cast(values.dtype, np.int64):
            ranges[name] = tightest(values, values)
    for op in program.operators:
        if has_range(op.y):
            ranges[op.y.name] = _range_of(op, ranges)
    return ranges


def _range_of(op: Operator, ranges: Ranges) -> Range:
    """The range of the codes that an operator writes."""
    match op:
        case Conv():
            return _conv(op, ranges)
        case Lookup():
            return _lookup(op, ranges[op.x.name])
        case Embedding():
            return tightest(op.table, op.table).whole()
        case GatherElements():
            return ranges[op.x.name].whole()
        case ChannelLookup():
            return _channel_lookup(op, ranges[op.x.name])
        case MatMul():
            return _product(op, ranges)
        case QuantizedBinary():
            return _binary(op, ranges)
        case MaxPool():
            return _max_pool(op, _pooled(op, ranges))
        case AveragePool():
            return _average_pool(op, _pooled(op, ranges))
        case GlobalAveragePool():
            return _global_average_pool(op, ranges[op.x.name])
        case Interpolate():
            own = ranges[op.x.name]
            return own if own.axis in (None, 3) else own.whole()
        case Reduce():
            return _reduced(op, ranges[op.x.name].whole())
        case Softmax():
            lowest = min(max(op.y.zero_point or 0, op.y.dtype.low), op.y.dtype.high)
            return Range(None, np.array([lowest], np.int64), np.array([op.y.dtype.high], np.int64))
        case ZeroPointCorrection() if op.bound < 2**31:
            return Range(None, np.array([-op.bound]), np.array([op.bound]))
        case Transpose() | Reshape() | Concat() | Slice() | Pad() | Resize():
            return _moved(op, ranges)
        case (
            LayerNorm()
            | InstanceNorm()
            | IntegerLogSoftmax()
            | IntegerSoftmax()
            | IntegerLstm()
            | IntegerUnary()
            | WideSoftmax()
            | OrionConv()
            | ArgMax()
            | TopK()
            | Quantize()
            | Extremes()
            | DynamicParameter()
            | DynamicQuantize()
            | ZeroPointCorrection()
            | FloatOutput()
            | Dequantize()
            | Convert()
            | FloatUnary()
            | FloatBinary()
            | Select()
            | FloatSoftmax()
            | Recurrent()
        ):
            return full(op.y.dtype)
        case _:
            assert_never(op)


def _rounded_once(by: RoundOnce, reached: AccumulatorInterval, axis: int) -> Range:
    return Range(axis, *(arithmetic.round_once(acc, by) for acc in (reached.lo, reached.hi)))


def _conv(op: Conv, ranges: Ranges) -> Range:
    x_axis, y_axis = image_channel_axis(op.x), image_channel_axis(op.y)
    reached = accumulators(op, *ranges[op.x.name].along(x_axis, op.geometry.in_channels))
    match op.epilogue:
        case Requantize():
            return _requantized(op.epilogue, reached, y_axis)
        case RoundOnce() as by:
            return _rounded_once(by, reached, y_axis)
        case RawAccumulator():
            return Range(y_axis, reached.lo, reached.hi)
        case FloatActivation():
            raise AssertionError("a float convolution writes no codes")
        case _:
            assert_never(op.epilogue)


def _requantized(by: Requantize, reached: AccumulatorInterval, axis: int) -> Range:
    """The codes at both ends: the output never decreases with the accumulator, because scales are positive."""
    lo, hi = (arithmetic.codes(by, acc) for acc in (reached.lo, reached.hi))
    return Range(axis, lo, hi)


def _lookup(op: Lookup, x: Range) -> Range:
    x = x.whole() if is_large(op.table.size, x.lo.size) else x
    return Range(x.axis, *_looked_up(op, op.table, x.lo, x.hi))


def _channel_lookup(op: ChannelLookup, x: Range) -> Range:
    channels = len(op.tables)
    if is_large(op.tables.size):
        return full(op.y.dtype)
    return Range(op.axis, *_looked_up(op, op.tables, *x.along(op.axis, channels)))


def _looked_up(op: Lookup | ChannelLookup, tables: Int64s, low: Int64s, high: Int64s) -> tuple[Int64s, Int64s]:
    """The least and the greatest of each row of tables, or of one table, between the codes ``low`` and ``high``."""
    codes = np.arange(op.x.dtype.low, op.x.dtype.high + 1)
    reachable = (codes >= low[:, None]) & (codes <= high[:, None])
    least = np.where(reachable, tables, op.y.dtype.high).min(axis=1)
    return least, np.where(reachable, tables, op.y.dtype.low).max(axis=1)


def _binary(op: QuantizedBinary, ranges: Ranges) -> Range:
    """The codes at the corners: sums rise with both operands, products are extreme where both operands are."""
    rank = len(op.y.shape)
    axis = _shared_axis(op, ranges)
    size = 1 if axis is None else op.y.shape[axis]
    a, b = (_aligned(ranges[x.name], x, rank, axis, size) for x in (op.a, op.b))
    if op.kind == "add":
        return Range(axis, arithmetic.binary(op, a[0], b[0]), arithmetic.binary(op, a[1], b[1]))
    if op.kind == "squared_difference":  # least where both are equal
        codes = np.stack([arithmetic.binary(op, one, other) for one in a for other in b])
        return Range(axis, np.full(codes.shape[1:], max(op.y.zero_point or 0, op.bounds[0])), codes.max(axis=0))
    corners = np.stack([arithmetic.binary(op, one, other) for one in a for other in b])
    return Range(axis, corners.min(axis=0), corners.max(axis=0))


def _product(op: MatMul, ranges: Ranges) -> Range:
    """The codes at both ends of what the sums can be."""
    lo, hi = (np.array([end]) for end in partial_sums(op, ranges[op.a.name], ranges[op.b.name]))
    if not isinstance(op.epilogue, Requantize):
        return Range(None, lo, hi)
    return replace(_requantized(op.epilogue, AccumulatorInterval(lo, hi, False), 0), axis=None)


def _shared_axis(op: QuantizedBinary, ranges: Ranges) -> int | None:
    """The axis of y on which an operand's channels lie, that of a if there are two."""
    for x in (op.a, op.b):
        axis = ranges[x.name].axis
        if axis is not None and x.shape[axis] > 1 and not is_large(x.shape[axis]):
            return axis + len(op.y.shape) - len(x.shape)
    return None


def _aligned(range_: Range, x: Tensor, rank: int, axis: int | None, size: int) -> tuple[Int64s, Int64s]:
    """The bounds of an operand at each place of y's ``axis``, to which it is broadcast."""
    own = -1 if axis is None else axis - (rank - len(x.shape))
    if own >= 0 and x.shape[own] == size:
        return range_.along(own, size)
    return range_.along(-1, size)


def _pooled(op: MaxPool | AveragePool, ranges: Ranges) -> Range:
    """What each channel of a pooling's input can be; pixels are not told apart, because windows mix them."""
    axis, channels, x = image_channel_axis(op.x), op.geometry.in_channels, ranges[op.x.name]
    return x.whole() if is_large(channels) else Range(axis, *x.along(axis, channels))


def _max_pool(op: MaxPool, x: Range) -> Range:
    """x's own range; what a window that lies wholly in padding writes is left open."""
    return x if all_meet_image(op.geometry) else full(op.y.dtype)


def _average_pool(op: AveragePool, x: Range) -> Range:
    """The means of windows full of the lowest code, and of the highest: the mean never decreases with any tap."""
    if not all_meet_image(op.geometry) or is_large(window_kinds(op.geometry), *op.geometry.kernel, x.lo.size):
        return full(op.y.dtype)
    inside = window_patterns(op.geometry)
    counts = np.full(len(inside), inside.shape[1]) if op.count_include_pad else inside.sum(axis=1)
    by = (_quantization(op.x), _quantization(op.y), op.y.dtype.low, op.y.dtype.high)
    spread = np.ones((*inside.T.shape, x.lo.size), np.int64)
    lo, hi = (arithmetic.average(spread * codes, inside.T[:, :, None], counts[:, None], *by) for codes in (x.lo, x.hi))
    return Range(x.axis, lo.min(axis=0), hi.max(axis=0))


def _global_average_pool(op: GlobalAveragePool, x: Range) -> Range:
    assert op.requantize is not None, "a pool of floats writes no codes"
    size = op.x.shape[op.channel_axis]
    if is_large(size):
        return full(op.y.dtype)
    reached = pixel_sums(op, *x.along(op.channel_axis, size))
    axis = op.channel_axis if len(op.y.shape) == len(op.x.shape) else 1
    if isinstance(op.requantize, RoundOnce):
        return _rounded_once(op.requantize, reached, axis)
    return _requantized(op.requantize, reached, axis)


def _reduced(op: Reduce, x: Range) -> Range:
    """The sums of elements that are all at one end; what is largest or smallest lies between x's own ends."""
    if op.requantize is None:
        return x
    return replace(_requantized(op.requantize, element_sums(op, x.lo, x.hi), 0), axis=None)


def _moved(op: Movement, ranges: Ranges) -> Range:
    value = int(op.value) if isinstance(op, Pad) else None
    if is_large(*op.y.shape):
        return union([ranges[x.name] for x in inputs_of(op)], value)
    bounds = [ranges[x.name].elements(x.shape) for x in inputs_of(op)]
    value = value or 0
    return tightest(*(move(op, [both[end] for both in bounds], value) for end in (0, 1)))


def _quantization(tensor: Tensor) -> Quantization:
    assert tensor.scale is not None, f"the scale of {tensor.name!r} is not known"
    assert tensor.zero_point is not None, f"the zero point of {tensor.name!r} is not known"
    return Quantization(tensor.scale, tensor.zero_point)


# The operators that only move elements, done to numpy arrays of anything.


def move(op: Movement, xs: Sequence[Array], padding: float) -> Array:
    """What stands at each place of y; ``padding`` is what a Pad writes."""
    match op:
        case Transpose():
            return xs[0].transpose(op.perm)
        case Reshape():
            return xs[0].reshape(op.y.shape)
        case Concat():
            return np.concatenate(xs, axis=op.axis)
        case Slice():
            places = zip(op.starts, op.steps, op.y.shape, strict=True)
            return xs[0][np.ix_(*(start + step * np.arange(size) for start, step, size in places))]
        case Pad():
            sides = zip(op.before, op.x.shape, op.y.shape, strict=True)
            widths = [(before, after - before - size) for before, size, after in sides]
            return np.pad(xs[0], widths, constant_values=padding)
        case Resize():
            return xs[0][np.ix_(*op.places)]
        case _:
            assert_never(op)
