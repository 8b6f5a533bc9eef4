"""Float convolutions: products are added up in onnxruntime's order, whatever the window, the groups, and the layout."""

from __future__ import annotations

import numpy as np
import pytest
from batch import require
from emulated import require_core
from judged import judge
from marks import share_at_first
from models import graph_model
from onnx import helper

import qcgen
from qcgen.emulate import Trial, cross_build, emulate
from qcgen.kernels.portable import conv
from qcgen.reference import evaluate
from qcgen.reference.tolerance import exact
from qcgen.verification import verify

PADDED = {"pads": (1, 0, 2, 1)}
WINDOWS = {
    # x, weights, attributes
    "blocks of channels": ((1, 32, 10, 10), (24, 32, 3, 3), {}),
    "half a block at the end": ((1, 24, 9, 9), (40, 24, 3, 3), PADDED),
    "odd channels": ((1, 18, 9, 9), (5, 18, 3, 3), PADDED),
    "few channels": ((2, 3, 12, 12), (16, 3, 3, 3), {"strides": (2, 1), **PADDED}),
    "one channel": ((1, 1, 10, 10), (1, 1, 5, 5), {}),
    "dilated": ((1, 20, 9, 9), (5, 20, 3, 3), {"dilations": (2, 2), "pads": (2, 2, 2, 2)}),
    "pointwise": ((1, 160, 6, 6), (20, 160, 1, 1), {}),
    "pointwise, few channels": ((1, 10, 6, 6), (20, 10, 1, 1), {}),
    "pointwise, strided": ((1, 160, 7, 7), (4, 160, 1, 1), {"strides": (2, 3)}),
    "pointwise, padded": ((1, 160, 6, 6), (32, 160, 1, 1), PADDED),
    "one pixel": ((1, 40, 3, 3), (7, 40, 3, 3), {}),
    "depthwise in blocks": ((1, 32, 9, 9), (32, 1, 3, 3), {"group": 32, "strides": (2, 2)}),
    "groups of blocks": ((1, 64, 6, 6), (64, 32, 3, 3), {"group": 2}),
    "groups of other sizes": ((1, 40, 8, 8), (40, 20, 3, 3), {"group": 2, **PADDED}),
    "depthwise, odd": ((1, 10, 9, 9), (10, 1, 3, 5), {"group": 10}),
    "depthwise": ((1, 12, 9, 9), (12, 1, 5, 5), {"group": 12, "pads": (2, 2, 2, 2)}),
    "a channel for each group": ((1, 32, 8, 8), (8, 4, 3, 3), {"group": 8}),
    "a depth multiplier": ((1, 8, 8, 8), (16, 1, 3, 3), {"group": 8}),
    "one axis": ((2, 64, 40), (6, 64, 3), {"strides": (2,)}),
    "one axis, many pixels": ((1, 64, 300), (2, 64, 3), {}),
    "one axis, depthwise": ((1, 12, 33), (12, 1, 7), {"group": 12}),
    "one axis, one channel": ((1, 64, 30), (1, 64, 3), {}),
    "a volume": ((1, 32, 4, 4, 5), (3, 32, 2, 3, 2), {"strides": (1, 1, 2), "pads": (1, 0, 0, 0, 1, 1)}),
}
TRANSPOSED = {
    "phases": ((2, 8, 6, 6), (8, 4, 2, 2), {"strides": (2, 2)}),
    "overlapping": ((1, 32, 5, 6), (32, 5, 3, 4), {"strides": (2, 2), **PADDED}),
    "groups": ((1, 8, 5, 5), (8, 3, 3, 3), {"strides": (1, 2), "group": 4}),
    "dilated": ((1, 8, 5, 5), (8, 3, 3, 3), {"dilations": (2, 2)}),
    "one axis": ((1, 8, 16), (8, 1, 4), {"strides": (2,), "pads": (1, 1)}),
}
KINDS = {"Conv": WINDOWS, "ConvTranspose": TRANSPOSED}
CASES = [
    *((op_type, name, "nchw", by) for op_type, cases in KINDS.items() for name in cases for by in ("", "codes")),
    *(("Conv", name, "nhwc", by) for name in WINDOWS for by in ("", "codes")),
]
NEAR = ("one pixel",)
"""What onnxruntime sums in a way that is not known where weights are dequantized."""


