"""Operators of windows, tap by tap: convolutions as ONNX and onnxruntime mean them, and as Orion does, and poolings."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from types import EllipsisType
from typing import assert_never

import numpy as np

from qcgen import arithmetic
from qcgen.errors import OrionPanic
from qcgen.intervals import INT32_MIN
from qcgen.ir.program import (
    AveragePool,
    Conv,
    ConvGeometry,
    FloatActivation,
    GlobalAveragePool,
    Int64s,
    MaxPool,
    OrionConv,
    RawAccumulator,
    Requantize,
    RoundOnce,
)
from qcgen.ir.types import Array, DType, Layout
from qcgen.orion import MAGNITUDE_MAX, divide, multiply, requantize_orion, run_time_tests
from qcgen.reference.elementwise import OWN, activate, in_float32, quantization_of


def evaluate_conv(op: Conv, x: Array) -> Array:
    """y for x in the model's own shapes and layouts; float convolutions are computed in a wider type, then rounded.

    A tensor without a layout is a matrix: rows of channels.
    """
    g = op.geometry
    rows = x.reshape(g.batch, *g.input, g.in_channels) if op.x.layout is None else x
    image = rows if op.x.layout is Layout.CHANNELS_FIRST else np.moveaxis(rows, -1, 1)
    is_float = isinstance(op.epilogue, FloatActivation)
    wide: type[np.generic] = np.int64
    if is_float:  # wider than the sum of the C, where this machine has such a type
        wide = np.longdouble if op.x.dtype is DType.FLOAT64 else np.float64
    codes = image.astype(wide) - op.x_zero_point
    zero_points = op.w_zero_point.reshape((-1,) + (1,) * (op.geometry.rank + 1))
    weights = op.weights.astype(wide) - zero_points
    acc = convolve(op.geometry, codes, weights) + op.bias.astype(wide).reshape((-1,) + (1,) * op.geometry.rank)
    y = _finish(op, acc)
    if op.y.layout is Layout.CHANNELS_FIRST:
        return y
    last = np.moveaxis(y, 1, -1)
    return last.reshape(op.y.shape) if op.y.layout is None else last


def convolve(g: ConvGeometry, x: Array, weights: Array) -> Array:
    """Sums of products (N, M, out...) of x (N, C, in...) and weights (M, C/group, k...), padding with zeros.

    Works in the type of its arguments; the caller sees to it that nothing overflows.
    """
    grouped = weights.reshape(g.group, g.group_out, g.group_in, -1)
    acc = np.zeros((g.batch, g.group, g.group_out, *g.output), x.dtype)
    for index, part in enumerate(taps(g, x)):
        seen = part.reshape(g.batch, g.group, g.group_in, *g.output)
        acc += np.einsum("ngc...,gmc->ngm...", seen, grouped[..., index])
    return acc.reshape(g.batch, g.out_channels, *g.output)


def _finish(op: Conv, acc: Array) -> Array:
    match op.epilogue:
        case Requantize() as by:
            return arithmetic.codes(by, _wrap(acc), channel_axis=1).astype(op.y.dtype.numpy)
        case RoundOnce() as by:
            shape = (-1,) + (1,) * op.geometry.rank
            return arithmetic.round_once(acc, by, shape).astype(op.y.dtype.numpy)
        case RawAccumulator():
            return _wrap(acc).astype(np.int32)
        case FloatActivation():
            if op.epilogue.kind in OWN and op.y.dtype is DType.FLOAT32:
                return in_float32(op.epilogue, acc.astype(np.float32))
            return activate(op.epilogue, acc).astype(op.y.dtype.numpy)
        case _:
            assert_never(op.epilogue)


def _wrap(acc: Array) -> Array:
    """The int32 number that equals acc modulo 2^32."""
    return (acc - INT32_MIN) % 2**32 + INT32_MIN


# Poolings, tap by tap.


def evaluate_max_pool(op: MaxPool, x: Array) -> Array:
    """The largest number of every window; of one without a tap on the image the lowest of the type, as onnxruntime."""
    lowest = op.x.dtype.low if op.x.dtype.is_code else float(np.finfo(np.float32).min)
    image = _channels_first(x, op.x.layout)
    first, *others = taps(op.geometry, image, lowest)
    largest = np.asarray(first)
    for tap in others:  # of a zero and its negative, the last one, as in onnxruntime
        largest = np.where(tap >= largest, tap, np.maximum(largest, tap))
    return _as_stored(largest, op.y.layout)


def evaluate_average_pool(op: AveragePool, x: Array) -> Array:
    """Equation (15); (96) of float32 numbers. Without a tap on the image it is 0."""
    image = _channels_first(x, op.x.layout)
    g = op.geometry
    inside = _stacked(g, np.ones((1, 1, *g.input), np.bool_), False)
    count = np.prod(g.kernel) if op.count_include_pad else np.maximum(inside.sum(axis=0), 1)
    if op.x.dtype.is_quantized:
        x_by, y_by = quantization_of(op.x), quantization_of(op.y)
        low, high = op.y.dtype.low, op.y.dtype.high
        y: Array = arithmetic.average(_stacked(g, image, 0), inside, np.asarray(count), x_by, y_by, low, high)
    else:
        found = _stacked(g, image, 0.0)
        y = _sum_of_windows(found, g.kernel[-1] if op.is_by_columns else len(found)) / np.asarray(count, np.float32)
    return _as_stored(np.asarray(y, op.y.dtype.numpy), op.y.layout)


def _sum_of_windows(taps: Array, columns: int) -> Array:
    """Equation (96) of taps (T, ...), rows of the window from top to bottom, each of so many columns."""
    total = np.zeros(taps.shape[1:], np.float32)
    for column in range(columns):
        own = np.zeros_like(total)
        for tap in taps[column::columns]:
            own = own + tap
        total = total + own
    return total


def evaluate_global_average_pool(op: GlobalAveragePool, x: Array) -> Array:
    """Equation (1), or (72), of the sum of all pixels; of float32 numbers in onnxruntime's order."""
    axes = tuple(axis for axis in range(1, x.ndim) if axis != op.channel_axis)
    if op.requantize is None:
        pixels = np.moveaxis(x, op.channel_axis, 1).reshape(*op.x.shape[:1], -1, op.pixels)
        return _mean(pixels, is_in_order=op.is_in_order).reshape(op.y.shape)
    zero_point = quantization_of(op.x).zero_point
    by = op.requantize
    total = (x.astype(np.int64) - zero_point).sum(axis=axes)
    codes = arithmetic.round_once(total, by) if isinstance(by, RoundOnce) else arithmetic.codes(by, total)
    return codes.astype(op.y.dtype.numpy).reshape(op.y.shape)


