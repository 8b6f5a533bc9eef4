"""The recorded outputs of the digits models, held against the formula of QLinearConv in numpy alone."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from onnx import numpy_helper

DIGITS = Path(__file__).parent / "data" / "digits"
QOPERATOR_MODELS = ("digits_qop_s8", "digits_qop_u8")
MODELS = (*QOPERATOR_MODELS, "digits_qdq_s8", "digits_qdq_u8")
CONVOLUTIONS = ("conv1_quant", "depthwise2_quant", "pointwise3_quant", "conv4_quant", "conv5_quant")
CASES = (0, 1, 2)


def read(name):
    """Return the arrays of one recording."""
    with np.load(DIGITS / f"{name}.npz") as recorded:
        return dict(recorded)


def load_model(name):
    """Return a model's nodes by name and its constants by tensor name."""
    graph = onnx.load(DIGITS / f"{name}.onnx").graph
    return {node.name: node for node in graph.node}, {t.name: numpy_helper.to_array(t) for t in graph.initializer}


def quantize(values, zero_point):
    """Return round_half_even(clamp(values)) + zero_point in the zero point's type; values are float32."""
    codes = np.iinfo(zero_point.dtype)
    clamped = np.clip(values, codes.min - int(zero_point), codes.max - int(zero_point))
    return (np.rint(clamped).astype(np.int64) + zero_point).astype(zero_point.dtype)


def qlinear_conv(node, constants, x):
    """Return y of a 2-D QLinearConv with explicit pads: exact integer sum, two float32 roundings, half to even."""
    x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias = (constants[name] for name in node.input[1:])
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    top, left, bottom, right = attributes["pads"]
    row_stride, column_stride = attributes["strides"]
    group = attributes["group"]
    weights = w.astype(np.int64) - w_zero.reshape(-1, 1, 1, 1)
    weights = weights.reshape(group, -1, *w.shape[1:])
    padded = np.pad(x[0].astype(np.int64) - x_zero, ((0, 0), (top, bottom), (left, right)))
    windows = sliding_window_view(padded, w.shape[2:], axis=(1, 2))[:, ::row_stride, ::column_stride]
    windows = windows.reshape(group, -1, *windows.shape[1:])
    products = np.einsum("gchwij,gmcij->gmhw", windows, weights)
    accumulator = products.reshape(-1, *products.shape[2:]) + bias.reshape(-1, 1, 1)
    scale = np.asarray(x_scale * w_scale / y_scale)
    assert scale.dtype == np.float32
    return quantize(accumulator.astype(np.float32) * scale.reshape(-1, 1, 1), y_zero)[None]


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("model", QOPERATOR_MODELS)
def test_the_formula_gives_every_recorded_output_of_the_node(model, name):
    nodes, constants = load_model(model)
    recorded = read(f"{model}_nodes")
    for k in CASES:
        y = recorded[f"node{k}.{name}.y"]
        computed = qlinear_conv(nodes[name], constants, recorded[f"node{k}.{name}.x"])
        assert computed.dtype == y.dtype
        np.testing.assert_array_equal(computed, y)


@pytest.mark.parametrize("model", QOPERATOR_MODELS)
def test_every_convolution_is_recorded_for_every_case(model):
    nodes, _ = load_model(model)
    convolutions = [node.name for node in nodes.values() if node.op_type == "QLinearConv"]
    assert convolutions == list(CONVOLUTIONS)
    assert set(read(f"{model}_nodes")) == {
        f"node{k}.{name}.{port}" for k in CASES for name in CONVOLUTIONS for port in "xy"
    }


@pytest.mark.parametrize("model", QOPERATOR_MODELS)
def test_the_first_convolution_reads_the_quantized_image_and_each_other_its_predecessor(model):
    _, constants = load_model(model)
    recorded, cases = read(f"{model}_nodes"), read(model)
    for k in CASES:
        expected = quantize(cases[f"in{k}.image"] / constants["image_scale"], constants["image_zero_point"])
        for name in CONVOLUTIONS:
            np.testing.assert_array_equal(recorded[f"node{k}.{name}.x"], expected)
            expected = recorded[f"node{k}.{name}.y"]


@pytest.mark.parametrize("model", MODELS)
def test_the_cases_are_the_first_test_images(model):
    cases, tests = read(model), read("digits_test")
    for k in CASES:
        image = tests["test_images"][k : k + 1].astype(np.float32) * tests["pixel_scale"]
        np.testing.assert_array_equal(cases[f"in{k}.image"], image)
        np.testing.assert_array_equal(cases[f"out{k}.probabilities"], tests[f"probabilities.{model}"][k : k + 1])


@pytest.mark.parametrize("model", MODELS)
def test_the_recorded_classes_give_the_recorded_accuracy(model):
    tests = read("digits_test")
    predicted = tests[f"predicted.{model}"]
    assert predicted.shape == tests["labels"].shape == (360,)
    np.testing.assert_array_equal(tests[f"probabilities.{model}"].argmax(axis=1), predicted)
    assert np.mean(predicted == tests["labels"]) == tests[f"accuracy.{model}"]
    assert tests[f"accuracy.{model}"] >= 0.97
