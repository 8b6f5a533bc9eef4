"""Linear Resize of codes: behind convolutions onnxruntime has channels last, and adds in fixed point of 10 bits."""

from __future__ import annotations

import random

import numpy as np
import pytest
from batch import require
from judged import judge, optimized_graph
from marks import share_at_first
from models import graph_model
from onnx import helper, numpy_helper

import qcgen
from qcgen.infer import infer
from qcgen.load import load
from qcgen.rewrite.channels_last import resizes

CHANNELS = 4
MODES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
SCALES = {
    "twice": ((5, 6), (2, 2)),
    "three times": ((5, 6), (3, 3)),
    "between": ((7, 4), (1.5, 2.5)),
    "smaller": ((12, 11), (1 / 3, 0.3)),
    "both": ((9, 8), (0.7, 1.3)),
    "the width alone": ((5, 6), (1, 3)),
    "the height alone": ((5, 6), (3, 1)),
    "one row": ((1, 6), (3, 2)),
}
PARAMETERS = {"scale": np.float32(0.05), "zero": np.uint8(120), "w_scale": np.float32(0.01), "w_zero": np.int8(0)}


class Images:
    """Nodes over images of codes, which all have the same scale and zero point."""

    def __init__(self, dtype: str) -> None:
        self.nodes: list = []
        zero = np.asarray(3 if dtype == "int8" else 120, dtype)
        self.constants = {**PARAMETERS, "zero": zero}
        self._rng = np.random.default_rng(7)

    def node(self, op_type: str, inputs: list[str], domain: str = "", **attributes) -> str:
        y = f"t{len(self.nodes)}"
        name = f"{y}_{attributes.get('mode', op_type)}"
        self.nodes.append(helper.make_node(op_type, inputs, [y], name, domain=domain, **attributes))
        return y

    def conv(self, x: str) -> str:
        w = f"w{len(self.nodes)}"
        self.constants[w] = self._rng.integers(-40, 40, (CHANNELS, CHANNELS, 3, 3)).astype(np.int8)
        by = ["scale", "zero"]
        return self.node("QLinearConv", [x, *by, w, "w_scale", "w_zero", *by], pads=(1, 1, 1, 1))

    def resize(self, x: str, mode: str = "align_corners", scales=(2, 2), sizes=None) -> str:
        given = f"scales{len(self.nodes)}"
        is_size = sizes is not None
        self.constants[given] = np.int64((1, CHANNELS, *sizes)) if is_size else np.float32((1, 1, *scales))
        inputs = [x, "", "", given] if is_size else [x, "", given]
        return self.node("Resize", inputs, mode="linear", coordinate_transformation_mode=mode)

    def drawn(self, kind: str, x: str, other: str) -> str:
        """An operator of one image, or of two of one size."""
        by = ["scale", "zero"]
        match kind:
            case "conv":
                return self.conv(x)
            case "linear":
                return self.resize(x)
            case "nearest":
                return self.node("Resize", [x, "", self.all_scales(1, 1, 2, 2)], mode="nearest")
            case "max":
                return self.node("MaxPool", [x], kernel_shape=(2, 2), pads=(0, 0, 1, 1))
            case "mean":
                more = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}
                return self.node("QLinearAveragePool", [x, *by, *by], "com.microsoft", **more)
            case "function":
                return self.node("QLinearLeakyRelu", [x, *by, *by], "com.microsoft", alpha=0.1)
            case "clip":
                return self.node("Clip", [x, "zero"])
            case "pad":
                self.constants["pads"] = np.int64((0, 0, 0, 0, 0, 0, 0, 1))
                return self.node("Pad", [x, "pads", "zero"])
            case "sum":
                return self.joined("QLinearAdd", x, other)
            case _:
                return self.joined("QLinearConcat", x, other, axis=2)

    def all_scales(self, *scales: float) -> str:
        name = f"scales_{'_'.join(map(str, scales))}"
        self.constants[name] = np.float32(scales)
        return name

    def joined(self, op_type: str, *xs: str, **attributes) -> str:
        by = ["scale", "zero"]
        parts = [name for x in xs for name in (x, *by)]
        inputs = [*by, *parts] if op_type == "QLinearConcat" else [*parts, *by]
        return self.node(op_type, inputs, "com.microsoft", **attributes)