def _mean(x: Array, *, is_in_order: bool) -> Array:
    """Equation (96) of float32 numbers along the last axis: four sums side by side, then those beyond, one by one.

    ``is_in_order``: all one by one. Source: MlasPool's global average, and that of images in blocks of 16 channels.
    Checked: 0 of 1,334 and 0 of 208 means of 1 to 1,000 pixels differ.
    """
    pixels = x.shape[-1]
    fours = 0 if is_in_order else pixels // 4 * 4
    sums = np.zeros((*x.shape[:-1], 4), np.float32)
    for first in range(0, fours, 4):
        sums = sums + x[..., first : first + 4]
    total = (sums[..., 0] + sums[..., 2]) + (sums[..., 1] + sums[..., 3])
    for pixel in range(fours, pixels):
        total = total + x[..., pixel]
    return np.asarray(total / np.float32(pixels))


def _stacked(g: ConvGeometry, image: Array, outside: float) -> Array:
    """What every window sees, tap after tap: (T, N, C, out...)."""
    return np.stack(list(taps(g, image, outside)))


def _channels_first(x: Array, layout: Layout | None) -> Array:
    return np.moveaxis(x, -1, 1) if layout is Layout.CHANNELS_LAST else x


def _as_stored(y: Array, layout: Layout | None) -> Array:
    return np.moveaxis(y, 1, -1) if layout is Layout.CHANNELS_LAST else y


# What windows see of an image, tap by tap.


def taps(g: ConvGeometry, image: Array, outside: float = 0) -> Iterator[Array]:
    """For each tap, rows from top to bottom: the elements (N, C, out...) of an image (N, C, in...) that it meets.

    Outside the image it meets ``outside``. No padded image is made: pads of a valid model can be larger than memory.
    """
    for tap in product(*(range(k) for k in g.kernel)):
        seen = np.full((*image.shape[:2], *g.output), outside, image.dtype)
        outputs, elements = _inside(g, tap)
        seen[(slice(None), slice(None), *outputs)] = image[(slice(None), slice(None), *elements)]
        yield seen


