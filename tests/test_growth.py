"""Compiling a network of four times as many nodes takes about four times as many steps."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from marks import share_at_first
from models import MICROSOFT, graph_model
from onnx import ModelProto, NodeProto, helper
from qdq import A, B, Chain

import qcgen

FEW, FACTOR = 40, 4
MOST = 1.35 * FACTOR  # a part that grew with the square would make it up to 16
SHAPE = (1, 2, 4, 4)


def row(op_type, count, inputs=(), names=True, **attributes) -> Iterator[NodeProto]:
    """Nodes one behind the other, from x to y."""
    tensors = ["x", *(f"t{i}" for i in range(count - 1)), "y"]
    for one, other in pairwise(tensors):
        yield helper.make_node(op_type, [one, *inputs], [other], name=other if names else "", **attributes)


def floats(count: int, op_type: str = "Tanh", **more) -> ModelProto:
    return graph_model(list(row(op_type, count, **more)), {"x": ("float", SHAPE)}, {"y": None})


def sums(count: int) -> ModelProto:
    constants = {"s": np.float32(0.05), "z": np.uint8(3)}
    nodes = list(row("QLinearAdd", count, ["s", "z", "x", "s", "z", "s", "z"], domain=MICROSOFT))
    return graph_model(nodes, {"x": ("uint8", SHAPE)}, {"y": None}, constants, opsets={MICROSOFT: 1})


def residuals(count: int) -> ModelProto:
    chain = Chain()
    x = chain.through("x", A)
    for i in range(count // 6):
        sigmoid = chain.through(chain.node("Sigmoid", [x], f"s{i}"), B, f"d{i}")
        x = chain.through(chain.node("Add", [x, sigmoid], f"a{i}"), A, f"e{i}")
    return chain.model(SHAPE, (x,))


def convolutions(count: int) -> ModelProto:
    chain = Chain()
    x = chain.through("x", A)
    for i in range(count // 5):
        w = np.random.RandomState(i).randint(-127, 128, (2, 2, 1, 1)).astype(np.int8)
        y = chain.node("Conv", [x, chain.weights(f"w{i}", w, (0.01, np.int8(0)))], f"c{i}")
        x = chain.through(chain.node("Relu", [y], f"r{i}"), B, f"e{i}")
    return chain.model(SHAPE, (x,))


def movements(count: int) -> ModelProto:
    """Quantization moves through all of them forward, dequantization back."""
    chain = Chain()
    x = chain.through("x", A)
    for i in range(count):
        x = chain.node("Transpose", [x], f"t{i}", perm=[0, 1, 3, 2])
        x = chain.node("MaxPool", [x], f"m{i}", kernel_shape=[1, 1])
    chain.through(x, A, "y")
    return chain.model(SHAPE)


def clamps(count: int) -> ModelProto:
    """Of a network that is quantized at both ends alone."""
    chain = Chain()
    x = chain.through("x", A)
    for i in range(count):
        x = chain.node(("Relu", "Sigmoid")[i % 2], [x], f"c{i}")
    chain.through(x, A, "y")
    return chain.model(SHAPE)


def folded(count: int) -> ModelProto:
    nodes = list(row("Neg", count))
    nodes += [helper.make_node("Add", ["y", "z"], ["sum"], name="sum")]
    return graph_model(nodes, {"z": ("float", SHAPE)}, {"sum": None}, {"x": np.float32(3)})


def outputs(count: int) -> ModelProto:
    """All of one tensor, all of them outputs."""
    nodes = [helper.make_node("Tanh", ["x"], [f"y {i}"], name=f"n {i}") for i in range(count)]
    return graph_model(nodes, {"x": ("float", SHAPE)}, {f"y {i}": None for i in range(count)})


def unsupported(count: int) -> ModelProto:
    return floats(count, "Sinh")


NETWORKS = {
    "float operators": floats,
    "nodes without names": lambda count: floats(count, names=False),
    "identities": lambda count: floats(count, "Identity"),
    "sums of codes": sums,
    "QDQ residuals": residuals,
    "QDQ convolutions": convolutions,
    "movements between quantizations": movements,
    "functions between quantizations": clamps,
    "constants": folded,
    "outputs": outputs,
    "operators that nobody knows": unsupported,
}


def steps(model: ModelProto) -> int:
    """The calls of functions that it takes to compile a model, or to refuse it."""
    content = model.SerializeToString()
    profile = cProfile.Profile()
    profile.enable()
    try:
        qcgen.compile(content, name="net")
    except qcgen.ModelRejected:
        pass
    finally:
        profile.disable()
    return pstats.Stats(profile).total_calls


@pytest.mark.all
@pytest.mark.parametrize("name", share_at_first(list(NETWORKS), 5))
def test_steps_grow_with_the_nodes(name):
    few, many = NETWORKS[name](FEW), NETWORKS[name](FACTOR * FEW)
    steps(many)  # templates are read and cached once
    assert steps(many) / steps(few) < MOST


def test_a_thousand_identities_in_a_row_are_no_recursion():
    assert qcgen.compile(floats(1000, "Identity")).files
