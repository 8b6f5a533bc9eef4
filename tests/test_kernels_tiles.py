"""arm_dsp/winograd, built for the host: every tile gives the reference's outputs and nothing beside them."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pytest
from batch import SANITIZED, Image, assert_right, build, require, unit
from cases import S8, Case, quantized
from cases_tiles import TILES, small, tiled
from emulated import assert_equals_reference
from gallery_networks import BRANCH, INPUT, STEM, Network
from marks import share_at_first

import qcgen
from qcgen.ir.context import names_of
from qcgen.kernels.arm_dsp import winograd
from qcgen.kernels.arm_dsp.tile import POINTS
from qcgen.reference import evaluate

tiles_unit = cache(partial(tiled, kernel=winograd.WINOGRAD))


@pytest.fixture(scope="module")
def image(tmp_path_factory, selected) -> Image:
    require("gcc")
    return build(tmp_path_factory.mktemp("tiles"), [tiles_unit(case) for case in selected(TILES)], "gcc", SANITIZED)


@pytest.mark.parametrize("case", share_at_first(TILES), ids=lambda case: case.name)
def test_tiles_give_the_outputs_of_the_reference(case, outputs):
    assert_right([tiles_unit(case)], outputs)


@pytest.mark.parametrize("fill", [0, 255])
def test_what_the_buffers_held_before_makes_no_difference(image, fill):
    image.assert_equals_reference("guarded", fill)


@pytest.mark.all
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_tiles_give_the_same_outputs_on_the_emulated_core(compiler, tmp_path):
    assert_equals_reference("cortex-m4", [tiles_unit(case) for case in TILES], tmp_path, compiler, ("-O2",))


def test_tiles_of_every_number_of_points_occur():
    tiles = [names_of(tiles_unit(case).artifact.plan.calls[0].context)["tile"] for case in TILES]
    sizes = {(tile.height.size, tile.width.size) for tile in tiles}
    assert sizes == {(h, w) for h in POINTS for w in POINTS} - {(1, 1)}


def test_odd_and_even_numbers_of_tiles_occur():
    odd = {names_of(tiles_unit(case).artifact.plan.calls[0].context)["has_rest"] for case in TILES}
    assert odd == {False, True}


def reason(case: Case, optimize: str = "speed") -> str:
    [call] = unit(case, "nhwc", optimize, "cortex-m4").artifact.plan.calls
    [found] = [each.reason for each in call.rejected if each.kernel == "arm_dsp/winograd"]
    return found


def test_weights_keep_their_size_in_flash_with_optimize_size():
    [case] = [case for case in TILES if case.name == "tiles_without_padding"]
    assert reason(case, "size") == "its weights take several times the flash, which --optimize speed allows"


def test_weights_whose_values_leave_16_bits_are_refused():
    w = np.full((8, 16, 5, 5), 127, np.int8)
    case = quantized("tiles_of_large_values", (1, 16, 9, 9), (8, 16, 5, 5), S8, w=w)
    assert reason(case) == "no tile of its outputs fits the image and its weights 16 bits"


def test_layers_of_few_channels_are_left_to_other_kernels():
    case = quantized("tiles_of_few_channels", (1, 2, 9, 9), (1, 2, 3, 3), S8)
    assert reason(case) == "2 and 1 channels are too few to pay for the transforms"


def test_a_single_tile_is_refused():
    case = quantized("tiles_alone", (1, 16, 5), (8, 16, 4), S8, w=small((8, 16, 4), 1))
    assert reason(case) == "no tile of its outputs fits the image and its weights 16 bits"


def test_an_image_with_channels_first_is_collected_tile_by_tile():
    n = Network()
    stem = n.qlinear_conv("x", INPUT, "stem", (16, 4, 3, 3), STEM, pads=[1, 1, 1, 1])
    n.qlinear_conv(stem, STEM, "y", (8, 16, 1, 1), BRANCH)
    artifact = qcgen.compile(n.network(("int8", (1, 4, 12, 12))), target="cortex-m4", optimize="speed")
    [first, *_] = artifact.plan.calls
    assert first.kernel == "arm_dsp/winograd"
    assert not names_of(first.context)["x_is_last"]
    x = np.random.default_rng(3).integers(-128, 128, (1, 4, 12, 12)).astype(np.int8)
    x[..., :6] = np.where(x[..., :6] < 0, -128, 127)
    [y] = artifact.load().run(None, {"x": x})
    assert np.array_equal(y, evaluate(artifact.program, {"x": x})["y"])
