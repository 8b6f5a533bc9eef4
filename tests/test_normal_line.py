"""The fixed-point form of layer normalization is as close to onnxruntime's float32 as its bound says."""

from __future__ import annotations

import numpy as np
import pytest
from marks import some_at_first

from qcgen.arithmetic import Quantization, dequantize, layer_norm
from qcgen.requantize.normal_line import MEAN_BITS, NormalLine, fit

LENGTHS = (8, 15, 64, 300)


def rows(rng: np.random.Generator, length: int, count: int) -> np.ndarray:
    """Codes that fill their type, and such that lie close together, far from the zero point or on both ends."""
    spread = 2.0 ** rng.uniform(0, 8, (count, 1))
    middle = rng.uniform(-128, 128, (count, 1))
    codes = np.rint(rng.normal(middle, spread, (count, length)))
    codes[::7] = rng.choice([-128, 127], codes[::7].shape)
    return np.clip(codes, -128, 127).astype(np.int64)


def in_fixed_point(line: NormalLine, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Equation (46): h and half the width of its band, for codes less the zero point; rows as in the C."""
    length = codes.shape[1]
    total, squares = codes.sum(axis=1), (codes * codes).sum(axis=1)
    spread = squares * length - total * total
    variance = (spread / length).astype(np.float32) / np.float32(length)
    factor = np.float32(1) / np.sqrt(variance + np.float32(line.epsilon))
    fraction, exponent = np.frexp(factor.astype(np.float64))
    mantissa, exponent = (fraction * 2**24).astype(np.int64), exponent.astype(np.int64) - 24
    doubled = np.trunc(total * 2.0 ** (MEAN_BITS + 1) / length).astype(np.int64)
    mean = np.trunc((doubled + np.where(total < 0, -1, 1)) / 2).astype(np.int64)
    deviation = codes * 2**MEAN_BITS - mean[:, None]
    normal = deviation * mantissa[:, None] >> (MEAN_BITS - line.normal_bits - exponent)[:, None]
    assert np.abs(normal).max() < 2**31
    h = (normal * line.gain >> 32) + line.offset
    assert np.abs(h).max() < 2**31
    reach = np.minimum((np.abs(h - line.offset) >> line.shift) + 2, line.most_reach)
    slope = (line.slope + line.slope_by_reach * reach).astype(object)
    width = slope * mantissa[:, None].astype(object) >> (8 - exponent[:, None].astype(object))
    return h, line.base + (line.by_reach * reach >> 8) + width.astype(np.float64)


@pytest.mark.parametrize("length", some_at_first(LENGTHS))
def test_float32_is_within_the_band_around_the_line(length):
    rng = np.random.default_rng(length)
    nearest = 0.0
    for trial in range(30):
        x_by = Quantization(float(np.float32(10 ** rng.uniform(-3, 0))), int(rng.integers(-128, 128)))
        y_by = Quantization(float(np.float32(10 ** rng.uniform(-2, -1))), int(rng.integers(-128, 128)))
        scale = rng.normal(1, 0.5, length).astype(np.float32)
        bias = rng.normal(0, 0.5, length).astype(np.float32) if trial % 2 else None
        epsilon = float(np.float32(10 ** rng.uniform(-6, -3)))
        line = fit(scale, bias, epsilon, x_by, (-128, 127), y_by)
        assert line is not None
        codes = rows(rng, length, 1500)
        numbers = layer_norm(dequantize(codes, x_by.scale, x_by.zero_point), scale, bias, epsilon)
        wanted = (numbers / np.float32(y_by.scale)).astype(np.float64)
        h, band = in_fixed_point(line, codes - x_by.zero_point)
        distance = np.abs(h / 2**line.shift - 0.5 - y_by.zero_point - wanted) * 2**line.shift
        matters = (np.abs(wanted) <= 257) & (band < 2 ** (line.shift - 1))
        assert matters.mean() > 0.3
        share = (distance / band)[matters]
        assert share.max() <= 1
        nearest = max(nearest, float(share.max()))
    assert nearest > 0.2  # the band is no wilder guess than this
