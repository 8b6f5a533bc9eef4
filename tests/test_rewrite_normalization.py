"""Normalizations behind DequantizeLinear, and constants of QLinearConcat."""

from __future__ import annotations

import numpy as np
import pytest
from models import MICROSOFT, node_model
from qdq import A, B, C, Chain, kinds

import qcgen
from qcgen.reference import evaluate

GAMMA = np.linspace(-1, 2, 12).astype(np.float32)


def normalized(behind=None, quantized_scale=False):
    """Rows of 12; ``behind`` adds what reads the normalization."""
    chain = Chain()
    gamma = chain.constant("gamma", GAMMA)
    if quantized_scale:
        gamma = chain.weights("gamma_codes", np.arange(-6, 6).astype(np.int8), (np.float32(0.25), np.int8(1)))
    normal = chain.node("LayerNormalization", [chain.through("x", A), gamma], "normal")
    (behind or (lambda chain, normal: chain.through(normal, B, "y")))(chain, normal)
    return chain


def test_a_normalization_between_codes_is_one_operator():
    assert kinds(normalized().meant((2, 12), opset=17)) == ["Quantize", "LayerNorm", "Dequantize"]


def test_scales_of_a_normalization_may_be_quantized():
    program = normalized(quantized_scale=True).meant((2, 12), opset=17)
    assert np.array_equal(program.operators[1].scale, (np.arange(-6, 6) - 1) * np.float32(0.25))


def test_what_moves_codes_stands_behind_a_normalization_of_codes():
    def behind(chain, normal):
        chain.through(chain.node("Flatten", [normal], axis=1), B, "y")

    program = normalized(behind).meant((2, 3, 12), opset=17)
    assert kinds(program)[1:3] == ["LayerNorm", "Reshape"]


@pytest.mark.parametrize("opset", [17])
def test_a_normalization_that_floats_follow_is_exact_too(opset):
    model = normalized(lambda chain, normal: chain.node("Relu", [normal], "y")).model((4, 12), opset=opset)
    artifact = qcgen.compile(model.SerializeToString(), name="norm")
    x = np.random.default_rng(1).normal(0, 1, (4, 12)).astype(np.float32)
    found = artifact.load().run(None, {"x": x})[0]
    assert found.dtype == np.float32
    assert np.array_equal(found, evaluate(artifact.program, {"x": x})["y"])


def steps(square="Pow", *, bias=True, keepdims=1, other_axis=False):
    """A layer normalization step by step, between codes."""
    chain = Chain()
    x = chain.through("x", A)
    axes = [0] if other_axis else [-1]
    deviation = chain.node("Sub", [x, chain.node("ReduceMean", [x], axes=axes, keepdims=keepdims)], "deviation")
    factor = chain.constant("two", np.float32(2)) if square == "Pow" else deviation
    mean = chain.node("ReduceMean", [chain.node(square, [deviation, factor], "square")], axes=[1], keepdims=1)
    root = chain.node("Sqrt", [chain.node("Add", [mean, chain.constant("epsilon", np.float32(1e-4))])])
    y = chain.node("Mul", [chain.node("Div", [deviation, root]), chain.constant("gamma", GAMMA)])
    if bias:
        y = chain.node("Add", [chain.constant("beta", GAMMA[::-1].copy()), y])
    chain.through(y, B, "y")
    return chain


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("square", ["Pow", "Mul"])
def test_the_steps_of_a_normalization_are_one_operator(square, bias):
    program = steps(square, bias=bias).meant((2, 12))
    assert kinds(program)[1:-1] == ["LayerNorm"]
    normal = program.operators[1]
    assert np.array_equal(normal.scale, GAMMA)
    assert normal.epsilon == np.float32(1e-4)
    assert (normal.bias is not None) is bias


@pytest.mark.parametrize("other", [{"keepdims": 0}, {"other_axis": True}])
def test_steps_along_another_axis_are_no_layer_normalization(other):
    assert "LayerNorm" not in kinds(steps(**other).meant((12, 12)))


def joined(constant: bool):
    meaning = [np.asarray(C[0], np.float32), C[1], np.asarray(B[0], np.float32), np.array(7, np.int8)]
    part = np.arange(-100, 140, 20).astype(np.int8).reshape(1, 12)
    operands = {"y_scale": meaning[0], "y_zero": np.array(meaning[1]), "x": ("int8", (1, 3)), "x_scale": meaning[0]}
    operands |= {
        "x_zero": np.array(meaning[1]),
        "part": part if constant else ("int8", (1, 12)),
        "part_scale": meaning[2],
    }
    model = node_model("QLinearConcat", operands | {"part_zero": meaning[3]}, domain=MICROSOFT, axis=1)
    feeds = {"x": np.int8([[1, 2, -128]])} | ({} if constant else {"part": part})
    return qcgen.compile(model.SerializeToString(), name="joined").load().run(None, feeds)[0]


def test_constant_codes_are_joined_as_computed_ones_are():
    assert np.array_equal(joined(constant=True), joined(constant=False))
