"""Weights of an LSTM with one scale and many zero points, which onnxruntime does not run, were an internal error."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import qcgen


def model():
    weights = {
        "w": np.arange(80, dtype=np.uint8).reshape(1, 16, 5),
        "scale": np.full(1, 0.1, np.float32),
        "zero_point": np.arange(16, dtype=np.uint8),
        "r": np.ones((1, 16, 4), np.float32),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale", "zero_point"], ["w_float"], name="weights", axis=1),
        helper.make_node("LSTM", ["x", "w_float", "r"], ["y"], name="lstm", hidden_size=4),
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [3, 2, 5]), ("y", None))
    )
    tensors = [numpy_helper.from_array(values, name) for name, values in weights.items()]
    graph = helper.make_graph(nodes, "graph", [x], [y], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def test_the_dequantize_linear_is_refused():
    with pytest.raises(qcgen.ModelRejected) as refused:
        qcgen.compile(model())
    assert "node 'weights' (DequantizeLinear): x_zero_point has shape (16,), but must be one number" in str(
        refused.value
    )
