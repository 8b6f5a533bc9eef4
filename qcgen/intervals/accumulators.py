"""The range of a tensor's codes, per channel where they differ, and the interval that accumulators reach from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from qcgen.ir.program import Conv, ConvGeometry, GlobalAveragePool, Int64s, MatMul, Reduce, RoundOnce, Tensor
from qcgen.ir.types import Array, Bools, DType, Layout

MOST = 2**21  # elements of an array of bounds: 16 MiB


def is_large(*sizes: int) -> bool:
    """Whether an array of these sizes would take much time and memory; then channels are not told apart."""
    return prod(sizes) > MOST


@dataclass(frozen=True)
class Range:
    """``lo`` and ``hi`` (n,) int64 bound the elements at each place of ``axis``; n is 1 if ``axis`` is None."""

    axis: int | None
    lo: Int64s
    hi: Int64s

    def along(self, axis: int, size: int) -> tuple[Int64s, Int64s]:
        """The bounds (size,) at each place of this axis, which has ``size`` places."""
        if self.axis == axis:
            return self.lo, self.hi
        return np.full(size, self.lo.min()), np.full(size, self.hi.max())

    def whole(self) -> Range:
        """One range for all channels."""
        return Range(None, self.lo.min(keepdims=True), self.hi.max(keepdims=True))

    def elements(self, shape: tuple[int, ...]) -> tuple[Int64s, Int64s]:
        """The bounds of every element of a tensor of this shape."""
        spread = [1] * len(shape)
        if self.axis is not None:
            spread[self.axis] = -1
        return np.broadcast_to(self.lo.reshape(spread), shape), np.broadcast_to(self.hi.reshape(spread), shape)


def full(dtype: DType) -> Range:
    """Every value of an integer type."""
    return Range(None, np.array([dtype.low], np.int64), np.array([dtype.high], np.int64))


def has_range(tensor: Tensor) -> bool:
    """Whether bounds are kept of this tensor: codes and accumulators have them, floats have none."""
    return tensor.dtype.is_code or tensor.dtype is DType.INT32


def tightest(lo: Array, hi: Array) -> Range:
    """The range of a tensor whose elements have these bounds, along the axis on which it is narrowest on average."""
    whole = Range(None, np.array([lo.min()], np.int64), np.array([hi.max()], np.int64))
    best, least = whole, float((whole.hi - whole.lo)[0])
    for axis in range(lo.ndim):
        others = tuple(other for other in range(lo.ndim) if other != axis)
        along = Range(axis, lo.min(axis=others).astype(np.int64), hi.max(axis=others).astype(np.int64))
        width = float((along.hi - along.lo).mean())
        if width < least or (width == least and best.axis is None and _differs(along)):
            best, least = along, width
    return best


def union(ranges: Sequence[Range], value: int | None = None) -> Range:
    """One range that holds every element of several tensors, and a value besides if one is given."""
    more = [] if value is None else [np.array([value], np.int64)]
    lo, hi = (np.concatenate([*(getattr(each, end) for each in ranges), *more]) for end in ("lo", "hi"))
    return Range(None, lo.min(keepdims=True), hi.max(keepdims=True))


def _differs(range_: Range) -> bool:
    return bool((range_.lo != range_.lo[0]).any() or (range_.hi != range_.hi[0]).any())


# The interval that every accumulator can reach, computed from weights, bias, zero points and the input's range.

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1


@dataclass(frozen=True)
class AccumulatorInterval:
    """The accumulators of each output channel: ``lo`` and ``hi`` (M,) int64.

    Both are reached by some input if the input's channels are free of each other. ``wraps`` says that some sum leaves
    int32; then the accumulator is taken modulo 2^32, as onnxruntime does, and the interval of every channel concerned
    is all of int32.
    """

    lo: Int64s
    hi: Int64s
    wraps: bool

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest accumulator of all channels."""
        return int(self.lo.min()), int(self.hi.max())


def weight_differences(op: Conv) -> Int64s:
    """The weights less their zero points, (M, taps) int64 in [-255, 255]."""
    flat = op.weights.reshape(op.weights.shape[0], -1).astype(np.int64)
    return flat - op.w_zero_point.astype(np.int64)[:, None]


