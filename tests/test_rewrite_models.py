"""Whole QDQ models: their operators of codes, and what they compute against the recordings of onnxruntime."""

import numpy as np
import pytest
from qdq import meaning_of
from test_digits_recordings import DIGITS, read

from qcgen.ir.program import Conv, Lookup, Requantize, inputs_of
from qcgen.load import load
from qcgen.reference import evaluate
from qcgen.rewrite import rewrite

OPERATORS = [
    ("image_QuantizeLinear", "QuantizeLinear", "Quantize"),
    ("conv1", "Conv", "Conv"),
    ("depthwise2", "Conv", "Conv"),
    ("pointwise3", "Conv", "Conv"),
    ("conv4", "Conv", "Conv"),
    ("conv5", "Conv", "Conv"),
    ("residual", "Add", "QuantizedBinary"),
    ("max", "MaxPool", "MaxPool"),
    ("mean", "GlobalAveragePool", "GlobalAveragePool"),
    ("flat", "Flatten", "Reshape"),
    ("dense6", "Gemm", "Conv"),
    ("softmax", "Softmax", "Softmax"),
    ("probabilities_DequantizeLinear", "DequantizeLinear", "Dequantize"),
]


def meant(name):
    return meaning_of(rewrite(load(DIGITS / f"{name}.onnx")))


@pytest.mark.parametrize("name", ["digits_qdq_s8", "digits_qdq_u8"])
def test_a_network_is_one_of_codes_from_rim_to_rim(name):
    program = meant(name)
    assert [(op.name, op.op_type, type(op).__name__) for op in program.operators] == OPERATORS
    first, *between, last = program.operators
    assert first.y.dtype.is_quantized
    assert last.x.dtype.is_quantized
    assert all(tensor.dtype.is_quantized for op in between for tensor in (op.y, *inputs_of(op)))
    products = [op for op in between if isinstance(op, Conv)]
    assert all(isinstance(op.epilogue, Requantize) for op in products)


@pytest.mark.parametrize("name", ["digits_qdq_s8", "digits_qdq_u8"])
def test_a_network_of_codes_computes_what_onnxruntime_recorded(name):
    program, recorded = meant(name), read(name)
    for case in range(3):
        y = evaluate(program, {"image": recorded[f"in{case}.image"]})["probabilities"]
        assert np.array_equal(y, recorded[f"out{case}.probabilities"])
    assert not any(isinstance(op, Lookup) for op in program.operators)


@pytest.mark.parametrize("name", ["digits_qdq_s8", "digits_qdq_u8"])
def test_a_network_of_codes_computes_what_onnxruntime_said_of_the_test_images(name):
    program, test = meant(name), read("digits_test")
    images = test["test_images"][:60].astype(np.float32) * test["pixel_scale"]
    for image, expected in zip(images, test[f"probabilities.{name}"], strict=False):
        assert np.array_equal(evaluate(program, {"image": image[None]})["probabilities"][0], expected)
