"""The depthwise kernel for Helium: its portable meaning on the host, the instructions on an emulated core."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from batch import Image, Unit, assert_right, assert_sanitized, build, family_unit, require
from cases import CASES, Case
from cases_arm_dsp import EXTREMES, SHAPES
from cases_mve_depthwise import DEPTHWISE
from emulated import assert_equals_reference
from marks import share_at_first, some_at_first

from qcgen.ir.context import names_of
from qcgen.ir.program import Conv

AIMS = ("size", "speed")
CORE = "cortex-m55"
KERNEL = "arm_mve/depthwise"


def mve_unit(case: Case, optimize: str) -> Unit:
    """The case compiled for a Cortex-M55, channels last."""
    return family_unit(case, optimize, CORE, "arm_mve")


def is_served(case: Case) -> bool:
    [call] = mve_unit(case, "size").artifact.plan.calls
    return call.kernel == KERNEL


ALL = (*(case for case in (*CASES, *EXTREMES, *SHAPES) if "depthwise" in case.name), *DEPTHWISE)


def served(cases: Iterable[Case] = ALL) -> list[Unit]:
    """The cases that the kernel serves, for both aims."""
    return [mve_unit(case, aim) for case in cases if is_served(case) for aim in AIMS]


@pytest.fixture(scope="module")
def image(tmp_path_factory, level, selected) -> Image:
    """All cases that the kernel serves in one program."""
    require("gcc")
    return build(tmp_path_factory.mktemp("mve"), served(selected(ALL)), "gcc", (level,))


@pytest.mark.all
def test_the_kernel_serves_every_depthwise_case_of_its_own():
    assert [case.name for case in DEPTHWISE if not is_served(case)] == []


@pytest.mark.parametrize("case", share_at_first(ALL, 6), ids=lambda case: case.name)
def test_the_portable_meaning_equals_the_reference(case, outputs):
    assert_right(served([case]), outputs)


@pytest.mark.parametrize("fill", [0, 255])
def test_buffers_at_odd_addresses_are_enough_and_nothing_beside_them_is_written(image, fill):
    image.assert_equals_reference("guarded", fill)


@pytest.mark.all
def test_nothing_is_read_beside_the_buffers_and_no_behaviour_is_undefined(tmp_path):
    assert_sanitized(tmp_path, [mve_unit(case, aim) for case in DEPTHWISE for aim in AIMS])


def on_the_core(cases, optimize, folder, compiler="gcc", flags=("-O3",)):
    assert_equals_reference(CORE, [mve_unit(case, optimize) for case in cases], folder, compiler, flags)


@pytest.mark.parametrize("optimize", some_at_first(AIMS))
def test_outputs_on_the_emulated_core_equal_the_reference(optimize, tmp_path, everything):
    on_the_core(DEPTHWISE[:: 6 if everything else 18], optimize, tmp_path)


@pytest.mark.all
@pytest.mark.parametrize(("compiler", "flags"), [("clang", "-O2"), ("gcc", "-O0"), ("gcc", "-Os")])
def test_other_compilers_and_flags_give_the_same_outputs(compiler, flags, tmp_path):
    on_the_core(DEPTHWISE[3::12], "size", tmp_path, compiler, (flags,))


@pytest.mark.all
def test_weights_keep_their_size_in_flash_with_optimize_size():
    for case in DEPTHWISE:
        each = mve_unit(case, "size")
        assert isinstance(each.op, Conv)
        g = each.op.geometry
        [call] = each.artifact.plan.calls
        [table] = [table for table in call.tables if table.role == "weights"]
        filled = g.taps + (-g.taps % 4 if names_of(call.context)["line"] else 0)  # a line has whole rows of four taps
        assert table.bytes == g.out_channels * filled, case.name
