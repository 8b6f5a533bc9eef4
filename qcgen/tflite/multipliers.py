"""Multipliers and bounds of codes as TensorFlow Lite Micro computes them when it prepares a network."""

from __future__ import annotations

from math import floor, frexp

import numpy as np

from qcgen.ir.program import Int64s, IntegerBinary, RoundOnce, RoundTwice
from qcgen.ir.types import Array, DType

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
