"""Operators that become several simpler ones: normalizations, sums behind products and larger images, in float."""

from __future__ import annotations

import numpy as np
import pytest
from batch import require
from judged import assert_judged
from models import graph_model, node_model, problems
from onnx.reference import ReferenceEvaluator
from qdq import Chain

import qcgen

DRAW = np.random.RandomState(0)
IMAGE = (2, 3, 4, 5)
X = {"x": ("float", IMAGE)}


def numbers(*shape: int) -> np.ndarray:
    return DRAW.normal(0, 1, shape).astype(np.float32)


def positive(*shape: int) -> np.ndarray:
    return DRAW.uniform(0.3, 2, shape).astype(np.float32)


CASES = {
    "batch": node_model(
        "BatchNormalization",
        {**X, "s": numbers(3), "b": numbers(3), "m": numbers(3), "v": positive(3)},
        epsilon=1e-3,
        opset=15,
    ),
    "layers": node_model("LayerNormalization", {**X, "s": numbers(5), "b": numbers(5)}, opset=17, epsilon=1e-2),
    "layers of two axes": node_model("LayerNormalization", {**X, "s": numbers(4, 5)}, opset=17, axis=2),
    "instances": node_model("InstanceNormalization", {**X, "s": numbers(3), "b": numbers(3)}),
    "computed C": node_model("Gemm", {"a": ("float", (2, 3)), "b": numbers(3, 4), "c": ("float", (4,))}),
    "computed C, scaled": node_model(
        "Gemm", {"a": ("float", (2, 3)), "b": numbers(4, 3), "c": ("float", (2, 1))}, alpha=0.5, beta=-2.0, transB=1
    ),
    "means of padded windows": node_model(
        "AveragePool",
        X,
        kernel_shape=[3, 2],
        strides=[2, 3],
        pads=[1, 0, 1, 1],
        ceil_mode=1,
        count_include_pad=1,
        opset=19,
    ),
    "larger images": node_model(
        "ConvTranspose", {**X, "w": numbers(3, 2, 3, 2), "b": numbers(2)}, strides=[2, 3], pads=[1, 0, 0, 1]
    ),
    "places": node_model("GatherND", {**X, "places": np.int64([[[0, 2], [1, -1]], [[1, 0], [-2, 1]]])}),
    "places of all axes": node_model("GatherND", {**X, "places": np.int64([[0, 2, 3, 4], [1, 0, -4, -5]])}),
}
"""Models, judged by ONNX's reference."""


@pytest.mark.parametrize("name", CASES)
def test_several_steps_give_what_the_operator_means(name):
    require("gcc")
    model = CASES[name]
    feeds = {
        each.name: numbers(*(dim.dim_value for dim in each.type.tensor_type.shape.dim)) for each in model.graph.input
    }
    [y] = qcgen.compile(model, name="steps").load().run(None, feeds)
    [wanted] = ReferenceEvaluator(model).run(None, feeds)
    assert y.shape == wanted.shape
    np.testing.assert_allclose(y, wanted, rtol=2e-5, atol=2e-5)


SHAPES = {
    "one": [(2, 3, 40)],
    "two": [(2, 3, 40), (2, 3, 40)],
    "three, broadcast": [(40,), (3, 1), (2, 3, 40)],
    "seven": [(2, 3, 40)] * 7,
}


