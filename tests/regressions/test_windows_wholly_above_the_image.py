"""Depthwise windows wholly above or below the image, where none is cut on the other side, are the bias and padding."""

import pytest
from batch import build, require, unit
from cases import S8, quantized

SHAPES = {"a_row_above": ((1, 9), 1, 0), "a_row_below": ((1, 9), 0, 1), "two_rows_above": ((2, 9), 2, 0)}
CASES = [
    quantized(f"windows_{name}", (1, 3, 5, 15), (3, 1, *kernel), S8, group=3, pads=[above, 0, below, 0])
    for name, (kernel, above, below) in SHAPES.items()
]


@pytest.mark.parametrize("optimize", ["size", "speed"])
def test_windows_without_a_tap_on_the_image_are_right(optimize, tmp_path):
    require("gcc")
    units = [unit(case, "nhwc", optimize, "cortex-m4") for case in CASES]
    assert {each.artifact.plan.calls[0].kernel for each in units} == {"arm_dsp/depthwise_rows"}
    build(tmp_path, units, "gcc", ("-O1",)).assert_equals_reference()
