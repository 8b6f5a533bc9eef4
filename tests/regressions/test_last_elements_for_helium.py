"""Kernels for Helium: a single byte behind whole vectors, and windows that begin behind the image."""

import pytest
from batch import assert_sanitized, family_unit
from cases_arm_mve import CONVOLUTIONS
from cases_mve_depthwise import DEPTHWISE

ONE_BYTE_LEFT = ("mve_depthwise_rows_of_17_bytes", "mve_depthwise_rows_of_33_bytes")
BEHIND_THE_IMAGE = ("mve_line_beyond_its_image", "mve_windows_in_padding_only")


@pytest.mark.parametrize("names", [ONE_BYTE_LEFT, BEHIND_THE_IMAGE])
def test_they_are_read_and_nothing_else_is(names, tmp_path):
    cases = [case for case in (*CONVOLUTIONS, *DEPTHWISE) if case.name in names]
    assert len(cases) == len(names)
    assert_sanitized(tmp_path, [family_unit(case, "size", "cortex-m55", "arm_mve") for case in cases])