def differing(images: Images, y: str, dtype: str, image: tuple[int, ...]) -> int:
    """How many codes of an output are other ones than onnxruntime's."""
    require("gcc")
    inputs, more = {"x": (dtype, (1, CHANNELS, *image))}, {"com.microsoft": 1}
    model = graph_model(images.nodes, inputs, {y: None}, images.constants, opset=13, opsets=more)
    ends = np.iinfo(dtype)
    x = np.random.default_rng(3).integers(ends.min, ends.max + 1, (1, CHANNELS, *image)).astype(dtype)
    [expected] = judge(model, {"x": x})
    [found] = qcgen.compile(model, name="net").load().run(None, {"x": x})
    assert found.shape == expected.shape
    return np.count_nonzero(found != expected)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", share_at_first(list(SCALES)))
def test_images_of_convolutions_are_onnxruntimes(name, mode, dtype):
    image, scales = SCALES[name]
    images = Images(dtype)
    y = images.conv(images.resize(images.conv("x"), mode, scales))
    assert differing(images, y, dtype, image) == 0


# --- where onnxruntime has channels last

PLACES = {
    "no convolution before": lambda n: n.conv(n.resize("x")),
    "no convolution behind": lambda n: n.resize(n.conv("x")),
    "two in a row": lambda n: n.resize(n.resize(n.conv("x"))),
    "a size": lambda n: n.resize(n.conv("x"), sizes=(13, 7)),
    "behind a pool": lambda n: n.resize(n.node("MaxPool", [n.conv("x")], kernel_shape=(2, 2))),
    "behind a sum": lambda n: n.resize(n.joined("QLinearAdd", n.conv("x"), n.conv("x"))),
    "behind a sum with the input": lambda n: n.resize(n.joined("QLinearAdd", n.conv("x"), "x")),
    "behind parts": lambda n: n.resize(n.joined("QLinearConcat", n.conv("x"), n.conv("x"), axis=2)),
    "behind a function": lambda n: n.resize(n.joined("QLinearLeakyRelu", n.conv("x"), alpha=0.1)),
    "a function between": lambda n: n.conv(n.resize(n.joined("QLinearLeakyRelu", n.conv("x"), alpha=0.1))),
    "as onnxruntime writes it": lambda n: n.node("Resize", ["x", "", n.all_scales(1, 2, 3, 1)], mode="linear"),
    "channels last": lambda n: n.resize(n.node("Transpose", ["x"], perm=(0, 3, 1, 2)), scales=(2, 3)),
}


@pytest.mark.parametrize("name", PLACES)
def test_where_the_resize_stands_decides_as_in_onnxruntime(name):
    images = Images("uint8")
    y = PLACES[name](images)
    assert differing(images, y, "uint8", (5, CHANNELS) if name == "channels last" else (5, 6)) == 0


KINDS = ("conv", "conv", "linear", "linear", "nearest", "max", "mean", "function", "clip", "pad", "sum", "parts")


def drawn(seed: int) -> tuple[Images, list[str]]:
    """Some operators, each of one or two of the last images, and the outputs of the network."""
    draw, images, sizes = random.Random(seed), Images("uint8"), {"x": (6, 6)}
    for _ in range(draw.randint(3, 8)):
        x = draw.choice([*list(sizes)[-3:], *[list(sizes)[-1]] * 5])
        other = draw.choice([name for name in sizes if sizes[name] == sizes[x]])
        kind, (height, width) = draw.choice(KINDS), sizes[x]
        if kind in ("linear", "nearest"):
            height, width = 2 * height, 2 * width
        elif kind == "pad":
            width += 1
        elif kind == "parts":
            height *= 2
        sizes[images.drawn(kind, x, other)] = height, width
    names = list(sizes)[1:]
    return images, [names[-1], *(name for name in names[:-1] if draw.random() < 0.1)]


@pytest.mark.parametrize("part", share_at_first(range(10), 10))
def test_random_networks_have_channels_last_where_onnxruntime_has_them(part, tmp_path):
    outcomes: set[bool] = set()
    for seed in range(60 * part, 60 * (part + 1)):
        images, outputs = drawn(seed)
        inputs, more = {"x": ("uint8", (1, CHANNELS, 6, 6))}, {"com.microsoft": 1}
        model = graph_model(images.nodes, inputs, dict.fromkeys(outputs), images.constants, opset=13, opsets=more)
        graph = optimized_graph(model, tmp_path)
        scales = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
        linear = [node for node in graph.node if node.op_type == "Resize" and node.name.endswith("linear")]
        expected = {node.name for node in linear if scales[node.input[2]][1] != 1}
        kept = {node.name for node in linear}
        assert resizes(infer(load(model))) & kept == expected, seed
        outcomes |= {name in expected for name in kept}
    assert outcomes == {False, True}
