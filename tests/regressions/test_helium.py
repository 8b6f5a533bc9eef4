"""Instructions of Helium, and what compilers make of them."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from batch import assert_sanitized, family_unit, require
from cases import S8
from cases_arm_mve import CONVOLUTIONS
from cases_mve_depthwise import DEPTHWISE, depthwise, same
from emulated import assert_equals_reference, require_core, wrong_outputs
from levels import recent_clang
from network_cases import float_normalizations
from subjects import operator
from tools import require_modules

import qcgen
from qcgen.cores import TARGETS
from qcgen.cross import compile_command
from qcgen.emulate.image import c_library

# Kernels for Helium: a single byte behind whole vectors, and windows that begin behind the image.
ONE_BYTE_LEFT = ("mve_depthwise_rows_of_17_bytes", "mve_depthwise_rows_of_33_bytes")
BEHIND_THE_IMAGE = ("mve_line_beyond_its_image", "mve_windows_in_padding_only")


@pytest.mark.parametrize("names", [ONE_BYTE_LEFT, BEHIND_THE_IMAGE])
def test_last_elements_are_read_and_nothing_else_is(names, tmp_path):
    cases = [case for case in (*CONVOLUTIONS, *DEPTHWISE) if case.name in names]
    assert len(cases) == len(names)
    assert_sanitized(tmp_path, [family_unit(case, "size", "cortex-m55", "arm_mve") for case in cases])


# clang 22 makes one tail-predicated loop of a loop over halves and the loop within, and leaves it after one turn.
@pytest.mark.emulated
def test_float_normalizations_add_up_all_lanes(tmp_path, monkeypatch):
    require_modules("ziglang")
    require_core("cortex-m55", "clang", counting=False)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{recent_clang(tmp_path / 'bin')}{os.pathsep}{os.environ['PATH']}")
    subjects = [operator(each, "cortex-m55") for each in float_normalizations()]
    for level in ("-Os", "-O2", "-O3"):
        assert not wrong_outputs("cortex-m55", subjects, tmp_path / level, "clang", (level,))


# clang makes one Helium instruction of a conversion to float and a scale of 2^-n, and now and then a wrong one.
DIGITS = Path(__file__).parents[1] / "data" / "digits" / "digits_qop_s8.onnx"
CALLER = """#include "digits.h"
void numbers(const int8_t *codes, float *y, int count);
void numbers(const int8_t *codes, float *y, int count)
{
    for (int i = 0; i < count; i++) {
        y[i] = digits_dequantize_probabilities_quantized(codes[i]);
    }
}
"""
FIXED_POINT = re.compile(r"vcvt\S*\s+q\d+, q\d+, \S+")


def assembly(folder: Path, name: str) -> str:
    require("clang", "arm-none-eabi-gcc")  # clang takes the C library's headers from beside gcc
    target = TARGETS["cortex-m55"]
    command = [*compile_command(target, ("-O2", "-S", "-o-"), "clang"), *c_library(target, "clang"), name]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def test_no_conversion_in_the_source_takes_the_scale_in(tmp_path):
    qcgen.compile(DIGITS, name="digits", target="cortex-m55").write(tmp_path)
    text = assembly(tmp_path, "digits.c")
    assert "vcvt.f32" in text
    assert not FIXED_POINT.findall(text)


def test_no_conversion_by_the_header_takes_the_scale_in(tmp_path):
    qcgen.compile(DIGITS, name="digits", target="cortex-m55", io="quantized").write(tmp_path)
    (tmp_path / "caller.c").write_text(CALLER)
    text = assembly(tmp_path, "caller.c")
    assert "vcvt.f32" in text
    assert not FIXED_POINT.findall(text)


# gcc 12 for Helium made {1, 1, 1, 1} of a predicate {1, 0, 0, 0}: depthwise kernels of 5 and 6 rows were wrong.
CASES = [
    depthwise(f"{k}_rows_of_{c}_channels", c, (11, 10), (k, w), S8, pads=same((k, w)))
    for k, w, c in ((5, 3, 10), (5, 3, 20), (6, 1, 20), (6, 3, 10))
]


def test_kernels_of_five_and_six_rows_give_the_references_outputs(tmp_path):
    units = [family_unit(case, "size", "cortex-m55", "arm_mve") for case in CASES]
    assert_equals_reference("cortex-m55", units, tmp_path, "gcc", ("-O2",))
