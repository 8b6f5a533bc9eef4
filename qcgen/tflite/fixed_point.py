"""TensorFlow Lite Micro's fixed point: multipliers and bounds as it prepares a network, and exponentials."""

from __future__ import annotations

from collections.abc import Callable
from math import floor, frexp

import numpy as np

from qcgen.arithmetic import doubled_high
from qcgen.ir.program import Int64s, IntegerBinary, RoundOnce, RoundTwice
from qcgen.ir.types import Array, Bools, DType

LEAST_EXPONENT = -31
MOST_EXPONENT = 30
SUM_SHIFT, WIDE_SUM_SHIFT = 20, 15
"""Bits below a code that sums of int8 and of int16 codes are taken with."""
SQUARE_SHIFT = 7
"""The same of differences that are squared."""


def half_away(value: float) -> int:
    """The nearest integer, half away from zero: C's round."""
    return floor(value + 0.5) if value >= 0 else -floor(0.5 - value)


def multiplier_of(scale: float) -> tuple[int, int]:
    """The multiplier in [2^30, 2^31), or 0, and the exponent e with scale = multiplier * 2^(e - 31), about.

    What is below 2^-32 becomes 0. Source: QuantizeMultiplier in kernels/internal/quantization_util.cc.
    """
    fraction, exponent = frexp(scale)
    multiplier = half_away(fraction * 2.0**31)
    if multiplier == 2**31:
        multiplier, exponent = 2**30, exponent + 1
    return (0, 0) if exponent < LEAST_EXPONENT else (multiplier, exponent)


def round_twice(scales: Array, zero_point: int, low: int, high: int) -> RoundTwice:
    """The requantization by ``scales`` (M,) float64."""
    found = [multiplier_of(float(scale)) for scale in scales]
    multiplier, exponent = (np.array(part, np.int64) for part in zip(*found, strict=True))
    nearest = np.clip(scales, 2.0**-126, 2.0**126).astype(np.float32)
    return RoundTwice(nearest, zero_point, low, high, multiplier, exponent)


def rounded_up(scales: Array, low: int, high: int) -> RoundOnce:
    """The requantization of sums in int64 by ``scales`` (M,) float64: multipliers of 15 bits, one rounding.

    Source: MultiplyByQuantizedMultiplier for int64 in kernels/internal/common.cc.
    """
    found = [multiplier_of(float(scale)) for scale in scales]
    multiplier = np.array([min((number + 2**15) >> 16, 2**15 - 1) for number, _ in found])
    return RoundOnce(multiplier, np.array([15 - exponent for _, exponent in found]), 0, low, high, is_up=True)


