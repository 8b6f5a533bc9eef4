"""Two outputs of the network that are views of one tensor: each has its own memory, so one of them is a copy."""

import numpy as np
from models import graph_model
from onnx import helper

from qcgen.compiler import compile


def test_each_is_written():
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Flatten", ["a"], ["p"]),
        helper.make_node("Reshape", ["a", "shape"], ["q"]),
    ]
    shape = {"shape": np.array([2, 12], np.int64)}
    artifact = compile(graph_model(nodes, {"x": ("float", (1, 2, 3, 4))}, {"p": None, "q": None}, shape), name="views")
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(1, 2, 3, 4)
    p, q = artifact.load().run(None, {"x": x})
    assert np.array_equal(p, np.maximum(x, 0).reshape(1, 24))
    assert np.array_equal(q, np.maximum(x, 0).reshape(2, 12))
