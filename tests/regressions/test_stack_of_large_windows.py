"""Pointers to the rows or taps of four windows, 1 936 bytes for an 11x11 kernel, filled the stack of small cores."""

import re

import pytest
from batch import build, require, unit
from cases import S8, quantized

from qcgen.kernels.scalar.conv import MAX_RUNS

LARGE = quantized("eleven_by_eleven", (1, 16, 6, 7), (3, 16, 11, 11), S8, pads=[5, 5, 5, 5])
DILATED = quantized("seven_by_seven_dilated", (1, 3, 9, 9), (2, 3, 7, 7), S8, pads=[6, 6, 6, 6], dilations=[2, 2])
CORES = ("cortex-m0", "cortex-m3", "rv32imc")


def kernel_of(each):
    [call] = each.artifact.plan.calls
    return call.kernel


@pytest.mark.parametrize("core", CORES)
def test_rows_of_a_large_window_are_few_and_are_computed_right(core, tmp_path):
    require("gcc")
    each = unit(LARGE, "nhwc", "size", core)
    assert kernel_of(each) == "scalar/conv"
    text = "".join(each.artifact.files.values())
    assert {int(count) for count in re.findall(r"RUNS = (\d+)", text)} == {11}
    assert "runs[2 * RUNS]" in text
    build(tmp_path, [each], "gcc", ("-O1",)).assert_equals_reference("guarded", 255)


@pytest.mark.parametrize("core", CORES)
def test_taps_that_lie_apart_are_left_to_another_kernel_where_they_are_too_many(core):
    each = unit(DILATED, "nhwc", "size", core)
    assert kernel_of(each) == "portable/conv"
    [reason] = [other.reason for other in each.artifact.plan.calls[0].rejected if other.kernel == "scalar/conv"]
    assert reason == f"a window is 49 pieces of the image, more than {MAX_RUNS}"
