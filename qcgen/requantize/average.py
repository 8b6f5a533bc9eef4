"""The mean of a window as a staircase over the sum of its codes, with the sums that do not decide it."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2

import numpy as np

from qcgen import arithmetic
from qcgen.arithmetic import Quantization
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

    @property
    def ambiguous_sums(self) -> Int64s:
        """The sums that leave the code open."""
        return np.flatnonzero(self.ambiguous) + self.lo

    @property
    def is_exact(self) -> bool:
        """The certificate: every sum decides the code, whatever window it is the sum of."""
        return not self.ambiguous.any()

    @property
    def first(self) -> int:
        """The code of the smallest sum, below all thresholds."""
        return int(self.least[0])

    @property
    def thresholds(self) -> Int64s:
        """The smallest sum of every code first + 1, first + 2, ... up to the largest, by ``least``."""
        codes = np.arange(self.first + 1, int(self.least[-1]) + 1)
        return np.searchsorted(self.least, codes) + self.lo


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
