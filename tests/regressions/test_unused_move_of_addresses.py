"""Helium depthwise kernels without a fast output step held a function that none called, which clang warns of."""

from batch import call, family_unit
from cases_mve_depthwise import DEPTHWISE
from emulated import require_core

from qcgen.cores import TARGETS
from qcgen.cross import compile_command
from qcgen.emulate.image import c_library


def test_clang_takes_the_strict_flags(tmp_path):
    core = "cortex-m55"
    require_core(core, "clang", counting=False)
    cases = [case for case in DEPTHWISE if case.name in ("mve_depthwise_huge_scale", "mve_depthwise_integer")]
    units = [family_unit(case, "speed", core, "arm_mve") for case in cases]
    for each in units:
        each.artifact.write(tmp_path)
    command = [*compile_command(TARGETS[core], ("-O2",), "clang"), *c_library(TARGETS[core], "clang")]
    call([*command, *(f"{each.name}.c" for each in units)], tmp_path)
