"""Quantization whose scale and zero point depend on the numbers of each call."""

from __future__ import annotations

import numpy as np

from qcgen import arithmetic
from qcgen.ir.program import DynamicParameter, DynamicQuantize, Extremes, ZeroPointCorrection
from qcgen.ir.types import Array


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
