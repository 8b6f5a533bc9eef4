"""Dilated float poolings whose window has no tap on the image give 0 and the lowest number, as in onnxruntime."""

import numpy as np
import pytest
from batch import require
from models import node_model

import qcgen
from qcgen.reference import evaluate_operator

ATTRIBUTES = {"kernel_shape": [2, 1], "dilations": [2, 1], "pads": [1, 0, 1, 0]}
LOWEST = np.finfo(np.float32).min


@pytest.mark.parametrize(
    ("op_type", "more", "expected"),
    [("AveragePool", {}, 0), ("AveragePool", {"count_include_pad": 1}, 0), ("MaxPool", {}, LOWEST)],
)
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_the_window_of_padding_alone(op_type, more, expected, layout):
    require("gcc")
    x = np.float32([[[[1, 2, 3]]]])
    model = node_model(op_type, {"x": ("float", x.shape)}, opset=19, **ATTRIBUTES, **more)
    artifact = qcgen.compile(model, name="pool", layout=layout)
    [op] = artifact.program.operators
    [y] = artifact.load().run(None, {"x": x if layout == "nchw" else np.moveaxis(x, 1, -1)})
    assert y.size == 3
    assert (y == expected).all()
    assert (evaluate_operator(op, x) == expected).all()
