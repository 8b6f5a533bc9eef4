"""clang makes one Helium instruction of a conversion to float and a scale of 2^-n, and now and then a wrong one."""

import re
import subprocess
from pathlib import Path

from batch import require

import qcgen
from qcgen.cores import TARGETS
from qcgen.cross import compile_command
from qcgen.emulate.image import c_library

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


def test_no_conversion_by_the_header_does(tmp_path):
    qcgen.compile(DIGITS, name="digits", target="cortex-m55", io="quantized").write(tmp_path)
    (tmp_path / "caller.c").write_text(CALLER)
    text = assembly(tmp_path, "caller.c")
    assert "vcvt.f32" in text
    assert not FIXED_POINT.findall(text)
