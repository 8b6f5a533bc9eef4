"""A product read a transposed matrix as it lay in memory: rows for columns. Its input is copied to rows now.

Only images were copied where their order did not suit; matrices, of QGemm with transA for example, have no layout, nor
has an image, which lies channels last, as what a product reads.
"""

import numpy as np
import pytest
from computed import computed, one_node
from onnx import helper

X = np.random.default_rng(0).integers(-128, 128, (3, 8)).astype(np.int8)
W = np.array([[71, -56, 109], [2, 3, 4]], np.int8)


def test_qgemm_takes_the_columns_of_a_transposed_a():
    one = {"scale": np.float32(1), "zero": np.int8(0), "y_scale": np.float32(100), "w": W}
    inputs = ["x", "scale", "zero", "w", "scale", "zero", "", "y_scale", "zero"]
    node = helper.make_node("QGemm", inputs, ["y"], domain="com.microsoft", transA=1, transB=1)
    [y] = computed(one_node(node, {"x": X}, one), {"x": X})
    assert np.array_equal(y, np.clip(np.rint(X.T.astype(int) @ W.T / 100), -128, 127))


@pytest.mark.parametrize("op_type", ["Gemm", "MatMulInteger"])
def test_so_do_other_products(op_type):
    from models import graph_model

    x = X.astype(np.float32) if op_type == "Gemm" else X
    transpose = helper.make_node("Transpose", ["x"], ["turned"])
    product = helper.make_node(op_type, ["turned", "w"], ["y"])
    specs = {"x": ("float" if op_type == "Gemm" else "int8", x.shape)}
    model = graph_model([transpose, product], specs, {"y": None}, {"w": W.T.astype(x.dtype).copy()})
    [y] = computed(model, {"x": x})
    assert np.array_equal(y, x.T.astype(int) @ W.T.astype(int))


def test_so_does_the_product_of_an_image():
    from models import graph_model

    x = np.random.default_rng(1).integers(-128, 128, (1, 2, 4, 5)).astype(np.int8)
    pool = helper.make_node("MaxPool", ["x"], ["image"], kernel_shape=[1, 2])
    product = helper.make_node("MatMulInteger", ["image", "w"], ["y"])
    w = np.arange(-6, 6, dtype=np.int8).reshape(4, 3)
    [y] = computed(graph_model([pool, product], {"x": ("int8", x.shape)}, {"y": None}, {"w": w}), {"x": x})
    assert np.array_equal(y, np.maximum(x[..., :-1], x[..., 1:]).astype(int) @ w.astype(int))
