"""Where by a comparison of float32 numbers: against onnxruntime's outputs, in every bit."""

import numpy as np
import pytest
from batch import require
from models import graph_model
from onnx import helper
from qdq import kinds, meaning_of

import qcgen
from qcgen.compiler import read

A = np.float32([0, -0.0, 3, np.nan, np.inf, -np.inf, 2])
B = np.float32([0, 0, 2, 1, np.inf, 1, np.nan])
RECORDED = {
    "Greater": "0010000",
    "GreaterOrEqual": "1110100",
    "Less": "0000010",
    "LessOrEqual": "1100110",
    "Equal": "1100100",
}
"""Where onnxruntime 1.32.0 takes X."""


def model(nodes, shapes, constants=()):
    stored = {name: np.asarray(value, np.float32) for name, value in dict(constants).items()}
    return graph_model(nodes, {name: ("float", shape) for name, shape in shapes.items()}, {"y": None}, stored, opset=16)


@pytest.mark.parametrize("with_not", [False, True])
@pytest.mark.parametrize("comparison", RECORDED)
def test_a_comparison_chooses_as_in_onnxruntime(comparison, with_not):
    require("gcc")
    nodes = [helper.make_node(comparison, ["a", "b"], ["is"]), helper.make_node("Not", ["is"], ["is_not"])]
    nodes = [*nodes[: 1 + with_not], helper.make_node("Where", ["is_not" if with_not else "is", "c", "d"], ["y"])]
    net = model(nodes, {"a": (7,), "b": (7,)}, {"c": 1, "d": 0})
    [y] = qcgen.compile(net, name="net").load().run(None, {"a": A, "b": B})
    assert y.tolist() == [float(digit) != float(with_not) for digit in RECORDED[comparison]]


WORDS = np.uint32([0, 2**31, 0x7FC00000, 0xFFC00000, 0x7F800000, 0xFF800000, 1, 2**31 + 1, 0x3F800000, 0x7F7FFFFF])
"""Float32 numbers: both zeros, NaNs, infinities, subnormals, 1 and the largest."""


@pytest.mark.parametrize("constant", ["", "c", "d"])
@pytest.mark.parametrize("with_not", [False, True])
def test_what_is_chosen_is_onnxruntimes_in_every_bit(with_not, constant):
    """Where of onnxruntime 1.32.0 takes Y's place, 0 where the condition holds, if X is a zero: -0 of X becomes 0."""
    require("gcc")
    nodes = [helper.make_node("Greater", ["a", "b"], ["is"]), helper.make_node("Not", ["is"], ["is_not"])]
    nodes = [*nodes[: 1 + with_not], helper.make_node("Where", ["is_not" if with_not else "is", "c", "d"], ["y"])]
    words = WORDS[np.isfinite(WORDS.view(np.float32))] if constant else WORDS  # others are refused
    c, d = (np.ascontiguousarray(part).view(np.float32) for part in np.broadcast_arrays(words[:, None], words[::-1]))
    a = (np.indices(c.shape).sum(axis=0) % 2).astype(np.float32)
    shapes, chosen = {"a": c.shape, "c": c.shape, "d": c.shape}, {"c": c, "d": d}
    constants = {"b": 0.5, **{name: chosen.pop(name) for name in constant}}
    net = model(nodes, {name: shape for name, shape in shapes.items() if name not in constant}, constants)
    [y] = qcgen.compile(net, name="net").load().run(None, {"a": a, **chosen})
    expected = np.where((a > 0.5) != with_not, np.where(c == 0, np.float32(0), c), d)
    assert np.array_equal(y.view(np.uint32), expected.view(np.uint32))


def test_operands_are_broadcast_and_one_may_be_read_twice():
    require("gcc")
    nodes = [helper.make_node("Greater", ["x", "b"], ["is"]), helper.make_node("Where", ["is", "x", "d"], ["y"])]
    net = model(nodes, {"x": (2, 3), "d": (1, 3)}, {"b": [[0.5], [-1]]})
    x, d = np.float32([[0, 1, 2], [-3, -1, 0]]), np.float32([[7, 8, 9]])
    [y] = qcgen.compile(net, name="net").load().run(None, {"x": x, "d": d})
    assert y.tolist() == [[7, 1, 2], [7, 8, 0]]


def test_one_comparison_may_choose_several_times():
    nodes = [
        helper.make_node("Less", ["x", "b"], ["is"]),
        helper.make_node("Where", ["is", "x", "b"], ["low"]),
        helper.make_node("Where", ["is", "b", "low"], ["y"]),
    ]
    graph = read(model(nodes, {"x": (2, 3)}, {"b": 0.5}))
    assert kinds(meaning_of(graph)) == ["Select", "Select"]
