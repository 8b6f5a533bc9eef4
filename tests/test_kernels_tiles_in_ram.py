"""arm_dsp/winograd_in_ram, built for the host: weights are transformed for groups of tiles that memory has room for."""

from __future__ import annotations

from functools import cache
from unittest import mock

import numpy as np
import pytest
from batch import SANITIZED, Image, Unit, assert_right, build, require, unit
from cases import S8, U8, Case, quantized
from cases_tiles import TILES_OF_BYTES, tiled
from emulated import assert_equals_reference
from marks import share_at_first

from qcgen.ir.context import names_of
from qcgen.kernels import TRANSFORMING_MORE
from qcgen.kernels.arm_dsp import winograd


def far_from_four(_, group):
    """A cost in place of cycles: lowest for groups of four tiles, the largest first."""
    return 2 + abs(group.tiles - 4) + 10 * group.is_whole - group.tile.products / 64


@cache
def tiles_unit(case: Case, groups: str) -> Unit:
    """The case with weights that are transformed in the way that costs least, or for groups of four tiles."""
    with mock.patch.object(winograd, "_cost_in_ram", winograd._cost_in_ram if groups == "cheapest" else far_from_four):
        return tiled(case, winograd.WINOGRAD_IN_RAM, TRANSFORMING_MORE)


@pytest.fixture(scope="module", params=["cheapest", "four"])
def units(request, selected) -> list[Unit]:
    return [tiles_unit(case, request.param) for case in selected(TILES_OF_BYTES)]


@pytest.fixture(scope="module")
def image(tmp_path_factory, units) -> Image:
    require("gcc")
    return build(tmp_path_factory.mktemp("tiles"), units, "gcc", SANITIZED)


@pytest.mark.parametrize("case", share_at_first(TILES_OF_BYTES, 6), ids=lambda case: case.name)
def test_tiles_give_the_outputs_of_the_reference(case, units, outputs):
    assert_right([each for each in units if each.case is case], outputs)


@pytest.mark.parametrize("fill", [0, 255])
def test_what_the_buffers_held_before_makes_no_difference(image, fill):
    image.assert_equals_reference("guarded", fill)


@pytest.mark.all
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_tiles_give_the_same_outputs_on_the_emulated_core(compiler, tmp_path):
    units = [tiles_unit(case, "four") for case in TILES_OF_BYTES]
    assert_equals_reference("cortex-m4", units, tmp_path, compiler, ("-O2",))


def test_groups_with_and_without_a_rest_occur():
    contexts = [names_of(tiles_unit(case, "four").artifact.plan.calls[0].context) for case in TILES_OF_BYTES]
    assert {each["has_rest"] for each in contexts if each["group"].tiles == 4} == {False, True}


def test_all_weights_are_transformed_first_where_that_takes_little_memory():
    contexts = [names_of(tiles_unit(case, "cheapest").artifact.plan.calls[0].context) for case in TILES_OF_BYTES]
    assert {each["group"].is_whole for each in contexts} == {False, True}


def reason(case: Case) -> str:
    with mock.patch("qcgen.plan.SPEED", TRANSFORMING_MORE):
        [call] = unit.__wrapped__(case, "nhwc", "speed", "cortex-m4").artifact.plan.calls
    [found] = [each.reason for each in call.rejected if each.kernel == "arm_dsp/winograd_in_ram"]
    return found


def test_weights_that_need_nine_bits_are_refused():
    case = quantized("nine_bits", (1, 12, 8, 8), (12, 12, 3, 3), U8, pads=[1] * 4, w_zero_point=3)
    assert reason(case) == "its weights less their zero point do not fit a byte"


def test_layers_of_few_tiles_do_not_pay_for_transforms():
    case = quantized("few_tiles", (1, 64, 4, 2), (64, 64, 3, 3), S8, pads=[1] * 4)
    assert reason(case) == "64 and 64 channels are too few to pay for the transforms"


def test_flash_holds_the_weights_as_bytes():
    w = np.arange(-128, 128, dtype=np.int8).reshape(4, 64)[:, :36].reshape(4, 4, 3, 3)
    [call] = tiles_unit(quantized("bytes", (1, 4, 8, 8), (4, 4, 3, 3), S8, w=w), "four").artifact.plan.calls
    assert call.tables[0].c_type == "uint8_t"
    assert sorted(call.tables[0].values.tolist()) == sorted((w.astype(int) + 128).ravel().tolist())
