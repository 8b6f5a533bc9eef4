"""A convolution whose input is a constant was refused; onnxruntime computes it when it loads the model."""

import numpy as np
import pytest
from batch import require
from models import graph_model
from onnx import helper

import qcgen

IMAGE = np.uint8(np.arange(36).reshape(1, 4, 3, 3) * 7)
PARAMETERS = {
    "image": IMAGE,
    "xs": np.float32(0.02),
    "xz": np.uint8(5),
    "w": np.int8([[20, -70, 127, -128], [-30, 60, 90, 11]]).reshape(2, 4, 1, 1),
    "ws": np.float32(0.01),
    "wz": np.int8(0),
    "ys": np.float32(0.05),
    "yz": np.uint8(100),
}
CONV = helper.make_node("QLinearConv", ["image", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["c"], name="conv")


def model(nodes, parameters, x_shape=(1, 2, 3, 3)):
    x, y = {"x": ("uint8", x_shape)}, {"y": ("uint8", x_shape)}
    constants = {name: np.asarray(value) for name, value in parameters.items()}
    return graph_model(nodes, x, y, constants, opsets={"com.microsoft": 1})


def added(name):
    return helper.make_node(
        "QLinearAdd", ["x", "xs", "xz", name, "ys", "yz", "ys", "yz"], ["y"], domain="com.microsoft"
    )


def test_it_is_computed_when_the_model_is_compiled():
    """The outputs are those of onnxruntime 1.32.0."""
    require("gcc")
    artifact = qcgen.compile(model([CONV, added("c")], PARAMETERS), name="net")
    assert [call.op.op_type for call in artifact.plan.calls] == ["QLinearAdd"]
    x = np.arange(18, dtype=np.uint8).reshape(1, 2, 3, 3) * 14
    [y] = artifact.load().run(None, {"x": x})
    assert y.ravel().tolist() == [49, 53, 57, 61, 65, 69, 74, 78, 82, 214, 224, 234, 242, 252, 255, 255, 255, 255]


def test_what_follows_from_it_is_constant_too():
    nodes = [
        CONV,
        helper.make_node("MaxPool", ["c"], ["p"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Reshape", ["p", "shape"], ["r"]),
        added("r"),
    ]
    parameters = {**PARAMETERS, "shape": np.int64([1, 2, 3, 3])}
    assert [call.op.op_type for call in qcgen.compile(model(nodes, parameters)).plan.calls] == ["QLinearAdd"]


def test_one_too_large_to_be_stored_is_refused():
    padded = helper.make_node("QLinearConv", CONV.input, ["c"], name="conv", pads=[20000, 20000, 20000, 20000])
    sliced = helper.make_node("Slice", ["c", "from", "to", "axes"], ["s"])
    bounds = {"from": np.int64([0, 0]), "to": np.int64([3, 3]), "axes": np.int64([2, 3])}
    with pytest.raises(qcgen.ModelRejected) as rejection:
        qcgen.compile(model([padded, sliced, added("s")], {**PARAMETERS, **bounds}))
    assert "conv" in str(rejection.value)
