"""Layers that share a function, or were to share one."""

import numpy as np
import pytest
from bench.compiling import Network
from computed import computed
from qdq import Chain

import qcgen
from qcgen.verification import verify


# Layers without guard bands were packed with one that has some, then divided from it: their function had no tables.
def test_layers_that_are_divided_from_others_have_in_common_what_they_need(monkeypatch, level):
    monkeypatch.setattr("qcgen.plan.functions.PRICE", 0)
    n = Network((1, 32, 2, 2), seed=11)
    x = "x"
    for channels in (24, 24, 16, 600):
        x = n.conv(x, channels)
    artifact = qcgen.compile(n.model(x), target="cortex-m4", layout="nhwc", name="net")
    assert artifact.plan.shared
    assert verify(artifact, cases=2, flags=(level,), sums=False).is_right


# Networks with equal convolutions of 16 bits, whose scales differ, did not compile: "is not the same function".
DRAW = np.random.default_rng(0)


def network(per_channel: bool):
    chain = Chain()
    y = chain.through("x", (1 / 3000, np.int16(0)))
    for i in range(3):
        scale = np.float32([0.002, 0.003, 0.004, 0.005]) + i / 1000 if per_channel else 0.002 + i / 1000
        zero = np.zeros(4, np.int8) if per_channel else np.int8(0)
        w = chain.weights(f"w{i}", DRAW.integers(-60, 61, (4, 4, 3, 3)).astype(np.int8), (scale, zero))
        y = chain.through(chain.node("Conv", [y, w], f"c{i}", pads=[1] * 4), (1 / 2000 + i / 9000, np.int16(0)))
    chain.node("Identity", [y], "y")
    return chain.model((1, 4, 6, 6), opset=21)


@pytest.mark.parametrize("per_channel", [False, True])
def test_layers_with_scales_of_their_own_have_functions_of_their_own(per_channel):
    computed(network(per_channel), {"x": DRAW.normal(0, 4, (1, 4, 6, 6)).astype(np.float32)})
