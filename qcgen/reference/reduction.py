"""Many numbers become one: convolutions and poolings tap by tap, products of matrices, sums, softmax, normalization."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from types import EllipsisType
from typing import assert_never

import numpy as np

from qcgen import arithmetic, functions
from qcgen.errors import OrionPanic
from qcgen.intervals import INT32_MIN
from qcgen.ir.program import (
    ArgMax,
    AveragePool,
    Conv,
    ConvGeometry,
    DynamicParameter,
    DynamicQuantize,
    Extremes,
    FloatActivation,
    FloatSoftmax,
    FloatSums,
    GlobalAveragePool,
    InstanceNorm,
    Int64s,
    IntegerLogSoftmax,
    IntegerSoftmax,
    LayerNorm,
    MatMul,
    MaxPool,
    OrionConv,
    RawAccumulator,
    Reduce,
    Requantize,
    RoundOnce,
    Softmax,
    Tensor,
    TopK,
    WideSoftmax,
    ZeroPointCorrection,
)
from qcgen.ir.types import Array, DType, Layout
from qcgen.orion import MAGNITUDE_MAX, divide, multiply, requantize_orion, run_time_tests
from qcgen.reference.elementwise import OWN, activate, in_float32, quantization_of


def evaluate_conv(op: Conv, x: Array) -> Array:
    """y for x in the model's own shapes and layouts; floats without an order of sums in a wider type, then rounded.

    A tensor without a layout is a matrix: rows of channels.
    """
    g = op.geometry
    rows = x.reshape(g.batch, *g.input, g.in_channels) if op.x.layout is None else x
    image = rows if op.x.layout is Layout.CHANNELS_FIRST else np.moveaxis(rows, -1, 1)
    if op.sums is not None:
        return _as_stored_by(op, _finish(op, _fused_sums(op, op.sums, image).astype(np.float64)))
    is_float = isinstance(op.epilogue, FloatActivation)
    wide: type[np.generic] = np.int64
    if is_float:  # wider than the sum of the C, where this machine has such a type
        wide = np.longdouble if op.x.dtype is DType.FLOAT64 else np.float64
    codes = image.astype(wide) - op.x_zero_point
    zero_points = op.w_zero_point.reshape((-1,) + (1,) * (op.geometry.rank + 1))
    weights = op.weights.astype(wide) - zero_points
    acc = convolve(op.geometry, codes, weights) + op.bias.astype(wide).reshape((-1,) + (1,) * op.geometry.rank)
    return _as_stored_by(op, _finish(op, acc))


def _as_stored_by(op: Conv, y: Array) -> Array:
    if op.y.layout is Layout.CHANNELS_FIRST:
        return y
    last = np.moveaxis(y, 1, -1)
    return last.reshape(op.y.shape) if op.y.layout is None else last


@np.errstate(over="ignore", invalid="ignore")
def _fused_sums(op: Conv, sums: FloatSums, image: Array) -> Array:
    """Equation (98)."""
    g, ones = op.geometry, (1,) * op.geometry.rank
    seen = [part.reshape(g.batch, g.group, 1, g.group_in, *g.output) for part in taps(g, image)]
    weights = op.weights.reshape(g.group, g.group_out, g.taps, *ones)
    total = np.zeros((), np.float32)
    for numbers in sums.parts(g):
        part = np.zeros((), np.float32)
        for tap in numbers:
            channel, place = divmod(int(tap), len(seen))
            x, w = seen[place][:, :, :, channel], weights[:, :, tap]
            part = arithmetic.fused(x, w, part) if sums.is_fused else part + x * w
        total = np.asarray(total + part)
    return total.reshape(g.batch, g.out_channels, *g.output) + op.bias.reshape(-1, *ones)


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


def evaluate_reduce(op: Reduce, x: Array) -> Array:
    """Equation (1) of the sums of codes, (92) of float32 numbers, of which products are taken in the same order."""
    if op.kind in ("max", "min"):
        found = x.max(axis=op.axes) if op.kind == "max" else x.min(axis=op.axes)
        return np.asarray(found, op.y.dtype.numpy).reshape(op.y.shape)
    if op.requantize is None:
        return np.asarray(_of_floats(op, x), np.float32).reshape(op.y.shape)
    total = np.asarray((x.astype(np.int64) - (op.x.zero_point or 0)).sum(axis=op.axes))
    codes = arithmetic.codes(op.requantize, total)
    return codes.astype(op.y.dtype.numpy).reshape(op.y.shape)


def _of_floats(op: Reduce, x: Array) -> Array:
    with np.errstate(all="ignore"):
        match op.kind:
            case "product":
                kept = [axis for axis in range(x.ndim) if axis not in op.axes]
                found = np.ones((), np.float32)
                for row in x.transpose(*op.axes, *kept).reshape(op.count, -1):
                    found = found * row
                return np.asarray(found)
            case "l1":
                x = np.abs(x)
            case "l2" | "squares":
                x = np.square(x)
        total = arithmetic.sum_of_floats(x, op.axes, op.row)
        if op.kind == "l2":
            return np.sqrt(total)
        return np.asarray(total / np.float32(op.count)) if op.kind == "mean" else total


def evaluate_arg_max(op: ArgMax, x: Array) -> Array:
    """The place of the largest or the smallest element, one after the other along the axis."""
    rows = np.moveaxis(x, op.axis, 0)
    best, place = rows[0], np.zeros(rows.shape[1:], np.int64)
    for at, row in enumerate(rows[1:], start=1):
        is_better = row > best if op.kind == "max" else row < best
        if op.takes_last:
            is_better |= row == best
        best, place = np.where(is_better, row, best), np.where(is_better, at, place)
    return place.astype(op.y.dtype.numpy).reshape(op.y.shape)


def evaluate_top_k(op: TopK, x: Array) -> Array:
    """The places of the elements in their order; a stable order keeps equal ones as they are."""
    numbers = x if x.dtype.kind == "f" else x.astype(np.int64)
    keys = (-numbers, ~np.isnan(numbers)) if op.is_largest else (numbers,)
    order = np.lexsort(keys, axis=op.axis)
    return np.asarray(np.take(order, np.arange(op.y.shape[op.axis]), op.axis).astype(np.int64))


# Products of two matrices.


def evaluate_matmul(op: MatMul, a: Array, b: Array) -> Array:
    """Equation (1) of sums that no int32 overflows, or the sums themselves; (93) of floats."""
    if op.is_float:
        return arithmetic.product_of_floats(a, b, op.block)
    sums = np.matmul(a.astype(np.int64) - op.a_zero_point, b.astype(np.int64) - op.b_zero_point)
    if isinstance(op.epilogue, Requantize):
        sums = arithmetic.codes(op.epilogue, sums)
    return np.asarray(sums.astype(op.y.dtype.numpy))


# Softmax over the last axis.


def evaluate_softmax(op: Softmax, x: Array) -> Array:
    """Equation (18)."""
    assert op.y.zero_point is not None, "the result of a softmax is quantized"
    low, high = op.y.dtype.low, op.y.dtype.high
    return arithmetic.softmax(x, op.table, op.factor, op.y.zero_point, low, high).astype(op.y.dtype.numpy)


def evaluate_integer_softmax(op: IntegerSoftmax, x: Array) -> Array:
    """Equation (82)."""
    return arithmetic.softmax_in_integers(x, op.table, op.y.dtype.low, op.y.dtype.high).astype(op.y.dtype.numpy)


def evaluate_wide_softmax(op: WideSoftmax, x: Array) -> Array:
    """Equation (90)."""
    return arithmetic.wide_softmax_in_integers(op, x).astype(op.y.dtype.numpy)


def evaluate_integer_log_softmax(op: IntegerLogSoftmax, x: Array) -> Array:
    """Equation (85)."""
    found = arithmetic.log_softmax_in_integers(x, op.table, op.distances, op.y.dtype.low, op.y.dtype.high)
    return found.astype(op.y.dtype.numpy)


def evaluate_float_softmax(op: FloatSoftmax, x: Array) -> Array:
    """Exponentials by (26) in 16 sums, these in halves, then in pairs, as with AVX512F; in float64 ``by_library``.

    Source: MlasComputeSoftmax. Checked: 0 of 8,444,400 logarithms differ, rows of 1 to 5,000 numbers.
    """
    with np.errstate(all="ignore"):
        below = x - x.max(axis=-1, keepdims=True)
        if op.by_library:
            return np.asarray(below - np.log(np.exp(below, dtype=np.float64).sum(axis=-1, keepdims=True)), np.float32)
        powers = functions.exponential(below)
        sums = np.zeros((*x.shape[:-1], 16), np.float32)
        for first in range(0, x.shape[-1], 16):
            part = powers[..., first : first + 16]
            sums[..., : part.shape[-1]] += part
        total = sums[..., :8] + sums[..., 8:]
        while total.shape[-1] > 1:
            total = total[..., ::2] + total[..., 1::2]
        return np.asarray(below - functions.log_from_one(total) if op.is_log else powers * (np.float32(1) / total))


# Normalizations of rows and channels.


def evaluate_layer_norm(op: LayerNorm, x: Array) -> Array:
    """Equations (42) and (43), or (77), between (10) and (9) where x or y are codes."""
    rows = _read(op.x, x)
    if not op.is_centered:
        return arithmetic.rms_norm(rows, op.scale, op.epsilon, is_one_by_one=op.is_one_by_one)
    normal = arithmetic.layer_norm(rows, op.scale, op.bias, op.epsilon, is_one_by_one=op.is_one_by_one)
    return _written(op.y, normal)


def evaluate_instance_norm(op: InstanceNorm, x: Array) -> Array:
    """Equations (44) and (45) between (10) and (9) where x and y are codes."""
    last = op.x.layout is Layout.CHANNELS_LAST
    values = _read(op.x, np.moveaxis(x, -1, 1) if last else x)
    normal = arithmetic.instance_norm(values, op.scale, op.bias, op.epsilon)
    return _written(op.y, np.moveaxis(normal, 1, -1) if last else normal)


def _read(tensor: Tensor, values: Array) -> Array:
    """The float32 numbers themselves, or what codes stand for."""
    if not tensor.dtype.is_quantized:
        return values
    by = quantization_of(tensor)
    return arithmetic.dequantize(values, by.scale, by.zero_point)


def _written(tensor: Tensor, values: Array) -> Array:
    """The float32 numbers themselves, or their codes."""
    if not tensor.dtype.is_quantized:
        return values
    by = quantization_of(tensor)
    codes = arithmetic.quantize(values, by.scale, by.zero_point, tensor.dtype.low, tensor.dtype.high)
    return np.asarray(codes.astype(tensor.dtype.numpy))


# Quantization whose scale and zero point depend on the numbers of each call.


def evaluate_extremes(_op: Extremes, x: Array) -> Array:
    """The smallest and the largest of x and 0, which is never -0."""
    return np.array([np.fmin(x, 0).min(), np.fmax(x, 0).max()], np.float32) + np.float32(0)


def evaluate_dynamic_parameter(op: DynamicParameter, x: Array) -> Array:
    """Equation (83) or (84)."""
    scale, zero_point = arithmetic.dynamic_parameters(*x)
    return np.asarray(scale if op.kind == "scale" else zero_point).astype(op.y.dtype.numpy)


def evaluate_dynamic_quantize(op: DynamicQuantize, x: Array, scale: Array, zero_point: Array) -> Array:
    """Equation (9) with what was computed."""
    given = (float(scale), int(zero_point), op.y.dtype.low, op.y.dtype.high)
    return arithmetic.quantize(x, *given).astype(op.y.dtype.numpy)


def evaluate_zero_point_correction(op: ZeroPointCorrection, x: Array, zero_point: Array) -> Array:
    """x - zero_point * sums, modulo 2^32."""
    difference: Array = x - int(zero_point.reshape(())) * op.sums[np.ix_(*op.places)]
    return difference.astype(np.int64).astype(np.uint32).view(np.int32)
