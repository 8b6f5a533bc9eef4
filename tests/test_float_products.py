"""Products of two float32 matrices: against onnxruntime's outputs, of every kind of operands, in a chain."""

import numpy as np
import pytest
from batch import require
from models import node_model
from onnx import TensorProto, helper, numpy_helper

import qcgen
from qcgen.kernels.portable.matmul_float import chunk_of
from qcgen.reference.tolerance import RELATIVE, tolerances
from qcgen.verification import verify

SHAPES = {
    "matrices": ((3, 4), (4, 2)),
    "batches": ((2, 3, 4), (2, 4, 5)),
    "broadcast": ((2, 1, 3, 4), (7, 4, 5)),
    "a row": ((4,), (2, 4, 5)),
    "a column": ((2, 3, 4), (4,)),
    "vectors": ((4,), (4,)),
    "one batch": ((1, 3, 4), (1, 4, 5)),
    "many terms": ((2, 130), (130, 3)),
}


def product(shapes, constant=()):
    """A MatMul and its inputs; the operands in ``constant`` are constants of the model."""
    draw = np.random.RandomState(5)
    values = {name: draw.normal(size=shape).astype(np.float32) for name, shape in zip("ab", shapes, strict=True)}
    operands = {name: value if name in constant else ("float", value.shape) for name, value in values.items()}
    return node_model("MatMul", operands), values


@pytest.mark.parametrize("constant", ["", "a", "b"])
@pytest.mark.parametrize("name", SHAPES)
def test_products_are_those_of_numpy(name, constant):
    require("gcc")
    model, values = product(SHAPES[name], constant)
    feeds = {each: value for each, value in values.items() if each not in constant}
    [y] = qcgen.compile(model, name="net").load().run(None, feeds)
    a, b = values["a"].astype(np.float64), values["b"].astype(np.float64)
    assert y.shape == np.matmul(a, b).shape
    assert (np.abs(y - np.matmul(a, b)) <= RELATIVE * np.matmul(np.abs(a), np.abs(b))).all()


def test_a_product_is_onnxruntimes():
    """1.32.0, inputs k / 7 and k / 5 rounded to float32."""
    require("gcc")
    model, _ = product(((2, 1, 3), (2, 3, 1)))
    a, b = (np.arange(-2, 4).astype(np.float32) / np.float32(by) for by in (7, 5))
    [y] = qcgen.compile(model, name="net").load().run(None, {"a": a.reshape(2, 1, 3), "b": b.reshape(2, 3, 1)})
    assert np.abs(y.reshape(-1) - np.float32([0.1428571492433548, 0.40000003576278687])).max() <= 1e-7


def test_a_product_passes_verify_and_a_wrong_one_does_not(monkeypatch):
    require("gcc")
    model, _ = product(((2, 3, 70), (2, 70, 5)))
    assert verify(qcgen.compile(model, name="net"), sums=False).is_right
    chunked = chunk_of(70)
    monkeypatch.setattr("qcgen.kernels.portable.matmul_float.chunk_of", lambda _: chunked)
    monkeypatch.setattr("qcgen.kernels.products.MatMul.terms", 70 - chunked)
    assert not verify(qcgen.compile(model, name="net"), sums=False).is_right


@pytest.mark.parametrize("terms", [1, 2, 64, 65, 66, 100, 4097])
def test_chunks_leave_few_additions(terms):
    chunk = chunk_of(terms)
    assert 1 <= chunk <= terms
    assert chunk + -(-terms // chunk) <= max(65, 2.2 * terms**0.5 + 2)


def test_a_product_may_be_off_by_what_its_operands_are_off():
    """Where terms of 1e8 cancel, so that a sum is off by more than 1, the products with it are, too."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["sum"]),
        helper.make_node("MatMul", ["sum", "z"], ["y"]),
    ]
    values = {"x": (1, 2), "z": (1, 1)}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in values.items()]
    w = numpy_helper.from_array(np.float32([[1e8], [-1e8]]), "w")
    graph = helper.make_graph(nodes, "net", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [w])
    program = qcgen.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)).program
    sums = {"x": np.float32([[3, 3]]), "z": np.float32([[2]]), "sum": np.float32([[0]]), "y": np.float32([[0]])}
    allowed = tolerances(program, sums)
    assert allowed["y"][0, 0] >= 2 * allowed["sum"][0, 0] >= 2 * 6000
