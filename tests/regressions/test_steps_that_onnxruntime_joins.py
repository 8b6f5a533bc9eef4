"""Float steps that onnxruntime joins: the C gives the joined step's numbers, or says that it may not."""

from __future__ import annotations

import numpy as np
import pytest
from batch import require
from judged import assert_judged, judge, optimized
from models import graph_model
from onnx import ModelProto, helper
from qdq import Chain, f32

import qcgen

# onnxruntime joins a float MatMul with the factor, or the row, behind it: FusedMatMul and Gemm.
#
# A divisor became a factor there, and here not: 318 of 1,000 results differed. Products of many terms are summed in
# parts, each of which is scaled and added to the row at once: up to 603 of 1,000 differed. Both were claimed bit for
# bit.
FEW, MANY = 64, 300
BEHIND = ("Add", "Div", "Mul")


def product_and_more(behind: str, terms: int, rank: int) -> ModelProto:
    made, batch = Chain(), (2,) * (rank - 2)
    product = made.node("MatMul", ["a", "b"])
    inputs = {"a": ("float", (*batch, 5, terms)), "b": ("float", (*batch, terms, 200))}
    if behind == "Add":
        inputs["c"] = ("float", (200,))
        made.node("Add", [product, "c"], "y")
    else:
        made.node(behind, [product, made.constant("s", f32(0.3 if behind == "Mul" else 5.3))], "y")
    return graph_model(made.nodes, inputs, {"y": None}, made.constants, opset=13)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("terms", [FEW, MANY])
@pytest.mark.parametrize("behind", BEHIND)
def test_a_product_with_what_is_behind_it_is_onnxruntimes_or_named(behind, terms, rank, tmp_path):
    require("gcc")
    model, rng = product_and_more(behind, terms, rank), np.random.default_rng(4)
    is_joined = behind != "Add" or rank == 2
    assert ("MatMul" not in optimized(model, tmp_path)) == is_joined
    artifact = qcgen.compile(model, name="net")
    feeds = {x.name: rng.normal(size=x.shape).astype(np.float32) for x in artifact.program.inputs}
    [got], [wanted] = artifact.load().run(None, feeds), judge(model, feeds)
    assert np.allclose(got, wanted, rtol=1e-5, atol=1e-4)
    is_named = terms == MANY
    assert bool(artifact.report.inexact) == is_named
    assert is_named or np.array_equal(got, wanted)


# Float steps that onnxruntime joins into one that rounds otherwise: the C gives the joined step's numbers.
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
    nodes = []
    for step in STEPS[name]:
        y, op_type, *inputs = step.split()
        nodes.append(helper.make_node(op_type, inputs, [y]))
    shapes = {each: ("float", (16, 16)) for each in "xz" if any(each in node.input for node in nodes)}
    used = {each: value for each, value in CONSTANTS.items() if any(each in node.input for node in nodes)}
    model = graph_model(nodes, shapes, {"y": None}, used, opset=13)
    is_exact = "weights" not in name
    assert_judged(model, flags="-O0", named=False if is_exact else None, exact=is_exact, tolerance=1e-4)


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