def accumulator_interval(op: Conv, x_range: tuple[Int64s, Int64s] | None = None) -> AccumulatorInterval:
    """The reachable accumulators of an integer convolution.

    ``x_range`` bounds the codes of each input channel, two arrays (C,). Without it the answer is what has been proved
    of the operator within its program (``Conv.accumulator_range``), or else holds for every x of its type.
    """
    if x_range is not None:
        return accumulators(op, *x_range)
    if op.accumulator_range is not None:
        lo, hi = op.accumulator_range
        return AccumulatorInterval(lo, hi, bool(((lo == INT32_MIN) & (hi == INT32_MAX)).any()))
    channels = op.geometry.in_channels
    return accumulators(op, np.full(channels, op.x.dtype.low), np.full(channels, op.x.dtype.high))


def accumulators(op: Conv, x_lo: Int64s, x_hi: Int64s) -> AccumulatorInterval:
    """Equation (3): the reachable accumulators for codes of each input channel in [x_lo, x_hi], both (C,).

    lo = bias + least over the windows of sum of max(w, 0) * lowest + min(w, 0) * highest, and hi the other way round,
    where [lowest, highest] is the range of x - x_zero_point, and 0 for a tap on padding. The bounds are exact because
    the taps of one window are independent inputs.
    """
    g = op.geometry
    w = weight_differences(op).reshape(g.group, g.group_out, g.group_in, -1)
    lowest, highest = ((codes - op.x_zero_point).reshape(g.group, g.group_in) for codes in (x_lo, x_hi))
    positive, negative = np.maximum(w, 0), np.minimum(w, 0)
    low_taps = _weighted(positive, lowest) + _weighted(negative, highest)
    high_taps = _weighted(positive, highest) + _weighted(negative, lowest)
    bias = op.bias.astype(np.int64)
    lo, hi = bias + window_sums(g, low_taps).min(axis=1), bias + window_sums(g, high_taps).max(axis=1)
    return AccumulatorInterval(lo, hi, False) if isinstance(op.epilogue, RoundOnce) else _within_int32(lo, hi)


def pixel_sums(op: GlobalAveragePool, x_lo: Int64s, x_hi: Int64s) -> AccumulatorInterval:
    """The reachable sums of (x - x_zero_point) over all pixels, for codes of each channel in [x_lo, x_hi]."""
    zero_point = op.x.zero_point or 0
    return _within_int32((x_lo - zero_point) * op.pixels, (x_hi - zero_point) * op.pixels)


def element_sums(op: Reduce, x_lo: Int64s, x_hi: Int64s) -> AccumulatorInterval:
    """The same of (x - x_zero_point) over the elements that become one, for codes in [x_lo, x_hi]."""
    zero_point = op.x.zero_point or 0
    return _within_int32((x_lo - zero_point) * op.count, (x_hi - zero_point) * op.count)


def partial_sums(op: MatMul, a: Range | None = None, b: Range | None = None) -> tuple[int, int]:
    """Bounds of what the terms of a product add up to, of the first ones alone too, for codes in these ranges.

    Without ranges, for every code of the types. A term lies between the least and the greatest product of the ends; 0,
    where sums start, is among the bounds.
    """
    a, b = a or full(op.a.dtype), b or full(op.b.dtype)
    a_ends = [end - op.a_zero_point for end in a.along(len(op.a.shape) - 1, op.terms)]
    b_ends = [end - op.b_zero_point for end in b.along(len(op.b.shape) - 2, op.terms)]
    corners = np.stack([one * other for one in a_ends for other in b_ends])
    lo, hi = np.minimum(corners.min(axis=0), 0), np.maximum(corners.max(axis=0), 0)
    return int(lo.sum()), int(hi.sum())


def _weighted(w: Int64s, x: Int64s) -> Int64s:
    """The sum over the input channels of w (group, M/group, C/group, K) * x (group, C/group), as (M, K)."""
    sums: Int64s = np.einsum("gmck,gc->gmk", w, x, optimize=False).reshape(-1, w.shape[-1])
    return sums


