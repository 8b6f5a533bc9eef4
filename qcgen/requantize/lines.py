"""Integer lines (acc * m + b) >> s through the staircases of many channels at once.

Equation (6): a line is exact if and only if k * 2^s <= acc * m + b at the corners where code k must be reached and
acc * m + b < k * 2^s at those where it must be missed, that is, if and only if max L <= b <= min U with
L = k * 2^s - acc * m over the former and U = k * 2^s - acc * m - 1 over the latter. The width min U - max L is concave
in m: bisection on its slope finds the best m, bisection on its sign the interval of all m that admit some b.

Here b counts from the output's zero point: the line's constant is b + zero_point * 2^s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qcgen.ir.program import Int64s
from qcgen.ir.types import Bools
from qcgen.requantize.staircase import Corners, Staircase

MULTIPLIER_BITS = 31
MAX_SHIFT = 54  # 256 codes * 2^54 and 2^31 * 2^31 both stay within int64
_FREE = np.int64(2**62)  # stands for no bound at all


@dataclass(frozen=True)
class LineProblem:
    """The corners of some channels, codes counted from the zero point and in units of 2^-shift; see equation (6)."""

    corners: Corners
    shift: int
    reach: Int64s
    miss: Int64s

    @property
    def size(self) -> int:
        """The number of channels."""
        return len(self.reach)

    def take(self, channels: Int64s) -> LineProblem:
        """The same for some of the channels; a channel may be repeated."""
        return LineProblem(self.corners.take(channels), self.shift, self.reach[channels], self.miss[channels])


@dataclass(frozen=True)
class Band:
    """For one m per channel: b in [``lowest``, ``highest``] is exact, none if lowest > highest.

    ``rising`` (M,) says that a larger m makes the band wider.
    """

    lowest: Int64s
    highest: Int64s
    rising: Bools

    @property
    def admits(self) -> Bools:
        """(M,): whether there is an exact line with this m."""
        found: Bools = self.lowest <= self.highest
        return found


def problem(stairs: Staircase, shift: int) -> LineProblem:
    """The task of finding lines at ``shift``, at most MAX_SHIFT, for all channels."""
    corners, zero_point = stairs.corners, stairs.requantize.zero_point
    reach = (corners.reach_code - zero_point) << shift
    miss = ((corners.miss_code - zero_point) << shift) - 1
    return LineProblem(corners, shift, reach, miss)


def band(task: LineProblem, m: Int64s) -> Band:
    """The constants that make the line of slope m (M,) / 2^shift exact; m in [1, 2^31)."""
    corners = task.corners
    lower = np.where(corners.reach_counts, task.reach - corners.reach_acc * m[:, None], -_FREE)
    upper = np.where(corners.miss_counts, task.miss - corners.miss_acc * m[:, None], _FREE)
    left, right, rows = lower.argmax(axis=1), upper.argmin(axis=1), np.arange(m.size)
    lowest, highest = lower[rows, left], upper[rows, right]
    bounded = (lowest > -_FREE) & (highest < _FREE)
    return Band(lowest, highest, bounded & (corners.reach_acc[rows, left] > corners.miss_acc[rows, right]))


def best_multiplier(task: LineProblem) -> Int64s:
    """The m (M,) in [1, 2^31) with the widest band, per channel."""
    low, high = np.ones(task.size, np.int64), np.full(task.size, 2**MULTIPLIER_BITS - 1, np.int64)
    while (low < high).any():
        middle = (low + high) >> 1
        rising = band(task, middle).rising
        low, high = np.where(rising, np.minimum(middle + 1, high), low), np.where(rising, high, middle)
    # Bisection ends at the first m where the width no longer rises; the maximum may be one below.
    before = np.maximum(low - 1, 1)
    here, there = band(task, low), band(task, before)
    return np.where(there.highest - there.lowest > here.highest - here.lowest, before, low)


def admitting(task: LineProblem, best: Int64s) -> tuple[Int64s, Int64s]:
    """The smallest and the largest m (M,) that admit a line, given that ``best`` does."""
    ends = np.ones_like(best), np.full_like(best, 2**MULTIPLIER_BITS - 1)
    return _edge(task, best, ends[0]), _edge(task, best, ends[1])


def _edge(task: LineProblem, inside: Int64s, outside: Int64s) -> Int64s:
    """The last admitting multiplier on the way from ``inside`` to ``outside``."""
    inside = np.where(band(task, outside).admits, outside, inside)
    while (np.abs(outside - inside) > 1).any():
        middle = (inside + outside) >> 1
        admits = band(task, middle).admits
        inside, outside = np.where(admits, middle, inside), np.where(admits, outside, middle)
    return inside
