"""A mean with ceil_mode and count_include_pad had one window more where that would start in the padding."""

import numpy as np
import pytest
from batch import require
from onnx import TensorProto, helper

import qcgen

CASES = {
    # label: input, pads, ends of the output as onnxruntime 1.32.0 gives it
    "one window": ((2, 2), [1, 1, 1, 1], [[10 / 9]]),
    "the last window reaches out": ((2, 3), [1, 0, 1, 1], [[7 / 3]]),
    "one axis of two": ((2, 4), [1, 1, 1, 1], [[14 / 9, 22 / 9]]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_window_that_would_start_in_the_padding_is_none(name):
    require("gcc")
    shape, pads, wanted = CASES[name]
    node = helper.make_node(
        "AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[3, 3], pads=pads, ceil_mode=1, count_include_pad=1
    )
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 1, *shape))
    graph = helper.make_graph([node], "pool", [x], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    image = np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(1, 1, *shape)
    [y] = qcgen.compile(model, name="pool").load().run(None, {"x": image})
    np.testing.assert_allclose(y, np.float32([[wanted]]), rtol=1e-6)
