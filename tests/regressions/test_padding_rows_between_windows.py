"""A stride beyond the window leaves rows of padding below the image out: they are not written before the rows kept."""

import numpy as np
import pytest
from batch import require
from models import qlinear_conv

import qcgen
from qcgen.verification import verify


def strided():
    """One pixel of every second row, and of the second row below the image."""
    w = np.random.default_rng(3).integers(-60, 61, (3, 3, 1, 1)).astype(np.int8)
    options = {"x_zero_point": 100, "y_zero_point": 100, "pads": [0, 0, 2, 0], "strides": [2, 1]}
    return qlinear_conv((1, 3, 7, 5), w, **options)


@pytest.mark.parametrize("target", ["portable", "cortex-m3", "cortex-m55"])
def test_pushed_rows(target):
    require("gcc")
    artifact = qcgen.compile(strided(), name="rows", layout="nhwc", target=target, input="rows", io_memory="arena")
    [stream] = artifact.plan.streams
    assert stream.order.values.min() == 0
    assert verify(artifact).differing == 0
