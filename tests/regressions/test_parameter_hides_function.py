"""A tensor called like the function of a node hid it: NAME_run called its own parameter."""

import pytest
from batch import require
from models import qlinear_conv, random_weights

import qcgen


@pytest.mark.parametrize("tensor", ["net_conv1", "net_conv1_weights", "net_conv1_tap"])
def test_a_tensor_may_be_called_like_a_symbol_of_the_file(tensor):
    require("gcc")
    model = qlinear_conv((1, 2, 5, 5), random_weights((3, 2, 3, 3)), node_name="conv1")
    model.graph.input[0].name = model.graph.node[0].input[0] = tensor
    artifact = qcgen.compile(model, name="net")
    assert [port.symbol for port in artifact.plan.inputs] == [f"tensor_{tensor}"]
    artifact.load()


def test_a_tensor_that_only_begins_like_the_model_keeps_its_name():
    model = qlinear_conv((1, 2, 5, 5), random_weights((3, 2, 3, 3)), node_name="conv1")
    model.graph.input[0].name = model.graph.node[0].input[0] = "net_conv10"
    assert [port.symbol for port in qcgen.compile(model, name="net").plan.inputs] == ["net_conv10"]
