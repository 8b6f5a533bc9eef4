"""Inline assembly tells the compiler what it does: which operands are written while others wait to be read.

Whether a compiler gives both one register depends on constants that it finds by chance, so runs on an emulated core
rarely show such a mistake.
"""

import subprocess

import pytest
from assembly import statements
from batch import require, unit
from cases import CASES
from cases_arm_dsp import SHAPES
from cases_arm_mve import CONVOLUTIONS
from cases_mve_depthwise import DEPTHWISE
from cases_scalar import SHAPES as SCALAR_SHAPES

from qcgen.cores import TARGETS
from qcgen.render import library

CORES = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55", "rv32imc")


def preprocessed(code, core):
    """A C file as the compiler sees it that builds for the core."""
    target = TARGETS[core]
    require(target.compiler)
    command = [target.compiler, *target.flags, "-std=c99", "-O2", "-E", "-P", "-"]
    return subprocess.run(command, input=code, capture_output=True, text=True, check=True).stdout


def library_code(core):
    """A C file of all functions that generated files for the core may share."""
    return "".join(piece.named("net") for piece in library(TARGETS[core].isa).pieces)


@pytest.mark.parametrize("core", CORES)
def test_what_generated_files_share_reads_no_operand_after_its_register_is_written(core):
    found = list(statements(preprocessed(library_code(core), core)))
    assert found
    assert not [problem for statement in found for problem in statement.problems]


def test_kernels_read_no_operand_after_its_register_is_written():
    units = [unit(case, "nhwc", "speed", "cortex-m55") for case in (*CONVOLUTIONS[::8], *DEPTHWISE[::8], *CASES[::60])]
    assert_no_problems(units, "cortex-m55")


def test_loops_of_assembly_for_few_registers_tell_the_compiler_what_they_write():
    units = [unit(case, "nhwc", aim, "cortex-m0") for case in SCALAR_SHAPES[::5] for aim in ("size", "speed")]
    assert_no_problems(units, "cortex-m0")


def assert_no_problems(units, core):
    """Fails with what is wrong with the statements of a unit, or if no unit has any."""
    found = {}
    for each in units:
        define = next(line for line in each.artifact.files[f"{each.name}.h"].splitlines() if "HEADER_ID 0x" in line)
        code = each.artifact.files[f"{each.name}.c"].replace(
            f'#include "{each.name}.h"', f"{define}\n#include <stdint.h>"
        )
        found[each.name] = list(statements(preprocessed(code, core)))
    assert any(found.values())
    problems = {name: [each for one in own for each in one.problems] for name, own in found.items()}
    assert not {name: own for name, own in problems.items() if own}


ARM_STATE = ["cortex-a7", "cortex-r5"]


@pytest.mark.all
@pytest.mark.parametrize("core", ARM_STATE)
def test_what_is_written_for_microcontrollers_builds_for_larger_cores_without_assembly(core, tmp_path):
    """They have the same instructions, but in Arm state, where LDRD and others take fewer registers."""
    require("arm-none-eabi-gcc")
    flags = [f"-mcpu={core}", "-marm", "-mfloat-abi=soft", "-std=c99", "-O2", "-Wundef", "-Werror", "-c"]
    for target in ("cortex-m0", "cortex-m3", "cortex-m4"):
        units = [unit(case, "nhwc", "speed", target) for case in (*SHAPES[::30], *CASES[::60])]
        for each in units:
            each.artifact.write(tmp_path)
        command = ["arm-none-eabi-gcc", *flags, *(f"{each.name}.c" for each in units)]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr[:1000]


SUM_AND_SHIFT = """
__asm__("add %0, %0, %2\\n\\t" "asrs %[x], %[x], #1\\n\\t" "add %0, %0, %3" : {} (sum), [x] "+&r"(x) : "r"(a), "r"(b));
"""


def test_a_sum_that_is_written_before_an_operand_is_read_is_found():
    [statement] = statements(SUM_AND_SHIFT.format('"+r"'))
    assert list(statement.problems) == ["add %0, %0, %2: writes +r while 3 waits"]


def test_a_register_that_is_not_told_is_found():
    [statement] = statements('__asm__("add r4, %0, #1" : : "r"(a) : "r5");')
    assert list(statement.problems) == ["add r4, %0, #1: r4 is not among the clobbered registers"]


KEPT = [
    "push {{r2}}",
    "mov r2, r8",
    "mov r3, r9",
    "mov r4, r10",
    "mov r5, r11",
    "mov r8, r2",
    "mov r11, r2",
    "pop {{r2}}",
]
KEPT += ["mov r8, r2", "mov r9, r3", "mov r10, r4", "mov {}, r5", "add sp, #16"]
KEPT = "__asm__(" + " ".join(f'"{line}\\n\\t"' for line in KEPT) + ' : "+l"(r2) : : "r3", "r4", "r5");'


def test_a_register_that_is_kept_but_not_restored_is_found():
    [statement] = statements(KEPT.format("r11"))
    assert not list(statement.problems)
    [statement] = statements(KEPT.format("r5"))
    assert "mov r11, r2: r11 is not among the clobbered registers" in statement.problems


STACKED = '__asm__("push {{r2, r4}}\\n\\t" "adds r4, r2\\n\\t" "pop {{{}}}" : "+l"(r2));'


def test_a_register_that_is_not_taken_from_the_stack_is_found():
    [statement] = statements(STACKED.format("r4"))
    assert not list(statement.problems)
    [statement] = statements(STACKED.format("r5"))
    assert "adds r4, r2: r4 is not among the clobbered registers" in statement.problems
