"""Operators that gather many elements in one: sums, products of matrices, softmax, normalization, extremes."""

from __future__ import annotations

import numpy as np

from qcgen import arithmetic, functions
from qcgen.ir.program import (
    ArgMax,
    DynamicParameter,
    DynamicQuantize,
    Extremes,
    FloatSoftmax,
    InstanceNorm,
    IntegerLogSoftmax,
    IntegerSoftmax,
    LayerNorm,
    MatMul,
    Reduce,
    Requantize,
    Softmax,
    Tensor,
    TopK,
    WideSoftmax,
    ZeroPointCorrection,
)
from qcgen.ir.types import Array, Layout
from qcgen.reference.elementwise import quantization_of


def evaluate_reduce(op: Reduce, x: Array) -> Array:
    """Equation (1) of the sums of codes, (92) of float32 numbers; norms as float64 makes them, rounded."""
    if op.kind in ("max", "min"):
        found = x.max(axis=op.axes) if op.kind == "max" else x.min(axis=op.axes)
        return np.asarray(found, op.y.dtype.numpy).reshape(op.y.shape)
    if op.requantize is None:
        return np.asarray(_of_floats(op, x), np.float32).reshape(op.y.shape)
    total = np.asarray((x.astype(np.int64) - (op.x.zero_point or 0)).sum(axis=op.axes))
    codes = arithmetic.codes(op.requantize, total)
    return codes.astype(op.y.dtype.numpy).reshape(op.y.shape)


def _of_floats(op: Reduce, x: Array) -> Array:
    if op.kind == "l2":
        return np.asarray(np.sqrt(np.square(x.astype(np.float64)).sum(axis=op.axes)))
    total = arithmetic.sum_of_floats(x, op.axes, op.row)
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
    order = np.argsort(-numbers if op.is_largest else numbers, axis=op.axis, kind="stable")
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
