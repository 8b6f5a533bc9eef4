"""gcc keeps r8 to r11 from operands when it optimizes Thumb-1 code for size: assembly that needed them did not build.

The same holds for the baseline of ARMv8-M (Cortex-M23), which has these instructions and some more.
"""

import subprocess
from pathlib import Path

import pytest
from batch import require
from cases_scalar import EXTREMES, SHAPES
from cases_scalar_planes import DEPTHWISE_EXTREMES, DEPTHWISE_SHAPES
from emulated import require_core, wrong_outputs
from marks import some_at_first
from subjects import on_core

from qcgen.build import STRICT_FLAGS

GALLERY = sorted((Path(__file__).resolve().parents[2] / "generated").glob("*_cortex_m0.c"))
CASES = (*EXTREMES, *SHAPES[::9], *DEPTHWISE_EXTREMES, *DEPTHWISE_SHAPES[::9])
LEVELS = ("-Os", "-O0")


@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m23"])
@pytest.mark.parametrize("level", some_at_first(["-Os", "-O0", "-O1", "-O2", "-O3"]))
def test_the_gallery_compiles_at_every_level(core, level, tmp_path):
    require("arm-none-eabi-gcc")
    flags = [f"-mcpu={core}", "-mthumb", "-mfloat-abi=soft", *STRICT_FLAGS, level]
    assert GALLERY
    command = ["arm-none-eabi-gcc", *flags, "-c", *map(str, GALLERY)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[:1000]


@pytest.mark.parametrize("compiler", some_at_first(["gcc", "clang"]))
@pytest.mark.parametrize("level", some_at_first(LEVELS))
def test_outputs_equal_the_reference(compiler, level, tmp_path, everything):
    require_core("cortex-m0", compiler, counting=False)
    cases = CASES if everything else CASES[::8]
    assert not wrong_outputs("cortex-m0", on_core(cases, "cortex-m0"), tmp_path, compiler, (level,))
