"""The kernels for Helium: their portable meaning on the host, the instructions themselves on an emulated core."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from batch import Image, Unit, assert_right, assert_sanitized, build, family_unit, require
from cases import CASES, Case
from cases_arm_dsp import EXTREMES, SHAPES
from cases_arm_mve import CONVOLUTIONS, DENSES
from emulated import assert_equals_reference
from marks import share_at_first

from qcgen.intervals import INT32_MAX
from qcgen.ir.context import names_of
from qcgen.kernels.arm_mve.conv import CopiedWindow
from qcgen.kernels.arm_mve.output import ONE, TWO

CORE = "cortex-m55"
KERNELS = ("arm_mve/conv", "arm_mve/dense")
OWN = (*CONVOLUTIONS, *DENSES)


def mve_unit(case: Case) -> Unit:
    """The case compiled for a Cortex-M55, channels last; --optimize makes no difference to these kernels."""
    return family_unit(case, "size", CORE, "arm_mve")


def kernel_of(case: Case) -> str:
    [call] = mve_unit(case).artifact.plan.calls
    return call.kernel


def context_of(case: Case):
    [call] = mve_unit(case).artifact.plan.calls
    return names_of(call.context)


ALL = (*CASES, *EXTREMES, *SHAPES, *OWN)


def served(cases: Iterable[Case] = ALL) -> list[Unit]:
    """The cases that one of these kernels serves."""
    return [mve_unit(case) for case in cases if kernel_of(case) in KERNELS]


@pytest.fixture(scope="module")
def image(tmp_path_factory, level, selected) -> Image:
    """All cases that the kernels serve in one program."""
    require("gcc")
    return build(tmp_path_factory.mktemp("mve"), served(selected(ALL)), "gcc", (level,))


def test_the_kernels_serve_the_cases_made_for_them():
    assert {kernel_of(case) for case in CONVOLUTIONS} == {"arm_mve/conv"}
    assert {kernel_of(case) for case in DENSES} == {"arm_mve/dense"}


@pytest.mark.parametrize("case", share_at_first(ALL, 8), ids=lambda case: case.name)
def test_the_portable_meaning_equals_the_reference(case, outputs):
    assert_right(served([case]), outputs)


def test_speed_and_size_are_the_same_code():
    for case in OWN:
        [fast] = family_unit(case, "speed", CORE, "arm_mve").artifact.plan.calls
        [small] = mve_unit(case).artifact.plan.calls
        assert [table.bytes for table in fast.tables] == [table.bytes for table in small.tables]


@pytest.mark.parametrize("fill", [0, 255])
def test_buffers_at_odd_addresses_are_enough_and_nothing_beside_them_is_written(image, fill):
    image.assert_equals_reference("guarded", fill)


@pytest.mark.all
def test_nothing_is_read_beside_the_buffers_and_no_behaviour_is_undefined(tmp_path):
    assert_sanitized(tmp_path, [mve_unit(case) for case in OWN])


def test_outputs_on_the_emulated_core_equal_the_reference(tmp_path, everything):
    assert_equals_reference(CORE, [mve_unit(case) for case in OWN[:: 3 if everything else 9]], tmp_path)


@pytest.mark.all
@pytest.mark.parametrize(("compiler", "flags"), [("clang", "-O2"), ("gcc", "-O0"), ("gcc", "-O1"), ("gcc", "-Os")])
def test_other_compilers_and_flags_give_the_same_outputs(compiler, flags, tmp_path):
    assert_equals_reference(CORE, [mve_unit(case) for case in OWN[1::6]], tmp_path, compiler, (flags,))


@pytest.mark.parametrize("windows", [(TWO,), (ONE,), (TWO, ONE)], ids=["pairs", "one", "pairs and a last one"])
def test_some_case_sums_so_many_windows_at_a_time(windows):
    assert any(context_of(case)["windows"] == windows for case in OWN)


def found_windows() -> list[CopiedWindow]:
    return [context_of(case)["found"] for case in OWN]


def test_some_case_repeats_a_pixel_to_make_a_pair():
    assert any(each.pixels % 2 == 1 and not each.is_last_alone for each in found_windows())


@pytest.mark.parametrize("last", [True, False], ids=["but the last", "all"])
def test_some_case_reads_windows_in_place(last):
    assert any(each.last_in_place >= 0 and (each.last_in_place < INT32_MAX) == last for each in found_windows())


@pytest.mark.parametrize("in_place", [True, False])
def test_some_case_copies_two_windows_as_one(in_place):
    assert any(each.copies and each.next and (each.last_in_place >= 0) == in_place for each in found_windows())


@pytest.mark.parametrize("in_place", [True, False])
def test_some_case_copies_windows_of_one_vector_to_the_stack(in_place):
    assert any(each.on_stack and (each.last_in_place >= 0) == in_place for each in found_windows())


def test_weights_keep_their_size_in_flash():
    for case in OWN:
        each = mve_unit(case)
        [call] = each.artifact.plan.calls
        [table] = [table for table in call.tables if table.role == "constants"]
        g = each.op.geometry
        channels, taps = -(-g.out_channels // 4) * 4, -(-g.taps // 16) * 16
        assert table.bytes <= channels * (taps + 5 * 4), case.name  # at most five words besides
