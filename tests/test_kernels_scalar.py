"""The kernels for cores without SIMD: their portable meaning on the host, and what the emulated cores compute."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from batch import Image, Unit, assert_right, assert_sanitized, build, difference, require, unit
from cases import CASES, Case
from cases_scalar import EXTREMES, SHAPES, edge, small, sprinkled
from emulated import require_core, wrong_outputs
from marks import share_at_first
from subjects import on_core

from qcgen.cores import TARGETS
from qcgen.kernels.scalar import dense, sums
from qcgen.kernels.scalar.sums import (
    core_of,
    grouping,
    is_by_word,
    loop_of,
    segments,
    split_outliers,
    sums_of_groups,
    table,
    with_pairs,
)

AIMS = ("size", "speed")
CORES = ("cortex-m0", "cortex-m3", "rv32imc")

SCALAR_CASES = (*CASES, *EXTREMES, *SHAPES)


def scalar_unit(case: Case, core: str, optimize: str) -> Unit:
    """The case compiled for a core, channels last."""
    return unit(case, "nhwc", optimize, core)


def kernel_of(each: Unit) -> str:
    [call] = each.artifact.plan.calls
    return call.kernel


def units_of(case: Case) -> list[Unit]:
    """The case for both aims: extremes for every core, others by turns for one of those that load as they multiply."""
    turn = SCALAR_CASES.index(case)
    cores = CORES if case in EXTREMES else (CORES[turn % 2], "rv32imc") if case in SHAPES else (CORES[turn % 3],)
    units = [scalar_unit(case, core, aim) for core in cores for aim in AIMS]
    return [each for each in units if kernel_of(each).startswith("scalar")]


@pytest.fixture(scope="module")
def image(tmp_path_factory, level, selected) -> Image:
    """All cases that a scalar kernel serves in one program."""
    require("gcc")
    units = [each for case in selected(SCALAR_CASES) for each in units_of(case)]
    return build(tmp_path_factory.mktemp("scalar"), units, "gcc", (level,))


@pytest.mark.parametrize("case", share_at_first(SCALAR_CASES, 12), ids=lambda case: case.name)
def test_the_portable_meaning_equals_the_reference(case, outputs):
    assert_right(units_of(case), outputs)


@pytest.mark.parametrize("fill", [0, 255])
def test_buffers_at_odd_addresses_are_enough_and_nothing_beside_them_is_written(image, fill):
    image.assert_equals_reference("guarded", fill)


@pytest.mark.all
def test_nothing_is_read_beside_the_buffers_and_no_behaviour_is_undefined(tmp_path):
    units = [each for case in (*EXTREMES, *SHAPES) for each in units_of(case)]
    assert_sanitized(tmp_path, units[::5])  # every fifth: cores and aims by turns


@pytest.mark.all
@pytest.mark.parametrize("core", CORES)
def test_extremes_on_the_emulated_core_equal_the_reference(core, tmp_path):
    require_core(core)
    assert not wrong_outputs(core, on_core(EXTREMES, core), tmp_path)


@pytest.mark.all
@pytest.mark.parametrize("core", CORES)
def test_clang_has_registers_enough_for_the_inline_assembly(core, tmp_path):
    require_core(core, "clang")
    assert not wrong_outputs(core, on_core(EXTREMES[::4], core), tmp_path, "clang")


@pytest.mark.all
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("kernel", ["conv", "dense"])
def test_some_case_uses_the_kernel(kernel, core):
    assert any(kernel_of(scalar_unit(case, core, aim)) == f"scalar/{kernel}" for case in SHAPES for aim in AIMS)


BOUNDS = {
    "two weights of 127": ((127, 127), 2),
    "255 below zero: 128 times that is the highest number": ((-128, -127), 2),
    "256 below zero is one too many": ((-128, -128), 1),
    "256 above zero: 128 times that is the lowest number": ((64, 64, 64, 64), 4),
    "257 above zero is too many": ((64, 64, 64, 65), 2),
    "both signs count": ((100, -100, 50, -7), 2),
    "both signs at the end": ((100, -100, 50, -5), 4),
    "eight small weights": ((31, -31) * 4, 8),
    "fewer elements than a group": ((1, 2, 3), 2),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_groups_are_as_large_as_every_input_allows(name):
    weights, size = BOUNDS[name]
    assert grouping(np.array([weights]), -128, 127).size == size


@pytest.mark.parametrize("seed", range(20))
def test_the_bounds_of_a_group_are_reached_and_not_exceeded(seed):
    rng = np.random.default_rng(seed)
    weights = rng.integers(-128, 128, (3, 11))
    for size in sums.SIZES:
        low, high = sums_of_groups(weights, size, -128, 127)
        reached = [
            (np.where(part > 0, -128, 127) @ part, np.where(part > 0, 127, -128) @ part)
            for row in weights
            for part in (row[start : start + size] for start in range(0, 11, size))
        ]
        assert low == min(least for least, _ in reached)
        assert high == max(most for _, most in reached)


def test_one_channel_with_large_weights_makes_groups_smaller():
    weights = np.full((4, 16), 10)
    assert grouping(weights, -128, 127).size == 8
    weights[2, 9] = 127
    weights[2, 10] = -127
    assert grouping(weights, -128, 127).size == 2


@pytest.mark.parametrize("size", sums.SIZES)
@pytest.mark.parametrize("weights", [edge((5, 21), 1), sprinkled((9, 40), 28, 2), small((4, 33), 31, 3)], ids=len)
def test_outliers_leave_weights_whose_groups_are_safe(weights, size):
    weights = weights.astype(np.int64)
    inliers, outliers = split_outliers(weights, size, -128, 127)
    assert np.array_equal(inliers + outliers, weights)
    low, high = sums_of_groups(inliers, size, -128, 127)
    assert sums.LANE_LOW <= low <= high <= sums.LANE_HIGH
    assert np.array_equal(inliers * outliers >= 0, np.ones(weights.shape, bool))
    starts = range(0, weights.shape[1], size)
    unsafe = np.add.reduceat(np.abs(weights), starts, axis=1) > 255  # times 128 that leaves 16 bits
    assert not (np.add.reduceat(np.abs(outliers), starts, axis=1) > 0)[~unsafe].any()


def test_dense_layers_with_few_outliers_add_eight_products_at_a_time_on_risc_v(monkeypatch, tmp_path):
    require("gcc")
    [case] = [case for case in EXTREMES if case.name == "scalar_dense_outliers_61_in_16_out"]
    right = scalar_unit(case, "rv32imc", "speed")
    assert re.search(r"_scalar_loop\b[^}]* \.size = 8,", right.artifact.files[f"{right.name}.c"])
    assert "_add_outliers(" in "".join(right.artifact.files.values())
    monkeypatch.setattr(dense, "_outlier_words", lambda outliers: np.full(len(outliers) // dense.BLOCK, -1))
    unit.cache_clear()
    wrong = scalar_unit(case, "rv32imc", "speed")
    unit.cache_clear()
    for each, is_wrong in ((right, False), (wrong, True)):
        assert bool(difference(each, build(tmp_path, [each], "gcc", ("-O1",)).run()[each.name])) == is_wrong


@pytest.mark.parametrize("high", [-(2**15) + 1, -1, 0, 2**15 - 1])
def test_the_carry_of_a_shift_rounds_as_a_start_at_half_does(high):
    low = np.arange(sums.LANE_LOW, sums.LANE_HIGH + 1)
    word = low + high * 2**16
    assert ((word >= -(2**31)) & (word < 2**31)).all()
    carry = word >> 15 & 1
    assert ((word >> 16) + carry == high).all()


@pytest.mark.parametrize("name", BOUNDS)
def test_upper_halves_without_a_start_are_never_the_least_number(name):
    weights, _ = BOUNDS[name]
    core = core_of(TARGETS["cortex-m0"])
    for taps in range(2, len(weights) + 1):
        loop = loop_of(taps, grouping(np.array([weights[:taps]]), -128, 127), core)
        assert is_by_word(core, loop) == (loop.grouping.size == 2)
        assert not is_by_word(core, replace(loop, grouping=replace(loop.grouping, low=sums.LANE_LOW)))


LARGE, SMALL = (127, -90, 63, 1) * 4, (31,) * 16


@pytest.mark.parametrize(
    ("rows", "is_packed", "expected"),
    [
        ((LARGE,), True, True),
        ((SMALL,), True, False),  # groups of eight
        ((LARGE, LARGE, LARGE, SMALL), True, True),
        ((LARGE, SMALL), True, True),  # 2.14 in groups of two and eight
        ((LARGE, SMALL), False, False),
    ],
)
def test_words_are_rounded_by_themselves_where_groups_of_two_elements_are_many(rows, is_packed, expected):
    weights = np.array(rows)
    core = core_of(TARGETS["cortex-m0"])
    [segment] = segments(weights, core, -128, 127)
    found = with_pairs(segment, weights, core, is_packed=is_packed)
    assert (found.by_word is not None) == expected
    if expected:
        words = table(weights, (found,)).reshape(len(rows), -1)
        assert (words.astype(np.int32).astype(np.int16) == weights[:, 0::2]).all()
        assert (words >> 16 == weights[:, 1::2]).all()
    for other in ("cortex-m3", "rv32imc"):
        assert not is_by_word(core_of(TARGETS[other]), segment.loops[-1])


def test_a_bound_that_is_off_by_one_gives_wrong_outputs(monkeypatch, tmp_path):
    require("gcc")
    [case] = [case for case in EXTREMES if case.name == "scalar_groups_of_4_beyond_the_high_end"]
    monkeypatch.setattr(sums, "LANE_HIGH", sums.LANE_HIGH + 1)
    unit.cache_clear()
    wrong = [scalar_unit(case, core, "size") for core in CORES]
    unit.cache_clear()
    found = build(tmp_path, wrong, "gcc", ("-O1",)).run()
    assert all(difference(each, found[each.name]) for each in wrong)
