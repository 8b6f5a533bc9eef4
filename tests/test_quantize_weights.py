"""Float weights of a ConvTranspose between codes are quantized as onnxruntime does when it loads the model."""

from __future__ import annotations

import numpy as np
import pytest
from batch import require
from qdq import Chain

import qcgen
from qcgen.rewrite.weights import parameters

WEIGHTS = np.float32([[[[0.5, -1.3], [0.25, 0.75]]], [[[1.9, 0.1], [-0.6, 0.33]]]])
LOWEST = (np.float32(0.015), np.int8(-128))


def transposed(y_by=LOWEST, *, quantizes=True) -> Chain:
    chain = Chain()
    constants = [chain.constant("w", WEIGHTS), chain.constant("b", np.float32([0.123]))]
    x = chain.dequantize("x", (np.float32(0.02), np.int8(3)))
    relu = chain.node("Relu", [chain.node("ConvTranspose", [x, *constants], "large", strides=[2, 2])], "relu")
    if quantizes:
        chain.quantize(relu, y_by, "y")
    return chain


def test_codes_are_those_that_onnxruntime_gave():
    """Recorded from onnxruntime 1.32.0."""
    require("gcc")
    x = np.int8([[[[100, -5], [44, -100]], [[30, 77], [-66, 9]]]])
    wanted = [[13, -128, 62, -96], [-109, -11, -128, -96], [-128, -128, -128, 60], [-51, -109, -128, -128]]
    model = qcgen.compile(transposed().model((1, 2, 2, 2), x_type="int8"), name="net").load()
    assert model.run(None, {"x": x})[0][0, 0].tolist() == wanted


def test_weights_stay_float_where_the_result_is_not_quantized():
    chain = transposed(quantizes=False)
    program = qcgen.compile(chain.model((1, 2, 2, 2), outputs=("relu",), x_type="int8")).program
    [convolution] = [op for op in program.operators if type(op).__name__ == "Conv"]
    assert convolution.weights.dtype == np.float32


@pytest.mark.parametrize("zero", [-128, -100])
def test_weights_between_codes_are_codes(zero):
    """Whether a Relu is superfluous does not matter: at -100, too, onnxruntime's optimized model has int8 weights."""
    chain = transposed((np.float32(0.015), np.int8(zero)))
    program = qcgen.compile(chain.model((1, 2, 2, 2), x_type="int8")).program
    [convolution] = [op for op in program.operators if type(op).__name__ == "Conv"]
    assert convolution.weights.dtype == np.int8


def test_zero_is_always_a_code():
    assert parameters(np.float32([1, 2.55])) == (np.float32(np.float32(2.55) / 255), -128)
    assert parameters(np.float32([-2.55, -1])) == (np.float32(np.float32(2.55) / 255), 127)
    assert parameters(np.zeros(3, np.float32)) == (np.float32(1), -128)
