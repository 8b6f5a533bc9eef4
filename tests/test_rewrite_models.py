"""Whole QDQ models: their fused nodes, and what they compute against the recordings of onnxruntime."""

import numpy as np
import pytest
from test_digits_recordings import DIGITS, read

from qcgen.ir.program import Lookup
from qcgen.load import load
from qcgen.lower import lower
from qcgen.reference import evaluate
from qcgen.rewrite import rewrite

NODES = [
    ("image_QuantizeLinear", "QuantizeLinear"),
    ("conv1", "QLinearConv"),
    ("depthwise2", "QLinearConv"),
    ("pointwise3", "QLinearConv"),
    ("conv4", "QLinearConv"),
    ("conv5", "QLinearConv"),
    ("residual", "com.microsoft.QLinearAdd"),
    ("max", "MaxPool"),
    ("mean", "com.microsoft.QLinearGlobalAveragePool"),
    ("flat", "Flatten"),
    ("dense6", "com.microsoft.QGemm"),
    ("softmax", "com.microsoft.QLinearSoftmax"),
    ("probabilities_DequantizeLinear", "DequantizeLinear"),
]


def fused(name):
    return rewrite(load(DIGITS / f"{name}.onnx"))


@pytest.mark.parametrize("name", ["digits_qdq_s8", "digits_qdq_u8"])
def test_a_network_becomes_integer_from_rim_to_rim(name):
    assert [f"{node.domain}.{node.op_type}".strip(".") for node in fused(name).nodes] == [
        operator for _, operator in NODES
    ]


@pytest.mark.parametrize("name", ["digits_qdq_s8", "digits_qdq_u8"])
def test_a_fused_network_computes_what_onnxruntime_recorded(name):
    program, recorded = lower(fused(name)), read(name)
    for case in range(3):
        y = evaluate(program, {"image": recorded[f"in{case}.image"]})["probabilities"]
        assert np.array_equal(y, recorded[f"out{case}.probabilities"])
    assert not any(isinstance(op, Lookup) for op in program.operators)


@pytest.mark.parametrize("name", ["digits_qdq_s8", "digits_qdq_u8"])
def test_a_fused_network_computes_what_onnxruntime_said_of_the_test_images(name):
    program, test = lower(fused(name)), read("digits_test")
    images = test["test_images"][:60].astype(np.float32) * test["pixel_scale"]
    for image, expected in zip(images, test[f"probabilities.{name}"], strict=False):
        assert np.array_equal(evaluate(program, {"image": image[None]})["probabilities"][0], expected)
