"""Attributes of a wrong type or missing ones crashed: Cast without to, ceil_mode as a tensor."""

import numpy as np
import pytest
from marks import share_at_first
from models import node_model
from onnx import helper, numpy_helper

import qcgen
from qcgen.errors import ModelRejected

IMAGE = {"X": ("float", (1, 2, 6, 6))}
CODES = {"X": ("int8", (1, 2, 6, 6))}
VALUES = {
    "an integer": 3,
    "a number": 2.5,
    "text": "abc",
    "bytes": b"\xff\xfe",
    "integers": [1, 2],
    "numbers": [1.5],
    "texts": ["a"],
    "a tensor": numpy_helper.from_array(np.zeros(3, np.float32)),
    "a graph": helper.make_graph([], "g", [], []),
}
HALF, ZERO = np.array(0.5, np.float32), np.array(0, np.int8)
NAMES = {
    "AveragePool": (IMAGE, "strides pads count_include_pad ceil_mode auto_pad"),
    "Cast": (IMAGE, "to saturate"),
    "Clip": (IMAGE, "min max"),
    "Concat": (IMAGE, "axis"),
    "Conv": ({**IMAGE, "W": np.ones((2, 2, 3, 3), np.float32)}, "kernel_shape strides pads dilations group auto_pad"),
    "DequantizeLinear": ({**CODES, "scale": np.array(0.5, np.float32)}, "axis block_size output_dtype"),
    "Flatten": (IMAGE, "axis"),
    "Gemm": (
        {"X": ("float", (2, 2)), "W": np.ones((2, 2), np.float32), "B": np.ones(2, np.float32)},
        "transA transB alpha beta",
    ),
    "LeakyRelu": (IMAGE, "alpha"),
    "MaxPool": (IMAGE, "kernel_shape strides pads dilations ceil_mode auto_pad storage_order"),
    "Pad": (IMAGE, "pads mode value"),
    "QLinearConv": (
        {**CODES, "x_scale": HALF, "x_zero_point": ZERO, "W": np.ones((2, 2, 3, 3), np.int8)}
        | {"w_scale": HALF, "w_zero_point": ZERO, "y_scale": HALF, "y_zero_point": ZERO},
        "kernel_shape strides pads dilations group auto_pad",
    ),
    "QuantizeLinear": (
        {**IMAGE, "scale": HALF, "zero_point": ZERO},
        "axis block_size output_dtype saturate precision",
    ),
    "ReduceMean": (IMAGE, "axes keepdims noop_with_empty_axes"),
    "Resize": (
        {**IMAGE, "roi": np.zeros(0, np.float32), "scales": np.array([1, 1, 2, 2], np.float32)},
        "mode nearest_mode coordinate_transformation_mode keep_aspect_ratio_policy axes antialias exclude_outside",
    ),
    "Slice": (IMAGE, "starts ends axes"),
    "Softmax": (IMAGE, "axis"),
    "Split": (IMAGE, "axis split num_outputs"),
    "Squeeze": (IMAGE, "axes"),
    "Transpose": (IMAGE, "perm"),
    "Unsqueeze": (IMAGE, "axes"),
}
NEEDED = {"AveragePool": {"kernel_shape": [2, 2]}, "MaxPool": {"kernel_shape": [2, 2]}, "Pad": {"pads": [0] * 8}}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("op_type", share_at_first(list(NAMES)))
def test_an_attribute_of_any_kind_is_compiled_or_refused(op_type, kind):
    inputs, names = NAMES[op_type]
    for name in names.split():
        for opset in (7, 10, 13, 18):
            attributes = {**NEEDED.get(op_type, {}), name: VALUES[kind]}
            try:
                qcgen.compile(node_model(op_type, inputs, opset=opset, **attributes))
            except ModelRejected as rejection:
                assert str(rejection)  # noqa: PT017 - to compile is right, too


REFUSED = {
    "it has no attribute to": node_model("Cast", IMAGE),
    "it has no pads": node_model("Pad", IMAGE, opset=10),
    "it fills codes of int8 with 3.7e+09": node_model("Pad", CODES, opset=10, pads=[0] * 8, value=3.7e9),
    "'y' has 10001 dimensions, more than 32": node_model(
        "Reshape", {**CODES, "shape": np.array([1] * 10000 + [72], np.int64)}
    ),
    "it has 100 dimensions, more than 32": node_model("Transpose", {"X": ("float", (1,) * 100)}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_this_node_is_refused_in_these_words(what):
    with pytest.raises(ModelRejected) as rejection:
        qcgen.compile(REFUSED[what])
    assert [problem.what for problem in rejection.value.problems] == [what]


def test_channels_last_of_a_convolution_is_no_tensor():
    inputs, _ = NAMES["QLinearConv"]
    model = node_model("QLinearConv", inputs, domain="com.microsoft", channels_last=VALUES["a tensor"])
    with pytest.raises(ModelRejected, match="channels_last is a tensor, but must be an integer"):
        qcgen.compile(model)
