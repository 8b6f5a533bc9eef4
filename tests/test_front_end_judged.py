"""Small models in which a slip of the front end gives wrong numbers, against whoever can judge the model file."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from batch import require
from models import MICROSOFT, graph_model, node_model
from onnx import ModelProto, helper
from qdq import Chain, Meaning

import qcgen
from qcgen.verification import verify

IMAGE = (1, 3, 4, 6)
X: Meaning = (0.25, np.uint8(3))
PER_CHANNEL = (np.float32([0.01, 0.02, 0.03, 0.004, 0.05]), np.zeros(5, np.int8))


def weights(*shape: int) -> np.ndarray:
    """Within -64 to 64, where onnxruntime is exact on processors without VNNI."""
    return np.random.default_rng(1).integers(-64, 65, shape).astype(np.int8)


def scalar(value: float, dtype: type[np.generic] = np.float32) -> np.ndarray:
    return np.asarray(value, dtype)


def gemm_by_an_axis_that_is_absent() -> ModelProto:
    """Weights (N, K) whose scales belong to axis 1, the default: those of the terms, not of the columns."""
    chain = Chain()
    matrix = chain.dequantize(chain.constant("w", weights(5, 5)), PER_CHANNEL)
    chain.quantize(
        chain.node("Gemm", [chain.dequantize("x", X), matrix], "product", transB=1), (0.05, np.uint8(120)), "y"
    )
    return chain.model((2, 5), x_type="uint8")


def clip_one_code_below_the_end() -> ModelProto:
    chain, by = Chain(), (0.25, np.uint8(0))
    bounds = [chain.constant("low", scalar(0)), chain.constant("high", scalar(254 * 0.25))]
    pooled = chain.node("MaxPool", [chain.dequantize("x", by)], "pooled", kernel_shape=[2, 2])
    chain.quantize(chain.node("Clip", [pooled, *bounds], "clipped"), by, "y")
    return chain.model(IMAGE, x_type="uint8")


def concat_of_two_zero_points() -> ModelProto:
    chain, other = Chain(), (0.25, np.uint8(90))
    joined = [chain.dequantize("x", X), chain.dequantize("b", other)]
    chain.node("Concat", joined, "y", axis=1)
    inputs = {"x": ("uint8", IMAGE), "b": ("uint8", IMAGE)}
    return graph_model(chain.nodes, inputs, {"y": None}, chain.constants)


def requantizing_concat_of_two_zero_points() -> ModelProto:
    by, other = [scalar(0.05), np.uint8(3)], np.uint8(9)
    operands = {"s": by[0], "z": np.asarray(by[1]), "a": ("uint8", IMAGE), "as": by[0], "az": np.asarray(other)}
    return node_model("QLinearConcat", operands, domain=MICROSOFT, axis=1)


def split_whose_second_output_is_absent() -> ModelProto:
    node = helper.make_node("Split", ["x", "lengths"], ["a", "", "c"], axis=3)
    lengths = {"lengths": np.array([1, 2, 3], np.int64)}
    return graph_model([node], {"x": ("int8", IMAGE)}, {"a": None, "c": None}, lengths)


def pad_of_axes_in_another_order() -> ModelProto:
    operands = {
        "x": ("int8", IMAGE),
        "pads": np.array([0, 1, 2, 0, 3, 0, 1, 0], np.int64),
        "value": scalar(4, np.int8),
        "axes": np.array([3, 2, 1, 0], np.int64),
    }
    return node_model("Pad", operands, opset=18)


def hard_sigmoid_by_default() -> ModelProto:
    chain = Chain()
    chain.quantize(chain.node("HardSigmoid", [chain.dequantize("x", X)], "h"), (0.01, np.uint8(30)), "y")
    return chain.model(IMAGE, x_type="uint8")


def qgemm_with_alpha() -> ModelProto:
    operands = {
        "a": ("uint8", (2, 5)), "as": scalar(0.02), "az": np.asarray(np.uint8(3)),
        "b": weights(5, 4), "bs": scalar(0.01), "bz": np.asarray(np.int8(0)),
        "c": np.array([1, -200, 3000, 4], np.int32), "ys": scalar(0.05), "yz": np.asarray(np.uint8(9)),
    }  # fmt: skip
    return node_model("QGemm", operands, domain=MICROSOFT, alpha=0.5)


def gemm_with_both_factors() -> ModelProto:
    operands = {"a": ("float", (2, 3)), "b": weights(3, 4).astype(np.float32), "c": np.float32([1, 2, 3, 4])}
    return node_model("Gemm", operands, alpha=0.5, beta=2.0)


def leaky_relu_by_default() -> ModelProto:
    by = [scalar(0.05), np.asarray(np.uint8(100)), scalar(0.01), np.asarray(np.uint8(100))]
    operands = {"x": ("uint8", IMAGE), **dict(zip(("xs", "xz", "ys", "yz"), by, strict=True))}
    return node_model("QLinearLeakyRelu", operands, domain=MICROSOFT)


def resize_to_one_row() -> ModelProto:
    """Of all modes only pytorch_half_pixel asks whether the result, not the image, has one row."""
    operands = {"x": ("int8", (1, 1, 5, 6)), "roi": None, "scales": np.float32([1, 1, 0.2, 1.5])}
    return node_model("Resize", operands, mode="nearest", coordinate_transformation_mode="pytorch_half_pixel")


def transposed_twice() -> ModelProto:
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"], name="a", perm=[0, 2, 3, 1]),
        helper.make_node("Transpose", ["a"], ["y"], name="y", perm=[1, 3, 0, 2]),
    ]
    return graph_model(nodes, {"x": ("int8", IMAGE)}, {"y": None})


def constants_that_are_outputs() -> ModelProto:
    """Anchors of a detector and numbers of its classes; a node reads the former, too."""
    nodes = [helper.make_node("Concat", ["x", "anchors"], ["y"], name="y", axis=1)]
    constants = {"anchors": weights(1, 2, 4, 6), "classes": np.array([3, 1, 2**40], np.int64), "threshold": scalar(0.5)}
    outputs = dict.fromkeys(("classes", "y", "anchors", "threshold"))
    return graph_model(nodes, {"x": ("int8", IMAGE)}, outputs, constants)


def convolution_that_is_an_output(reader: str = "") -> ModelProto:
    """Of a convolution that is quantized, the float numbers are an output, or another node reads them, too."""
    chain = Chain()
    taps = chain.weights("w", weights(5, 3, 3, 3), PER_CHANNEL)
    product = chain.node("Conv", [chain.dequantize("x", X), taps], "conv")
    chain.quantize(product, (0.05, np.uint8(60)), "y")
    return chain.model(IMAGE, ["y", chain.node(reader, [product], "other") if reader else product], x_type="uint8")


def scale_that_is_an_output() -> ModelProto:
    """A float convolution, the scale of whose weights is an output, too."""
    chain = Chain()
    taps = chain.weights("w", weights(5, 3, 3, 3), PER_CHANNEL)
    product = chain.node("Conv", [chain.dequantize("x", X), taps], "conv")
    [maker] = (node for node in chain.nodes if taps in node.output)
    return chain.model(IMAGE, [product, maker.input[1]], x_type="uint8")


MODELS: Mapping[str, Callable[[], ModelProto]] = {
    make.__name__: make
    for make in (
        *(gemm_by_an_axis_that_is_absent, clip_one_code_below_the_end, concat_of_two_zero_points),
        *(requantizing_concat_of_two_zero_points, split_whose_second_output_is_absent, pad_of_axes_in_another_order),
        *(hard_sigmoid_by_default, qgemm_with_alpha, gemm_with_both_factors, leaky_relu_by_default, resize_to_one_row),
        *(transposed_twice, constants_that_are_outputs, convolution_that_is_an_output, scale_that_is_an_output),
    )
} | {"convolution_with_two_readers": lambda: convolution_that_is_an_output("Sigmoid")}


BY_ONNX = {"gemm_by_an_axis_that_is_absent", "split_whose_second_output_is_absent"}
"""The models of which onnxruntime 1.32.0 makes a QGemm with the scales of another axis, or crashes."""


@pytest.mark.parametrize("name", MODELS)
def test_the_c_is_what_the_judge_says(name):
    require("gcc")
    oracle = "onnx" if name in BY_ONNX else "auto"
    result = verify(qcgen.compile(MODELS[name](), name="net"), cases=4, sums=False, flags=("-O0",), oracle=oracle)
    assert result.is_right, result
    assert result.judge.oracle != "own", "nobody judged"
