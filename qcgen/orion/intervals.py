"""The intervals that Orion's sums can reach, exact for a window inside the image where nothing leaves 32 bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qcgen.ir.program import Int64s, OrionConv
from qcgen.orion.arithmetic import MAGNITUDE_MAX, multiply

Interval = tuple[int, int]
"""The smallest and the largest number."""


@dataclass(frozen=True)
class SumIntervals:
    """The smallest and largest sums of products, without the bias, in units of 2^-f.

    ``low`` and ``high`` (M, C/group) int64 are of one input channel's products. Every tap may contribute 0 (in padding,
    or where the input has the code of its zero point), so low <= 0 <= high, and a sum over fewer taps or fewer input
    channels lies in the interval of the whole. Beyond 32 bits Orion panics: what is added has stayed within them.
    """

    low: Int64s
    high: Int64s

    @property
    def total_low(self) -> Int64s:
        """(M,): the smallest sum over all input channels."""
        return np.asarray(_within(self.low).sum(axis=1, dtype=np.int64))

    @property
    def total_high(self) -> Int64s:
        """(M,): the largest sum over all input channels."""
        return np.asarray(_within(self.high).sum(axis=1, dtype=np.int64))


def sum_intervals(op: OrionConv) -> SumIntervals:
    """The intervals of every sum of products.

    The dequantized input never decreases with the code, so its extremes are its first and last value, and a truncated
    product takes its extremes there. The taps of a window see different inputs, so the bounds of a sum are reached.
    """
    at_first, at_last = map(_within, tap_products(op))
    low = np.minimum(np.minimum(at_first, at_last), 0).sum(axis=2, dtype=np.int64)
    high = np.maximum(np.maximum(at_first, at_last), 0).sum(axis=2, dtype=np.int64)
    return SumIntervals(np.asarray(low), np.asarray(high))


def tap_products(op: OrionConv) -> tuple[Int64s, Int64s]:
    """(M, C/group, taps) each: the products of the weights with the first and with the last value of x that fits."""
    taps = op.weights.reshape(*op.weights.shape[:2], -1)
    first, last = (int(op.x_values[code + 128]) for code in safe_codes(op))
    return multiply(taps, first, op.fraction_bits), multiply(taps, last, op.fraction_bits)


def safe_codes(op: OrionConv) -> Interval:
    """The smallest and the largest code of x whose dequantized value fits 32 bits; that of the zero point does."""
    fits = np.flatnonzero(np.abs(op.x_values) <= MAGNITUDE_MAX)
    return int(fits[0]) - 128, int(fits[-1]) - 128


def safe_accumulators(op: OrionConv) -> Interval:
    """The smallest and the largest accumulator that Orion requantizes: it, its quotient and the moved one fit 32 bits.

    (|acc| << f) // y_scale <= q is |acc| <= ((q + 1) · y_scale - 1) >> f, and the quotient's sign is that of acc.
    """
    lowest = max(-MAGNITUDE_MAX, -MAGNITUDE_MAX - op.y_zero_point)
    highest = min(MAGNITUDE_MAX, MAGNITUDE_MAX - op.y_zero_point)
    low, high = (min(MAGNITUDE_MAX, ((q + 1) * op.y_scale - 1) >> op.fraction_bits) for q in (-lowest, highest))
    return -low, high


def accumulators(op: OrionConv) -> Int64s:
    """(M, 2): the smallest and the largest accumulator of every channel, the bias included."""
    sums = sum_intervals(op)
    totals = sums.total_low, sums.total_high
    kept = map(_within, totals) if op.geometry.group > 1 else totals
    return np.stack([op.bias + total for total in kept], axis=1)


def reachable(op: OrionConv) -> Interval:
    """The smallest and the largest accumulator over all channels that Orion requantizes, the bias included.

    An accumulator that starts at the bias and adds products in any order stays in it at every step, unless one on the
    way is beyond what Orion requantizes.
    """
    reached, (low, high) = accumulators(op), safe_accumulators(op)
    return max(int(reached.min()), low), min(int(reached.max()), high)


def _within(values: Int64s) -> Int64s:
    return np.clip(values, -MAGNITUDE_MAX, MAGNITUDE_MAX)