@pytest.mark.parametrize("op_type", ["Sum", "Mean"])
@pytest.mark.parametrize("name", SHAPES)
def test_sums_of_several_tensors_are_onnxruntimes_bit_for_bit(op_type, name):
    rng = np.random.default_rng(3)
    feeds = {
        f"x{i}": (rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(np.float32)
        for i, shape in enumerate(SHAPES[name])
    }
    model = node_model(op_type, {key: ("float", x.shape) for key, x in feeds.items()})
    assert_judged(model, feeds, named=None, exact=True)


@pytest.mark.parametrize("op_type", ["Sum", "Mean"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_sums_between_codes_are_onnxruntimes(op_type, count):
    chain, codes = Chain(), np.arange(-128, 128, dtype=np.int8)
    terms = [chain.dequantize("a", (0.05, np.int8(3))), chain.dequantize("b", (0.031, np.int8(-9)))]
    terms.append(chain.constant("c", numbers(256)))
    chain.quantize(chain.node(op_type, terms[:count], "total"), (0.0613, np.int8(7)), "y")
    feeds = {"a": codes.reshape(256, 1), "b": codes.reshape(1, 256)}
    inputs = {name: ("int8", x.shape) for name, x in list(feeds.items())[:count]}
    model = graph_model([node for node in chain.nodes if node.output[0] != "b_dq" or count > 1],
                        inputs, {"y": None}, chain.constants)  # fmt: skip
    assert_judged(model, {name: feeds[name] for name in inputs}, named=None, exact=True)


SMALL = np.int8([[[[-128, 127, 3], [5, -7, 100]]]])
LARGE_CODES = [[-128, -25, 127, 52, 3], [-94, -19, 93, 53, 27], [-28, -6, 26, 56, 75], [5, 0, -7, 57, 100]]
LARGE = """
    -0x1.2fec56p+2 -0x1.eddffcp-1 0x1.2d8c7ep+2 0x1.f392d6p+0 0x1.c7e280p-4
    -0x1.c1f2e2p+1 -0x1.7174dcp-1 0x1.bc0346p+1 0x1.fe7ef2p+0 0x1.02cf42p+0
    -0x1.0c4ea4p+0 -0x1.e27a54p-3 0x1.f75f70p-1 0x1.0a2b96p+1 0x1.67b8b8p+1
    0x1.7be76cp-3 0x1.e646a0p-8 -0x1.09eeccp-2 0x1.0fa1a4p+1 0x1.dae146p+1
"""
"""What onnxruntime 1.32.0 gives for codes, which it truncates, and for these times 0.0371."""


def resize(dtype: str, shape=(1, 1, 2, 3), scales=(1, 1, 2, 5 / 3), **attributes):
    operands = {"x": (dtype, shape), "roi": None, "scales": np.float32(scales)}
    return node_model("Resize", operands, mode="linear", **attributes)


def test_interpolated_codes_are_onnxruntimes():
    require("gcc")
    [y] = qcgen.compile(resize("int8"), name="codes").load().run(None, {"x": SMALL})
    assert y.dtype == np.int8
    assert y[0, 0].tolist() == LARGE_CODES


def test_interpolated_numbers_are_onnxruntimes_bit_for_bit():
    require("gcc")
    x = SMALL.astype(np.float32) * np.float32(0.0371)
    [y] = qcgen.compile(resize("float"), name="numbers").load().run(None, {"x": x})
    assert y.reshape(-1).tolist() == [float.fromhex(text) for text in LARGE.split()]


@pytest.mark.parametrize("mode", ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
def test_interpolated_numbers_lie_where_the_mode_says(mode):
    require("gcc")
    model = resize("float", (1, 2, 3, 4), (1, 1, 2, 0.5), coordinate_transformation_mode=mode)
    x = numbers(1, 2, 3, 4)
    [y] = qcgen.compile(model, name="places").load().run(None, {"x": x})
    [wanted] = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
@pytest.mark.parametrize("scales", [(1, 1.7, 0.6, 1), (1, 2, 1, 1)])
def test_images_with_channels_last_are_interpolated_as_onnxruntime_does(mode, scales):
    assert_judged(resize("float", (2, 4, 5, 3), scales, coordinate_transformation_mode=mode), named=None, exact=True)


def test_what_is_said_of_other_modes_is_what_is_supported():
    with pytest.raises(qcgen.ModelRejected, match="'node' \\(Resize\\): mode 'linear' is not supported") as rejected:
        qcgen.compile(resize("int8", (1, 2, 3, 4), (1, 2, 2, 2)))
    assert "it works along the last two of four axes, channels last along the middle two" in str(rejected.value)
    cubic = resize("float")
    cubic.graph.node[0].attribute[0].s = b"cubic"
    with pytest.raises(qcgen.ModelRejected, match="mode 'cubic' is not supported") as rejected:
        qcgen.compile(cubic)
    assert "use nearest, or linear along the last two of four axes" in str(rejected.value)


REFUSED = {
    "three axes": (resize("float", (1, 2, 3), (1, 1, 2)), "mode 'linear' is not supported in this form"),
    "along channels": (resize("float", (1, 2, 3, 4), (1, 2, 1, 2)), "mode 'linear' is not supported in this form"),
    "beyond all memory": (resize("float", scales=(1, 1, 1, 1e18)), "mode 'linear' is not supported in this form"),
    "antialias": (resize("float", antialias=1, opset=18), "mode 'linear' is not supported in this form"),
    "computed scales": (
        node_model(
            "BatchNormalization", {**X, "s": ("float", (3,)), "b": numbers(3), "m": numbers(3), "v": positive(3)}
        ),
        "the operator BatchNormalization is not supported",
    ),
    "places beyond the tensor": (
        node_model("GatherND", {**X, "places": np.int64([[2, 0]])}),
        "the operator GatherND is not supported",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_is_refused(name):
    model, what = REFUSED[name]
    assert what in [problem.what for problem in problems(qcgen.compile, model)]
