"""A Resize with neither sizes nor scales, which may be an empty tensor then, raised AssertionError."""

import numpy as np
import pytest
from models import node_model

import qcgen
from qcgen.errors import ModelRejected


@pytest.mark.parametrize("opset", [10, 13])
def test_it_is_refused(opset):
    operands = {"X": ("int8", (1, 2, 4, 5)), **({"": None} if opset > 10 else {}), "scales": np.zeros(0, np.float32)}
    model = node_model(
        "Resize", operands, opset=opset, mode="nearest", **({"nearest_mode": "floor"} if opset > 10 else {})
    )
    with pytest.raises(ModelRejected) as rejection:
        qcgen.compile(model)
    assert [problem.what for problem in rejection.value.problems] == ["scales has 0 numbers for 4 axes"]
