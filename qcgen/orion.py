"""Orion's arithmetic: 64-bit fixed point that panics; where it does not, and the staircase that its codes then are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qcgen.errors import prove
from qcgen.ir.program import Int64s, OrionConv

MAGNITUDE_MAX = 2**32 - 1
"""The largest magnitude that Orion's numbers hold; Orion panics beyond it."""

LOWEST, HIGHEST = -128, 127
"""The codes that an output is clamped to."""


def _truncate(values: Int64s, fraction_bits: int) -> Int64s:
    """values / 2^fraction_bits, truncated toward zero as the shift of a magnitude does."""
    truncated: Int64s = np.sign(values) * (np.abs(values) >> fraction_bits)
    return truncated


def multiply(a: Int64s, b: int | Int64s, fraction_bits: int) -> Int64s:
    """The product of numbers with ``fraction_bits``: (|a|·|b|) >> f, the sign applied after.

    The product of the magnitudes stays below 2^64, as that of two magnitudes of 32 bits does; whoever calls has proved
    it.
    """
    magnitude = (np.abs(a).astype(np.uint64) * np.abs(b).astype(np.uint64)) >> np.uint64(fraction_bits)
    product: Int64s = np.sign(a) * np.sign(b) * magnitude.astype(np.int64)
    return product


def divide(a: Int64s, b: int, fraction_bits: int) -> Int64s:
    """The quotient of numbers with ``fraction_bits``: (|a| << f) / |b| truncated; b > 0, |a| < 2^32."""
    quotient: Int64s = np.sign(a) * ((np.abs(a) << fraction_bits) // b)
    return quotient


def requantize_orion(op: OrionConv, acc: Int64s) -> Int64s:
    """The int8 code, as int64 and of the same shape, that an accumulator (|acc| < 2^32) becomes.

    Divided by y_scale, moved by y_zero_point, clamped, truncated toward zero: four steps that never decrease, so the
    code never decreases with the accumulator either.
    """
    moved = divide(acc, op.y_scale, op.fraction_bits) + op.y_zero_point
    one = 1 << op.fraction_bits
    return _truncate(np.clip(moved, LOWEST * one, HIGHEST * one), op.fraction_bits)


# The intervals that Orion's sums can reach, exact for a window inside the image where nothing leaves 32 bits.

Interval = tuple[int, int]
"""The smallest and the largest number."""


@dataclass(frozen=True)
class _SumIntervals:
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


def _sum_intervals(op: OrionConv) -> _SumIntervals:
    """The intervals of every sum of products.

    The dequantized input never decreases with the code, so its extremes are its first and last value, and a truncated
    product takes its extremes there. The taps of a window see different inputs, so the bounds of a sum are reached.
    """
    at_first, at_last = map(_within, _tap_products(op))
    low = np.minimum(np.minimum(at_first, at_last), 0).sum(axis=2, dtype=np.int64)
    high = np.maximum(np.maximum(at_first, at_last), 0).sum(axis=2, dtype=np.int64)
    return _SumIntervals(np.asarray(low), np.asarray(high))


def _tap_products(op: OrionConv) -> tuple[Int64s, Int64s]:
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
    sums = _sum_intervals(op)
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


# Which of Orion's magnitudes can leave 32 bits, so that code must test them: Orion panics there.


@dataclass(frozen=True)
class Tests:
    """What only the input decides: whether these numbers leave 32 bits. Intervals exclude it for all others.

    ``codes`` and ``accumulators`` are the intervals that are fine, None if nothing else occurs: codes of x that can be
    dequantized, accumulators that can be requantized. The others say whether to test each product, the sum of the
    products of an input channel behind each of them, and the sum behind each input channel.
    """

    codes: Interval | None
    products: bool
    channel_sums: bool
    sums: bool
    accumulators: Interval | None

    @property
    def any(self) -> bool:
        """Whether Orion can panic at all."""
        partial = self.products or self.channel_sums or self.sums
        return partial or self.codes is not None or self.accumulators is not None

    @property
    def in_order(self) -> bool:
        """Whether sums must be taken in Orion's order, because those on the way are tested."""
        return self.channel_sums or self.sums


def run_time_tests(op: OrionConv) -> Tests:
    """What must be tested for this convolution; a test behind another one counts on it."""
    codes, safe = safe_codes(op), safe_accumulators(op)
    sums, reached = _sum_intervals(op), accumulators(op)
    totals = [sums.total_low, sums.total_high] if op.geometry.group > 1 else []
    sums_leave = any(_leaves(bounds) for bounds in [*totals, reached])
    outside = int(reached.min()) < safe[0] or int(reached.max()) > safe[1]
    is_tested = sums_leave and safe == (-MAGNITUDE_MAX, MAGNITUDE_MAX)
    return Tests(
        codes=None if codes == (-128, 127) else codes,
        products=any(_leaves(products) for products in _tap_products(op)),
        channel_sums=_leaves(sums.low) or _leaves(sums.high),
        sums=sums_leave,
        accumulators=safe if outside and not is_tested else None,
    )


def _leaves(values: Int64s) -> bool:
    return bool(np.abs(values).max(initial=0) > MAGNITUDE_MAX)


# Orion's division by the output scale as a staircase of thresholds, which needs no division at run time.

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1


def thresholds(op: OrionConv) -> Int64s:
    """(255,) int64, never decreasing: t_k = min {acc in [low, high] : y(acc) >= k} for k = -127..127.

    [low, high] is the reachable interval; a code that no reachable accumulator attains has t_k = high + 1. So for every
    reachable accumulator y(acc) = -128 + the number of thresholds that are <= acc.
    """
    low, high = reachable(op)
    codes = np.arange(LOWEST + 1, HIGHEST + 1, dtype=np.int64)
    first, last = np.full(codes.shape, low), np.full(codes.shape, high + 1)  # t_k lies in [first, last]
    while np.any(first < last):
        middle = (first + last) >> 1  # at most high wherever the search still runs
        attained = (requantize_orion(op, middle) >= codes) | (first == last)
        first, last = np.where(attained, first, middle + 1), np.where(attained, middle, last)
    return first


def certify(op: OrionConv, steps: Int64s) -> int:
    """Compares the staircase with the formula at both ends and on both sides of every step; how many comparisons.

    Both never decrease, so equality there is equality for every reachable accumulator.
    """
    low, high = reachable(op)
    acc = np.unique(np.clip(np.concatenate([[low, high], steps - 1, steps]), low, high))
    codes = np.searchsorted(steps, acc, side="right") + LOWEST
    prove(np.array_equal(codes, requantize_orion(op, acc)), "the staircase is the formula")
    return int(acc.size)


def fits_int32(op: OrionConv) -> bool:
    """Whether every product, every sum with or without the bias and every threshold of the operator is an int32.

    Also those that Orion panics at, which code computes before it finds them.
    """
    sums, reached = _sum_intervals(op), accumulators(op)
    lowest = min(int(reached.min()), int(sums.total_low.min()))
    highest = max(int(reached.max()) + 1, int(sums.total_high.max()))
    return lowest >= INT32_MIN and highest <= INT32_MAX
