"""Softmax over the last axis."""

from __future__ import annotations

import numpy as np

from qcgen import arithmetic
from qcgen.ir.program import FloatSoftmax, IntegerLogSoftmax, IntegerSoftmax, Softmax
from qcgen.ir.types import Array


def evaluate_softmax(op: Softmax, x: Array) -> Array:
    """Equation (18)."""
    assert op.y.zero_point is not None, "the result of a softmax is quantized"
    low, high = op.y.dtype.low, op.y.dtype.high
    return arithmetic.softmax(x, op.table, op.factor, op.y.zero_point, low, high).astype(op.y.dtype.numpy)


def evaluate_integer_softmax(op: IntegerSoftmax, x: Array) -> Array:
    """Equation (82)."""
    return arithmetic.softmax_in_integers(x, op.table, op.y.dtype.low, op.y.dtype.high).astype(op.y.dtype.numpy)


def evaluate_integer_log_softmax(op: IntegerLogSoftmax, x: Array) -> Array:
    """Equation (85)."""
    found = arithmetic.log_softmax_in_integers(x, op.table, op.distances, op.y.dtype.low, op.y.dtype.high)
    return found.astype(op.y.dtype.numpy)


def evaluate_float_softmax(op: FloatSoftmax, x: Array) -> Array:
    """In float64, rounded."""
    below = x.astype(np.float64) - x.max(axis=-1, keepdims=True)
    powers = np.exp(below)
    total = powers.sum(axis=-1, keepdims=True)
    return np.asarray(below - np.log(total) if op.is_log else powers / total).astype(op.y.dtype.numpy)
