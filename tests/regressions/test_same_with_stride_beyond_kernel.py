"""SAME_UPPER and SAME_LOWER with a stride beyond the kernel: onnxruntime leaves out elements in front, qcgen did not.

Windows of one tap show where they begin. Convolutions and poolings differ in how many elements they leave out; the
outputs are recorded from onnxruntime 1.32.0.
"""

import numpy as np
import pytest
from computed import computed, one_node
from onnx import helper

ONE = {"scale": np.float32(1), "zero": np.uint8(0)}
RECORDED = [  # elements, stride, first elements by SAME_UPPER and by SAME_LOWER: of convolutions, of poolings
    (9, 3, (0, 0), (1, 0)),
    (8, 4, (1, 0), (1, 1)),
    (10, 5, (1, 1), (2, 1)),
    (12, 6, (2, 1), (2, 2)),
]
CASES = [
    (size, stride, auto_pad, convolution[which], pooling[which])
    for size, stride, convolution, pooling in RECORDED
    for which, auto_pad in enumerate(("SAME_UPPER", "SAME_LOWER"))
]


@pytest.mark.parametrize(("size", "stride", "auto_pad", "of_convolution", "of_pooling"), CASES)
def test_windows_begin_where_onnxruntime_s_do(size, stride, auto_pad, of_convolution, of_pooling):
    x = np.arange(size, dtype=np.uint8).reshape(1, 1, size)
    attributes = {"auto_pad": auto_pad, "strides": [stride], "kernel_shape": [1]}
    operands = ["x", "scale", "zero", "w", "scale", "zero", "scale", "zero"]
    convolution = helper.make_node("QLinearConv", operands, ["y"], **attributes)
    model = one_node(convolution, {"x": x}, {**ONE, "w": np.ones((1, 1, 1), np.uint8)})
    assert computed(model, {"x": x})[0].reshape(-1).tolist() == list(range(of_convolution, size, stride))
    operands = ["x", "scale", "zero", "scale", "zero"]
    pooling = helper.make_node("QLinearAveragePool", operands, ["y"], domain="com.microsoft", **attributes)
    [y] = computed(one_node(pooling, {"x": x}, ONE), {"x": x})
    assert y.reshape(-1).tolist() == list(range(of_pooling, size, stride))
