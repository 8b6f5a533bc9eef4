"""The intervals that Orion's sums can reach, exact for a window that lies wholly inside the image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qcgen.ir.program import Int64s, OrionConv
from qcgen.orion.arithmetic import multiply


@dataclass(frozen=True)
class SumIntervals:
    """The smallest and largest sums of products, without the bias, in units of 2^-f.

    ``low`` and ``high`` (M, C/group) int64 are of one input channel's products. Every tap may contribute 0 (in padding,
    or where the input has the code of its zero point), so low <= 0 <= high, and a sum over fewer taps or fewer input
    channels lies in the interval of the whole.
    """

    low: Int64s
    high: Int64s

    @property
    def total_low(self) -> Int64s:
        """(M,): the smallest sum over all input channels."""
        return np.asarray(self.low.sum(axis=1, dtype=np.int64))

    @property
    def total_high(self) -> Int64s:
        """(M,): the largest sum over all input channels."""
        return np.asarray(self.high.sum(axis=1, dtype=np.int64))


def sum_intervals(op: OrionConv) -> SumIntervals:
    """The intervals of every sum of products; every untruncated product must lie below 2^63 in magnitude.

    The dequantized input never decreases with the code, so its extremes are its first and last value, and a truncated
    product takes its extremes there. The taps of a window see different inputs, so the bounds of a sum are reached.
    """
    taps = op.weights.reshape(*op.weights.shape[:2], -1)
    at_first = multiply(taps, int(op.x_values[0]), op.fraction_bits)
    at_last = multiply(taps, int(op.x_values[-1]), op.fraction_bits)
    low = np.minimum(np.minimum(at_first, at_last), 0).sum(axis=2, dtype=np.int64)
    high = np.maximum(np.maximum(at_first, at_last), 0).sum(axis=2, dtype=np.int64)
    return SumIntervals(np.asarray(low), np.asarray(high))


def reachable(op: OrionConv) -> tuple[int, int]:
    """The smallest and the largest accumulator over all channels, the bias included.

    An accumulator that starts at the bias and adds products in any order stays in it at every step.
    """
    sums = sum_intervals(op)
    return int((op.bias + sums.total_low).min()), int((op.bias + sums.total_high).max())
