"""If: a branch is taken when the model is compiled, or both are computed and one is chosen, as onnxruntime has it."""

from __future__ import annotations

import numpy as np
import pytest
from judged import assert_judged
from models import graph_model, problems
from onnx import TensorProto, helper, numpy_helper

import qcgen

SHAPE = (2, 3)


def branch(*nodes, gives=("r",), constants=()):
    """A graph without inputs; what it gives has any shape."""
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in gives]
    stored = [numpy_helper.from_array(np.asarray(array), name) for name, array in dict(constants).items()]
    return helper.make_graph(list(nodes), "branch", [], outputs, stored)


def choice(then, other, condition="is", outputs=("y",), name="choice"):
    return helper.make_node("If", [condition], list(outputs), name=name, then_branch=then, else_branch=other)


def node(op_type, inputs, output, **attributes):
    return helper.make_node(op_type, inputs.split(), [output], **attributes)


DOUBLED = branch(node("Add", "x x", "r"))
HALVED = branch(node("Mul", "x half", "r"), constants={"half": np.float32(0.5)})
LARGEST = (
    node("ReduceMax", "x", "most", keepdims=0),
    node("Greater", "most limit", "is"),
)
LIMIT = {"limit": np.float32(1)}
OF_RANK = (
    node("Shape", "x", "sizes"),
    node("Gather", "sizes last", "size"),
    node("Equal", "size three", "is"),
)
"""As PyTorch asks whether an axis has one element before it squeezes that."""


def compiled(nodes, constants, outputs=("y",)):
    model = graph_model(list(nodes), {"x": ("float", SHAPE)}, dict.fromkeys(outputs), constants, opset=16)
    return model, qcgen.compile(model.SerializeToString(), name="net")


def assert_equal(model):
    """The C gives what onnxruntime gives, on either side of the condition."""
    xs = [np.float32([[most, -2, 0.25], [-3, -1.5, most - 1]]) for most in (-1, 0.5, 1, 1.5, 4)]
    assert_judged(model, *({"x": x} for x in xs), named=None, exact=True)


def nested():
    inner = branch(choice(DOUBLED, HALVED, "small", ("r",), "inner"), gives=("r",))
    return choice(branch(node("Neg", "x", "r")), inner)


@pytest.mark.parametrize(
    "node_",
    [choice(DOUBLED, HALVED), choice(HALVED, DOUBLED), nested()],
    ids=["then first", "else first", "nested"],
)
def test_both_branches_are_computed_and_one_is_chosen(node_):
    small = node("Less", "most limit", "small")
    model, artifact = compiled((*LARGEST, small, node_), LIMIT)
    assert_equal(model)
    assert "node 'choice' (If): both branches are computed, then one is chosen" in artifact.notes


def test_each_output_is_chosen():
    then = branch(node("Abs", "x", "a"), node("Exp", "x", "b"), gives=("a", "b"))
    stored = {"b": np.full(SHAPE, 0.25, np.float32)}
    other = branch(node("Neg", "x", "a"), gives=("a", "b"), constants=stored)
    assert_equal(compiled((*LARGEST, choice(then, other, outputs=("y", "z"))), LIMIT, ("y", "z"))[0])


@pytest.mark.parametrize("three", [3, 1])
def test_a_branch_is_taken_where_the_condition_is_known(three):
    """Their shapes differ, and the other one could not be computed."""
    then = branch(node("Reshape", "x flat", "r"), constants={"flat": np.array([-1], np.int64)})
    other = branch(node("Reshape", "x five", "r"), constants={"five": np.array([5], np.int64)})
    nodes = (*OF_RANK, choice(*((then, other) if three == 3 else (other, then))))
    model, artifact = compiled(nodes, {"last": np.array(1), "three": np.array(three)})
    assert_equal(model)
    assert artifact.program.outputs[0].shape == (6,)
    assert not artifact.notes


def test_names_in_branches_are_those_of_no_other_tensor():
    then = branch(node("Add", "x x", "t"), node("Add", "t t", "r"))
    other = branch(node("Sub", "x limit", "t"), node("Mul", "t t", "r"))
    model, _ = compiled(
        (*LARGEST, node("Relu", "x", "y.t"), choice(then, other, outputs=("c",)), node("Add", "c y.t", "y")), LIMIT
    )
    assert_equal(model)


def refused(node_, constants=None):
    return problems(compiled, (*LARGEST, node_), LIMIT | (constants or {}))[0]


@pytest.mark.parametrize(
    "node_",
    [
        choice(DOUBLED, branch(node("Reshape", "x flat", "r"), constants={"flat": np.array([-1])})),
        choice(branch(node("Shape", "x", "r")), branch(node("Shape", "x", "r"))),
        helper.make_node("If", ["is"], ["y"], name="choice", then_branch=DOUBLED),
        helper.make_node("If", ["is"], ["y"], name="choice"),
        choice(branch(node("Neg", "x", "r"), node("Abs", "x", "s"), gives=("r", "s")), DOUBLED),
    ],
    ids=["two shapes", "int64", "one branch", "no branch", "two outputs"],
)
def test_what_cannot_be_chosen_is_refused_in_words(node_):
    problem = refused(node_)
    assert (problem.where, problem.what) == ("node 'choice' (If)", "the operator If is not supported")
    assert "with outputs" in problem.hint


def test_an_operator_of_a_branch_that_is_not_supported_is_the_only_problem():
    [problem] = problems(compiled, (*LARGEST, choice(branch(node("Hardmax", "x", "r")), DOUBLED)), LIMIT)
    assert problem.what == "the operator Hardmax is not supported"
