"""A result without a name is not what an input without a name reads: such a model ended with an internal error."""

import numpy as np
import pytest
from models import graph_model
from onnx import helper

import qcgen


def test_a_quantizelinear_without_input_is_named():
    nodes = [
        helper.make_node("QuantizeLinear", ["", "scale", "zero"], ["y"], "y"),
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["codes"], "codes"),
        helper.make_node("DequantizeLinear", ["codes", "scale", "zero"], ["numbers"], "numbers"),
        helper.make_node("ReduceSum", ["numbers", "rows"], [""], "total", keepdims=0),
    ]
    constants = {"scale": np.float32(0.1), "zero": np.int8(3), "rows": np.int64([2])}
    with pytest.raises(qcgen.ModelRejected, match="'y' \\(QuantizeLinear\\)"):
        qcgen.compile(graph_model(nodes, {"x": ("float", (1, 2, 4, 5))}, {"y": ("int8", (1, 2, 5))}, constants))
