"""An input on which no output depends was an unused parameter, which the promised flags refuse."""

import numpy as np
from batch import require
from models import graph_model
from onnx import helper

import qcgen


def test_an_input_that_nobody_reads_is_a_parameter_without_a_warning():
    require("gcc")
    nodes = [helper.make_node("Relu", ["a"], ["y"], name="relu")]
    model = graph_model(nodes, {"a": ("float", (2,)), "b": ("float", (3,))}, {"y": None})
    a = np.float32([-1, 2])
    [y] = qcgen.compile(model).load().run(None, {"a": a, "b": np.zeros(3, np.float32)})
    np.testing.assert_array_equal(y, [0, 2])
