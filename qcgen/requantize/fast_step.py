"""The output step in the very form that kernels for one machine compile, with its own certificate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qcgen.errors import prove
from qcgen.intervals import INT32_MAX, INT32_MIN
from qcgen.ir.program import Int64s
from qcgen.ir.types import Bools
from qcgen.requantize.staircase import Staircase


@dataclass(frozen=True)
class FastStep:
    """One product, an offset and a saturating shift, which serve all sums but those next to a tie.

    With a = acc * 2^``bits`` + ``addend``[m], as the C has it, and s = ``shift``:

    * h = (a * multiplier[m] >> 32) + offset[m]; with ``is_split``, where the upper half of multiplier[m] holds its bits
      from ``word`` on: h = a * (multiplier[m] >> 16) + (a * (multiplier[m] mod 2^16) >> word) + offset[m]
    * y = clamp((clamp(h, least, most) + half) >> s, low, high); ``half`` is half a step where the shift rounds
    * channels that are ``guarded`` (M,) have a guard band: blocks that hold one call the exact function for sums with
      (h + guard) & mask = 0, if ``guard`` is not 0, or with |h * 2^(32 - s) modulo 2^32, signed| >= limit, if ``limit``
      is not 0; if both are, for every sum.
    """

    multiplier: Int64s
    addend: Int64s
    offset: Int64s
    guarded: Bools
    bits: int
    word: int
    is_split: bool
    shift: int
    half: int
    least: int
    most: int
    low: int
    high: int
    guard: int
    mask: int
    limit: int

    @property
    def is_tested(self) -> bool:
        """Whether sums of guarded channels are tested; else the exact function serves all of them."""
        return self.guard != 0 or self.limit != 0

    def scaled(self, acc: Int64s) -> Int64s:
        """h for accumulators (M, N)."""
        a = (acc << self.bits) + self.addend[:, None]
        m = self.multiplier[:, None]
        product = a * (m >> 16) + (a * (m & 0xFFFF) >> self.word) if self.is_split else a * m >> 32
        return np.asarray(product + self.offset[:, None])

    def codes(self, h: Int64s) -> Int64s:
        """The codes of these h, whether or not they are used."""
        return np.asarray(np.clip((np.clip(h, self.least, self.most) + self.half) >> self.shift, self.low, self.high))

    def is_guarded(self, h: Int64s) -> Bools:
        """Whether the test sends a sum to the exact function."""
        if self.guard:
            return np.asarray(((h + self.guard) & self.mask) == 0)
        left = ((h << (32 - self.shift)) - INT32_MIN) % 2**32 + INT32_MIN
        return np.asarray(np.abs(left) >= self.limit)


def certify(step: FastStep, stairs: Staircase) -> int:
    """The certificate of the fast form; returns the points compared, raises ProofFailed if it does not hold.

    What it computes is the staircase at both ends and at both sides of every threshold, or the test says that it may be
    wrong there. h never decreases, so a line that misses a corner is wrong only at those h that lie between the corner
    and the step, and the test must send all of these to the exact function.
    """
    lo, hi = stairs.lo[:, None], stairs.hi[:, None]
    points = np.clip(np.concatenate([lo, hi, stairs.thresholds, stairs.thresholds - 1], axis=1), lo, hi)
    h = step.scaled(points)
    right = step.codes(h) == stairs.at(points)
    tested = step.guarded & step.is_tested
    if tested.any():
        right[tested] |= step.is_guarded(h[tested])
        _certify_test(step, stairs, tested)
    used = ~step.guarded | step.is_tested
    prove(bool(right[used].all()), "the fast output step is exact or leaves its sums to the exact one")
    ends = step.scaled(np.stack([stairs.lo, stairs.hi], axis=1))[used]
    prove(_fits(ends) and _fits(ends + step.guard), "the fast output step stays within int32")
    return int(points[used].size)


def _certify_test(step: FastStep, stairs: Staircase, tested: Bools) -> None:
    """Every h, counted from its step, at which a line misses the staircase is one that the test finds."""
    corners = stairs.corners
    reached = step.scaled(corners.reach_acc) + step.half - (corners.reach_code << step.shift)
    missed = step.scaled(corners.miss_acc) + step.half - (corners.miss_code << step.shift)
    lowest = np.where(corners.reach_counts, reached, 0)[tested].min(initial=0)
    highest = np.where(corners.miss_counts, missed, -1)[tested].max(initial=-1)
    step_size = 1 << step.shift
    prove(bool(highest - lowest < step_size) and step.mask < step_size, "a line misses less than a step")
    between = np.arange(lowest, highest + 1) - step.half
    prove(bool(step.is_guarded(between).all()), "the test next to a tie finds every sum that the line misses")


def _fits(values: Int64s) -> bool:
    return bool((values >= INT32_MIN).all() and (values <= INT32_MAX).all())
