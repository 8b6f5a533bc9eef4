"""Channels of an image of one column: where a Transpose put the column outermost, pixels were read that far apart."""

from itertools import permutations

import numpy as np
import pytest
from batch import require
from marks import some_at_first
from models import graph_model
from onnx import helper

import qcgen
from qcgen.verify import verify

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
def test_channels_of_a_transposed_image(shape, kind, layout):
    require("gcc")
    wrong = []
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
        verification = verify(qcgen.compile(model, layout=layout), cases=2, flags=("-O0",), oracle="own", sums=False)
        wrong += [] if verification.is_right else [(perm, str(verification.first))]
    assert wrong == []


@pytest.mark.parametrize("target", ["portable", "cortex-m4"])
@pytest.mark.parametrize("kind", MEANS)
def test_means_of_a_transposed_batch(kind, target):
    """Channels lie side by side, and between the pixels of one image those of another."""
    require("gcc")
    wrong = []
    shape = (2, 3, 7, 1)
    for perm in permutations(range(4)):
        turned = tuple(shape[axis] for axis in perm)
        model = graph_model(
            [helper.make_node("Transpose", ["x"], ["turned"], perm=perm), *MEANS[kind]],
            {"x": ("uint8", shape)},
            {"y": ("uint8" if kind == "codes" else "float", (*turned[:2], 1, 1))},
            SCALES,
        )
        for layout in ("nchw", "nhwc"):
            artifact = qcgen.compile(model, layout=layout, target=target)
            verification = verify(artifact, cases=2, flags=("-O0",), oracle="own", sums=False)
            wrong += [] if verification.is_right else [(perm, layout, str(verification.first))]
    assert wrong == []
