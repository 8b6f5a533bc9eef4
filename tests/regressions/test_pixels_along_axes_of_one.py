"""Channels of an image of one column: where a Transpose put the column outermost, pixels were read that far apart."""

from itertools import permutations, product

import numpy as np
import pytest
from batch import require
from marks import some_at_first
from models import graph_model
from onnx import helper
from subjects import wrong_on_host

import qcgen

SHAPE = (1, 2, 6, 5)
SCALES = {"s": np.float32(0.01), "ys": np.float32(0.03), "z": np.uint8(7)}
NODES = {
    "floats": [
        helper.make_node("DequantizeLinear", ["turned", "s"], ["f"]),
        helper.make_node("InstanceNormalization", ["f", "scale", "bias"], ["y"]),
    ],
    "codes": [
        helper.make_node("DequantizeLinear", ["turned", "s"], ["f"]),
        helper.make_node("InstanceNormalization", ["f", "scale", "bias"], ["g"]),
        helper.make_node("QuantizeLinear", ["g", "ys", "z"], ["y"]),
    ],
}
MEANS = {
    "floats": [
        helper.make_node("DequantizeLinear", ["turned", "s"], ["f"]),
        helper.make_node("GlobalAveragePool", ["f"], ["y"]),
    ],
    "codes": [
        helper.make_node("DequantizeLinear", ["turned", "s", "z"], ["f"]),
        helper.make_node("GlobalAveragePool", ["f"], ["g"]),
        helper.make_node("QuantizeLinear", ["g", "ys", "z"], ["y"]),
    ],
}


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("kind", NODES)
@pytest.mark.parametrize("shape", some_at_first([(1, 1, 6, 5), (2, 1, 6, 1), SHAPE]))
def test_channels_of_a_transposed_image(shape, kind, layout, tmp_path):
    require("gcc")
    artifacts = {}
    for perm in permutations(range(4)) if shape != SHAPE else [(0, 1, 2, 3), (0, 2, 3, 1)]:
        turned = tuple(shape[axis] for axis in perm)
        constants = {"scale": np.linspace(0.5, 2, turned[1]), "bias": np.linspace(-1, 1, turned[1])}
        model = graph_model(
            [helper.make_node("Transpose", ["x"], ["turned"], perm=perm), *NODES[kind]],
            {"x": ("uint8", shape)},
            {"y": ("uint8" if kind == "codes" else "float", turned)},
            SCALES | {name: values.astype(np.float32) for name, values in constants.items()},
        )
        if kind == "codes" and turned[2] * turned[3] == 1:
            continue
        name = "norm_" + "".join(map(str, perm))
        artifacts[name] = qcgen.compile(model, name=name, layout=layout)
    assert wrong_on_host(artifacts, tmp_path, 1e-4 if kind == "floats" else 0) == []


@pytest.mark.parametrize("target", ["portable", "cortex-m4"])
@pytest.mark.parametrize("kind", MEANS)
def test_means_of_a_transposed_batch(kind, target, tmp_path):
    """Channels lie side by side, and between the pixels of one image those of another."""
    require("gcc")
    artifacts = {}
    shape = (2, 3, 7, 1)
    for perm, layout in product(permutations(range(4)), ("nchw", "nhwc")):
        turned = tuple(shape[axis] for axis in perm)
        model = graph_model(
            [helper.make_node("Transpose", ["x"], ["turned"], perm=perm), *MEANS[kind]],
            {"x": ("uint8", shape)},
            {"y": ("uint8" if kind == "codes" else "float", (*turned[:2], 1, 1))},
            SCALES,
        )
        name = f"mean_{''.join(map(str, perm))}_{layout}"
        artifacts[name] = qcgen.compile(model, name=name, layout=layout, target=target)
    assert wrong_on_host(artifacts, tmp_path, 1e-4 if kind == "floats" else 0) == []