def mean_twice(scale: float, count: int, zero_point: int, low: int, high: int) -> RoundTwice:
    """The requantization of sums of ``count`` codes to their mean, the count folded into the multiplier.

    Source: QuantizedMeanOrSum in kernels/internal/reference/reduce.h.
    """
    multiplier, exponent = multiplier_of(scale)
    shift = min(count.bit_length() - 1, 32, 31 + exponent)
    numbers = np.array([(multiplier << shift) // count]), np.array([exponent - shift])
    nearest = np.array([max(scale / count, 2.0**-126)], np.float32)
    return RoundTwice(nearest, zero_point, low, high, *numbers)


def integer_binary(
    kind: str, a: float, b: float, y: float, low: int, high: int, sum_shift: int = SUM_SHIFT
) -> IntegerBinary | None:
    """How codes with the scales ``a`` and ``b`` are combined to one with ``y``; None where TensorFlow Lite has no way.

    Source: CalculateOpDataAdd in micro/kernels/add_common.cc; sub_common.cc, mul_common.cc, squared_difference.cc.
    """
    if kind == "mul":
        result = multiplier_of(a * b / y)
        return IntegerBinary(0, (0, 0), (0, 0), result, low, high) if result[1] <= 0 else None
    twice = 2.0 * max(a, b)
    is_square = kind == "squared_difference"
    shift = SQUARE_SHIFT if is_square else sum_shift
    result = multiplier_of(twice**2 / (4.0**shift * y) if is_square else twice / (2.0**shift * y))
    if result[1] > 0:
        return None
    return IntegerBinary(shift, multiplier_of(a / twice), multiplier_of(b / twice), result, low, high)


def overflows(by: RoundTwice, largest: Int64s) -> bool:
    """Whether a sum of up to ``largest`` (M,) in magnitude, times 2^exponent, leaves int32; C++ has no result then."""
    return bool((by.exponent > MOST_EXPONENT).any() or (largest << np.clip(by.exponent, 0, 31) >= 2**31).any())


def bounds(activation: str, scale: float, zero_point: int, dtype: DType) -> tuple[int, int]:
    """The lowest and the highest code that a fused activation leaves.

    Source: CalculateActivationRangeQuantized in kernels/kernel_util.cc: the quotient in float32, half away from zero.
    """
    low, high = dtype.low, dtype.high

    def code(value: float) -> int:
        return zero_point + half_away(float(np.float32(value) / np.float32(scale)))

    match activation:
        case "RELU":
            return max(low, code(0.0)), high
        case "RELU6":
            return max(low, code(0.0)), min(high, code(6.0))
        case "RELU_N1_TO_1":
            return max(low, code(-1.0)), min(high, code(1.0))
        case _:
            return low, high


# The exponentials of TensorFlow Lite's softmax, for the table of each network's own.

INTEGER_BITS = 5
"""Above the point, of what exponentials are taken of."""

FACTORS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""exp(-2^k) in units of 2^-31, k = -2 .. 4."""


def exponentials(factor: float) -> Int64s:
    """(256,): exp(-d * factor), d = 255, 254, ... 0, in units of 2^-31; 0 where a row leaves an element out.

    Source: PreprocessSoftmaxScaling and CalculateInputRadius in kernels/internal/quantization_util.cc, Softmax in
    kernels/internal/reference/softmax.h.
    """
    given, counts = _scaled_distances(factor)
    return np.where(counts, exp_of_negative(given, INTEGER_BITS), 0)


def rounded_exponentials(factor: float) -> tuple[Int64s, Int64s]:
    """The same in units of 2^-19, and (256,) the distances -d * factor in units of 2^-26, none below -17.

    Farther ones have the lowest code, since logarithms end at -255/16. Source: LogSoftmaxQuantized in
    kernels/internal/reference/log_softmax.h.
    """
    given, counts = _scaled_distances(factor)
    least = -17 << (31 - INTEGER_BITS)
    return (exponentials(factor) + 2**11) >> 12, np.where(counts, np.maximum(given, least), least)


def _scaled_distances(factor: float) -> tuple[Int64s, Bools]:
    """(256,): -d * factor in units of 2^-26, d = 255, 254, ... 0; and whether a row counts what is so far away."""
    multiplier, left = multiplier_of(min(factor * 2.0 ** (31 - INTEGER_BITS), 2.0**31 - 1))
    most = ((1 << INTEGER_BITS) - 1) << (31 - INTEGER_BITS) >> left
    distance = np.arange(255, -1, -1)
    return doubled_high(-np.minimum(distance, most) << left, multiplier), distance <= most


def exp_of_negative(x: Int64s, bits: int) -> Int64s:
    """exp in units of 2^-31 of numbers of at most 0, with so many bits above the point of 31, 5 at most.

    A polynomial between -1/4 and 0, then factors.

    Source: exp_on_negative_values in gemmlowp's fixedpoint.h.
    """
    quarter = 1 << (31 - bits - 2)
    inside = (x & (quarter - 1)) - quarter
    result = _near_zero(inside << bits)
    rest = inside - x
    for bit, factor in enumerate(FACTORS[: bits + 2], start=quarter.bit_length() - 1):
        result = np.where(rest >> bit & 1, doubled_high(result, factor), result)
    return np.where(x == 0, 2**31 - 1, result)


def _near_zero(x: Int64s) -> Int64s:
    """exp(x), x in [-1/4, 0) in units of 2^-31: exp(-1/8) times the first terms of the series at -1/8."""
    at = x + 2**28
    square = doubled_high(at, at)
    cube, fourth = doubled_high(square, at), doubled_high(square, square)
    tail = doubled_high(_halved(fourth, 2) + cube, 715827883) + square
    return 1895147668 + doubled_high(at + _halved(tail, 1), 1895147668)


def _halved(x: Int64s, times: int) -> Int64s:
    """x / 2^times, half away from zero."""
    return np.asarray(np.sign(x) * ((np.abs(x) + (1 << times >> 1)) >> times))


def _lines(scale: float, zero_point: int, function: Callable[[Array], Array]) -> Int64s:
    """(513,): numbers between which lines are drawn to follow a function of int16 codes, in float32.

    Half of what a chord is off in its middle is taken off its first end. Source: LUTPopulate in
    kernels/internal/common.h.
    """
    low, high = (np.float32(scale) * np.float32(code - zero_point) for code in (-(2**15), 2**15 - 1))
    step = (high - low) / np.float32(512)
    units = np.float32(2**16) / (np.float32(2) / np.float32(2**16 - 1) * np.float32(2**16 - 1))
    places = low + np.arange(513, dtype=np.float32) * step
    first, middle = function(places) * units, function(places + step / np.float32(2)) * units
    sample = _nearest(first[:-1])
    chord = _nearest((first[1:] + sample) / np.float32(2))
    found = sample - _nearest((chord - _nearest(middle[:-1])) / np.float32(2))
    last = _nearest(function(np.array([high])) * units)
    table: Int64s = np.clip(np.append(found, last), -(2**15), 2**15 - 1).astype(np.int64)
    return table


def _nearest(value: Array) -> Array:
    """Half away from zero, in float32."""
    return np.asarray(np.sign(value) * np.floor(np.abs(value.astype(np.float64)) + 0.5), np.float32)


def softmax_lines() -> tuple[Int64s, Int64s]:
    """The exponentials of distances from -10 to 0, and 1 / (1 + v) of v from 0 to 1: what WideSoftmax is given.

    Source: SoftmaxPrepare in micro/kernels/softmax_common.cc.
    """
    exponentials = _lines(10 / 65535, 2**15 - 1, lambda x: np.exp(x.astype(np.float64)).astype(np.float32))
    return exponentials, _lines(1 / 65535, -(2**15), lambda x: np.float32(1) / (np.float32(1) + x))
