"""A convolution whose product of scales underflows in float32 was refused; onnxruntime gives zero points."""

import numpy as np
import pytest
from batch import require
from models import qlinear_conv, random_weights
from onnx import TensorProto, helper, numpy_helper

import qcgen


@pytest.mark.parametrize("x_scale", [1e-30, 1e-45])
def test_every_output_of_a_convolution_is_the_zero_point(x_scale):
    require("gcc")
    weights = random_weights((2, 4, 1, 1), seed=1)
    model = qlinear_conv((1, 4, 2, 2), weights, x_scale=x_scale, w_scale=1e-30, y_zero_point=3, bias=[2**31 - 1, -5])
    [y] = qcgen.compile(model, name="net").load().run(None, {"x": np.arange(16, dtype=np.uint8).reshape(1, 4, 2, 2)})
    assert np.all(y == 3)


def test_columns_of_a_product_that_underflow_have_the_zero_point():
    """Outputs of onnxruntime 1.32.0; only the second column's scale underflows."""
    require("gcc")
    constants = {
        "xs": np.float32(1e-20),
        "xz": np.uint8(5),
        "w": np.arange(-4, 8, dtype=np.int8).reshape(4, 3),
        "ws": np.float32([1e-24, 1e-30, 1e-23]),
        "wz": np.zeros(3, np.int8),
        "ys": np.float32(1e-43),
        "yz": np.uint8(7),
    }
    graph = helper.make_graph(
        [helper.make_node("QLinearMatMul", ["x", *constants], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, (1, 4))],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, (1, 3))],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    artifact = qcgen.compile(model, name="net")
    [y] = artifact.load().run(None, {"x": np.uint8([[217, 163, 130, 69]])})
    assert y.tolist() == [[0, 7, 255]]