def _within_int32(lo: Int64s, hi: Int64s) -> AccumulatorInterval:
    outside = (lo < INT32_MIN) | (hi > INT32_MAX)
    return AccumulatorInterval(np.where(outside, INT32_MIN, lo), np.where(outside, INT32_MAX, hi), bool(outside.any()))


# Which taps of a window lie inside the image, for every kind of window that an operator has.


def axis_spans(g: ConvGeometry, axis: int) -> Int64s:
    """The distinct windows along one spatial axis, (P, 2): the taps from the first on, up to the second, lie inside.

    A window that lies wholly in padding has (0, 0). Taps enter and leave the image one by one, so that only the
    first window and those at which one does so can differ from the window before: few are looked at in large images.
    """
    size, stride, dilation = g.input[axis], g.strides[axis], g.dilations[axis]
    reach = np.arange(g.kernel[axis] + 1, dtype=np.int64) * dilation
    changes = [-(-(g.pads_begin[axis] + end - reach) // stride) for end in (0, size)]
    outputs = np.unique(np.concatenate([[0], *changes]))
    starts = outputs[(outputs >= 0) & (outputs < g.output[axis])] * stride - g.pads_begin[axis]
    first, end = (np.clip(-((starts - edge) // dilation), 0, g.kernel[axis]) for edge in (0, size))
    inside = np.stack([first, end], axis=1)
    inside[first >= end] = 0
    return np.unique(inside, axis=0)


def window_kinds(g: ConvGeometry) -> int:
    """How many distinct windows there are; 1 if none of them meets padding."""
    return int(np.prod([len(axis_spans(g, axis)) for axis in range(g.rank)], dtype=object))


def all_meet_image(g: ConvGeometry) -> bool:
    """Whether every window has a tap inside the image."""
    return all(bool(axis_spans(g, axis)[:, 1].all()) for axis in range(g.rank))


def window_patterns(g: ConvGeometry) -> Bools:
    """The distinct windows (P, K), K taps in the order of the weights: whether each tap lies inside the image.

    A convolution whose windows never meet padding has one pattern, all true.
    """
    patterns = np.ones((1, 1), np.bool_)
    for axis in range(g.rank):
        spans, taps = axis_spans(g, axis), np.arange(g.kernel[axis])
        inside = (taps >= spans[:, :1]) & (taps < spans[:, 1:])
        both = patterns[:, None, :, None] & inside[None, :, None, :]
        patterns = both.reshape(len(patterns) * len(inside), -1)
    return patterns


def window_sums(g: ConvGeometry, taps: Int64s) -> Int64s:
    """What the taps inside the image add up to, (M, P) for taps (M, K): one sum for each distinct window.

    The taps inside are neighbours along every axis, so sums of all taps up to each one give them by subtraction.
    """
    sums = taps.reshape(-1, *g.kernel)
    for axis in range(g.rank):
        spans = axis_spans(g, axis)
        before = np.insert(sums.cumsum(axis=axis + 1), 0, 0, axis=axis + 1)
        sums = before.take(spans[:, 1], axis=axis + 1) - before.take(spans[:, 0], axis=axis + 1)
    return sums.reshape(len(taps), -1)


def image_channel_axis(tensor: Tensor) -> int:
    """The axis of the channels of what a convolution or a pooling reads or writes; of matrices it is the last."""
    return 1 if tensor.layout is Layout.CHANNELS_FIRST else len(tensor.shape) - 1


def window_numbers(g: ConvGeometry, axis: int) -> tuple[int, ...]:
    """For each position along one spatial axis, which of the distinct windows of ``axis_spans`` it has."""
    spans = axis_spans(g, axis)
    starts = np.arange(g.output[axis]) * g.strides[axis] - g.pads_begin[axis]
    first, end = (np.clip(-((starts - edge) // g.dilations[axis]), 0, g.kernel[axis]) for edge in (0, g.input[axis]))
    inside = np.stack([first, end], axis=1)
    inside[first >= end] = 0
    return tuple(int(number) for number in (inside[:, None] == spans).all(axis=2).argmax(axis=1))
