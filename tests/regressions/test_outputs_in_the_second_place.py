"""A convolution whose only named output was its second crashed: nothing computes that one."""

import numpy as np
import pytest
from models import graph_model, qlinear_conv
from onnx import helper

import qcgen
from qcgen.errors import ModelRejected


def test_a_convolution_is_refused():
    model = qlinear_conv((1, 1, 4, 4), np.ones((1, 1, 1, 1), np.uint8))
    model.graph.node[0].output[:] = ["", "y"]
    with pytest.raises(ModelRejected, match="its first output has no name"):
        qcgen.compile(model)


@pytest.mark.parametrize("op_type", ["MaxPool", "Relu", "Transpose", "Flatten"])
def test_other_operators_are(op_type):
    attributes = {"kernel_shape": [2, 2]} if op_type == "MaxPool" else {}
    node = helper.make_node(op_type, ["x"], ["", "y"], name="node", **attributes)
    model = graph_model([node], {"x": ("float", (1, 1, 4, 4))}, {"y": ("float", None)})
    with pytest.raises(ModelRejected):
        qcgen.compile(model)
