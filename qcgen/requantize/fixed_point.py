"""A layer's requantization in integers, as the C computes it: lines and fast steps, certified, and its roundings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, assert_never

import numpy as np
import numpy.typing as npt

from qcgen import arithmetic
from qcgen.errors import prove
from qcgen.intervals import INT32_MAX, INT32_MIN
from qcgen.ir.program import DivideAway, Float32s, Int64s, Requantize, RoundInSteps, RoundTwice
from qcgen.ir.types import Bools
from qcgen.requantize.lines import Staircase

Arithmetic = Literal["multiply-high", "split", "wide", "narrow", "soft-float"]
FORMS = ("constant", "narrow", "split", "multiply-high", "wide", "guard band", "soft-float", "integers")
"""How a single channel is requantized, cheapest first."""


@dataclass(frozen=True)
class FixedPoint:
    """Equation (5): the requantization of one layer, M channels.

    With a = acc * 2^bits + addend[m] (the addend joins the value at which the accumulator starts; kernels that have
    accumulators times 2^bits, 0 to 8, get a word of 32 - bits, all others 32):

    * multiply-high: h = ((a * multiplier[m]) >> 32) + offset[m]
    * split: h = ((a * multiplier[m]) >> word) + offset[m] with a word of 16 bits at most, so short that int32 holds
      both parts of the product: h = a * (multiplier[m] >> word) + (a * (multiplier[m] mod 2^word) >> word) + offset[m]
    * wide: h = (a * multiplier[m] + offset[m]) >> prescale
    * narrow: h = a * multiplier[m] + offset[m], all in int32, a first clamped to [clamp_low[m], clamp_high[m]]
    * soft-float: no h

    y = clamp(h >> shift, low, high), with floor shifts. Where ``guard[m]`` is not 0 and h comes within guard[m] units
    of 2^-shift of the next step of the staircase, both roundings are emulated instead (the "guard band"), of a less the
    addend; a guard of half the steps' distance emulates always. ``multiplier`` is in [0, 2^31), ``shift`` in [0, 30],
    ``prescale`` in [0, 62]. ``forms`` counts channels by form; ``comparisons`` is the number of points at which the
    certificate was checked.
    """

    arithmetic: Arithmetic
    multiplier: Int64s
    addend: Int64s
    offset: Int64s
    shift: int
    prescale: int
    guard: Int64s
    clamp_low: Int64s
    clamp_high: Int64s
    forms: Mapping[str, int]
    comparisons: int
    word: int = 32

    @property
    def bits(self) -> int:
        """Accumulators are wanted times 2^bits."""
        return 32 - self.word if self.arithmetic == "multiply-high" else 0

    @property
    def is_guarded(self) -> bool:
        """Whether any channel has a guard band."""
        return bool(self.guard.any())

    @property
    def subtracts(self) -> bool:
        """Whether what is emulated must be freed of an addend."""
        return bool(self.addend[self.guard != 0].any())


def scaled(fixed: FixedPoint, acc: Int64s) -> Int64s:
    """h of equation (5) for accumulators (M, ...)."""
    multiplier, addend, offset, clamp_low, clamp_high = (
        part.reshape((-1,) + (1,) * (acc.ndim - 1))
        for part in (fixed.multiplier, fixed.addend, fixed.offset, fixed.clamp_low, fixed.clamp_high)
    )
    a = (acc << fixed.bits) + addend
    h: Int64s
    match fixed.arithmetic:
        case "multiply-high":
            h = ((a * multiplier) >> 32) + offset
        case "split":
            h = ((a * multiplier) >> fixed.word) + offset
        case "wide":
            h = (a * multiplier + offset) >> fixed.prescale
        case "narrow":
            h = np.clip(a, clamp_low, clamp_high) * multiplier + offset
        case "soft-float":
            raise ValueError("the soft-float form has no line")
    return h


def in_window(fixed: FixedPoint, h: Int64s) -> Bools:
    """Whether the C code leaves the line at h (M, ...) and emulates the roundings."""
    guard = fixed.guard.reshape((-1,) + (1,) * (h.ndim - 1))
    inside: Bools = ((h + guard) & ((1 << fixed.shift) - 1)) < 2 * guard
    return inside


def evaluate(fixed: FixedPoint, stairs: Staircase, acc: Int64s) -> Int64s:
    """y for accumulators (M, ...), exactly as the generated C computes it."""
    requantize = stairs.requantize
    # Where every accumulator is emulated, it is the one that the C has; a guard band takes the addend away first.
    if fixed.arithmetic == "soft-float":
        return emulate(acc + fixed.addend.reshape((-1,) + (1,) * (acc.ndim - 1)), requantize)
    h = scaled(fixed, acc)
    codes: Int64s = np.clip(h >> fixed.shift, requantize.low, requantize.high)
    rows = np.flatnonzero(fixed.guard)
    if rows.size:
        exact = emulate(acc[rows], requantize.take(rows))
        codes[rows] = np.where(in_window(fixed, h)[rows], exact, codes[rows])
    return codes


def certify(fixed: FixedPoint, stairs: Staircase) -> int:
    """The certificate: y of the C equals equation (1) for every reachable accumulator; returns the points compared.

    Raises ProofFailed if that is not so.

    Both never decrease (inside a guard band the C emulates; it is monotone because the emulation equals equation (1)
    and the line outside equals it too). So they agree everywhere if they agree on both sides of every threshold and at
    both ends of the interval. No variable leaves its C type, which for a line need only be seen at the ends.
    """
    lo, hi = stairs.lo[:, None], stairs.hi[:, None]
    sides = np.concatenate([lo, hi, stairs.thresholds, stairs.thresholds - 1], axis=1)
    points = np.clip(sides, lo, hi)
    prove(np.array_equal(evaluate(fixed, stairs, points), stairs.at(points)), "the requantization is exact")
    if fixed.is_guarded:
        _certify_windows(fixed, stairs)
    prove(bool(fits(fixed, stairs).all()), "every variable stays within its C type")
    return int(points.size)


def _certify_windows(fixed: FixedPoint, stairs: Staircase) -> None:
    """Between a corner of the staircase and the place where the line crosses it, every accumulator is in the window.

    h never decreases, so it is enough that h at the corner is within guard of the crossing: then so is h at everything
    between the two.
    """
    always = fixed.guard >= windows_that_never_close(fixed.shift)
    wide_enough = (window_needed(fixed, stairs) <= fixed.guard) | always
    prove(bool(wide_enough.all()), "guard bands cover all that their lines miss")


def windows_that_never_close(shift: int) -> int:
    """The guard at which the window covers everything: half a step, and at least 1."""
    return max(1, 1 << max(shift - 1, 0))


def window_needed(fixed: FixedPoint, stairs: Staircase) -> Int64s:
    """(M,): the smallest guard that covers every corner that the line misses; 0 where it misses none."""
    corners = stairs.corners
    short = (corners.reach_code << fixed.shift) - scaled(fixed, corners.reach_acc)
    beyond = scaled(fixed, corners.miss_acc) - (corners.miss_code << fixed.shift) + 1
    missed = np.maximum(np.where(corners.reach_counts, short, 0), np.where(corners.miss_counts, beyond, 0))
    needed: Int64s = np.maximum(missed.max(axis=1), 0)
    return needed


def fits(fixed: FixedPoint, stairs: Staircase) -> Bools:
    """(M,): the C variables hold what they must: a, h, narrow's product in int32, the wide one in int64; exactly.

    The tables too: multipliers in [0, 2^31), addends in int32, offsets too but for *wide*. Accumulators less their
    addend are in int32 where a guard band takes it away.
    """
    ends = np.stack([stairs.lo, stairs.hi], axis=1)
    sums = ends << fixed.bits
    a = sums + fixed.addend[:, None]
    holds = _within(a, 32) & (fixed.multiplier >= 0) & (fixed.multiplier <= INT32_MAX)
    holds &= _within(fixed.addend[:, None], 32) & ((fixed.guard == 0) | _within(sums, 32))
    if fixed.arithmetic == "soft-float":
        return holds
    if fixed.arithmetic == "narrow":
        a = np.clip(a, fixed.clamp_low[:, None], fixed.clamp_high[:, None])
    # Python's own integers: this is the place that must see an overflow of int64.
    product = a.astype(object) * fixed.multiplier.astype(object)[:, None]
    total = product + fixed.offset.astype(object)[:, None]
    match fixed.arithmetic:
        case "wide":
            return holds & _within(total, 64) & _within(total >> fixed.prescale, 32)
        case "narrow":
            return holds & _within(product, 32) & _within(total, 32) & _within(fixed.offset[:, None], 32)
        case "multiply-high":
            return holds & _within(scaled(fixed, ends), 32) & _within(fixed.offset[:, None], 32)
        case "split":
            upper, lower = (part[:, None] for part in split(fixed))
            parts = (
                _within(a * upper, 32)
                & _within(a * lower, 32)
                & _within((a * fixed.multiplier[:, None]) >> fixed.word, 32)
            )
            parts &= _within(upper, 16) & (fixed.word <= 16)
            return holds & parts & _within(scaled(fixed, ends), 32) & _within(fixed.offset[:, None], 32)
        case _:
            assert_never(fixed.arithmetic)


def split(fixed: FixedPoint) -> tuple[Int64s, Int64s]:
    """The upper and the lower part of *split*'s multipliers, (M,) each: above and within the word."""
    return fixed.multiplier >> fixed.word, fixed.multiplier & ((1 << fixed.word) - 1)


