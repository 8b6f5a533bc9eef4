"""Sums of two channels or elements in one register."""

import numpy as np
import pytest
from batch import require, unit
from cases import S8, quantized
from emulated import assert_equals_reference
from models import qlinear_conv

import qcgen
from qcgen.intervals import accumulator_interval
from qcgen.verification import verify

# Sums that start at 0 and a pair that is 0 shared a register, which inline assembly wrote before it had read both.
#
# A window of one or two elements leaves nothing for the pair of odd elements: it is a constant 0. gcc, which knows that
# a sum is 0, too, may give both one register, unless the constraint of the sum says that it is written early.
ZEROS = {"x_zero_point": 0, "w_zero_point": 0, "y_zero_point": 0, "bias": False}


def product(name, channels, window):
    """A matrix for a window, (channels, rows, columns) of the whole image, whose weights share words by two."""
    weights = np.random.default_rng(channels).integers(-127, 128, (channels, *window)).astype(np.int8)
    return quantized(f"zero_{name}_{channels}_out", (1, *window), weights.shape, S8, w=weights, scale=0.002, **ZEROS)


WINDOWS = {"pixel_of_1": (1, 1, 1), "pixel_of_2": (2, 1, 1), "row_of_2": (1, 1, 2)}


@pytest.mark.parametrize("level", ["-O1", "-O2"])
def test_products_of_one_or_two_elements_equal_the_reference(tmp_path, level):
    cases = [product(name, channels, window) for name, window in WINDOWS.items() for channels in (2, 6)]
    units = [unit(case, "nhwc", "size", "cortex-m4") for case in cases]
    # A pixel, too, is a window as large as its image: dense stands before pointwise, with the same text.
    assert {each.artifact.plan.calls[0].kernel for each in units} == {"arm_dsp/dense"}
    assert_equals_reference("cortex-m4", units, tmp_path, flags=(level,))


# Two channels share words only where their sums with the requantization's offset fit 24 bits, not the sums alone.
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
