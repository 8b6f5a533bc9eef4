"""Two channels share words only where their sums with the requantization's offset fit 24 bits, not the sums alone."""

import numpy as np
import pytest
from batch import require
from models import qlinear_conv

import qcgen
from qcgen.intervals import accumulator_interval
from qcgen.verification import verify

CODES = {"x_type": "int8", "y_type": "int8", "x_zero_point": np.int8(7), "y_zero_point": np.int8(-5)}
TAPS = np.random.default_rng(0).integers(-64, 65, (4, 8, 3, 3)).astype(np.int8)


def compiled(y_scale, bias):
    model = qlinear_conv((1, 8, 4, 4), TAPS, y_scale=y_scale, bias=bias, **CODES)
    return qcgen.compile(model, target="cortex-m4", layout="nhwc", name="net")


def at_the_limit(y_scale):
    """The layer whose sums reach 2^23 - 1 in every channel."""
    [conv] = compiled(y_scale, np.zeros(4, np.int32)).program.operators
    return compiled(y_scale, (2**23 - 1 - accumulator_interval(conv).hi).astype(np.int32))


def test_sums_that_leave_24_bits_with_their_offset_are_right():
    require("gcc")
    layers = map(at_the_limit, np.linspace(20, 60, 24))
    offset = next((each for each in layers if each.plan.calls[0].certificate.word.addend.max() > 0), None)
    if offset is None:
        pytest.fail("no layer has an offset")
    assert verify(offset).is_right
