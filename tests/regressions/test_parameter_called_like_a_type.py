"""A tensor called int8_t became a parameter of that name, which hid the type."""

import pytest
from batch import require
from models import qlinear_conv, random_weights

import qcgen


@pytest.mark.parametrize("tensor", ["int8_t", "uint8_t", "size_t"])
def test_a_tensor_may_be_called_like_a_name_of_stdint(tensor):
    require("gcc")
    model = qlinear_conv((1, 2, 5, 5), random_weights((3, 2, 3, 3)))
    model.graph.input[0].name = model.graph.node[0].input[0] = tensor
    artifact = qcgen.compile(model, name="net")
    assert [port.symbol for port in artifact.plan.inputs] == [f"{tensor}_"]
    artifact.load()
