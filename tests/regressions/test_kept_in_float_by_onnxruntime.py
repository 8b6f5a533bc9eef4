"""onnxruntime computes these in float, which was not told; a bias that it adds as numbers was added as codes."""

import numpy as np
import pytest
from qdq import Chain, one

from qcgen.ir.program import Conv, FloatActivation

X, UNIT = (0.1, np.uint8(0)), np.float32(0.1) * np.float32(0.01)
WEIGHTS = np.random.default_rng(5).integers(-127, 128, (6, 8)).astype(np.int8)
BIAS = np.array([100, -200, 3, 0, 70, -8], np.int32)


def listed(number):
    """Number and zero point of a tensor whose scale is a list."""
    return np.array([number], np.float32), np.array([7], np.int8)


@pytest.mark.parametrize("op_type", ["Add", "Mul"])
@pytest.mark.parametrize("place", ["a", "y", None])
def test_sums_and_products_with_a_scale_in_a_list(op_type, place):
    chain = Chain()
    a = chain.through("x", listed(0.1) if place == "a" else (0.1, np.int8(7)))
    b = chain.through(chain.node("Neg", ["x"]), (0.1, np.int8(-7)))
    chain.through(chain.node(op_type, [a, b], "r"), listed(0.2) if place == "y" else (0.2, np.int8(7)), "y")
    assert chain.meant((1, 8)).in_float == ({"r_node"} if place else set())


def gemm(w_zero_point, factor, readers=1, w=WEIGHTS):
    chain = Chain()
    b = chain.weights("b", BIAS, (np.float32(factor) * UNIT, np.int32(0)))
    weights = chain.weights("w", w, (0.01, w_zero_point))
    result = chain.node("Gemm", [chain.through("x", X), weights, b], "r", transB=1)
    outputs = [chain.through(result, (0.02, np.uint8(128 + number)), f"y{number}") for number in range(readers)]
    return chain.meant((2, 8), outputs)


def test_a_gemm_without_zero_points_has_a_bias_in_its_own_units():
    program = gemm(None, 3)
    assert program.in_float == {"r_node"}
    assert one(program, Conv).bias.tolist() == (BIAS * 3).tolist()
    assert gemm(None, 1).in_float == {"r_node"}


def test_the_bias_of_an_integer_gemm_is_taken_in_any_units():
    program = gemm(np.int8(0), 3)
    assert program.in_float == set()
    assert one(program, Conv).bias.tolist() == BIAS.tolist()


def test_a_gemm_of_types_without_a_kernel_has_a_bias_in_its_own_units():
    chain = Chain()
    b = chain.weights("b", BIAS, (np.float32(3) * UNIT, np.int32(0)))
    w = chain.weights("w", np.abs(WEIGHTS).astype(np.uint8), (0.01, np.uint8(0)))
    result = chain.node("Gemm", [chain.through("x", (0.1, np.int8(0))), w, b], "r", transB=1)
    chain.through(result, (0.02, np.int8(0)), "y")
    program = chain.meant((2, 8))
    assert program.in_float == {"r_node"}
    assert one(program, Conv).bias.tolist() == (BIAS * 3).tolist()


def test_a_gemm_that_is_quantized_twice_is_one_of_numbers_if_its_bias_has_other_units():
    assert isinstance(one(gemm(np.int8(0), 3, readers=2), Conv).epilogue, FloatActivation)
    assert not isinstance(one(gemm(np.int8(0), 1, readers=2), Conv).epilogue, FloatActivation)
