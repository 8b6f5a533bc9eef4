"""Sums, means, largest and smallest elements, norms along axes."""

from __future__ import annotations

import numpy as np

from qcgen import arithmetic
from qcgen.ir.program import ArgMax, Reduce
from qcgen.ir.types import Array


def evaluate_reduce(op: Reduce, x: Array) -> Array:
    """Equation (1) of the sums of codes; of float32 numbers what float64 makes of them, rounded."""
    if op.kind in ("max", "min"):
        found = x.max(axis=op.axes) if op.kind == "max" else x.min(axis=op.axes)
        return np.asarray(found, op.y.dtype.numpy).reshape(op.y.shape)
    if op.requantize is None:
        return np.asarray(_of_floats(op, x.astype(np.float64)), np.float32).reshape(op.y.shape)
    total = np.asarray((x.astype(np.int64) - (op.x.zero_point or 0)).sum(axis=op.axes))
    codes = arithmetic.codes(op.requantize, total)
    return codes.astype(op.y.dtype.numpy).reshape(op.y.shape)


def _of_floats(op: Reduce, x: Array) -> Array:
    if op.kind == "l2":
        return np.asarray(np.sqrt(np.square(x).sum(axis=op.axes)))
    return np.asarray(x.mean(axis=op.axes) if op.kind == "mean" else x.sum(axis=op.axes))


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
