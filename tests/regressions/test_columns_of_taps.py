"""Kernels of one column on padded images of many channels read the first column at the upper and lower border."""

import pytest
from batch import build, require, unit
from cases import S8, quantized

COLUMN = quantized("column_of_taps", (1, 16, 9, 11), (9, 16, 3, 1), S8, pads=[1, 0, 1, 0])


@pytest.mark.parametrize("optimize", ["size", "speed"])
def test_borders_of_a_column_of_taps_are_those_of_its_own_pixel(optimize, tmp_path):
    require("gcc")
    each = unit(COLUMN, "nhwc", optimize, "cortex-m4")
    assert each.artifact.plan.calls[0].kernel == "arm_dsp/conv"
    build(tmp_path, [each], "gcc", ("-O1",)).assert_equals_reference()
