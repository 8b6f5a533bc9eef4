"""A depthwise layer none of whose taps meets the image, on cores without a DSP extension: variables were not used."""

import numpy as np
import pytest
from batch import require
from judged import judge
from marks import some_at_first
from models import graph_model
from onnx import helper

import qcgen


@pytest.mark.parametrize("optimize", some_at_first(["size", "speed"]))
@pytest.mark.parametrize("zero", some_at_first([5, 0]))
@pytest.mark.parametrize("target", ["portable", "cortex-m0", "cortex-m4", "cortex-m55", "host"])
def test_it_compiles_to_onnxruntimes_outputs(target, zero, optimize):
    require("gcc")
    window = {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [3, 1, 2, 3], "dilations": [2, 2], "group": 3}
    nodes = [helper.make_node("ConvInteger", ["x", "w", "zero"], ["y"], **window)]
    weights = np.arange(1, 28, dtype=np.int8).reshape(3, 1, 3, 3)
    model = graph_model(nodes, {"x": ("uint8", (1, 3, 1, 1))}, {"y": None}, {"w": weights, "zero": np.uint8(zero)})
    feeds = {"x": np.array([7, 200, 13], np.uint8).reshape(1, 3, 1, 1)}
    compiled = qcgen.compile(model, target=target, optimize=optimize, layout="nhwc")
    assert compiled.plan.calls[0].kernel != "scalar/depthwise"
    [found] = compiled.load(("-O1",)).run(None, {"x": feeds["x"].transpose(0, 2, 3, 1)})
    assert np.array_equal(found.transpose(0, 3, 1, 2), judge(model, feeds)[0])
