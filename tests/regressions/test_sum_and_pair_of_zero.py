"""Sums that start at 0 and a pair that is 0 shared a register, which inline assembly wrote before it had read both.

A window of one or two elements leaves nothing for the pair of odd elements: it is a constant 0. gcc, which knows that
a sum is 0, too, may give both one register, unless the constraint of the sum says that it is written early.
"""

import numpy as np
import pytest
from batch import unit
from cases import S8, quantized
from emulated import assert_equals_reference

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