def layer(op_type, name, codes=False, bias=True):
    """A convolution of random numbers, whose weights may be dequantized, and an input of it."""
    shape, weights, attributes = KINDS[op_type][name]
    draw = np.random.default_rng(len(name))
    channels = weights[0] if op_type == "Conv" else weights[1] * attributes.get("group", 1)
    given = {"b": draw.normal(size=channels).astype(np.float32)} if bias else {}
    nodes = []
    if codes:
        given |= {"q": draw.integers(-127, 128, weights, np.int8), "s": np.float32(0.017), "z": np.int8(0)}
        nodes.append(helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"]))
    else:
        given["w"] = draw.normal(size=weights).astype(np.float32)
    inputs = ["x", "w", *["b"] * bias]
    nodes.append(helper.make_node(op_type, inputs, ["y"], name="layer", **attributes))
    model = graph_model(nodes, {"x": ("float", shape)}, {"y": None}, given)
    return model, draw.normal(size=shape).astype(np.float32)


def equals(model, x, layout="nchw"):
    """Asserts that the reference and the C give onnxruntime's numbers, and that this is known."""
    require("gcc")
    artifact = qcgen.compile(model, name="net", layout=layout)
    [expected] = judge(model, {"x": x})
    if layout == "nchw":
        np.testing.assert_array_equal(evaluate(artifact.program, {"x": x})["y"], expected)
    given = np.ascontiguousarray(np.moveaxis(x, 1, -1)) if layout == "nhwc" else x
    [found] = artifact.load().run(None, {"x": given})
    np.testing.assert_array_equal(np.moveaxis(found, -1, 1) if layout == "nhwc" else found, expected)
    assert "y" in exact(artifact.planned, is_judge=True)


@pytest.mark.parametrize(
    "case", share_at_first([case for case in CASES if case[1] not in NEAR or not case[3]], 7), ids=" ".join
)
def test_sums_are_onnxruntimes(case):
    op_type, name, layout, codes = case
    equals(*layer(op_type, name, codes == "codes", bias=len(name) % 3 > 0), layout)


def test_another_order_is_found(monkeypatch):
    require("gcc")
    model, _ = layer("Conv", "blocks of channels")
    assert verify(qcgen.compile(model, name="net"), cases=2, sums=False).is_right
    monkeypatch.setattr(conv, "_order", lambda op, _layout: np.arange(op.geometry.taps)[::-1])
    assert not verify(qcgen.compile(model, name="net"), cases=2, sums=False).is_right


def test_a_sum_that_is_not_onnxruntimes_is_named():
    model, _ = layer("Conv", "one pixel", codes=True)
    assert qcgen.compile(model, name="net").report.inexact == ("layer",)


def behind(name, channels, opset=14):
    """A convolution of as many channels with what stands behind it."""
    draw = np.random.default_rng(channels)
    given = {each: draw.uniform(0.2, 3, channels).astype(np.float32) for each in ("s", "b", "m", "v")}
    given |= {"c": given["s"].reshape(-1, 1, 1), "w": draw.normal(size=(channels, 16, 3, 3)).astype(np.float32)}
    given |= {"low": np.float32(-1), "high": np.float32(1), "scales": np.float32([1, 1, 2, 2])}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["t"], pads=(1, 1, 1, 1)), *BEHIND[name]]
    used = {each for node in nodes for each in node.input}
    model = graph_model(
        nodes, {"x": ("float", (1, 16, 7, 6))}, {"y": None}, {k: v for k, v in given.items() if k in used}, opset=opset
    )
    return model, draw.normal(size=(1, 16, 7, 6)).astype(np.float32)


def mean(*nodes, of="t"):
    return [*nodes, helper.make_node("GlobalAveragePool", [nodes[-1].output[0] if nodes else of], ["y"])]


def normalization(x, y):
    return helper.make_node("BatchNormalization", [x, "s", "b", "m", "v"], [y])


NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
BEHIND = {
    "a normalization": [normalization("t", "y")],
    "a normalization behind Relu": [helper.make_node("Relu", ["t"], ["u"]), normalization("u", "y")],
    "a factor": [helper.make_node("Mul", ["t", "c"], ["y"])],
    "an addend": [helper.make_node("Add", ["t", "c"], ["y"])],
    "a mean": mean(),
    "Relu": mean(helper.make_node("Relu", ["t"], ["u"])),
    "Clip": mean(helper.make_node("Clip", ["t", "low", "high"], ["u"])),
    "LeakyRelu": mean(helper.make_node("LeakyRelu", ["t"], ["u"])),
    "HardSwish": mean(helper.make_node("HardSwish", ["t"], ["u"])),
    "Abs": mean(helper.make_node("Abs", ["t"], ["u"])),
    "a pooling": [helper.make_node("AveragePool", ["t"], ["y"], kernel_shape=(3, 3))],
    "a larger image": mean(helper.make_node("Resize", ["t", "", "scales"], ["u"], **NEAREST)),
    "two images": mean(
        helper.make_node("Relu", ["t"], ["u"]),
        helper.make_node("Sigmoid", ["t"], ["g"]),
        helper.make_node("Concat", ["u", "g"], ["z"], axis=1),
    ),
}


@pytest.mark.parametrize("channels", [5, 16, 24])
@pytest.mark.parametrize("name", share_at_first(list(BEHIND)))
def test_what_stands_behind_is_onnxruntimes(name, channels):
    equals(*behind(name, channels))


def test_transposed_convolutions_may_follow_each_other():
    """The size of the second one's image is that of the first one's output."""
    draw = np.random.default_rng(4)
    given = {name: draw.normal(size=(6, 6, 3, 2)).astype(np.float32) for name in ("v", "w")}
    nodes = [
        helper.make_node("ConvTranspose", ["x", "v"], ["t"], strides=(2, 2), group=1, pads=(1, 0, 0, 1)),
        helper.make_node("ConvTranspose", ["t", "w"], ["y"], output_padding=(1, 0), strides=(2, 1)),
    ]
    model = graph_model(nodes, {"x": ("float", (1, 6, 3, 4))}, {"y": None}, given, opset=13)
    equals(model, draw.normal(size=(1, 6, 3, 4)).astype(np.float32))


