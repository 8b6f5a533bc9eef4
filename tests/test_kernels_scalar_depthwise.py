"""scalar/depthwise and scalar/winograd, built for the host and run on the emulated cores."""

from __future__ import annotations

from functools import cache
from math import inf
from unittest import mock

import pytest
from batch import Image, Unit, assert_right, assert_sanitized, build, family_unit, require, unit
from cases import CASES, S8, Case, quantized
from cases_arm_dsp import full
from cases_scalar_planes import DEPTHWISE_EXTREMES, DEPTHWISE_SHAPES, WINOGRAD
from emulated import assert_equals_reference
from marks import share_at_first

from qcgen.kernels.scalar import winograd

CORES = ("cortex-m0", "cortex-m3", "rv32imc")
AIMS = ("size", "speed")
KERNELS = ("scalar/depthwise", "scalar/winograd")
OWN = (*DEPTHWISE_EXTREMES, *DEPTHWISE_SHAPES, *WINOGRAD)
ALL = (*CASES, *OWN)


@cache
def scalar_unit(case: Case, aim: str, core: str) -> Unit:
    """The case compiled for a core, channels last, in tiles whether that pays or not."""
    with mock.patch.multiple(winograd, MOST_COMPUTED=inf, MOST_COMPUTED_THUMB1=inf, FEWEST_CHANNELS_THUMB1=0):
        return family_unit.__wrapped__(case, aim, core, "scalar")


def units_of(case: Case, core: str) -> list[Unit]:
    """The case if one of these kernels serves it; once if both aims agree."""
    served = [scalar_unit(case, aim, core) for aim in AIMS]
    served = [each for each in served if each.artifact.plan.calls[0].kernel in KERNELS]
    return served[:1] if len(served) == 2 and len({bare(each) for each in served}) == 1 else served


def bare(each: Unit) -> str:
    """The C without what repeats the options and the name."""
    lines = each.artifact.files[f"{each.name}.c"].replace(each.name, "m").replace(each.name.upper(), "M").splitlines()
    return "\n".join(line for line in lines if "--optimize" not in line)


@pytest.fixture(scope="module")
def image(tmp_path_factory, level, selected) -> Image:
    """All cases that one of these kernels serves in one program."""
    require("gcc")
    units = [each for case in selected(ALL) for core in CORES for each in units_of(case, core)]
    return build(tmp_path_factory.mktemp("planes"), units, "gcc", (level,))


@pytest.mark.parametrize("case", share_at_first(ALL, 9), ids=lambda case: case.name)
def test_the_portable_meaning_equals_the_reference(case, outputs):
    assert_right([each for core in CORES for each in units_of(case, core)], outputs)


@pytest.mark.parametrize("fill", [0, 255])
def test_buffers_at_odd_addresses_are_enough_and_nothing_beside_them_is_written(image, fill):
    image.assert_equals_reference("guarded", fill)


@pytest.mark.all
def test_nothing_is_read_beside_the_buffers_and_no_behaviour_is_undefined(tmp_path):
    assert_sanitized(tmp_path, [each for case in OWN for core in CORES for each in units_of(case, core)])


@pytest.mark.all
def test_clang_takes_the_strict_flags(tmp_path):
    require("clang")
    units = [each for case in OWN[::7] for core in CORES for each in units_of(case, core)]
    build(tmp_path, units, "clang", ("-O1",)).assert_equals_reference()


@pytest.mark.all
@pytest.mark.parametrize("core", CORES)
def test_every_own_case_uses_one_of_these_kernels(core):
    assert not [case.name for case in OWN if not units_of(case, core)]


def magnitude(fill: int, channels: int) -> int:
    """The bound of winograd's sums: nine positions of elements up to 510, one up to 1020; weights ``fill``."""
    return 10 * 510 * 9 * abs(fill) * channels


@pytest.mark.parametrize(("channels", "serves"), [(365, True), (366, False)])
def test_winograd_declines_sums_that_may_leave_int32(channels, serves):
    """With weights of -128 the largest transformed one is 9 * 128; 366 channels are one too many."""
    case = quantized("tall", (1, channels, 4, 6), (1, channels, 3, 3), S8, w=full((1, channels, 3, 3), -128))
    assert (magnitude(-128, channels) < 2**31) == serves
    [call] = unit(case, "nhwc", "speed", "cortex-m3").artifact.plan.calls
    assert (call.kernel == "scalar/winograd") == serves


def on_the_core(core: str, cases, folder, compiler: str = "gcc") -> None:
    assert_equals_reference(core, [each for case in cases for each in units_of(case, core)], folder, compiler)


@pytest.mark.all
@pytest.mark.parametrize("core", CORES)
def test_outputs_on_the_emulated_core_equal_the_reference(core, tmp_path):
    on_the_core(core, OWN[::9], tmp_path)


@pytest.mark.all
@pytest.mark.parametrize("core", CORES)
def test_outputs_of_code_that_clang_compiled_equal_the_reference(core, tmp_path):
    on_the_core(core, OWN[4::18], tmp_path, "clang")


def test_tiles_that_compute_too_much_beside_the_image_are_left_to_windows():
    for size, kernel in ((8, "winograd"), (9, "conv"), (12, "winograd")):
        case = quantized(f"tiles_of_{size}", (1, 8, size, size), (8, 8, 3, 3), S8, pads=[1, 1, 1, 1])
        [call] = unit(case, "nhwc", "speed", "cortex-m3").artifact.plan.calls
        assert call.kernel == f"scalar/{kernel}"


@pytest.mark.parametrize(("channels", "size", "kernel"), [(16, 10, "winograd"), (15, 10, "conv"), (16, 6, "conv")])
def test_a_cortex_m0_needs_more_channels_and_fewer_outputs_beside_the_image(channels, size, kernel):
    case = quantized(f"tiles_{channels}_{size}", (1, channels, size, size), (8, channels, 3, 3), S8, pads=[1, 1, 1, 1])
    [call] = unit(case, "nhwc", "speed", "cortex-m0").artifact.plan.calls
    assert call.kernel == f"scalar/{kernel}"
