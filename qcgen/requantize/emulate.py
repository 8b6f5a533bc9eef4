"""The roundings of equation (1), or (78), in integers: what the generated C does where no line fits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qcgen import arithmetic
from qcgen.ir.program import DivideAway, Float32s, Int64s, Requantize, RoundInSteps, RoundTwice

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
