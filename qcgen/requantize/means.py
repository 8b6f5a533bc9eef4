"""Means in fixed point, where float32 adds in an order: of windows, and of rows that are normalized."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2, sqrt

import numpy as np

from qcgen import arithmetic
from qcgen.arithmetic import Quantization, dequantize
from qcgen.errors import prove
from qcgen.ir.program import Float32s, Int64s
from qcgen.ir.types import Bools


@dataclass(frozen=True)
class AverageStaircase:
    """Equation (21): the codes that equation (15) gives for every sum of (x - x_zero_point) of a window.

    ``lo`` and ``hi`` are the smallest and the largest sum. ``least`` and ``most`` (hi - lo + 1,) are the smallest and
    the largest code of all windows with this sum, each of them the result of some window; neither ever decreases.
    Where they differ, the order of the codes in the window decides, and no function of the sum is exact.
    """

    lo: int
    hi: int
    least: Int64s
    most: Int64s

    @property
    def ambiguous(self) -> Bools:
        """Whether the sum lo + i leaves the code open, (hi - lo + 1,)."""
        differs: Bools = self.least != self.most
        return differs


def average_staircase(
    taps: int, divisor: int, x_by: Quantization, y_by: Quantization, x_range: tuple[int, int], y_range: tuple[int, int]
) -> AverageStaircase:
    """The staircase of a window with ``taps`` elements inside the image, whose sum is divided by ``divisor``.

    ``x_range`` holds the smallest and the largest code that occur in x (all of its type, or what is known of it),
    ``y_range`` those of y's type. Windows with fewer taps and the same divisor are served, too, if x_range holds the
    zero point: a tap of 0 changes nothing.

    Exact, not estimated: addition in float32 never decreases with either operand, so the least float32 total of all
    windows with a given sum is reached by extending least totals of shorter windows, one tap at a time; so is the
    greatest. The steps from the total to the code never decrease either, hence the code of any window lies between
    the codes of the two totals. Work grows with taps^2 * codes^2: 9 taps take milliseconds, 49 a second.
    """
    low, high = x_range[0] - x_by.zero_point, x_range[1] - x_by.zero_point
    values = arithmetic.dequantize(np.arange(x_range[0], x_range[1] + 1), x_by.scale, x_by.zero_point)
    least, most = _totals(values, taps)
    codes = [_codes(total, divisor, y_by, y_range) for total in (least, most)]
    return AverageStaircase(low * taps, high * taps, *codes)


def _totals(values: Float32s, taps: int) -> tuple[Float32s, Float32s]:
    """The least and the greatest float32 total for every sum of ``taps`` codes, smallest sum first."""
    least = most = np.zeros(1, np.float32)
    for _ in range(taps):
        longer = least.size + values.size - 1
        next_least, next_most = np.full(longer, np.inf, np.float32), np.full(longer, -np.inf, np.float32)
        for index, value in enumerate(values):
            part = slice(index, index + least.size)
            np.minimum(next_least[part], least + value, out=next_least[part])
            np.maximum(next_most[part], most + value, out=next_most[part])
        least, most = next_least, next_most
    return least, most


def _codes(total: Float32s, divisor: int, y_by: Quantization, y_range: tuple[int, int]) -> Int64s:
    return arithmetic.quantize_mean(total / np.float32(divisor), y_by, *y_range)


# An integer line for the mean of a window, with the places where only the float32 additions in their order decide.

MAX_SHIFT = 24
SAFE_SCALES = (2.0**-60, 2.0**60)  # within these no intermediate result overflows, nor loses bits that matter


@dataclass(frozen=True)
class MeanLine:
    """Equation (23): h = S * slope + offset, in int32, for the sum S of (x - x_zero_point) over the window.

    The code is clamp(h >> shift, low, high), unless h is within ``guard`` units of 2^-shift of a step: there the
    float32 additions must be done in their order. ``guard`` None: they never matter. ``emulates_always``: there is no
    line. ``sums`` is the interval of S, ``comparisons`` the number of sums at which the line was checked.
    """

    slope: int
    offset: int
    shift: int
    guard: int | None
    emulates_always: bool
    sums: tuple[int, int]
    comparisons: int


def fit_mean_line(
    taps: int, x_by: Quantization, y_by: Quantization, x_range: tuple[int, int], low: int, high: int
) -> MeanLine:
    """The line for windows of ``taps`` codes in ``x_range``, divided by their number, certified for every sum."""
    stairs = average_staircase(taps, taps, x_by, y_by, x_range, (low, high))
    interval = stairs.lo, stairs.hi
    ratio = float(np.float32(x_by.scale)) / (float(np.float32(y_by.scale)) * taps)
    # The C code sums codes; their zero point is in the offset. Neither part may leave int32.
    reach = 512 * taps * ratio + abs(y_by.zero_point) + 2
    shift = min(MAX_SHIFT, 30 - ceil(log2(reach)))
    always = MeanLine(0, 0, 0, None, True, interval, 0)
    if shift < 2 or not all(SAFE_SCALES[0] <= by.scale <= SAFE_SCALES[1] for by in (x_by, y_by)):
        return always
    slope, offset = round(ratio * 2.0**shift), round((y_by.zero_point + 0.5) * 2.0**shift)
    h = np.arange(stairs.lo, stairs.hi + 1) * slope + offset
    half = 1 << (shift - 1)
    apart = np.abs(((h + half) & ((1 << shift) - 1)) - half)
    wrong: Bools = stairs.ambiguous | (np.clip(h >> shift, low, high) != stairs.least)
    if not wrong.any():
        return MeanLine(slope, offset, shift, None, False, interval, h.size)
    guard = int(apart[wrong].max())
    if 2 * guard >= half:
        return always
    prove(not wrong[apart > guard].any(), "the line is exact outside the window")
    return MeanLine(slope, offset, shift, guard, False, interval, h.size)


# Layer normalization in fixed point, with bounds of how far float32 can be from it.

MOST_LENGTH = 4096  # sums of squares of codes stay within int32
MEAN_BITS = 16  # of the mean of a row of codes, below one
MOST_SHIFT, LEAST_SHIFT = 20, 12  # bits of an output below a code
ROUNDING = 2.0**-24  # the relative error of a float32 operation
MARGIN = 1.05  # for products of errors, which the sums below leave out


@dataclass(frozen=True)
class NormalLine:
    """Equation (46): codes h >> shift with h = (normal * gain[j] >> 32) + offset[j], normal in units of 2^-normal_bits.

    float32 gives the same code unless h is within a band of a step, which is wider the further h is from offset[j]. At
    ``reach`` codes from it or less, half the band is base + (by_reach * reach >> 8) + factor * (slope +
    slope_by_reach * reach), the factor of the row in codes of x; ``by_reach`` and both slopes are in units of 2^-8.
    ``most_reach`` is that of every output that no limit of y cuts off. ``epsilon`` is that of the squares of codes.
    """

    shift: int
    normal_bits: int
    gain: Int64s
    offset: Int64s
    base: int
    by_reach: int
    slope: int
    slope_by_reach: int
    most_reach: int
    epsilon: float


def fit_normal_line(
    scale: Float32s,
    bias: Float32s | None,
    epsilon: float,
    x_by: Quantization,
    codes: tuple[int, int],
    y_by: Quantization,
) -> NormalLine | None:
    """The line of rows of x's ``codes``, the lowest and the highest; None if there is no useful one."""
    length = scale.size
    gains = scale.astype(np.float64) / y_by.scale
    added = np.zeros(length) if bias is None else bias.astype(np.float64) / y_by.scale
    largest, reach = float(np.abs(gains).max()), sqrt(length)
    most = reach * largest + float(np.abs(added).max()) + 512
    normal_bits = 30 - ceil(log2(reach))
    # Neither h nor a gain, (gain in codes) * 2^(shift + 32 - normal_bits), may leave int32.
    shift = min(MOST_SHIFT, 30 - ceil(log2(most)), 30 - ceil(log2(max(largest, 2.0**-40))) - 32 + normal_bits)
    if length > MOST_LENGTH or shift < LEAST_SHIFT:
        return None
    # An output next to a step is at most 257 codes from y's zero point, and so far from what is added to it; that the
    # C takes h for the output, and whole codes of it, adds two.
    most_reach = 259 + ceil(float(np.abs(added).max()))
    deviation = MARGIN * _deviation_error(x_by, codes)
    base = ceil(2**shift * MARGIN * ROUNDING * 2 * 257) + 6
    by_reach = ceil(2 ** (shift + 8) * MARGIN * ROUNDING * (length / 16 + 20))
    slope, slope_by_reach = ceil(2 ** (shift + 8) * deviation * largest), ceil(2 ** (shift + 8) * deviation)
    if base + by_reach * most_reach / 2**8 >= 2 ** (shift - 2) or slope + slope_by_reach * most_reach >= 2**31:
        return None
    gain = np.rint(gains * 2.0 ** (shift + 32 - normal_bits)).astype(np.int64)
    offset = np.rint((added + y_by.zero_point + 0.5) * 2**shift).astype(np.int64)
    band = (base, by_reach, slope, slope_by_reach, most_reach)
    return NormalLine(shift, normal_bits, gain, offset, *band, epsilon / float(x_by.scale) ** 2)


def _deviation_error(by: Quantization, codes: tuple[int, int]) -> float:
    """How far fl32(x - mean), in codes, is at most from the fixed-point difference of the code and the mean.

    Numbers that codes stand for are rounded, and so is their mean, once more, and the difference; the mean of the codes
    is rounded to MEAN_BITS.
    """
    values = np.arange(codes[0], codes[1] + 1)
    numbers = dequantize(values, by.scale, by.zero_point).astype(np.float64) / float(np.float32(by.scale))
    rounded = float(np.abs(numbers - (values - by.zero_point)).max())
    return 2 * rounded + 2 * 256 * ROUNDING + 2.0 ** -(MEAN_BITS + 1)
