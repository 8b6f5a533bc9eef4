"""Selecting one node of a model."""

from pathlib import Path

import numpy as np
import pytest
from models import graph_model, problems
from onnx import helper
from qdq import A, B, Chain

import qcgen
from qcgen.check import check
from qcgen.ir.types import DType
from qcgen.load import load
from qcgen.lower import lower
from qcgen.parts import select_node
from qcgen.rewrite import rewrite

MODELS = Path(__file__).resolve().parents[2] / "shared" / "models"


def two_convolutions():
    """x -> conv_a -> relu -> conv_b -> y, float, with weights behind an Identity; inner tensors undeclared."""
    rng = np.random.default_rng(1)
    constants = {"w1": rng.random((3, 2, 3, 3), np.float32), "w2": rng.random((4, 3, 1, 1), np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="conv_a"),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Identity", ["w2"], ["w"], name="weights"),
        helper.make_node("Conv", ["b", "w"], ["y"], name="conv_b"),
    ]
    return rewrite(load(graph_model(nodes, {"x": ("float", (1, 2, 6, 6))}, {"y": None}, constants)))


def test_a_node_in_the_middle_becomes_a_graph_of_its_own():
    graph = select_node(two_convolutions(), "conv_b")
    assert [node.name for node in graph.nodes] == ["conv_b"]
    assert graph.inputs == ("b",)
    assert graph.outputs == ("y",)
    assert graph.value("b").dtype is DType.FLOAT32
    assert graph.value("b").shape == (1, 3, 4, 4)
    assert set(graph.constants) == {"w"}
    assert check(graph) is graph
    assert lower(graph).operators[0].y.shape == (1, 4, 4, 4)


def test_a_tensor_that_is_read_twice_is_one_input():
    nodes = [helper.make_node("Add", ["x", "x"], ["y"], name="double")]
    graph = load(graph_model(nodes, {"x": ("float", (2,))}, {"y": None}))
    assert select_node(graph, "double").inputs == ("x",)


def test_absent_inputs_and_outputs_are_none():
    nodes = [helper.make_node("Clip", ["x", "", "h"], ["y", ""], name="clip")]
    graph = load(graph_model(nodes, {"x": ("float", (2,)), "h": ("float", ())}, {"y": None}))
    selected = select_node(graph, "clip")
    assert selected.inputs == ("x", "h")
    assert selected.outputs == ("y",)


def test_an_unknown_name_is_refused_with_names_that_are_close():
    [problem] = problems(select_node, two_convolutions(), "conv_c")
    assert problem.where == "node 'conv_c'"
    assert problem.what == "the model has no node of this name"
    assert problem.hint == "did you mean 'conv_b' or 'conv_a'? the model's convolutions are 'conv_a', 'conv_b'"


def test_an_unknown_name_in_a_model_without_convolutions_is_refused():
    graph = load(graph_model([helper.make_node("Relu", ["x"], ["y"])], {"x": ("float", (2,))}, {"y": None}))
    assert problems(select_node, graph, "zzzzz")[0].hint == "the model's nodes are 'Relu_0'"


@pytest.mark.parametrize(
    "path", sorted(MODELS.glob("*_q*op*.onnx")) or [None], ids=lambda path: path.stem if path else "none"
)
def test_every_convolution_of_real_networks_can_be_taken_out_and_compiled(path):
    if path is None:
        pytest.skip("the models are not there: no directory shared/models beside the repository")
    graph = rewrite(load(path))
    for node in graph.nodes:
        if node.op_type == "QLinearConv":
            program = lower(check(select_node(graph, node.name)))
            assert program.inputs[0].name == node.inputs[0]
            assert program.outputs[0].shape == graph.value(node.outputs[0]).shape


def test_of_many_convolutions_three_are_named():
    nodes = [helper.make_node("Conv", ["x", "w"], [f"y{i}"], name=f"conv{i}") for i in range(50)]
    weights = {"w": np.ones((1, 1, 1, 1), np.float32)}
    model = graph_model(nodes, {"x": ("float", (1, 1, 2, 2))}, {f"y{i}": None for i in range(50)}, weights)
    [problem] = problems(select_node, load(model), "strange")
    assert problem.hint == "the model's convolutions are 'conv0', 'conv1', 'conv2' and 47 more"


@pytest.mark.parametrize("behind", [True, False])
def test_a_layer_between_codes_is_taken_out_with_the_codes_that_it_reads_and_writes(behind):
    chain = Chain()
    mean = chain.node("ReduceMean", [chain.through("x", A)], "mean", axes=[1])
    chain.node("Softmax", [chain.through(mean, B) if behind else mean], "y")
    model = chain.model((2, 3, 4))
    artifact = qcgen.compile(model, name="net", node="mean_node")
    assert [op.op_type for op in artifact.program.operators] == ["ReduceMean"]
    types = {tensor.dtype for tensor in (artifact.program.inputs[0], artifact.program.outputs[0])}
    assert types == ({DType.UINT8} if behind else {DType.FLOAT32})


def test_inputs_of_a_node_between_codes_are_in_the_order_of_its_operands():
    chain = Chain()
    first, second = chain.quantize("x", A, "first"), chain.quantize("x", B, "second")
    a, b = chain.dequantize(first, A, "a"), chain.dequantize(second, B, "b")
    chain.through(chain.node("Mul", [b, a], "r"), B, "y")
    artifact = qcgen.compile(chain.model((1, 4)), node="r_node")
    assert [tensor.name for tensor in artifact.program.inputs] == ["second", "first"]
