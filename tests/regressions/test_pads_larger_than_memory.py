"""A convolution of large stride may have pads of a million columns: the reference padded the image."""

import numpy as np
from models import qlinear_conv

import qcgen
from qcgen.verify import verify


def test_verify_needs_no_padded_image():
    weights = np.ones((8, 8, 3, 3), np.int8)
    far = 1 << 20
    model = qlinear_conv((1, 8, 5, 7), weights, pads=[2**9, far, 2**9, far], strides=[2**9, far])
    artifact = qcgen.compile(model, name="far")
    assert artifact.program.outputs[0].shape == (1, 8, 3, 3)
    assert verify(artifact, cases=1).is_right
