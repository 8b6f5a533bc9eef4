"""The requantization of each channel as a staircase of thresholds: everything there is to know about it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qcgen import arithmetic
from qcgen.ir.program import Int64s, Requantize
from qcgen.ir.types import Bools


@dataclass(frozen=True)
class Corners:
    """The corners of each channel's staircase that bound a line, all arrays (M, K + 1).

    Where ``reach_counts``, code ``reach_code`` must be reached at ``reach_acc``; where ``miss_counts``, code
    ``miss_code`` must be missed at ``miss_acc``.
    """

    reach_acc: Int64s
    reach_code: Int64s
    reach_counts: Bools
    miss_acc: Int64s
    miss_code: Int64s
    miss_counts: Bools

    def take(self, channels: Int64s) -> Corners:
        """The corners of some channels, in the order given; a channel may be repeated."""
        return Corners(
            self.reach_acc[channels],
            self.reach_code[channels],
            self.reach_counts[channels],
            self.miss_acc[channels],
            self.miss_code[channels],
            self.miss_counts[channels],
        )


@dataclass(frozen=True)
class Staircase:
    """y(acc) of every channel inside its reachable interval, as (M,) and (M, K) int64 arrays.

    ``lo``, ``hi``: the reachable accumulators; ``first``, ``last``: y(lo) and y(hi). ``codes`` (K,) is low + 1 .. high
    and ``thresholds`` (M, K) holds t_k = min {acc in [lo, hi] : y(acc) >= k}, or hi + 1 where y never gets there.
    """

    requantize: Requantize
    lo: Int64s
    hi: Int64s
    first: Int64s
    last: Int64s
    codes: Int64s
    thresholds: Int64s

    @property
    def steps(self) -> Bools:
        """(M, K): which thresholds lie inside the reachable interval, where the output really changes."""
        inside: Bools = (self.codes > self.first[:, None]) & (self.codes <= self.last[:, None])
        return inside

    @property
    def constant(self) -> Bools:
        """(M,): the channels whose output is the same for every input."""
        same: Bools = self.first == self.last
        return same

    @property
    def corners(self) -> Corners:
        """The corners between which a line must pass.

        It must have reached code k at (t_k, k) of every step, and be below it yet at (t_k - 1, k). At the ends of the
        interval it must stay on the code that is reached there, unless the clamp does that.
        """
        codes = np.broadcast_to(self.codes, self.thresholds.shape)
        return Corners(
            np.concatenate([self.thresholds, self.lo[:, None]], axis=1),
            np.concatenate([codes, self.first[:, None]], axis=1),
            np.concatenate([self.steps, (self.first > self.requantize.low)[:, None]], axis=1),
            np.concatenate([self.thresholds - 1, self.hi[:, None]], axis=1),
            np.concatenate([codes, self.last[:, None] + 1], axis=1),
            np.concatenate([self.steps, (self.last < self.requantize.high)[:, None]], axis=1),
        )

    def at(self, acc: Int64s) -> Int64s:
        """y at accumulators (M, ...), by equation (1), or (78)."""
        return arithmetic.codes(self.requantize, acc)


def staircase(requantize: Requantize, lo: Int64s, hi: Int64s) -> Staircase:
    """The staircase of every channel between ``lo`` and ``hi`` (M,), by bisection on equation (1), or (78).

    Bisection needs nothing but monotony, which holds for every scale; all channels and codes advance together.
    """
    codes = np.arange(requantize.low + 1, requantize.high + 1, dtype=np.int64)
    below, above = _brackets(requantize, codes, lo, hi)
    while int((above - below).max(initial=0)) > 1:
        middle = (below + above) >> 1
        reached = arithmetic.codes(requantize, middle) >= codes
        below, above = np.where(reached, below, middle), np.where(reached, middle, above)
    first, last = (arithmetic.codes(requantize, end) for end in (lo, hi))
    # Where y(lo - 1) reaches a code already, bisection has left the interval by one.
    return Staircase(requantize, lo, hi, first, last, codes, np.maximum(above, lo[:, None]))


def _brackets(requantize: Requantize, codes: Int64s, lo: Int64s, hi: Int64s) -> tuple[Int64s, Int64s]:
    """(M, K) pairs with y < k at the first (or it is lo - 1) and y >= k at the second (or it is hi + 1).

    The real-valued inverse is off by a few float32 roundings, so a bracket around it is narrow; where it does not hold
    (it is checked), the whole interval is the bracket.
    """
    bottom, top = np.broadcast_to((lo - 1)[:, None], (lo.size, codes.size)), (hi + 1)[:, None]
    scale = requantize.scale[:, None]
    guess = (codes - requantize.zero_point - 0.5) / scale.astype(np.float64)
    margin = 2 + np.abs(guess) * 2.0**-22
    below = np.clip(np.floor(guess - margin), bottom, top).astype(np.int64)
    above = np.clip(np.ceil(guess + margin), bottom, top).astype(np.int64)
    below_holds = (below <= bottom) | (arithmetic.codes(requantize, below) < codes)
    above_holds = (above >= top) | (arithmetic.codes(requantize, above) >= codes)
    below, above = np.where(below_holds, below, bottom), np.where(above_holds, above, top)
    # A bracket that starts above the interval means that no accumulator gets there; one that ends below, that all do.
    below = np.minimum(below, top - 1)
    return below, np.maximum(above, below + 1)
