"""A scalar has no axis over which Softmax could sum: axis 0 raised ZeroDivisionError. onnxruntime refuses it, too."""

import numpy as np
import pytest
from models import MICROSOFT, node_model
from onnx import helper

import qcgen
from qcgen.errors import ModelRejected

SCALE, ZERO = np.array(1 / 256, np.float32), np.array(0, np.uint8)
CODES = {"X": ("uint8", ()), "X_scale": SCALE, "X_zero_point": ZERO, "Y_scale": SCALE, "Y_zero_point": ZERO}
MODELS = {
    "Softmax": node_model("Softmax", {"X": ("float", ())}, axis=0),
    "QLinearSoftmax": node_model("QLinearSoftmax", CODES, domain=MICROSOFT, axis=0),
}
MODELS["QLinearSoftmax"].graph.node[0].attribute.append(helper.make_attribute("opset", 13))


@pytest.mark.parametrize("op_type", MODELS)
def test_it_is_refused(op_type):
    with pytest.raises(
        ModelRejected, match="axis is 0, but its input has 0 dimensions\n    give its input a dimension"
    ):
        qcgen.compile(MODELS[op_type])


def test_an_absent_axis_before_opset_13_is_1_which_a_row_does_not_have():
    model = node_model("Softmax", {"X": ("float", (4,))}, opset=11)
    with pytest.raises(ModelRejected, match="axis is 1, but its input has 1 dimension\n"):
        qcgen.compile(model)
    assert qcgen.compile(node_model("Softmax", {"X": ("float", (4,))}, opset=13)).program.operators
