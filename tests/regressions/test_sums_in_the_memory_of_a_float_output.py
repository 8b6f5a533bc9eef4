"""A Cast in place whose float result an output is a view of: its int32 sums were to lie in the caller's floats.

The C did not compile.
"""

import numpy as np
import pytest
from batch import require
from judged import judge
from models import graph_model
from onnx import helper

import qcgen


@pytest.mark.parametrize("activation", [None, "Relu"])
def test_it_compiles_to_onnxruntimes_outputs(activation):
    require("gcc")
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["codes", "scale", "zero"]),
        helper.make_node("MatMulInteger", ["codes", "w", "zero"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["numbers"], to=1),
        helper.make_node(activation or "Neg", ["numbers"], ["changed"]),
        helper.make_node("Flatten", ["changed" if activation else "numbers"], ["y"]),
    ]
    weights = np.arange(-30, 30, dtype=np.int8).reshape(5, 12)
    model = graph_model(nodes, {"x": ("float", (1, 3, 5))}, {"y": None}, {"w": weights}, opset=13)
    feeds = {"x": np.random.default_rng(2).normal(0, 1, (1, 3, 5)).astype(np.float32)}
    [found], [wanted] = qcgen.compile(model).load(("-O2",)).run(None, feeds), judge(model, feeds)
    assert np.array_equal(found, wanted)