def _within(values: npt.NDArray[Any], bits: int) -> Bools:
    """(M,): whether all numbers (M, ...) of a row fit a signed integer of so many bits."""
    inside: Bools = ((values >= -(2 ** (bits - 1))) & (values < 2 ** (bits - 1))).astype(bool).all(axis=1)
    return inside


# The roundings of equation (1), or (78), in integers: what the generated C does where no line fits.

MANTISSA_BITS = 24  # of a float32, the hidden one included


def decompose(scale: Float32s) -> tuple[Int64s, Int64s]:
    """Mantissas in [2^23, 2^24) and exponents with scale = mantissa * 2^exponent, exactly."""
    fraction, exponent = np.frexp(scale.astype(np.float64))
    mantissa = (fraction * 2.0**MANTISSA_BITS).astype(np.int64)
    return mantissa, exponent.astype(np.int64) - MANTISSA_BITS


def multipliers(requantize: Requantize) -> tuple[Int64s, Int64s]:
    """The numbers (M,) by which the C emulates the roundings: of scales, of (78), or offsets and counts of (79)."""
    if isinstance(requantize, RoundTwice):
        return requantize.multiplier, requantize.exponent
    if isinstance(requantize, DivideAway):
        offset, count = (np.full(requantize.scale.size, part) for part in (requantize.offset, requantize.count))
        return offset, count
    return decompose(requantize.scale)


