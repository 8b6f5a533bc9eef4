"""-0.0 through Relu, Clip and MaxPool of floats: the reference had 0.0, and self-tests called a right core wrong."""

import numpy as np
import pytest
from batch import require
from judged import judge
from models import graph_model
from onnx import helper

import qcgen
from qcgen.reference import evaluate

X = np.array([-0.0, 0.0, -0.0, 1, -1, -0.0, 0.0, 3] * 4, np.float32).reshape(1, 1, 4, 8)
NODES = {
    "Relu": helper.make_node("Relu", ["x"], ["y"]),
    "Clip from 0": helper.make_node("Clip", ["x", "zero", "six"], ["y"]),
    "Clip to 0": helper.make_node("Clip", ["x", "minus", "zero"], ["y"]),
    "MaxPool": helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2]),
    "MaxPool at borders": helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
}


@pytest.mark.parametrize("name", NODES)
def test_they_are_those_of_onnxruntime(name):
    require("gcc")
    numbers = {"zero": 0.0, "six": 6.0, "minus": -1.0}
    constants = {name: np.float32(value) for name, value in numbers.items()}
    model = graph_model([NODES[name]], {"x": ("float", X.shape)}, {"y": None}, constants, opset=13)
    artifact = qcgen.compile(model, name="m")
    [wanted], [found] = judge(model, {"x": X}), artifact.load(("-O2",)).run(None, {"x": X})
    own = evaluate(artifact.program, {"x": X})["y"]
    assert wanted.tobytes() == found.tobytes() == np.asarray(own, np.float32).tobytes()
