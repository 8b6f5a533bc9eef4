"""The interval that every accumulator can reach, computed from weights, bias, zero points and the input's range."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qcgen.ir.program import Conv, Int64s

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1


@dataclass(frozen=True)
class Reach:
    """The accumulators of each output channel: ``lo`` and ``hi`` (M,) int64, both reached by some input.

    ``wraps`` says that some sum leaves int32; then the accumulator is taken modulo 2^32, as onnxruntime does, and the
    interval of every channel concerned is all of int32.
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


def reach(op: Conv) -> Reach:
    """Equation (3): the reachable accumulators of an integer convolution.

    lo = bias + sum of max(w, 0) * x_lo + min(w, 0) * x_hi, and hi the other way round, where [x_lo, x_hi] is the range
    of x - x_zero_point over all codes. The bounds are exact because the taps of one window are independent inputs; a
    tap on padding contributes 0, which lies inside.
    """
    w = weight_differences(op)
    x_lo, x_hi = op.x.dtype.low - op.x_zero_point, op.x.dtype.high - op.x_zero_point
    positive, negative = np.maximum(w, 0).sum(axis=1), np.minimum(w, 0).sum(axis=1)
    bias = op.bias.astype(np.int64)
    lo, hi = bias + positive * x_lo + negative * x_hi, bias + positive * x_hi + negative * x_lo
    outside = (lo < INT32_MIN) | (hi > INT32_MAX)
    return Reach(np.where(outside, INT32_MIN, lo), np.where(outside, INT32_MAX, hi), bool(outside.any()))
