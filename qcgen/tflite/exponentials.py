"""The exponentials of TensorFlow Lite's softmax, for the table of each network's own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qcgen.arithmetic import doubled_high
from qcgen.ir.program import Int64s
from qcgen.ir.types import Array, Bools
from qcgen.tflite.multipliers import multiplier_of

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
