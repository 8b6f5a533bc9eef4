"""Float means of windows and images: onnxruntime's order of additions, which channels, strides and opset decide."""

from __future__ import annotations

import numpy as np
import pytest
from judged import assert_judged
from marks import share_at_first, some_at_first
from models import graph_model
from onnx import helper

WINDOWS = {
    "3x3": ((9, 9), {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}),
    "padding counts": ((9, 9), {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "count_include_pad": 1}),
    "3x2": ((7, 11), {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 0, 0, 1)}),
    "wide steps": ((12, 12), {"kernel_shape": (4, 4), "strides": (4, 4)}),
    "the image": ((6, 6), {"kernel_shape": (6, 6)}),
    "a long row": ((3, 2045), {"kernel_shape": (3, 3)}),
    "a longer row": ((3, 2046), {"kernel_shape": (3, 3)}),
    "many taps": ((9, 30), {"kernel_shape": (9, 9), "pads": (4, 4, 4, 4)}),
    "beyond the image": ((9, 9), {"kernel_shape": (3, 3), "strides": (2, 2), "ceil_mode": 1, "pads": (1, 1, 1, 1)}),
    "beyond padding": (
        (9, 9),
        {"kernel_shape": (3, 3), "strides": (2, 2), "ceil_mode": 1, "pads": (1, 1, 1, 1), "count_include_pad": 1},
    ),
    "one axis": ((20,), {"kernel_shape": (5,), "strides": (2,), "pads": (2, 1)}),
    "a volume": ((5, 6, 7), {"kernel_shape": (2, 3, 2), "strides": (1, 2, 2), "pads": (1, 1, 0, 0, 1, 1)}),
}


def assert_equal(nodes, shape, opset, constants=None, layouts=("nchw", "nhwc")):
    """The C gives onnxruntime's numbers, in both layouts."""
    model = graph_model(nodes, {"x": ("float", shape)}, {"y": None}, constants, opset=opset)
    x = np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)
    for layout in layouts:
        assert_judged(model, {"x": x}, named=None, exact=True, layout=layout)


@pytest.mark.parametrize("opset", some_at_first([13, 18, 19, 22], 13, 22))
@pytest.mark.parametrize("channels", some_at_first([3, 8, 16, 48], 3, 48))
@pytest.mark.parametrize("name", share_at_first(list(WINDOWS)))
def test_means_of_windows_are_onnxruntimes(name, channels, opset):
    image, attributes = WINDOWS[name]
    node = helper.make_node("AveragePool", ["x"], ["y"], **attributes)
    assert_equal([node], (1, channels, *image), opset)


@pytest.mark.parametrize("opset", [13, 22])
@pytest.mark.parametrize("shape", [(1, 8, 7, 9), (1, 16, 7, 9), (2, 32, 5, 5), (1, 16, 49), (1, 16, 3, 4, 5)])
@pytest.mark.parametrize("before", ["", "Relu"])
def test_means_of_images_are_onnxruntimes(before, shape, opset):
    nodes = [helper.make_node(before, ["x"], ["t"])] if before else []
    assert_equal([*nodes, helper.make_node("GlobalAveragePool", ["t" if before else "x"], ["y"])], shape, opset)


def normalization(x, y):
    return helper.make_node("BatchNormalization", [x, "s", "b", "m", "v"], [y])


def constants(channels):
    generator = np.random.default_rng(3)
    numbers = {name: generator.uniform(0.2, 3, channels).astype(np.float32) for name in ("s", "b", "m", "v")}
    return {**numbers, "c": generator.uniform(0.2, 3, (channels, 1, 1)).astype(np.float32)}


BLOCKS = {
    "nothing": [],
    "a function of codes": [helper.make_node("Sigmoid", ["t"], ["u"])],
    "another function": [helper.make_node("Abs", ["t"], ["u"])],
    "a normalization": [normalization("t", "r"), helper.make_node("Relu", ["r"], ["u"])],
    "a factor": [helper.make_node("Mul", ["t", "c"], ["u"])],
    "an addend": [helper.make_node("Add", ["t", "c"], ["u"])],
    "factor and addend": [helper.make_node("Mul", ["t", "c"], ["r"]), helper.make_node("Add", ["r", "c"], ["u"])],
    "a sum": [helper.make_node("Relu", ["t"], ["r"]), helper.make_node("Add", ["t", "r"], ["u"])],
    "half a sum": [helper.make_node("Abs", ["t"], ["r"]), helper.make_node("Add", ["t", "r"], ["u"])],
    "two": [helper.make_node("Relu", ["t"], ["r"]), helper.make_node("Concat", ["t", "r"], ["u"], axis=1)],
    "squeezed": [helper.make_node("GlobalAveragePool", ["t"], ["r"]), helper.make_node("Mul", ["t", "r"], ["u"])],
    "SiLU": [helper.make_node("Sigmoid", ["t"], ["r"]), helper.make_node("Mul", ["t", "r"], ["u"])],
}


@pytest.mark.parametrize("first", some_at_first(["AveragePool", "MaxPool", "Abs"]))
@pytest.mark.parametrize("name", BLOCKS)
def test_an_image_stays_in_blocks_behind_poolings(name, first):
    attributes = {"kernel_shape": (3, 3), "strides": (1, 1)} if first.endswith("Pool") else {}
    last = "u" if BLOCKS[name] else "t"
    nodes = [helper.make_node(first, ["x"], ["t"], **attributes), *BLOCKS[name]]
    used = {each for node in nodes for each in node.input}
    given = {key: value for key, value in constants(16).items() if key in used}
    assert_equal([*nodes, helper.make_node("GlobalAveragePool", [last], ["y"])], (1, 16, 9, 8), 13, given)


@pytest.mark.parametrize("channels", [24, 32])
@pytest.mark.parametrize("pool", ["", "AveragePool", "MaxPool", "GlobalAveragePool"])
def test_a_batch_normalization_behind_a_pooling_in_blocks_divides(channels, pool):
    attributes = {} if pool.startswith("Global") else {"kernel_shape": (2, 2), "strides": (2, 2)}
    nodes = [helper.make_node(pool, ["x"], ["p"], **attributes), helper.make_node("Relu", ["p"], ["t"])] if pool else []
    given = {key: value for key, value in constants(channels).items() if key != "c"}
    # Without an operator on images, the layout of the input stays as the model has it.
    layouts = ("nchw", "nhwc") if pool else ("nchw",)
    assert_equal([*nodes, normalization("t" if pool else "x", "y")], (1, channels, 8, 8), 13, given, layouts)


@pytest.mark.parametrize("opset", [18, 21])
@pytest.mark.parametrize("groups", [2, 8])
def test_group_normalizations_are_onnxruntimes(groups, opset):
    """onnxruntime runs the operators by which ONNX defines it; so does the C. Opset 18 has a scale for each group."""
    length = groups if opset < 21 else 8
    given = {name: value[:length] for name, value in constants(8).items() if name in ("s", "b")}
    nodes = [
        helper.make_node("Relu", ["x"], ["t"]),
        helper.make_node("GroupNormalization", ["t", "s", "b"], ["y"], num_groups=groups),
    ]
    assert_equal(nodes, (1, 8, 6, 5), opset, given)
