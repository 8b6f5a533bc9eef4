"""Convolutions in Orion's arithmetic that panic on some inputs and not on others, and such inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from models import qlinear_conv
from onnx import ModelProto

HOSTILE = {
    "code": (16, (1, 1, 2, 2), [[[[1]]]], {"xs": 520.0, "ys": 30000.0}, {"strides": [2, 2]}),
    "product": (16, (1, 1, 2, 2), [[[[1]]], [[[-100]]]], {"xs": 10.0, "ws": 6.0, "ys": 9.0}, {}),
    "product that the sum takes back": (16, (1, 1, 1, 2), [[[[-80, 100]]]], {"xs": 1.0, "ws": 6.0, "ys": 9.0}, {}),
    "product of 64 bits": (16, (1, 1, 1, 1), [[[[127]]]], {"xs": 500.0, "ws": 510.0, "ys": 60000.0}, {}),
    "wide product": (23, (1, 2, 1, 2), np.full((2, 2, 1, 1), -90, np.int8), {"xs": 2.0, "ws": 5.0, "ys": 7.0}, {}),
    "sum of a channel": (16, (1, 2, 3, 3), np.full((2, 2, 3, 3), 100, np.int8), {"xs": 1.0, "ws": 1.0, "ys": 9.0}, {}),
    "sum": (
        16, (1, 12, 1, 2), np.full((2, 12, 1, 1), 99, np.int8), {"xs": 1.0, "ws": 1.0, "ys": 9.0},
        {"bias": [500, 0]},
    ),
    "sum with groups": (
        16, (1, 8, 2, 2), np.full((2, 4, 2, 1), 99, np.int8), {"xs": 1.0, "ws": 1.5, "ys": 9.0},
        {"bias": [15000, -15000], "group": 2, "pads": [1, 0, 0, 0]},
    ),
    "quotient": (16, (1, 1, 2, 2), [[[[100]]], [[[-7]]]], {"xs": 1.0, "ws": 1.0, "ys": 0.125}, {}),
    "moved quotient": (23, (1, 1, 1, 3), [[[[64]]]], {"xs": 1.0, "ws": 0.05, "ys": 0.9, "yz": 127}, {}),
}  # fmt: skip
"""By the quantity that leaves 32 bits: fraction bits, shape of x, w, quantization, attributes of the node."""


def numerics(name: str) -> str:
    """The arithmetic that is meant, as an option."""
    return {16: "orion-fp16x16", 23: "orion-fp8x23"}[HOSTILE[name][0]]


def hostile_model(name: str) -> ModelProto:
    """A row of HOSTILE as a model."""
    _, shape, w, q, attributes = HOSTILE[name]
    scales = {"x_scale": q["xs"], "w_scale": q.get("ws", 0.03), "y_scale": q["ys"], "y_zero_point": q.get("yz", 0)}
    return qlinear_conv(shape, np.asarray(w, np.int8), x_type="int8", y_type="int8", **scales, **attributes)


def hostile_inputs(shape: Sequence[int], seed: int) -> Iterator[np.ndarray]:
    """Random codes of many widths, extremes and single codes among zeros."""
    generator = np.random.default_rng(seed)
    for width in (1, 3, 10, 30, 60, 90, 127, 127):
        for _ in range(6):
            yield generator.integers(-width, width, shape, np.int8, endpoint=True)
            yield generator.choice(np.array([-width - 1, 0, width], np.int8), shape)
            yield np.full(shape, generator.integers(-width, width, dtype=np.int8, endpoint=True))
