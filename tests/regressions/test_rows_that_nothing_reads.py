"""A stride beyond the kernel passes rows that no window reads: rows in turn were written in front of their buffer."""

import numpy as np
import pytest
from models import graph_model
from onnx import helper

import qcgen
from qcgen.reference import evaluate

X = np.random.default_rng(0).integers(-128, 128, (1, 4, 16, 16)).astype(np.int8)


@pytest.mark.parametrize(("kernel", "pads", "stride"), [(3, 1, 4), (1, 0, 2), (2, 1, 5), (1, 0, 7)])
@pytest.mark.parametrize("layers", [1, 2])
def test_outputs_of_rows_in_turn_are_right(layers, kernel, pads, stride):
    names = ["x", *(f"h{i}" for i in range(layers)), "y"]
    windows = [(3, 1, 1)] * layers + [(kernel, pads, stride)]
    nodes = [
        helper.make_node("MaxPool", [x], [y], kernel_shape=[k, k], pads=[pad] * 4, strides=[step, step])
        for x, y, (k, pad, step) in zip(names, names[1:], windows, strict=False)
    ]
    model = graph_model(nodes, {"x": ("int8", X.shape)}, {"y": None})
    artifact = qcgen.compile(model, arena="least", layout="nhwc")
    assert artifact.plan.arena_bytes < X.nbytes
    [y] = artifact.load().run(None, {"x": X.transpose(0, 2, 3, 1).copy()})
    assert np.array_equal(y.transpose(0, 3, 1, 2), evaluate(artifact.program, {"x": X})["y"])
