"""Dynamic quantization: scales and zero points that are found for each input, against onnxruntime, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from judged import judge
from models import node_model
from onnx import ModelProto
from tools import require

import qcgen
from qcgen.reference import evaluate

COUNT = 256


def quantizer(shape: tuple[int, ...] = (COUNT,)) -> ModelProto:
    """DynamicQuantizeLinear alone, with all three results."""
    return node_model("DynamicQuantizeLinear", {"x": ("float", shape)}, {"y": None, "s": None, "z": None})


def half_steps(zero: int, scale: float, generator: np.random.Generator) -> np.ndarray:
    """Numbers on half steps between codes and next to them, with this zero point."""
    ends = np.float32([-zero, 255 - zero]) * np.float32(scale)
    width = ends[1] - ends[0]
    exact = width / np.float32(255)
    x = (generator.integers(-zero, 255 - zero, COUNT) + 0.5).astype(np.float32) * exact
    x[1::3], x[2::3] = (np.nextafter(x[at::3], np.float32(to)) for at, to in ((1, np.inf), (2, -np.inf)))
    x[:2] = ends
    return np.clip(x, *ends)


def tensors() -> Iterator[np.ndarray]:
    generator = np.random.default_rng(0)
    drawn = generator.standard_normal(COUNT).astype(np.float32)
    yield from (drawn, np.abs(drawn), -np.abs(drawn), drawn * 0, drawn * -0.0, np.full(COUNT, 3, np.float32))
    yield from (np.full(COUNT, -3, np.float32), drawn * np.float32(1e38), drawn * np.float32(1e-38))
    yield np.where(np.arange(COUNT) == 7, np.float32(1e6), drawn)
    yield np.where(np.arange(COUNT) == 7, np.float32(np.inf), drawn)
    for zero in range(0, 256, 15):
        for scale in (1, 0.5, 0.0371, 3e-5):
            yield half_steps(zero, scale, generator)
    for _ in range(40):  # zero points on a tie: -least / scale is a whole number and a half
        zero = generator.integers(0, 254) + 0.5
        x = generator.uniform(-zero, 255 - zero, COUNT).astype(np.float32)
        x[:2] = -zero, 255 - zero
        yield x


def test_codes_scales_and_zero_points_are_those_of_onnxruntime():
    require("gcc")
    model = quantizer()
    artifact = qcgen.compile(model)
    on_host = artifact.load()
    for number, x in enumerate(tensors()):
        expected = judge(model, {"x": x})
        got = on_host.run(None, {"x": x})
        own = evaluate(artifact.program, {"x": x})
        for name, one, other, wanted in zip("ysz", got, own.values(), expected, strict=True):
            assert np.array_equal(one, wanted), (number, name)
            assert np.array_equal(other, wanted), (number, name)


@pytest.mark.parametrize("flags", [("-O3", "-march=native", "-ffp-contract=fast"), ("-O0",)], ids=lambda f: f[0])
def test_no_option_of_the_compiler_changes_a_bit(flags):
    require("gcc")
    artifact = qcgen.compile(quantizer())
    on_host = artifact.load(flags)
    for x in tensors():
        for got, wanted in zip(on_host.run(None, {"x": x}), evaluate(artifact.program, {"x": x}).values(), strict=True):
            assert np.array_equal(got, wanted)
