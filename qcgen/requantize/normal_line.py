"""Layer normalization in fixed point, with bounds of how far float32 can be from it."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2, sqrt

import numpy as np

from qcgen.arithmetic import Quantization, dequantize
from qcgen.ir.program import Float32s, Int64s

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


def fit(
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
