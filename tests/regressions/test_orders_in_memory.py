"""Orders of axes in memory, and copies in other orders."""

from __future__ import annotations

import json
from itertools import permutations, product

import numpy as np
import pytest
from batch import require
from bench.compiling import Network
from computed import computed, one_node
from marks import some_at_first
from models import graph_model, random_weights
from onnx import helper
from qdq import A, B, Chain
from subjects import wrong_on_host
from test_certificate import confirm

import qcgen
from qcgen.compiler import compile

# A product read a transposed matrix as it lay in memory: rows for columns. Its input is copied to rows now.
# Only images were copied where their order did not suit; matrices, of QGemm with transA for example, have no layout,
# nor has an image, which lies channels last, as what a product reads.
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


# Rows that a product of matrices writes are not an image, although a convolution or a pooling reads them as one.
OF_IMAGES = {
    "Conv": {"kernel_shape": (1, 1)},
    "MaxPool": {"kernel_shape": (2, 1)},
    "AveragePool": {"kernel_shape": (1, 2)},
    "GlobalAveragePool": {},
}


@pytest.mark.parametrize("function", ["", "Relu", "Tanh"])
def test_an_image_of_rows_of_a_product(function, tmp_path):
    artifacts = {name: compile(rows_read_by(name, function), name=name) for name in OF_IMAGES}
    assert wrong_on_host(artifacts, tmp_path, 1e-4) == []


def rows_read_by(op_type, function):
    rng, chain = np.random.default_rng(1), Chain()
    weights = chain.weights("w", rng.integers(-64, 65, (5, 7)).astype(np.int8), (0.02, np.int8(0)))
    product = chain.node("MatMul", [chain.through("x", A), weights])
    rows = chain.through(product, B)
    if function:
        rows = chain.through(chain.node(function, [rows]), B)
    codes = rng.integers(-64, 65, (4, 3, 1, 1)).astype(np.int8)
    kernel = [chain.weights("k", codes, (0.02, np.int8(0)))] if op_type == "Conv" else []
    image = chain.node(op_type, [rows, *kernel], **OF_IMAGES[op_type])
    chain.through(image, B, "y")
    return chain.model((2, 3, 4, 5))


# Channels of an image of one column: where a Transpose put the column outermost, pixels were read that far apart.
SHAPE = (1, 2, 6, 5)
PARAMETERS = {"s": np.float32(0.01), "ys": np.float32(0.03), "z": np.uint8(7)}
NODES = {
    "floats": [
        helper.make_node("DequantizeLinear", ["turned", "s"], ["f"]),
        helper.make_node("InstanceNormalization", ["f", "scale", "bias"], ["y"]),
    ],
    "codes": [
        helper.make_node("DequantizeLinear", ["turned", "s"], ["f"]),
        helper.make_node("InstanceNormalization", ["f", "scale", "bias"], ["g"]),
        helper.make_node("QuantizeLinear", ["g", "ys", "z"], ["y"]),
    ],
}
MEANS = {
    "floats": [
        helper.make_node("DequantizeLinear", ["turned", "s"], ["f"]),
        helper.make_node("GlobalAveragePool", ["f"], ["y"]),
    ],
    "codes": [
        helper.make_node("DequantizeLinear", ["turned", "s", "z"], ["f"]),
        helper.make_node("GlobalAveragePool", ["f"], ["g"]),
        helper.make_node("QuantizeLinear", ["g", "ys", "z"], ["y"]),
    ],
}


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("kind", NODES)
@pytest.mark.parametrize("shape", some_at_first([(1, 1, 6, 5), (2, 1, 6, 1), SHAPE]))
def test_channels_of_a_transposed_image(shape, kind, layout, tmp_path):
    require("gcc")
    artifacts = {}
    for perm in permutations(range(4)) if shape != SHAPE else [(0, 1, 2, 3), (0, 2, 3, 1)]:
        turned = tuple(shape[axis] for axis in perm)
        constants = {"scale": np.linspace(0.5, 2, turned[1]), "bias": np.linspace(-1, 1, turned[1])}
        model = graph_model(
            [helper.make_node("Transpose", ["x"], ["turned"], perm=perm), *NODES[kind]],
            {"x": ("uint8", shape)},
            {"y": ("uint8" if kind == "codes" else "float", turned)},
            PARAMETERS | {name: values.astype(np.float32) for name, values in constants.items()},
        )
        if kind == "codes" and turned[2] * turned[3] == 1:
            continue
        name = "norm_" + "".join(map(str, perm))
        artifacts[name] = qcgen.compile(model, name=name, layout=layout)
    assert wrong_on_host(artifacts, tmp_path, 1e-4 if kind == "floats" else 0) == []


