"""Requantizations as staircases of thresholds, and integer lines through the staircases of many channels at once.

Equation (6): a line is exact if and only if k * 2^s <= acc * m + b at the corners where code k must be reached and
acc * m + b < k * 2^s at those where it must be missed, that is, if and only if max L <= b <= min U with
L = k * 2^s - acc * m over the former and U = k * 2^s - acc * m - 1 over the latter. The width min U - max L is concave
in m: bisection on its slope finds the best m, bisection on its sign the interval of all m that admit some b.

Here b counts from the output's zero point: the line's constant is b + zero_point * 2^s.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from qcgen import arithmetic
from qcgen.intervals import INT32_MAX, INT32_MIN
from qcgen.ir.program import Int64s, Requantize
from qcgen.ir.types import Bools

# The requantization of each channel as a staircase of thresholds: everything there is to know about it.


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


# Integer lines (acc * m + b) >> s through the staircases of many channels at once.

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


# Lines that need only the upper part of a product: h = ((acc * 2^k + d) * m >> (word + k)) + C.
#
# Two floors in a row are one, so this is the line of equation (6) at shift word + S with the constant
# (d * m >> k) + C * 2^word. For k = 0 and given m and C at most one d fits, because a band is narrower than m; the
# search varies m and C. d costs nothing (it joins the value at which the accumulator starts), and a C that is the same
# for the whole layer costs no table. For k > 0, kernels' accumulators being multiples, d is finer: then it mostly fits
# any C, and C = -zero_point * 2^S leaves nothing to be added.

MULTIPLIERS = 64  # tried per channel, spread over the interval of those that admit a line
OFFSETS = 128  # tried on either side of the layer's own


@dataclass(frozen=True)
class Lines:
    """m, d and C of every channel, (M,) each; ``exact`` says for which channels they are."""

    multiplier: Int64s
    addend: Int64s
    offset: Int64s
    exact: Bools


@dataclass(frozen=True)
class _Layer:
    """What is searched: lines of ``task``, at S + ``word``, for accumulators times 2^``bits``."""

    stairs: Staircase
    task: LineProblem
    word: int
    bits: int


def upper_lines(stairs: Staircase, shift: int, word: int = 32, bits: int = 0, *, offset: int | None = None) -> Lines:
    """The lines of a layer at S = ``shift`` and k = ``bits``, each channel by the cheapest attempt that succeeds.

    First the multiplier next to the scale, then the one with the widest band, both with the layer's offset; then many
    multipliers and offsets. A channel without any line keeps the widest band's multiplier and no addend. A given
    ``offset`` is that of all channels, and one without a line has the addend that comes nearest to it.
    """
    layer = _Layer(stairs, problem(stairs, word + shift), word, bits)
    half = 1 << (shift - 1) if shift else 0
    nearest = np.rint(stairs.requantize.scale.astype(np.float64) * 2.0 ** (word + shift))
    nearest = np.clip(nearest, 1, 2**MULTIPLIER_BITS - 1).astype(np.int64)
    offsets = np.full(nearest.size, half if offset is None else offset, np.int64)
    addend, exact = _addend(layer, band(layer.task, nearest), nearest, offsets)
    found = Lines(nearest, addend, offsets, exact)
    left = np.flatnonzero(~exact)
    if left.size:
        found = _search_best(layer, found, left)
    left = np.flatnonzero(~found.exact)
    part = layer.task.take(left)
    left = left[band(part, found.multiplier[left]).admits]
    ends = admitting(layer.task.take(left), found.multiplier[left])
    for channel, smallest, largest in zip(left, *ends, strict=True):
        multipliers = np.linspace(smallest, largest, MULTIPLIERS)
        found = _search_channel(layer, found, int(channel), multipliers, OFFSETS if offset is None else 0)
    if offset is not None:
        nearest = np.rint((half - offset) * 2.0 ** (word + bits) / found.multiplier).astype(np.int64)
        found = replace(found, addend=np.where(found.exact, found.addend, nearest))
    return found


def _search_best(layer: _Layer, found: Lines, left: Int64s) -> Lines:
    part = layer.task.take(left)
    best = best_multiplier(part)
    addend, exact = _addend(layer, band(part, best), best, found.offset[left], left)
    return _put(found, left, best, addend, found.offset[left], exact)


def _search_channel(
    layer: _Layer, found: Lines, channel: int, multipliers: npt.NDArray[np.float64], offsets: int
) -> Lines:
    """Many multipliers that admit a line, each with offsets on either side; the nearest offset that succeeds wins."""
    m = np.unique(multipliers.astype(np.int64))
    row, rows = np.array([channel]), np.full(m.size, channel)
    bands = band(layer.task.take(rows), m)
    away = np.array(sorted(range(-offsets, offsets + 1), key=abs))[:, None]
    offset = found.offset[row] + away
    addend, exact = _addend(layer, bands, m[None, :], offset, rows)
    hits = np.argwhere(exact)
    if not hits.size:
        return found
    i, j = hits[0]
    return _put(found, row, m[j : j + 1], addend[i, j : j + 1], offset[i], np.array([True]))


def _addend(
    layer: _Layer, band: Band, m: Int64s, offset: Int64s, channels: Int64s | slice = slice(None)
) -> tuple[Int64s, Bools]:
    """The d nearest to 0 that brings the line into the band, and whether it does, and d and accumulators stay in int32.

    (d * m >> k) + C * 2^word is at least the lowest b if d * m is at least the difference times 2^k, and at most the
    highest b if d * m is less than the next difference times 2^k.
    """
    constant = offset << layer.word
    up = -(((constant - band.lowest) << layer.bits) // m)
    down = (((band.highest - constant + 1) << layer.bits) - 1) // m
    addend = np.where(up > 0, up, np.where(down < 0, down, 0))
    exact = (up <= addend) & (addend <= down) & (addend >= INT32_MIN) & (addend <= INT32_MAX)
    exact &= (layer.stairs.lo[channels] << layer.bits) + addend >= INT32_MIN
    exact &= (layer.stairs.hi[channels] << layer.bits) + addend <= INT32_MAX
    return addend, exact


def _put(found: Lines, channels: Int64s, m: Int64s, addend: Int64s, offset: Int64s, exact: Bools) -> Lines:
    """The same lines with those of some channels replaced; what is not exact gets no addend."""
    new = Lines(found.multiplier.copy(), found.addend.copy(), found.offset.copy(), found.exact.copy())
    new.multiplier[channels], new.addend[channels] = m, np.where(exact, addend, 0)
    new.offset[channels], new.exact[channels] = offset, exact
    return new
