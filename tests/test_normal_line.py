"""The fixed-point form of layer normalization is as close to onnxruntime's float32 as its bound says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from batch import require
from judged import judge
from marks import some_at_first
from onnx import ModelProto
from qdq import Chain

import qcgen
from qcgen.arithmetic import Quantization, dequantize, layer_norm
from qcgen.requantize.means import MEAN_BITS, NormalLine, fit_normal_line

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
        line = fit_normal_line(scale, bias, epsilon, x_by, (-128, 127), y_by)
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


# --- the guard band in the C


@dataclass(frozen=True)
class Far:
    """A normalization whose step lies, for each column, just before what float32 gives for one of the rows ``codes``.

    In fixed point the code is another one there, and as far from the step as rows were found to bring it.
    """

    model: ModelProto
    codes: np.ndarray

    def differing(self) -> int:
        """The codes of the C that are not onnxruntime's."""
        [y] = qcgen.compile(self.model, name="normal").load("-O0").run(None, {"x": self.codes})
        return int((y != judge(self.model, {"x": self.codes})[0]).sum())


def far(length: int, count: int = 600) -> Far:
    """The bias brings the step to where, of many rows, the one lies for which the band is least too wide."""
    rng = np.random.default_rng(length)
    x_by, y_by = Quantization(float(np.float32(0.0371)), -3), Quantization(float(np.float32(0.02)), 0)
    scale, bias = rng.normal(1, 0.3, length).astype(np.float32), np.zeros(length, np.float32)
    line = fit_normal_line(scale, bias, 1e-5, x_by, (-128, 127), y_by)
    assert line is not None
    one, other = rng.integers(-128, 128, (2, count, 1))
    two = np.where(rng.random((count, length)) < rng.choice([0.5, 0.25, 0.1, 0.02], (count, 1)), one, other)
    codes = np.concatenate([rows(rng, length, count), two])
    h, band = in_fixed_point(line, codes - x_by.zero_point)
    numbers = layer_norm(dequantize(codes, x_by.scale, x_by.zero_point), scale, bias, 1e-5)
    wanted = (numbers / np.float32(y_by.scale)).astype(np.float64)
    found = h / 2**line.shift - 0.5
    is_inside = (np.abs(wanted) < 127) & (band < 2 ** (line.shift - 1))
    best = np.where(is_inside, np.abs(found - wanted) / band, 0).argmax(axis=0)
    found, wanted = (each[best, np.arange(length)] for each in (found, wanted))
    moved = found + 0.9 * (wanted - found)
    bias = ((np.floor(moved) + 0.5 - moved) * y_by.scale).astype(np.float32)
    chain = Chain()
    x = chain.dequantize("x", (x_by.scale, np.int8(x_by.zero_point)))
    normal = [x, chain.constant("scale", scale), chain.constant("bias", bias)]
    y = chain.node("LayerNormalization", normal, epsilon=1e-5)
    chain.quantize(y, (y_by.scale, np.int8(0)), "y")
    return Far(chain.model((length, length), x_type="int8", opset=17), codes[best].astype(np.int8))


@pytest.mark.parametrize("length", LENGTHS[1:])
def test_codes_far_behind_a_step_are_onnxruntimes(length):
    require("gcc")
    assert far(length).differing() == 0


@pytest.mark.parametrize(("length", "part"), [(300, 8), (300, 16), (64, 16)])
def test_a_part_of_the_guard_band_is_too_narrow(length, part, mutate):
    require("gcc")
    whole = "return width < half - base ? (uint32_t)width + base : half;"
    mutate("library/layer_norm.h", whole, f"{whole[:-1].replace('return ', 'return (')}) / {part};")
    assert far(length).differing() > 0
