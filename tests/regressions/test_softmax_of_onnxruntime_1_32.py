"""QLinearSoftmax: the shift of its table takes a float32 logarithm, and since 1.32.0 the quotient is float64's.

Before, the logarithm was float64's and the quotient float32's: few codes differ, some of these do. Rows of one code
were refused because the float32 product overflowed, with the advice to use the y_scale that was there. Without the
attribute axis the last axis is meant, whatever the attribute opset is. All codes are recorded from onnxruntime 1.32.0.
"""

import numpy as np
from computed import computed, one_node
from onnx import helper


def softmax(x, x_scale, y_scale=1 / 256, **attributes):
    low = np.iinfo(x.dtype).min
    constants = {
        "x_scale": np.float32(x_scale),
        "x_zero_point": np.zeros((), x.dtype),
        "y_scale": np.float32(y_scale),
        "y_zero_point": np.array(low, x.dtype),
    }
    attributes = {"opset": 13, **attributes}
    node = helper.make_node("QLinearSoftmax", ["x", *constants], ["y"], domain="com.microsoft", **attributes)
    return computed(one_node(node, {"x": x}, constants), {"x": x})[0].tolist()


def test_a_quotient_just_below_a_tie_is_not_rounded_to_it_first():
    x = np.array([[0, 29, 241, 196, 250, 87, 100, 65, 7, 4, 215, 24]], np.uint8)
    assert softmax(x, 0.06840428308749308) == [[0, 0, 83, 4, 155, 0, 0, 0, 0, 0, 14, 0]]


def test_the_logarithm_is_float32_s():
    x = np.array([[6, 3, -21, -121, -49]], np.int8)
    assert softmax(x, 0.035900238901376724) == [[-23, -33, -88, -127, -113]]


def test_a_tie_goes_to_the_even_code():
    x = np.full((1, 2), 100, np.uint8)
    assert softmax(x, 0.1, 1 / 255) == [[127, 127]]  # 254 / 2: the factor is floor(fl32(1 / y_scale))
    assert softmax(x, 0.1, 1 / 127.5) == [[64, 64]]  # 127 / 2, a tie
    assert softmax(x, 0.1, 1 / 129.5) == [[64, 64]]  # 129 / 2, another one


def test_rows_of_one_code_are_1():
    x = np.array([[10], [-3]], np.int8)
    assert softmax(x, 0.1) == [[127], [127]]
    assert softmax(x, 0.1, 1 / 127) == [[-1], [-1]]


def test_without_the_attribute_axis_the_last_one_is_meant():
    x = np.array([[[10, 20], [30, 35]]], np.uint8)
    assert softmax(x, 0.1, opset=12) == [[[69, 187], [97, 159]]]
    assert softmax(x, 0.1, opset=12, axis=1) == [[[11, 30], [81, 134]]]
