"""Orion's division by the output scale as a staircase of thresholds, which needs no division at run time."""

from __future__ import annotations

import numpy as np

from qcgen.errors import prove
from qcgen.ir.program import Int64s, OrionConv
from qcgen.orion.arithmetic import HIGHEST, LOWEST, requantize_orion
from qcgen.orion.intervals import accumulators, sum_intervals
from qcgen.orion.intervals import reachable as reachable

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
    sums, reached = sum_intervals(op), accumulators(op)
    lowest = min(int(reached.min()), int(sums.total_low.min()))
    highest = max(int(reached.max()) + 1, int(sums.total_high.max()))
    return lowest >= INT32_MIN and highest <= INT32_MAX
