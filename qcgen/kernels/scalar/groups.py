"""How many products of two numbers in one word may be added before their sums must be taken apart.

A word holds two numbers, low + high * 2^16. Times a weight it is the products of both, and such words add up lane by
lane as long as no sum leaves 16 bits, with its sign: then the lower half, less its borrow, and the upper one are the
two sums. Elements are added in groups of 1, 2, 4 or 8; a group's bound follows from its weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qcgen.ir.program import Int64s

SIZES = (8, 4, 2, 1)
LANE_LOW, LANE_HIGH = -(2**15), 2**15 - 1


@dataclass(frozen=True)
class Grouping:
    """Groups of ``size`` elements, the last of which may be shorter.

    Their sums of products lie within [low, high], which is within int16.
    """

    size: int
    low: int
    high: int


def grouping(weights: Int64s, x_low: int, x_high: int, most: int = SIZES[0]) -> Grouping:
    """The largest groups up to ``most`` that are safe for weights (channels, elements) and every x in [x_low, x_high].

    Groups of one element always are if x and w fit int8: no product exceeds 2^14.
    """
    for size in SIZES:
        if size > most:
            continue
        low, high = sums(weights, size, x_low, x_high)
        if low >= LANE_LOW and high <= LANE_HIGH and (size == 1 or size <= weights.shape[1]):
            return Grouping(size, low, high)
    raise AssertionError("a product leaves 16 bits")


def extremes(weights: Int64s) -> Int64s:
    """The weights that bound the sums of any others: of the symmetric range, if all of these are within it."""
    return np.full_like(weights, -127 if weights.min() > -128 else -128)


def sums(weights: Int64s, size: int, x_low: int, x_high: int) -> tuple[int, int]:
    """The least and the greatest sum of products that any group of ``size`` neighbouring elements reaches."""
    products = np.stack([weights * x_low, weights * x_high])
    starts = range(0, weights.shape[1], size)
    low = np.add.reduceat(products.min(axis=0), starts, axis=1).min()
    high = np.add.reduceat(products.max(axis=0), starts, axis=1).max()
    return int(low), int(high)


def split_outliers(weights: Int64s, size: int, x_low: int, x_high: int) -> tuple[Int64s, Int64s]:
    """Weights whose groups of ``size`` are safe, and the few that remain: both add up to ``weights``.

    The largest weights of a group give off what exceeds 16 bits.
    """
    taps = weights.shape[1]
    inliers = np.pad(weights, ((0, 0), (0, -taps % size))).reshape(len(weights), -1, size)
    while True:
        products = np.stack([inliers * x_low, inliers * x_high])
        low, high = products.min(axis=0).sum(axis=-1), products.max(axis=0).sum(axis=-1)
        excess = np.maximum(LANE_LOW - low, high - LANE_HIGH)
        rows, groups = np.nonzero(excess > 0)
        if not len(rows):
            found = inliers.reshape(len(weights), -1)[:, :taps]
            return found, weights - found
        members = inliers[rows, groups]
        largest = np.abs(members).argmax(axis=1)
        values = members[np.arange(len(rows)), largest]
        less = np.minimum(-(-excess[rows, groups] // min(-x_low, x_high)), np.abs(values))
        inliers[rows, groups, largest] -= np.sign(values) * less
