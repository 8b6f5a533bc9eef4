"""Layers to requantize, for the tests of requantization: scales and accumulator intervals, usual and extreme."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qcgen.intervals import INT32_MAX, INT32_MIN
from qcgen.ir.program import Requantize
from qcgen.requantize.lines import Staircase, staircase


def stairs_of(scale, lo, hi, zero_point: int = 0, low: int = -128, high: int = 127) -> Staircase:
    """The staircase of channels given as lists; single numbers stand for one channel."""
    scale, lo, hi = (np.atleast_1d(values) for values in (scale, lo, hi))
    lo, hi = np.broadcast_arrays(lo.astype(np.int64), hi.astype(np.int64))
    scale = np.broadcast_to(scale.astype(np.float32), lo.shape).copy()
    return staircase(Requantize(scale, zero_point, low, high), lo.copy(), hi.copy())


@dataclass(frozen=True)
class Kind:
    """A family of random layers: log2 of the scales and of the intervals' half widths lie within these bounds."""

    name: str
    scale: tuple[float, float]
    width: tuple[float, float]
    per_tensor: bool = False
    power_of_two: bool = False
    has_extremes: bool = False


KINDS = (
    Kind("usual", (-12, -6), (12, 19)),
    Kind("per tensor", (-12, -6), (12, 19), per_tensor=True),
    Kind("powers of two, exact ties", (-12, -1), (6, 18), power_of_two=True),
    Kind("powers of two, wide intervals", (-14, 2), (18, 31), power_of_two=True, has_extremes=True),
    Kind("accumulators beyond 2^24", (-20, -8), (24, 31), has_extremes=True),
    Kind("scales of 1/2 and more", (-1, 8), (4, 18)),
    Kind("scales of 1/2 and more, wide intervals", (-1, 8), (8, 31), has_extremes=True),
    Kind("scales beyond every code", (20, 60), (4, 31), has_extremes=True),
    Kind("all tiny", (-140, -24), (8, 31), has_extremes=True),
    Kind("mixed", (-40, 4), (4, 31), has_extremes=True),
    Kind("small enough for every accumulator", (-9, 1), (2, 12)),
)


def random_layer(rng: np.random.Generator, kind: Kind, channels: int) -> Staircase:
    """A layer of a kind. Extremes: some channels reach all of int32, some are dead with a bias next to its ends."""
    low, high = (-128, 127) if rng.random() < 0.5 else (0, 255)
    if rng.random() < 0.25:
        low, high = low + int(rng.integers(0, 100)), high - int(rng.integers(0, 100))
    zero_point = int(rng.choice([low, high, rng.integers(low, high + 1)]))
    exponent = rng.uniform(*kind.scale, 1 if kind.per_tensor else channels)
    exponent = np.rint(exponent) if kind.power_of_two else exponent
    span = 2.0 ** rng.uniform(*kind.width, channels)
    center = rng.normal(size=channels) * span * 0.3
    lo = np.clip(center - span, INT32_MIN, INT32_MAX).astype(np.int64)
    hi = np.maximum(lo, np.clip(center + span, INT32_MIN, INT32_MAX).astype(np.int64))
    if kind.has_extremes:
        whole, dead = rng.random(channels) < 0.1, rng.random(channels) < 0.1
        lo[whole], hi[whole] = INT32_MIN, INT32_MAX
        lo[dead] = np.where(rng.random(channels) < 0.5, INT32_MIN + 5, INT32_MAX - 7)[dead]
        hi[dead] = lo[dead]
    return stairs_of(2.0**exponent, lo, hi, zero_point, low, high)


def probes(rng: np.random.Generator, stairs: Staircase, count: int) -> np.ndarray:
    """(M, ...) accumulators: the ends, three on either side of every threshold, and ``count`` random ones."""
    lo, hi = stairs.lo[:, None], stairs.hi[:, None]
    corners = [stairs.thresholds + away for away in range(-3, 3)]
    random = rng.integers(lo, hi + 1, (lo.size, count))
    return np.clip(np.concatenate([lo, hi, *corners, random], axis=1), lo, hi)
