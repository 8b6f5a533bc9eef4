"""An integer line for the mean of a window, with the places where only the float32 additions in their order decide."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2

import numpy as np

from qcgen.arithmetic import Quantization
from qcgen.errors import prove
from qcgen.ir.types import Bools
from qcgen.requantize.average import average_staircase

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


def fit(taps: int, x_by: Quantization, y_by: Quantization, x_range: tuple[int, int], low: int, high: int) -> MeanLine:
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