@pytest.mark.parametrize("target", ["portable", "cortex-m4"])
@pytest.mark.parametrize("kind", MEANS)
def test_means_of_a_transposed_batch(kind, target, tmp_path):
    """Channels lie side by side, and between the pixels of one image those of another."""
    require("gcc")
    artifacts = {}
    shape = (2, 3, 7, 1)
    for perm, layout in product(permutations(range(4)), ("nchw", "nhwc")):
        turned = tuple(shape[axis] for axis in perm)
        model = graph_model(
            [helper.make_node("Transpose", ["x"], ["turned"], perm=perm), *MEANS[kind]],
            {"x": ("uint8", shape)},
            {"y": ("uint8" if kind == "codes" else "float", (*turned[:2], 1, 1))},
            PARAMETERS,
        )
        name = f"mean_{''.join(map(str, perm))}_{layout}"
        artifacts[name] = qcgen.compile(model, name=name, layout=layout, target=target)
    assert wrong_on_host(artifacts, tmp_path, 1e-4 if kind == "floats" else 0) == []


# A copy in another order that a Flatten and a product of matrices share: the product took it for an image.
SCALES = {name: np.float32(value) for name, value in (("xs", 0.02), ("ws", 0.01), ("cs", 0.03), ("ms", 0.05))}
ZEROS = {name: np.uint8(value) for name, value in (("xz", 128), ("cz", 3), ("mz", 94))} | {"wz": np.int8(0)}
CONV = helper.make_node("QLinearConv", ["x", "xs", "xz", "cw", "ws", "wz", "cs", "cz"], ["c"])
READERS = {
    "flat": helper.make_node("Flatten", ["c"], ["flat"]),
    "product": helper.make_node("QLinearMatMul", ["c", "cs", "cz", "mw", "ws", "wz", "ms", "mz"], ["product"]),
}


@pytest.mark.parametrize("order", some_at_first(["flat product", "product flat"]))
def test_each_reader_takes_a_copy_as_what_it_is(order, tmp_path):
    require("gcc")
    weights = {"cw": random_weights((5, 3, 2, 2)) // 2, "mw": random_weights((6, 4), seed=1) // 2}
    model = graph_model(
        [CONV, *(READERS[name] for name in order.split())],
        {"x": ("uint8", (1, 3, 5, 7))},
        {"flat": ("uint8", (1, 120)), "product": ("uint8", (1, 5, 4, 4))},
        SCALES | ZEROS | weights,
    )
    artifacts = {}
    for target, layout in product(("portable", "cortex-m0", "cortex-m4"), ("model", "nhwc")):
        name = f"{target.replace('-', '_')}_{layout}"
        artifacts[name] = qcgen.compile(model, name=name, target=target, layout=layout)
    assert wrong_on_host(artifacts, tmp_path) == []


@pytest.mark.parametrize("layout", ["model", "nhwc"])
@pytest.mark.parametrize("perm", [(0, 2, 1, 3), (0, 3, 2, 1)])
def test_the_certificate_has_the_codes_of_what_was_copied(perm, layout, tmp_path):
    """The certificate of a convolution that reads a copy in another order in memory: its name is in no program."""
    n = Network((1, 4, 6, 6))
    before = n.conv("x", 6, 3)
    turned = n.sigmoid(before)
    model = n.model(n.sum(n.conv(turned, 5, 3), n.conv(turned, 5)))
    [node] = [node for node in model.graph.node if node.name == turned]
    node.CopyFrom(helper.make_node("Transpose", [before], [turned], name=turned, perm=perm))
    assert confirm(tmp_path, model.SerializeToString(), layout=layout) > 1000
    entries = json.loads((tmp_path / "m.cert.json").read_text())["nodes"]
    [first, *readers] = [entry for entry in entries if "x_range" in entry]
    assert len(readers) == 2
    assert all(len(low) == 6 for reader in readers for low in reader["x_range"])
    assert len(first["x_range"][0]) == 4
