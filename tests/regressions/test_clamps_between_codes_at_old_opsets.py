"""At opset 10 clamps between codes vanished: qcgen wrote Clip as opset 11 spells it, and read it as opset 6 does."""

import numpy as np
import pytest
from qdq import Chain

import qcgen
from qcgen.reference import evaluate

SHAPE = (2, 4, 5, 7)
X_SCALE, Y_SCALE = np.float32(0.05), np.float32(0.0371)


def relu(chain, x):
    return chain.node("Relu", [x])


def clip(chain, x):
    return chain.node("Clip", [x], min=-1.0, max=1.5)


def clip_of_inputs(chain, x):
    return chain.node("Clip", [x, chain.constant("low", np.float32(-1)), chain.constant("high", np.float32(1.5))])


def larger(chain, x):
    return chain.node("Max", [x, chain.constant("low", np.float32(0.5))])


def smaller(chain, x):
    return chain.node("Min", [x, chain.constant("high", np.float32(0.5))])


def eye(chain, shape):
    codes = chain.constant("w", np.eye(shape[0], dtype=np.int8).reshape(shape))
    return chain.dequantize(codes, (1, np.int8(0)))


def relu_of_products(chain, x):
    return relu(chain, chain.node("MatMul", [x, eye(chain, (7, 7))]))


def relu_of_windows(chain, x):
    return relu(chain, chain.node("Conv", [x, eye(chain, (4, 4, 1, 1))]))


def relu_of_a_movement(chain, x):
    return relu(chain, chain.node("Reshape", [x, chain.constant("shape", np.array(SHAPE, np.int64))]))


def at_least_0(x):
    return np.maximum(x, 0)


CLAMPS = {
    relu: (at_least_0, (10, 11, 13)),
    clip: (lambda x: np.clip(x, -1, np.float32(1.5)), (10,)),
    clip_of_inputs: (lambda x: np.clip(x, -1, np.float32(1.5)), (11, 13)),
    larger: (lambda x: np.maximum(x, np.float32(0.5)), (10, 12)),
    smaller: (lambda x: np.minimum(x, np.float32(0.5)), (10, 12)),
    relu_of_products: (at_least_0, (10, 11)),
    relu_of_windows: (at_least_0, (10, 11)),
    relu_of_a_movement: (at_least_0, (10, 11)),
}


def quantized(values, scale, zero_point):
    ends = np.iinfo(zero_point.dtype)
    return np.clip(np.rint(values / scale) + zero_point, ends.min, ends.max)


@pytest.mark.parametrize("zero", [np.int8(-10), np.uint8(118)], ids=["int8", "uint8"])
@pytest.mark.parametrize(
    ("clamp", "opset"),
    [
        pytest.param(clamp, opset, id=f"{clamp.__name__} {opset}")
        for clamp, (_, opsets) in CLAMPS.items()
        for opset in opsets
    ],
)
def test_clamps_stay(clamp, opset, zero):
    chain = Chain()
    x = chain.through("x", (X_SCALE, zero))
    chain.quantize(clamp(chain, x), (Y_SCALE, zero), "y")
    values = np.random.default_rng(0).uniform(-8, 8, SHAPE).astype(np.float32)
    found = evaluate(qcgen.compile(chain.model(SHAPE, opset=opset)).program, {"x": values})["y"]
    clamped = CLAMPS[clamp][0]((quantized(values, X_SCALE, zero) - zero).astype(np.float32) * X_SCALE)
    np.testing.assert_array_equal(found, quantized(clamped, Y_SCALE, zero))
