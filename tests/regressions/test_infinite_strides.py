"""Strides given as floats were made integers, which infinity cannot be."""

import numpy as np
import pytest
from models import node_model

import qcgen


@pytest.mark.parametrize("value", [np.inf, np.nan, 2.0])
def test_strides_that_are_floats_are_refused(value):
    model = node_model("MaxPool", {"X": ("int8", (1, 2, 6, 6))}, kernel_shape=[2, 2], strides=[value, value])
    with pytest.raises(qcgen.ModelRejected) as rejection:
        qcgen.compile(model)
    assert any("strides is" in problem.what for problem in rejection.value.problems)
