"""A declared shape of numbers between codes that is another one, as of another batch, was refused."""

import numpy as np
import pytest
from batch import require
from models import tensor_info
from qdq import Chain

import qcgen
from qcgen.verification import verify


@pytest.mark.parametrize("stale", ["r", "x_q_dq"])
def test_what_the_operators_give_holds_and_is_noted(stale):
    require("gcc")
    chain = Chain()
    x = chain.through("x", (0.07, np.uint8(3)))
    other = chain.weights("w", np.ones((8, 8), np.uint8), (0.019, np.uint8(0)))
    chain.through(chain.node("Add", [x, other], "r"), (0.46, np.uint8(0)), "y")
    model = chain.model((8, 8))
    model.graph.value_info.append(tensor_info(stale, "float", (4, 8)))
    artifact = qcgen.compile(model)
    assert f"the shape of {stale!r} is (8, 8), not (4, 8) as declared" in artifact.notes
    assert verify(artifact, cases=2, flags=("-O0",)).is_right