def emulate(acc: Int64s, requantize: Requantize) -> Int64s:
    """Equation (4): y for accumulators (M, ...) in integer arithmetic alone; the C function of the same name.

    a = |acc| is rounded to 24 bits (fl32(acc)), the 48-bit product with the scale's mantissa is rounded to 24 bits
    (fl32 of the product), the result is rounded to an integer; all three times half goes to even. Only products below
    2^-126 would round otherwise in float32, and they give 0 either way. (78) and (79) are in integers already.
    """
    if isinstance(requantize, RoundTwice | DivideAway | RoundInSteps):
        return arithmetic.codes(requantize, acc)
    shape = (-1,) + (1,) * (acc.ndim - 1)
    mantissa, exponent = (part.reshape(shape) for part in decompose(requantize.scale))
    magnitude = np.abs(acc).astype(np.int64)
    bits = _bit_length(magnitude)
    excess = np.maximum(bits - MANTISSA_BITS, 0)
    lack = np.maximum(MANTISSA_BITS - bits, 0)
    rounded = _round_half_even(magnitude, excess) << lack
    product = rounded * mantissa
    drop = _bit_length(product) - MANTISSA_BITS
    significand = _round_half_even(product, np.maximum(drop, 0))
    power = exponent + excess - lack + drop
    # A value of 2^23 and more is beyond every code, one below 2^-1 rounds to 0: both ends need no exact shift.
    steps = np.where(
        power >= 0, np.int64(1) << MANTISSA_BITS, _round_half_even(significand, np.clip(-power, 0, MANTISSA_BITS + 2))
    )
    steps = np.where(magnitude == 0, 0, steps)
    value = np.where(acc < 0, -steps, steps) + requantize.zero_point
    codes: Int64s = np.clip(value, requantize.low, requantize.high)
    return codes


def _round_half_even(value: Int64s, shift: npt.NDArray[np.int64]) -> Int64s:
    """value / 2^shift to the nearest integer, half to even; shift is 0 to 62."""
    quotient = value >> shift
    remainder = value - (quotient << shift)
    half = (np.int64(1) << shift) >> 1
    up = (remainder > half) | ((remainder == half) & (shift > 0) & ((quotient & 1) == 1))
    rounded: Int64s = quotient + up
    return rounded


def _bit_length(value: Int64s) -> Int64s:
    """The number of bits of non-negative integers below 2^62; 0 for 0."""
    # frexp of the upper part is exact where the whole number would round up to the next power of two.
    upper = value >> 31
    high_bits = np.frexp(upper.astype(np.float64))[1].astype(np.int64) + 31
    low_bits = np.frexp(value.astype(np.float64))[1].astype(np.int64)
    bits: Int64s = np.where(upper > 0, high_bits, low_bits)
    return bits


# The output step in the very form that kernels for one machine compile, with its own certificate.


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


def certify_fast(step: FastStep, stairs: Staircase) -> int:
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
    prove(_fits_int32(ends) and _fits_int32(ends + step.guard), "the fast output step stays within int32")
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


def _fits_int32(values: Int64s) -> bool:
    return bool((values >= INT32_MIN).all() and (values <= INT32_MAX).all())
