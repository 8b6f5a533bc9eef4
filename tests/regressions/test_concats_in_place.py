"""A Concat whose parts were computed in place, in the memory of its result, gave wrong outputs in two cases.

A part that an output is a view of made the caller's buffer, of the part's size, hold the whole. And a whole that was a
part of another Concat took its place there, while its own parts stayed where the whole would have been.
"""

import numpy as np
import pytest
from computed import computed
from models import graph_model
from onnx import helper

import qcgen

FEEDS = {name: np.random.default_rng(len(name)).normal(size=(1, 8)).astype(np.float32) for name in ("x", "xx", "xxx")}
SPECS = {name: ("float", x.shape) for name, x in FEEDS.items()}


def model(outputs, *nodes):
    """A model of nodes, ("Op", "inputs", "output") each, that reads those of FEEDS that they name."""
    made = [helper.make_node(op, x.split(), [y], **({"axis": 1} if op == "Concat" else {})) for op, x, y in nodes]
    used = {name: spec for name, spec in SPECS.items() if any(name in node.input for node in made)}
    return graph_model(made, used, dict.fromkeys(outputs), {"shape": np.array([2, -1], np.int64)})


PARTS = (("Sigmoid", "x", "s"), ("Tanh", "xx", "t"))
VIEW = ("Reshape", "s shape", "view")
MODELS = {
    "an output is a view of the first part": model(
        ("view", "z"), *PARTS, VIEW, ("Concat", "s t", "w"), ("Sigmoid", "w", "z")
    ),
    "an output is a view of the last part": model(
        ("view", "z"), *PARTS, ("Concat", "t s", "w"), VIEW, ("Sigmoid", "w", "z")
    ),
    "an operator reads a view of the last part": model(
        ("y", "z"), *PARTS, ("Concat", "t s", "w"), VIEW, ("Sigmoid", "view", "y"), ("Sigmoid", "w", "z")
    ),
    "the whole is an output, too": model(("view", "w"), *PARTS, VIEW, ("Concat", "s t", "w")),
    "an output is a view of what is written over a part": model(
        ("view", "z"), *PARTS, ("Concat", "s t", "w"), ("Sigmoid", "w", "z"), ("Tanh", "s", "over"),
        ("Reshape", "over shape", "view"),
    ),
    "the whole is the first part of another": model(
        ("y", "z"), *PARTS, ("Concat", "s t", "w"), ("Tanh", "xxx", "u"), ("Sigmoid", "w", "y"),
        ("Concat", "w u", "all"), ("Sigmoid", "all", "z"),
    ),
    "the whole is the last part of another, which is one of a third": model(
        ("x1", "x2", "x3"), *PARTS, ("Concat", "s t", "w"), ("Tanh", "xxx", "u"), ("Sigmoid", "w", "x1"),
        ("Concat", "u w", "more"), ("Sigmoid", "more", "x2"), ("Tanh", "w", "v"), ("Concat", "v more", "all"),
        ("Sigmoid", "all", "x3"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("which", MODELS)
def test_outputs_are_right_and_lie_in_their_memory_where(which):
    computed(MODELS[which], {value.name: FEEDS[value.name] for value in MODELS[which].graph.input})


def test_nested_wholes_are_not_copied():
    nested = MODELS["the whole is the last part of another, which is one of a third"]
    assert all(call.op.op_type != "Concat" for call in qcgen.compile(nested).plan.calls)
