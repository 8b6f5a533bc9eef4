"""Layers whose product of scales underflows in float32 were refused; onnxruntime gives zero points."""

import numpy as np
import pytest
from batch import require
from models import qlinear_conv, random_weights
from onnx import TensorProto, helper, numpy_helper
from qdq import Chain

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


def quantized_product(a_scale, b_scale, y_scale, dtype):
    """QLinearMul of codes of this type, 256 in each row of ``a`` by the same 256 of ``b``."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    constants = {"as": a_scale, "az": low, "bs": b_scale, "bz": high, "ys": y_scale, "yz": low + 9}
    stored = {name: np.array(value, np.float32 if name.endswith("s") else dtype) for name, value in constants.items()}
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [helper.make_node("QLinearMul", ["a", "as", "az", "b", "bs", "bz", "ys", "yz"], ["y"], domain="com.microsoft")],
        "product",
        [helper.make_tensor_value_info(name, element, shape) for name, shape in (("a", (256, 256)), ("b", (1, 256)))],
        [helper.make_tensor_value_info("y", element, (256, 256))],
        [numpy_helper.from_array(value, name) for name, value in stored.items()],
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


PRODUCTS = {
    "the product of the scales is 0": (1e-30, 1e-30, 1e-38),
    "half of the least number rounds to 0": (1e-45, 0.5, 1e-45),
    "the product is subnormal": (1e-20, 1e-20, 1.0),
    "the quotient is the least number": (1e-20, 1e-22, 1e3),
}
"""Where onnxruntime 1.32.0 made all 65,536 outputs the zero point, of uint8 and of int8."""


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("scales", PRODUCTS.values(), ids=PRODUCTS)
def test_every_product_of_codes_is_the_zero_point(scales, dtype):
    require("gcc")
    b = np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1).astype(dtype)
    model = quantized_product(*scales, dtype)
    [y] = qcgen.compile(model, name="net").load().run(None, {"a": np.repeat(b, 256).reshape(256, 256), "b": b[None]})
    assert np.all(y == np.iinfo(dtype).min + 9)


def test_scales_below_float32s_normal_range_are_those_of_onnxruntime():
    """onnxruntime 1.32.0 takes 1e-45 * 0.6 for the least number, and so gives what the scales 1, 1 and 1 give."""
    require("gcc")
    b = np.arange(256).astype(np.uint8)
    inputs = {"a": np.repeat(b, 256).reshape(256, 256), "b": b[None]}
    tiny, one = (
        qcgen.compile(quantized_product(*scales, np.uint8), name="net").load().run(None, inputs)[0]
        for scales in ((1e-45, 0.6, 1e-45), (1, 1, 1))
    )
    assert np.array_equal(tiny, one)
    assert len(np.unique(one)) == 10


@pytest.mark.parametrize(("x_scale", "y_scale", "code"), [(1e-3, 1e38, 5), (1e-12, 1, 5), (1e30, 1e-3, 255)])
@pytest.mark.parametrize("op_type", ["ReduceMean", "ReduceSum"])
def test_scales_of_sums_along_an_axis_may_be_far_apart(op_type, x_scale, y_scale, code):
    """As onnxruntime 1.32.0 computes them."""
    require("gcc")
    chain = Chain()
    x = chain.dequantize("x", (np.float32(x_scale), np.uint8(7)))
    y = chain.node(op_type, [x, chain.constant("axes", np.int64([1]))], "sum")
    chain.quantize(y, (np.float32(y_scale), np.uint8(5)), "y")
    codes = np.arange(8, 80, 2).astype(np.uint8).reshape(2, 6, 3)
    [y] = qcgen.compile(chain.model((2, 6, 3), opset=18, x_type="uint8"), name="net").load().run(None, {"x": codes})
    assert np.all(y == code)