@pytest.mark.parametrize(("group", "shape"), [(1, (6, 5, 2, 3)), (2, (6, 3, 3, 3)), (6, (6, 1, 2, 2)), (1, (6, 5, 4))])
@pytest.mark.parametrize("has_bias", [False, True], ids=["", "bias"])
def test_transposed_convolutions_take_in_a_normalization_as_onnxruntime_does(has_bias, group, shape):
    draw, channels = np.random.default_rng(4), group * shape[1]
    given = {name: draw.uniform(0.3, 2, channels).astype(np.float32) for name in ("b", "s", "o", "m", "v")}
    given |= {"w": draw.normal(size=shape).astype(np.float32)}
    inputs = ["x", "w", *(["b"] if has_bias else [])]
    nodes = [
        helper.make_node("ConvTranspose", inputs, ["t"], strides=(2,) * (len(shape) - 2), group=group),
        helper.make_node("BatchNormalization", ["t", "s", "o", "m", "v"], ["y"]),
    ]
    used = {name: value for name, value in given.items() if has_bias or name != "b"}
    image = (1, 6, 3, 4)[: len(shape)]
    equals(
        graph_model(nodes, {"x": ("float", image)}, {"y": None}, used, opset=13),
        draw.normal(size=image).astype(np.float32),
    )


LINEAR = {"mode": "linear"}
LARGER = {
    "linear": (17, LINEAR, (2, 2)),
    "linear, thrice and twice": (17, LINEAR, (3, 2)),
    "linear, in width": (17, LINEAR, (1, 2)),
    "linear, from corners": (17, LINEAR | {"coordinate_transformation_mode": "align_corners"}, (2, 2)),
    "linear, asymmetric": (17, LINEAR | {"coordinate_transformation_mode": "asymmetric"}, (3, 3)),
    "linear, as PyTorch": (17, LINEAR | {"coordinate_transformation_mode": "pytorch_half_pixel"}, (2, 2)),
    "linear, not whole": (17, LINEAR, (1.5, 2)),
    "nearest, not whole": (17, NEAREST, (1.5, 2)),
    "nearest, opset 10": (10, {"mode": "nearest"}, (2, 2)),
    "linear, opset 10": (10, LINEAR, (2, 2)),
    "linear Upsample": (9, LINEAR, (2, 3)),
}


@pytest.mark.parametrize("tail", [[helper.make_node("Relu", ["u"], ["y"])], mean(of="u")], ids=["itself", "mean"])
@pytest.mark.parametrize("name", share_at_first(list(LARGER)))
def test_larger_images_and_their_means_are_onnxruntimes(name, tail):
    opset, attributes, scales = LARGER[name]
    draw = np.random.default_rng(1)
    given = {"w": draw.normal(size=(24, 16, 3, 3)).astype(np.float32), "scales": np.float32([1, 1, *scales])}
    larger = helper.make_node(
        "Upsample" if opset < 10 else "Resize", ["t", "", "scales"][:: 2 if opset < 11 else 1], ["u"], **attributes
    )
    nodes = [helper.make_node("Conv", ["x", "w"], ["t"]), larger, *tail]
    model = graph_model(nodes, {"x": ("float", (1, 16, 7, 6))}, {"y": None}, given, opset=opset)
    equals(model, draw.normal(size=(1, 16, 7, 6)).astype(np.float32))


@pytest.mark.parametrize("codes", [False, True], ids=["", "codes"])
def test_a_convolution_that_is_added_to_an_image_is_named(codes):
    """onnxruntime adds to that image block by block."""
    model, _ = layer("Conv", "blocks of channels", codes)
    add = helper.make_node("Add", ["y", "image"], ["sum"], name="sum")
    model.graph.node.append(add)
    shape = (1, 24, 8, 8)
    model.graph.input.append(helper.make_tensor_value_info("image", 1, shape))
    model.graph.output[0].name = "sum"
    assert qcgen.compile(model, name="net").report.inexact == ("sum",)


ON_CORES = ["blocks of channels", "few channels", "pointwise, few channels", "depthwise, odd"]


@pytest.mark.emulated
@pytest.mark.parametrize(("core", "names"), [("cortex-m4", ON_CORES), ("cortex-m0", ON_CORES[3:])])
def test_cores_give_onnxruntimes_numbers(core, names, tmp_path):
    require_core(core, counting=False)
    layers = [layer("Conv", name) for name in names]
    artifacts = [qcgen.compile(each, name=f"net{i}", target=core) for i, (each, _) in enumerate(layers)]
    image = cross_build(core, artifacts, ("-O3",), tmp_path)
    trials = [Trial({"x": x}, i) for i, (_, x) in enumerate(layers)]
    for outcome, (model, x) in zip(emulate(image, trials), layers, strict=True):
        np.testing.assert_array_equal(outcome.outputs["y"].reshape(-1), judge(model, {"x": x})[0].reshape(-1))
