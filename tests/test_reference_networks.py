"""The reference of whole networks: formulas against recorded numbers, operators against their definitions."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from models import MICROSOFT, node_model
from onnx import helper

from qcgen import arithmetic
from qcgen.arithmetic import Quantization
from qcgen.check import check
from qcgen.compiler import read
from qcgen.lower import lower
from qcgen.reference import evaluate
from qcgen.requantize.means import average_staircase

SHARED = Path(__file__).resolve().parents[2] / "shared" / "models"
QOPERATOR = (
    "ad_fc_tfl_qop",
    "ic_resnet8_ort_qop_u8s8",
    "ic_resnet8_tfl_qop",
    "kws_dscnn_ort_qop_s8s8_pc",
    "kws_dscnn_ort_qop_u8s8",
    "kws_dscnn_tfl_qop",
    "micro_kws_m_static_qoperator",
    "mnist_dw_ort_qop_u8s8",
    "vww_mbv1_tfl_qop",
)

F32 = np.float32


def program_of(model):
    return lower(check(read(model)))


def run(model, *arrays):
    program = program_of(model)
    feeds = {tensor.name: array for tensor, array in zip(program.inputs, arrays, strict=True)}
    return evaluate(program, feeds)[program.outputs[0].name]


def quantized(op_type, x, scales, dtype="uint8", **attributes):
    """One operator of com.microsoft with (X, scale, zero point, Y_scale, Y_zero_point)."""
    x_scale, x_zero, y_scale, y_zero = scales
    operands = {
        "x": (dtype, x.shape),
        "x_scale": np.asarray(x_scale, F32),
        "x_zero_point": np.asarray(x_zero, dtype),
        "y_scale": np.asarray(y_scale, F32),
        "y_zero_point": np.asarray(y_zero, dtype),
    }
    return node_model(op_type, operands, domain=MICROSOFT, **attributes)


@pytest.mark.parametrize("name", QOPERATOR)
def test_a_qoperator_model_gives_the_recorded_outputs(name):
    path = SHARED / f"{name}.onnx"
    if not path.exists():
        pytest.skip("the recorded models lie in ../shared, beside the repository, and are not there")
    program = program_of(path)
    vectors = np.load(path.with_suffix(".npz"))
    models = json.loads((SHARED / "index.json").read_text())["models"]
    cases = next(model["n_vectors"] for model in models if model["name"] == name)
    assert cases >= 3
    for case in range(cases):
        results = evaluate(program, {x.name: vectors[f"in{case}.{x.name}"] for x in program.inputs})
        for output, y in results.items():
            np.testing.assert_array_equal(y, vectors[f"out{case}.{output}"], strict=True)


def test_fma_rounds_once():
    rng = np.random.default_rng(1)
    a, b, c = ((rng.normal(size=2000) * 2.0 ** rng.integers(-12, 12, 2000)).astype(F32) for _ in range(3))
    c[:1000] = -(a * b)[:1000]  # what is left is the rounding error of the product
    for index, got in enumerate(arithmetic.fused(a, b, c)):
        exact = Fraction(float(a[index])) * Fraction(float(b[index])) + Fraction(float(c[index]))
        neighbours = (np.nextafter(got, F32(-np.inf)), np.nextafter(got, F32(np.inf)))
        assert all(abs(Fraction(float(got)) - exact) <= abs(Fraction(float(other)) - exact) for other in neighbours)


def test_the_second_rounding_of_an_fma_is_not_misled_by_the_first():
    # 1 + 2^-24 + 2^-60 lies just above the middle of two float32 numbers; float64 cannot tell.
    assert arithmetic.fused(F32(2.0**-30), F32(2.0**-30), F32(1)) == 1
    a, b = F32(1 + 2.0**-12), F32(1 + 2.0**-12)  # a * b = 1 + 2^-11 + 2^-24: a tie, broken by what is added
    assert arithmetic.fused(a, b, F32(2.0**-60)) == F32(1 + 2.0**-11 + 2.0**-23)
    assert arithmetic.fused(a, b, F32(-(2.0**-60))) == F32(1 + 2.0**-11)


def test_quantizing_rounds_halves_to_even_and_saturates():
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1e38, -1e38], F32)
    np.testing.assert_array_equal(arithmetic.quantize(x, 1.0, 0, -128, 127), [0, 2, 2, 0, -2, 127, -128])
    np.testing.assert_array_equal(arithmetic.quantize(x, 1.0, 3, 0, 255), [3, 5, 5, 3, 1, 255, 0])


def test_a_mean_adds_the_zero_point_before_it_rounds():
    # 0.5 + 1 = 1.5 rounds to 2, whereas 0.5 rounds to 0, plus 1.
    y_by = Quantization(1.0, 1)
    assert arithmetic.quantize_mean(np.array([0.5], F32), y_by, 0, 255) == [2]
    assert arithmetic.quantize(np.array([0.5], F32), 1.0, 1, 0, 255) == [1]


def test_the_order_of_a_windows_codes_can_decide_its_mean():
    stairs = average_staircase(
        4, 4, Quantization(float(F32(0.1)), 0), Quantization(float(F32(0.1)), 0), (0, 9), (0, 255)
    )
    [index, *_] = np.flatnonzero(stairs.ambiguous)
    assert stairs.most[index] == stairs.least[index] + 1


@pytest.mark.parametrize("seed", range(6))
def test_the_staircase_of_a_mean_holds_just_the_codes_that_some_window_gives(seed):
    rng = np.random.default_rng(seed)
    x_by = Quantization(float(F32(rng.uniform(0.01, 1))), int(rng.integers(0, 6)))
    y_by = Quantization(float(F32(x_by.scale * [1, 0.5, 0.3][seed % 3])), int(rng.integers(0, 256)))
    windows = np.array(list(itertools.product(range(6), repeat=4))).T
    codes = arithmetic.average(windows, np.ones_like(windows, np.bool_), np.array(4), x_by, y_by, 0, 255)
    sums = (windows - x_by.zero_point).sum(axis=0)
    stairs = average_staircase(4, 4, x_by, y_by, (0, 5), (0, 255))
    assert (stairs.lo, stairs.hi) == (sums.min(), sums.max())
    for total in range(stairs.lo, stairs.hi + 1):
        index = total - stairs.lo
        assert (codes[sums == total].min(), codes[sums == total].max()) == (stairs.least[index], stairs.most[index])


def test_every_sum_of_a_window_decides_its_mean_where_no_addition_rounds():
    stairs = average_staircase(4, 4, Quantization(0.125, 128), Quantization(0.25, 3), (0, 255), (0, 255))
    assert not stairs.ambiguous.any()  # multiples of a power of two are added without rounding


def test_softmax_of_equal_numbers_is_shared_equally_and_a_lone_winner_saturates():
    x = np.array([[7, 7, 7, 7], [0, 0, 0, 255]], np.uint8)
    model = quantized("QLinearSoftmax", x, (0.25, 0, 1 / 256, 0), axis=-1)
    model.graph.node[0].attribute.append(helper.make_attribute("opset", 13))
    np.testing.assert_array_equal(run(model, x), [[64, 64, 64, 64], [0, 0, 0, 255]])


@pytest.mark.parametrize("opset", [11, 13])
def test_softmax_before_opset_13_flattens_and_later_does_not(opset):
    x = np.random.default_rng(2).normal(size=(2, 3, 4)).astype(F32)
    y = run(node_model("Softmax", {"x": ("float", x.shape)}, opset=opset, axis=1), x).astype(np.float64)
    np.testing.assert_allclose(y.sum(axis=(1, 2) if opset < 13 else 1), 1, atol=1e-6)


def test_a_pooling_over_the_whole_image_is_a_global_one():
    x = np.random.default_rng(3).integers(0, 256, (1, 5, 7, 7)).astype(np.uint8)
    scales = (0.1, 3, 0.1, 9)
    window = run(quantized("QLinearAveragePool", x, scales, kernel_shape=[7, 7]), x)
    np.testing.assert_array_equal(window, run(quantized("QLinearGlobalAveragePool", x, scales), x))


def test_channels_last_poolings_compute_the_same():
    x = np.random.default_rng(4).integers(0, 256, (2, 3, 6, 5)).astype(np.uint8)
    options = {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1], "count_include_pad": 1}
    first = run(quantized("QLinearAveragePool", x, (0.1, 7, 0.07, 9), **options), x)
    last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    second = run(quantized("QLinearAveragePool", last, (0.1, 7, 0.07, 9), channels_last=1, **options), last)
    np.testing.assert_array_equal(np.moveaxis(second, -1, 1), first)


def test_padding_never_wins_a_max_pooling():
    x = np.full((1, 1, 2, 2), -128, np.int8)
    y = run(node_model("MaxPool", {"x": ("int8", x.shape)}, kernel_shape=[2, 2], pads=[1, 1, 1, 1]), x)
    np.testing.assert_array_equal(y, np.full((1, 1, 3, 3), -128, np.int8))


def test_an_operand_repeated_along_the_innermost_axis_is_added_first():
    a, b, y = (
        Quantization(float(F32(0.0371)), 11),
        Quantization(float(F32(0.0223)), 200),
        Quantization(float(F32(0.05)), 7),
    )
    column = np.arange(256, dtype=np.uint8).reshape(256, 1)
    row = np.arange(256, dtype=np.uint8).reshape(1, 256)
    operands = {"A": ("uint8", column.shape), **parameters("A", a), "B": ("uint8", row.shape), **parameters("B", b)}
    program = program_of(node_model("QLinearAdd", {**operands, **parameters("C", y)}, domain=MICROSOFT))
    [op] = program.operators
    assert (op.a.name, op.b.name) == ("B", "A")
    got = evaluate(program, {"A": column, "B": row})["y"]
    np.testing.assert_array_equal(got, arithmetic.add(row, column, b, a, y, 0, 255))


def parameters(role, by):
    return {f"{role}_scale": np.asarray(by.scale, F32), f"{role}_zero_point": np.asarray(by.zero_point, np.uint8)}


def test_a_product_adds_the_zero_point_before_it_rounds():
    one = Quantization(1.0, 0)
    # 1 * 1 / 2 + 1 = 1.5 rounds to 2.
    assert arithmetic.multiply(np.array([1]), np.array([1]), one, one, Quantization(2.0, 1), 0, 255) == [2]


RESIZES = {
    "halves go down": ({"nearest_mode": "round_prefer_floor"}, (1, 1, 1, 4), [0, 0, 1, 1]),
    "asymmetric floor": (
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        (1, 1, 1, 3),
        [0, 0, 1],
    ),
    "corners": ({"coordinate_transformation_mode": "align_corners", "nearest_mode": "ceil"}, (1, 1, 1, 3), [0, 1, 1]),
    "a middle that float32 misses": (
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "round_prefer_ceil"},
        (1, 1, 1, 2),
        [0, 4],
    ),
}


@pytest.mark.parametrize("name", RESIZES)
def test_resize_takes_these_elements(name):
    attributes, shape, expected = RESIZES[name]
    x = np.arange(7 if name.startswith("a middle") else 2, dtype=np.uint8).reshape(1, 1, 1, -1)
    empty, sizes = np.array([], F32), np.array(shape, np.int64)
    operands = {"x": ("uint8", x.shape), "roi": empty, "scales": empty, "sizes": sizes}
    np.testing.assert_array_equal(
        run(node_model("Resize", operands, mode="nearest", **attributes), x).ravel(), expected
    )


PADS = {"edge": [0, 0, 0, 1, 2, 2, 2], "reflect": [2, 1, 0, 1, 2, 1, 0], "wrap": [1, 2, 0, 1, 2, 0, 1]}


@pytest.mark.parametrize("mode", PADS)
def test_padding_repeats_these_elements(mode):
    x = np.arange(3, dtype=np.int8).reshape(1, 3)
    model = node_model("Pad", {"x": ("int8", x.shape), "pads": np.array([0, 2, 0, 2])}, opset=19, mode=mode)
    np.testing.assert_array_equal(run(model, x)[0], PADS[mode])


def test_padding_with_a_constant_puts_codes_not_numbers():
    x = np.full((1, 2), 9, np.uint8)
    model = node_model("Pad", {"x": ("uint8", x.shape), "pads": np.array([0, 1, 0, 2]), "value": np.array(7, np.uint8)})
    np.testing.assert_array_equal(run(model, x), [[7, 9, 9, 7, 7]])


def test_slices_run_backwards():
    x = np.arange(7, dtype=np.int8).reshape(1, 7)
    parts = {name: np.array([number]) for name, number in (("starts", 5), ("ends", -20), ("axes", 1), ("steps", -2))}
    np.testing.assert_array_equal(run(node_model("Slice", {"x": ("int8", x.shape), **parts}), x), [[5, 3, 1]])
