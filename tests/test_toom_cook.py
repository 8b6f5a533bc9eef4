"""Toom-Cook's algorithms: products at points give exact multiples of the outputs, and values fit the half of a word."""

import ctypes
import subprocess

import numpy as np
import pytest
from tools import require

from qcgen import library
from qcgen.kernels.arm_dsp.tile import ELEMENT_HIGH, POINTS, Tile, ToomCook, algorithms, tiles
from qcgen.kernels.windows import PlaneAxis

ALL = [each for taps in range(1, 6) for each in algorithms(taps)]
KERNELS = [(h, w) for h in range(1, 6) for w in range(1, 6) if (h, w) != (1, 1)]


def axis(kernel: int, output: int = 8, dilation: int = 1) -> PlaneAxis:
    return PlaneAxis(output + (kernel - 1) * dilation, output, kernel, 1, dilation, 0)


def ends(shape: tuple[int, ...], low: int, high: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).choice([low, high], shape)


def name(each: ToomCook) -> str:
    return f"{each.outputs}_of_{each.taps}"


@pytest.mark.parametrize("algorithm", ALL, ids=name)
def test_outputs_are_exact_multiples(algorithm):
    rng = np.random.default_rng(1)
    for x, w in (
        (rng.integers(-128, 256, algorithm.size), rng.integers(-128, 128, algorithm.taps)),
        (ends((algorithm.size,), 0, 255, 2), ends((algorithm.taps,), -128, 127, 3)),
    ):
        found = algorithm.sums @ ((algorithm.weights @ w) * (algorithm.inputs @ x))
        wanted = [x[r : r + algorithm.taps] @ w for r in range(algorithm.outputs)]
        assert found.tolist() == [algorithm.divisor * value for value in wanted]


@pytest.mark.parametrize("algorithm", ALL, ids=name)
def test_a_bias_of_the_last_two_inputs_reaches_every_value_once(algorithm):
    bias = np.zeros(algorithm.size, np.int64)
    bias[-2:] = 1
    assert (algorithm.inputs @ bias == 1).all()


@pytest.fixture(scope="module")
def in_c(tmp_path_factory):
    """What a function of the library makes of an array of so many numbers, whose columns are taken one by one."""
    require("gcc")
    folder = tmp_path_factory.mktemp("winograd")
    calls = [(f"evaluate_{n}", "d") for n in (4, 6)]
    calls += [(f"{what}_{n}", "d, count") for what in ("interpolate", "transform") for n in (4, 6)]
    wrapped = [f"void {what}(uint32_t *d, int32_t count)\n{{\n    qcgen_dsp_{what}({a});\n}}\n" for what, a in calls]
    (folder / "c.c").write_text('#include "dsp_winograd.h"\n' + "".join(wrapped))
    flags = ["-std=c99", "-O1", "-shared", "-fPIC", f"-I{library.templates() / 'library'}"]
    subprocess.run(["gcc", *flags, "c.c", "-o", "c.so"], cwd=folder, check=True)
    functions = ctypes.CDLL(str(folder / "c.so"))

    def made(function: str, given: np.ndarray, count: int) -> np.ndarray:
        columns = [np.array([*column, *[0] * 6]).astype(np.uint32) for column in given.T]
        for column in columns:
            getattr(functions, function)(column.ctypes.data_as(ctypes.c_void_p), count)
        return np.array(columns).T.astype(np.int32)

    return made


@pytest.mark.parametrize("algorithm", [each for each in ALL if not each.is_trivial], ids=name)
def test_the_functions_in_c_are_the_matrices(algorithm, in_c):
    size, outputs, taps = algorithm.size, algorithm.outputs, algorithm.taps
    points, weights = np.eye(size, dtype=np.int64), np.eye(taps, dtype=np.int64)
    assert in_c(f"evaluate_{size}", points, 0)[:size].tolist() == algorithm.inputs.tolist()
    assert in_c(f"interpolate_{size}", points, outputs)[:outputs].tolist() == algorithm.sums.tolist()
    assert in_c(f"transform_{size}", weights, taps)[:size].tolist() == algorithm.weights.tolist()


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_values_with_their_bias_fit_the_half_of_a_word(kernel):
    for tile in tiles(axis(kernel[0]), axis(kernel[1])):
        products = np.einsum("ia,jb->ijab", tile.height.inputs, tile.width.inputs)
        low = ELEMENT_HIGH * np.minimum(products, 0).sum(axis=(2, 3))
        high = ELEMENT_HIGH * np.maximum(products, 0).sum(axis=(2, 3))
        assert low.min() + tile.bias >= 0
        assert high.max() + tile.bias < 2**15


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_tiles_divide_exactly_modulo_2_to_the_32(kernel):
    for tile in tiles(axis(kernel[0]), axis(kernel[1])):
        total = -123_457 * tile.height.divisor * tile.width.divisor % 2**32 * tile.inverse % 2**32
        signed = total - 2**32 if total >= 2**31 else total
        assert signed >> tile.shift == -123_457


def test_every_number_of_points_occurs_on_both_axes():
    sizes = {(tile.height.size, tile.width.size) for h, w in KERNELS for tile in tiles(axis(h), axis(w))}
    assert sizes == {(h, w) for h in POINTS for w in POINTS} - {(1, 1)}


def test_tiles_cover_the_outputs_and_those_that_are_too_few_have_none():
    [tile] = [each for each in tiles(axis(3), axis(3)) if (each.height.outputs, each.width.outputs) == (4, 2)]
    assert isinstance(tile, Tile)
    assert tile.count(axis(3, 9), axis(3, 5)) == 3 * 3
    assert tile.count(axis(3, 9, dilation=2), axis(3, 5)) == (2 + 1) * 3
    assert tile.count(axis(3, 7, dilation=2), axis(3, 5)) == 0
