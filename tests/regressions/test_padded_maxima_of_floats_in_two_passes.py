"""A float MaxPool with padding in front of codes raised an internal error where the arena was to be the least."""

import numpy as np
from models import graph_model
from onnx import helper

import qcgen
from qcgen.verification import verify


def test_it_compiles_and_is_right():
    w = np.arange(-9, 9, dtype=np.int8).reshape(2, 1, 3, 3)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("ConvInteger", ["q", "w", "z"], ["sums"], name="sums"),
        helper.make_node("Cast", ["sums"], ["floats"], to=1),
        helper.make_node("MaxPool", ["floats"], ["pooled"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("DynamicQuantizeLinear", ["pooled"], ["codes", "scale", "zero"]),
    ]
    model = graph_model(nodes, {"x": ("float", (1, 1, 12, 10))}, {"codes": None, "scale": None}, {"w": w}, opset=13)
    assert verify(qcgen.compile(model, arena="least", layout="nhwc"), cases=3, flags=("-O0",)).is_right
