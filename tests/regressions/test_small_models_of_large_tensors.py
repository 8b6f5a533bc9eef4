"""A model of a few hundred bytes asked for gigabytes of constants, or for intervals of millions of channels."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from fuzz.__main__ import children, compiling
from fuzz.operators import CODES, ONE, TWO, ints, scale, zero
from fuzz.trial import Accepted, Rejected
from models import MICROSOFT, conv_integer, graph_model, node_model, qlinear_conv
from onnx import helper

import qcgen


def constant(*nodes, **constants):
    """Nodes that compute a constant "c" of constants; it is added to an input of one element."""
    add = helper.make_node("Add", ["x", "c"], ["y"], name="add")
    made = [
        helper.make_node(op_type, inputs, outputs, name=outputs[0], **more) for op_type, inputs, outputs, more in nodes
    ]
    return graph_model([*made, add], {"x": ("float", (1,))}, {"y": None}, constants)


def doubled(times):
    """A constant of two elements, joined with itself again and again."""
    names = ["a", *(f"t{i}" for i in range(times - 1)), "c"]
    nodes = [("Concat", [one] * 2, [other], {"axis": 0}) for one, other in pairwise(names)]
    return constant(*nodes, a=scale([1, 2]))


def negated(times):
    """A large constant, and as many copies of it."""
    names = ["t", *(f"t{i}" for i in range(times - 1)), "c"]
    nodes = [("Neg", [one], [other], {}) for one, other in pairwise(names)]
    return constant(("ConstantOfShape", ["s"], ["t"], {}), *nodes, s=ints(2**23))


VECTOR = scale(np.zeros(2**10))

CONSTANTS = {
    "ConstantOfShape": constant(("ConstantOfShape", ["s"], ["c"], {}), s=ints(2**20, 2**10)),
    "a shape beyond int64": constant(("ConstantOfShape", ["s"], ["c"], {}), s=ints(2**40, 2**40)),
    "Expand": constant(("Expand", ["a", "s"], ["c"], {}), a=scale(1), s=ints(2**15, 2**15)),
    "Pad": constant(("Pad", ["a", "p"], ["c"], {}), a=scale([1]), p=ints(2**29, 2**29)),
    "Concat": doubled(30),
    "Gather": constant(("Gather", ["a", "i"], ["c"], {}), a=scale(np.zeros((1, 2**10))), i=ints(*[0] * 2**12)),
    "an outer sum": constant(
        ("Gather", ["a", "i"], ["b"], {}),
        ("Reshape", ["b", "s"], ["d"], {}),
        ("Unsqueeze", ["d", "o"], ["e"], {}),
        ("Add", ["d", "e"], ["c"], {}),
        a=VECTOR[None],
        i=ints(*[0] * 2**6),
        s=ints(-1),
        o=ints(1),
    ),
    "many copies": negated(40),
}


@pytest.fixture
def outcome(tmp_path):
    """What comes of a model in a process with limits."""

    def tried(model):
        content = model.SerializeToString()
        [found] = children([0], compiling(lambda _: (content, {})), tmp_path / "log")
        return found

    return tried


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_that_is_much_larger_than_the_model_is_refused(name, outcome):
    assert isinstance(outcome(CONSTANTS[name]), Rejected)
    with pytest.raises(qcgen.ModelRejected) as rejection:
        qcgen.compile(CONSTANTS[name])
    [problem] = rejection.value.problems
    assert "all constants together may have" in problem.what


LONG = 2**22
SQUARE = (1, 2, 2000, 2000)
PARAMETERS = {key: value for key, value in ONE.items() if key != "X"}


def one(op_type, shape, **attributes):
    return node_model(op_type, {"X": ("uint8", shape), **PARAMETERS}, domain=MICROSOFT, **attributes)


def chain(op_type, times, shape, extra=(), **attributes):
    """An operator of codes again and again."""
    names = ["x", *(f"t{i}" for i in range(times))]
    constants = {f"c{i}": value for i, value in enumerate(extra)}
    nodes = [helper.make_node(op_type, [a, *constants], [b], name=b, **attributes) for a, b in pairwise(names)]
    return graph_model(nodes, {"x": ("int8", shape)}, {names[-1]: None}, constants)


SMALL = {
    "many channels of a sum": node_model("QLinearAdd", {**TWO, "A": ("int8", (1, LONG, 1, 5))}, domain=MICROSOFT),
    "many channels of a mean": one("QLinearGlobalAveragePool", (1, LONG, 2, 2)),
    "many channels of a pool": one("QLinearAveragePool", (1, LONG, 2, 2), kernel_shape=[2, 2], pads=[1, 1, 1, 1]),
    "a large window": one("QLinearAveragePool", SQUARE, kernel_shape=[2000, 2000], pads=[999] * 4),
    "a large window of a maximum": node_model(
        "MaxPool", {"X": ("int8", SQUARE)}, kernel_shape=[2000, 2000], pads=[999] * 4
    ),
    "many windows": node_model("MaxPool", {"X": ("int8", (1, 1, 2**22))}, kernel_shape=[1000]),
    "far padding of a sum": conv_integer((1, 1, 4, 4), np.ones((1, 1, 2, 2), np.int8), pads=[10**6, 0, 10**6, 0]),
    "far padding": qlinear_conv((1, 1, 4, 4), np.ones((1, 1, 2, 2), np.int8), pads=[10**4] * 4, dilations=[99, 99]),
    "a large Transpose": chain("Transpose", 40, (1, 2**11, 2**11, 2**6), perm=[0, 3, 1, 2]),
    "a large Reshape": chain("Reshape", 40, (1, 2**11, 2**11), [ints(2**11, -1)]),
    "a large Pad": node_model("Pad", {**CODES, "pads": ints(0, 0, 2**20, 0, 0, 0, 2**20, 2**4)}),
    "a large Resize": node_model("Resize", {**CODES, "r": None, "s": scale([1, 1, 2**20, 2**4])}, mode="nearest"),
    "a large Slice": node_model("Slice", {"X": ("int8", (1, LONG, 2**6)), "s": ints(1), "e": ints(LONG), "a": ints(1)}),
    "a large Concat": chain("Concat", 1, (1, LONG), axis=0),
    "a long Softmax": one("QLinearSoftmax", (1, LONG), axis=1),
    "a long float Softmax": node_model("Softmax", {"X": ("float", (1, LONG))}, axis=1),
    "a large table": one("QLinearSigmoid", (2**10, 2**18)),
    "a large input": node_model("QuantizeLinear", {"X": ("float", (2**28,)), "s": scale(), "z": zero()}),
}


@pytest.mark.parametrize("name", SMALL)
def test_large_tensors_take_neither_much_memory_nor_much_time(name, outcome):
    assert isinstance(outcome(SMALL[name]), Accepted | Rejected)
