"""Linear Resize of codes: behind convolutions onnxruntime has channels last, and adds in fixed point of 10 bits."""

from __future__ import annotations

import numpy as np
import pytest
from batch import require
from marks import share_at_first
from models import graph_model
from onnx import helper
from tools import require_modules

import qcgen

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
        self.nodes.append(helper.make_node(op_type, inputs, [y], domain=domain, **attributes))
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

    def all_scales(self, *scales: float) -> str:
        self.constants["all_scales"] = np.float32(scales)
        return "all_scales"

    def joined(self, op_type: str, *xs: str, **attributes) -> str:
        by = ["scale", "zero"]
        parts = [name for x in xs for name in (x, *by)]
        inputs = [*by, *parts] if op_type == "QLinearConcat" else [*parts, *by]
        return self.node(op_type, inputs, "com.microsoft", **attributes)


def differing(images: Images, y: str, dtype: str, image: tuple[int, ...]) -> int:
    """How many codes of an output are other ones than onnxruntime's."""
    require("gcc")
    require_modules("onnxruntime")
    import onnxruntime

    inputs, more = {"x": (dtype, (1, CHANNELS, *image))}, {"com.microsoft": 1}
    model = graph_model(images.nodes, inputs, {y: None}, images.constants, opset=13, opsets=more)
    ends = np.iinfo(dtype)
    x = np.random.default_rng(3).integers(ends.min, ends.max + 1, (1, CHANNELS, *image)).astype(dtype)
    [expected] = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
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
