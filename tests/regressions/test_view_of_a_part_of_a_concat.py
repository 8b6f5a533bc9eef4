"""A view of a part of a Concat lost the part's offset: its readers got what lies at the whole's beginning."""

import numpy as np
import pytest
from computed import computed
from models import graph_model
from onnx import helper

X, Z = (np.random.default_rng(seed).normal(size=(1, 8)).astype(np.float32) for seed in (1, 2))


def model(order, *views):
    """tanh(x) and tanh(z) joined; ``views`` of the second, each of the one before, are read."""
    nodes = [
        helper.make_node("Tanh", ["x"], ["first"]),
        helper.make_node("Tanh", ["z"], ["second"]),
        helper.make_node("Concat", order.split(), ["whole"], axis=1),
    ]
    view, lists = "second", {}
    for number, (op_type, values) in enumerate(views):
        lists[f"list{number}"] = np.array(values, np.int64)
        nodes.append(helper.make_node(op_type, [view, f"list{number}"], [f"view{number}"]))
        view = f"view{number}"
    nodes += [helper.make_node("Sigmoid", [view], ["y"]), helper.make_node("Sigmoid", ["whole"], ["w"])]
    return graph_model(nodes, {"x": ("float", (1, 8)), "z": ("float", (1, 8))}, {"y": None, "w": None}, lists)


VIEWS = {
    "reshaped": ([("Reshape", [2, 4])], (2, 4)),
    "squeezed": ([("Squeeze", [0])], (8,)),
    "a view of a view": ([("Unsqueeze", [0]), ("Reshape", [4, 2])], (4, 2)),
}


@pytest.mark.parametrize("which", VIEWS)
@pytest.mark.parametrize("order", ["first second", "second first", "first second first"])
def test_a_view_of_a_part_lies_where_the_part_does(order, which):
    views, shape = VIEWS[which]
    y, whole = computed(model(order, *views), {"x": X, "z": Z})
    parts = {name: 1 / (1 + np.exp(-np.tanh(values))) for name, values in (("first", X), ("second", Z))}
    assert np.allclose(y, parts["second"].reshape(shape), atol=1e-5)
    assert np.allclose(whole, np.concatenate([parts[name] for name in order.split()], axis=1), atol=1e-5)