def _inside(g: ConvGeometry, tap: tuple[int, ...]) -> tuple[list[slice], list[slice]]:
    """The outputs of which a tap lies in the image, and the elements that it meets there, axis by axis."""
    outputs, elements = [], []
    for t, dilation, stride, pad, size, count in zip(
        tap, g.dilations, g.strides, g.pads_begin, g.input, g.output, strict=True
    ):
        begin = t * dilation - pad  # where the tap of the first output lies
        first = max(0, -(begin // stride))
        end = max(first, min(count, (size - 1 - begin) // stride + 1))
        outputs.append(slice(first, end))
        elements.append(slice(begin + first * stride, begin + end * stride, stride) if first < end else slice(0, 0))
    return outputs, elements


# The oracle for Orion's convolution: slow, plain numpy in Orion's arithmetic.


def evaluate_orion_conv(op: OrionConv, x: Array) -> Array:
    """y (N, M, spatial...) int8 of x (N, C, spatial...) int8; raises OrionPanic where Orion panics.

    Additions that cannot leave 32 bits commute, so their order is free; others are done in Orion's.
    """
    geometry = op.geometry
    can_panic = run_time_tests(op).any
    values = op.x_values[x.astype(np.int64) + 128]
    images = _pad(op, _fits(op, values, "a dequantized input"))
    acc = np.empty((geometry.batch, geometry.out_channels, *geometry.output), dtype=np.int64)
    for m in range(geometry.out_channels):
        first = (m // geometry.group_out) * geometry.group_in
        seen = images[:, first : first + geometry.group_in]
        acc[:, m] = _tested_sum(op, seen, m) if can_panic else op.bias[m] + _sum_of_products(op, seen, op.weights[m])
    if can_panic:
        quotients = _fits(op, divide(acc, op.y_scale, op.fraction_bits), "a quotient")
        _fits(op, quotients + op.y_zero_point, "a quotient plus y_zero_point")
    return requantize_orion(op, acc).astype(np.int8)


def _fits(op: OrionConv, values: Int64s, quantity: str) -> Int64s:
    """The values, none of which has a magnitude beyond 32 bits."""
    if values.size and int(np.abs(values).max()) > MAGNITUDE_MAX:
        raise OrionPanic(f"Orion panics in node '{op.name}': {quantity} needs more than 32 bits")
    return values


def _tested_sum(op: OrionConv, images: Int64s, m: int) -> Int64s:
    """The accumulators (N, output...) of channel m, added up in Orion's order, each step tested.

    Products of one input channel from 0, then the channels onto the bias; with groups the channels first and the bias
    last.
    """
    geometry = op.geometry
    is_grouped = geometry.group > 1
    acc = np.full((geometry.batch, *geometry.output), 0 if is_grouped else op.bias[m], np.int64)
    for c in range(geometry.group_in):
        one = slice(c, c + 1)
        channel = np.zeros_like(acc)
        for products in _products(op, images[:, one], op.weights[m, one]):
            channel = _fits(op, channel + _fits(op, products[:, 0], "a product"), "a sum of products")
        acc = _fits(op, acc + channel, "a sum of input channels")
    return _fits(op, acc + op.bias[m], "a sum and the bias") if is_grouped else acc


def _pad(op: OrionConv, images: Int64s) -> Int64s:
    """Dequantized images with their padding, which is 0: what Orion leaves out of a sum adds nothing to it."""
    spatial = zip(op.geometry.pads_begin, op.geometry.pads_end, strict=True)
    return np.pad(images, ((0, 0), (0, 0), *spatial))


def _sum_of_products(op: OrionConv, images: Int64s, weights: Int64s) -> Int64s:
    """(N, output...) sums of truncated products of padded images (N, C/group, ...) and weights (C/group, k...)."""
    acc = np.zeros((op.geometry.batch, *op.geometry.output), dtype=np.int64)
    for products in _products(op, images, weights):
        acc += products.sum(axis=1)
    return acc


def _products(op: OrionConv, images: Int64s, weights: Int64s) -> Iterator[Int64s]:
    """For each tap in the kernel's order the truncated products (N, C/group, output...)."""
    geometry = op.geometry
    for tap in product(*(range(size) for size in geometry.kernel)):
        starts = [index * dilation for index, dilation in zip(tap, geometry.dilations, strict=True)]
        window = (
            slice(start, start + (size - 1) * stride + 1, stride)
            for start, size, stride in zip(starts, geometry.output, geometry.strides, strict=True)
        )
        seen: tuple[slice | EllipsisType, ...] = (..., *window)
        weight_index: tuple[int | EllipsisType, ...] = (..., *tap)
        weight = weights[weight_index].reshape(-1, *(1 for _ in geometry.output))
        yield multiply(images[seen], weight, op.fraction_bits)
