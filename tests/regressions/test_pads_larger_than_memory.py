"""Pads and strides far beyond the image: the reference padded it, kernels walked through it, C overflowed."""

import numpy as np
import pytest
from models import qlinear_conv

import qcgen
from qcgen.errors import ModelRejected
from qcgen.verification import verify


def test_verify_needs_no_padded_image():
    weights = np.ones((8, 8, 3, 3), np.int8)
    far = 1 << 15
    model = qlinear_conv((1, 8, 5, 7), weights, pads=[2**9, far, 2**9, far], strides=[2**9, far])
    artifact = qcgen.compile(model, name="far")
    assert artifact.program.outputs[0].shape == (1, 8, 3, 3)
    assert verify(artifact, cases=1).is_right


def test_more_of_them_are_refused():
    far = 2**15 + 1
    model = qlinear_conv((1, 1, 5, 7), np.ones((1, 1, 3, 3), np.int8), pads=[far, 1, 0, 1])
    with pytest.raises(ModelRejected, match="spatial axis 0 is padded by 32769 and 0, more than 32768"):
        qcgen.compile(model)


@pytest.mark.parametrize("target", ["portable", "cortex-m4", "cortex-m23"])
def test_the_stride_of_a_single_window_does_not_overflow(target):
    options = {"group": 8, "auto_pad": "SAME_UPPER", "strides": [2**31 - 1, 2]}
    artifact = qcgen.compile(qlinear_conv((1, 8, 10, 10), np.ones((8, 1, 3, 3), np.int8), **options), target=target)
    assert verify(artifact, cases=1, sums=False).is_right
