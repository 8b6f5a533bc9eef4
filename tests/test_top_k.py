"""TopK and GatherElements: against onnxruntime's outputs, in every bit, with equal elements."""

from __future__ import annotations

import numpy as np
import pytest
from batch import require
from judged import assert_judged, judge
from models import graph_model, problems
from onnx import helper
from qdq import A, Chain, kinds

import qcgen
from qcgen.reference import evaluate


def top_k(shape, k, *, outputs=("y", "places"), opset=13, **attributes):
    node = helper.make_node("TopK", ["x", "k"], list(outputs), name="top", **attributes)
    constants = {"k": np.array([k])}
    return graph_model(
        [node], {"x": ("float", shape)}, {name: None for name in outputs if name}, constants, opset=opset
    )


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(
    ("shape", "axis", "k"), [((2, 30), -1, 5), ((3, 17, 4), 1, 17), ((3, 17, 4), 0, 1), ((9,), 0, 9)]
)
def test_the_best_elements_and_their_places_are_onnxruntimes(shape, axis, k, largest):
    xs = [np.random.default_rng(seed).integers(-4, 4, shape).astype(np.float32) for seed in range(4)]
    assert_judged(top_k(shape, k, axis=axis, largest=largest), *({"x": x} for x in xs))


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("k", [1, 4, 12])
def test_nan_is_the_largest_as_in_onnxruntime(k, largest):
    require("gcc")
    model = top_k((6, 12), k, largest=largest)
    artifact = qcgen.compile(model, name="net")
    random = np.random.default_rng(k)
    x = random.integers(-4, 4, (6, 12)).astype(np.float32)
    x[random.random(x.shape) < 0.3] = np.nan
    x[0], x[1, :2] = np.nan, [np.inf, -np.inf]
    reference = evaluate(artifact.program, {"x": x})
    for name, found, wanted in zip(
        ("y", "places"), artifact.load().run(None, {"x": x}), judge(model, {"x": x}), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(reference[name], wanted)


def test_an_order_of_onnxruntimes_own_is_refused():
    problem = refusal(top_k((2, 6), 2, sorted=0))
    assert (problem.what, problem.hint) == (
        "sorted is 0: onnxruntime gives them in an order of its own",
        "export it with sorted=1",
    )
    assert kinds(qcgen.compile(top_k((2, 6), 1, sorted=0), name="net").program) == ["TopK", "GatherElements"]


@pytest.mark.parametrize(("outputs", "expected"), [(("y",), ["TopK", "GatherElements"]), (("", "places"), ["TopK"])])
def test_what_nothing_reads_is_not_computed(outputs, expected):
    assert kinds(qcgen.compile(top_k((2, 6), 2, outputs=outputs), name="net").program) == expected


@pytest.mark.parametrize(
    ("meaning", "expected"),
    [
        (A, ["Quantize", "TopK", "GatherElements", "Dequantize"]),
        ((1e38, np.uint8(3)), ["Quantize", "Dequantize", "TopK", "GatherElements"]),
    ],
    ids=["numbers apart", "numbers that are infinite"],
)
def test_codes_are_compared_where_they_are_numbers_apart(meaning, expected):
    chain = Chain()
    chain.nodes.append(
        helper.make_node("TopK", [chain.through("x", meaning), chain.constant("k", [3])], ["y", "places"])
    )
    model = chain.model((2, 8), ("y", "places"))
    x = np.linspace(-1, 2, 16).reshape(2, 8).astype(np.float32)
    assert kinds(assert_judged(model, {"x": x}, named=None, exact=True).program) == expected


@pytest.mark.parametrize("constant", [None, "x", "places"])
@pytest.mark.parametrize(
    ("shape", "places", "axis"), [((3, 5, 4), (2, 7, 3), 1), ((3, 5, 4), (3, 5, 4), 0), ((2, 9), (1, 3), -1)]
)
def test_elements_at_computed_places_are_onnxruntimes(shape, places, axis, constant):
    generator = np.random.default_rng(7)
    feeds = {
        "x": generator.normal(size=shape).astype(np.float32),
        "places": generator.integers(-shape[axis], shape[axis], places),
    }
    types = {"x": ("float", shape), "places": ("int64", places)}
    constants = {constant: feeds.pop(constant)} if constant else {}
    node = helper.make_node("GatherElements", ["x", "places"], ["y"], axis=axis)
    inputs = {name: spec for name, spec in types.items() if name in feeds}
    assert_judged(graph_model([node], inputs, {"y": None}, constants), feeds)


def refusal(model):
    [problem] = problems(qcgen.compile, model)
    return problem


@pytest.mark.parametrize("k", [0, 7])
def test_more_than_there_is_cannot_be_found(k):
    problem = refusal(top_k((2, 6), k))
    assert problem.what == f"it looks for {k} of 6 elements"
    assert problem.hint == "give a constant K from 1 to 6"


def test_how_many_are_found_must_be_constant():
    node = helper.make_node("TopK", ["x", "k"], ["v", "y"], name="best")
    model = graph_model([node], {"x": ("float", (1, 9)), "k": ("int64", (1,))}, {"v": None, "y": None}, opset=13)
    assert [problem.what for problem in problems(qcgen.compile, model)] == [
        "K is not constant: it is the model's input 'k'"
    ]


@pytest.mark.parametrize(
    ("places", "what"),
    [
        (np.array([[0, 6]]), "it takes element 6 of axis 1, which has 6 elements"),
        (np.zeros((3, 1), np.int64), "indices have shape (3, 1), the data (2, 6)"),
        (np.zeros(2, np.int64), "indices have shape (2,), the data (2, 6)"),
    ],
)
def test_places_that_are_not_there_are_refused(places, what):
    node = helper.make_node("GatherElements", ["x", "places"], ["y"], axis=1)
    assert refusal(graph_model([node], {"x": ("float", (2, 6))}, {"y": None}, {"places": places})).what == what
