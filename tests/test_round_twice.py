"""TensorFlow Lite's two roundings, against the integers of its C++ written out, and the lines that replace them."""

import numpy as np
import pytest

from qcgen import arithmetic
from qcgen.ir.program import RoundTwice
from qcgen.requantize import choose
from qcgen.requantize.fixed_point import evaluate
from qcgen.requantize.lines import staircase


def multiplied(acc, multiplier, exponent):
    """Python's integers: a doubled product's upper half, rounded by C's division, then a rounding shift."""
    product = (acc << max(exponent, 0)) * multiplier
    nudged = product + (2**30 if product >= 0 else 1 - 2**30)
    high = nudged // 2**31 if nudged >= 0 else -(-nudged // 2**31)
    right = max(-exponent, 0)
    rest, half = high & (2**right - 1), (2**right - 1) >> 1
    return (high >> right) + (rest > half + (high < 0))


def meaning(multiplier, exponent, zero_point, low=-128, high=127):
    multipliers, exponents = np.array(multiplier), np.array(exponent)
    scale = np.maximum(np.float32(multipliers * 2.0 ** (exponents - 31)), np.float32(2.0**-126))
    return RoundTwice(scale, zero_point, low, high, multipliers, exponents)


@pytest.mark.parametrize("exponent", [-31, -12, -7, -1, 0, 1, 5])
def test_it_is_what_the_integers_of_c_give(exponent):
    generator = np.random.default_rng(1)
    for multiplier in (2**30, 2**30 + 1, 3 * 2**29, 2**31 - 1, int(generator.integers(2**30, 2**31))):
        near = np.arange(-600, 601)
        acc = np.concatenate([near, generator.integers(-(2**25), 2**25, 500), near << 16])
        found = arithmetic.round_twice(acc, np.int64(multiplier), np.int64(exponent))
        assert found.tolist() == [multiplied(int(a), multiplier, exponent) for a in acc]


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("zero_point", [-128, -5, 127])
def test_the_output_step_is_exact_at_every_sum(zero_point, narrow):
    generator = np.random.default_rng(2)
    by = meaning([2**30, *generator.integers(2**30, 2**31, 6), 0], [-6, -5, -6, -7, -8, -9, 1, -9], zero_point)
    lo, hi = np.full(8, -40000), np.full(8, 40000)
    fixed = choose(staircase(by, lo, hi), narrow=narrow)
    acc = np.broadcast_to(np.arange(-40000, 40001), (8, 80001))
    rounded = arithmetic.round_twice(acc, by.multiplier[:, None], by.exponent[:, None])
    assert np.array_equal(evaluate(fixed, staircase(by, lo, hi), acc), np.clip(rounded + zero_point, -128, 127))


def test_behind_a_relu_nearly_every_channel_has_an_exact_line():
    multipliers = np.random.default_rng(3).integers(2**30, 2**31, 64)
    by = meaning(multipliers, np.full(64, -8), -128)
    fixed = choose(staircase(by, np.full(64, -50000), np.full(64, 60000)))
    assert fixed.forms == {"multiply-high": 63, "guard band": 1}
