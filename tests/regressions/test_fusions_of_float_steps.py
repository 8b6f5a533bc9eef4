"""Float steps that onnxruntime joins into one that rounds otherwise: the C gives the joined step's numbers."""

import numpy as np
import pytest
from batch import require
from judged import judge
from models import graph_model
from onnx import helper

import qcgen

CONSTANTS = {"one": np.float32(1), "ones": np.float32([[1]]), "k": np.float32(0.3), "h": np.float32(1.7)}
CONSTANTS |= {
    "kk": np.float32([[0.3]]),
    "vector": np.float32(range(16)),
    "w": np.random.default_rng(5).normal(size=(16, 16)).astype(np.float32),
}
STEPS = {
    "1 / a, times x": ["a Abs x", "r Div one a", "y Mul r x"],
    "x times 1 / a": ["a Abs x", "r Div ones a", "y Mul x r"],
    "1 / a, times a number": ["r Div one x", "y Mul r k"],
    "1 / a, times x and a number": ["r Div one x", "s Mul r k", "y Mul s x"],
    "1 / a, read twice": ["r Div one x", "s Mul r k", "y Mul s r"],
    "1 / a, times itself": ["r Div one x", "y Mul r r"],
    "1 / a, the same, times x": ["r Div one x", "s Identity r", "y Mul s x"],
    "h / a": ["r Div h x", "y Mul r x"],
    "a product, divided": ["p MatMul x z", "y Div p k"],
    "a product, the same, divided": ["p MatMul x z", "q Identity p", "y Div q k"],
    "a product, scaled twice": ["p MatMul x z", "q Mul p k", "y Mul q h"],
    "a product, scaled and divided": ["p MatMul x z", "q Mul kk p", "y Div q h"],
    "a product, divided for two": ["p MatMul x z", "q Div p k", "r Div p h", "y Add q r"],
    "operands scaled for two": ["q Mul x k", "p MatMul q z", "y Sub p q"],
    "a scaled operand and an addend": ["q Mul x k", "p MatMul q z", "y Add p x"],
    "a scaled operand and a vector": ["q Mul x k", "p MatMul z q", "y Add vector p"],
    "a scaled operand and a number": ["q Mul x k", "p MatMul z q", "y Add k p"],
    "a scaled operand and a number in a matrix": ["q Mul x k", "p MatMul z q", "y Add p kk"],
    "the square of a quotient": ["q Div x h", "y MatMul q q"],
    "a product of a scaled product": ["p MatMul x z", "q Div p k", "y MatMul q z"],
    "all of them": ["a Mul x k", "b Mul a h", "p MatMul b a", "q Div p h", "y Mul q k"],
    "a number divided by a product": ["p MatMul x z", "y Div k p"],
    "a scaled product of weights": ["v MatMul x w", "q Mul v k", "y MatMul q z"],
}


@pytest.mark.parametrize("name", STEPS)
def test_joined_steps_round_as_onnxruntimes(name):
    require("gcc")
    nodes = []
    for step in STEPS[name]:
        y, op_type, *inputs = step.split()
        nodes.append(helper.make_node(op_type, inputs, [y]))
    shapes = {each: ("float", (16, 16)) for each in "xz" if any(each in node.input for node in nodes)}
    used = {each: value for each, value in CONSTANTS.items() if any(each in node.input for node in nodes)}
    model = graph_model(nodes, shapes, {"y": None}, used, opset=13)
    rng = np.random.default_rng(1)
    feeds = {each: rng.normal(size=shape).astype(np.float32) for each, (_, shape) in shapes.items()}
    [expected] = judge(model, feeds)
    artifact = qcgen.compile(model, name="net")
    [found] = artifact.load(["-O0"]).run(None, feeds)
    if "weights" not in name:
        assert not artifact.report.inexact
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("step", ["y Mul p k", "y Div p k", "y Add p vector"])
def test_a_factor_or_an_addend_of_several_blocks_is_named(step):
    """onnxruntime's has part in each block of 128 terms."""
    name, op_type, *inputs = step.split()
    nodes = [helper.make_node("MatMul", ["x", "z"], ["p"]), helper.make_node(op_type, inputs, [name])]
    shapes = {"x": ("float", (16, 300)), "z": ("float", (300, 40))}
    other = {inputs[1]: np.float32(0.3) if inputs[1] == "k" else np.linspace(-1, 1, 40, dtype=np.float32)}
    model = graph_model(nodes, shapes, {"y": None}, other, opset=13)
    assert qcgen.compile(model, name="net").report.inexact


def test_an_operand_that_is_transposed_behind_a_factor_is_named():
    steps = ("Mul", ["x", "k"], "q"), ("Transpose", ["q"], "r"), ("MatMul", ["z", "r"], "y")
    nodes = [helper.make_node(op_type, inputs, [y]) for op_type, inputs, y in steps]
    model = graph_model(nodes, dict.fromkeys("xz", ("float", (16, 16))), {"y": None}, {"k": CONSTANTS["k"]}, opset=13)
    assert qcgen.compile(model, name="net").report.inexact
