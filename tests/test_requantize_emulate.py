"""Integer emulation of both float32 roundings, against numpy's float32 arithmetic."""

import numpy as np
import pytest

from qcgen import arithmetic
from qcgen.intervals import INT32_MAX, INT32_MIN
from qcgen.ir.program import Requantize
from qcgen.requantize.fixed_point import decompose, emulate

POWERS = [sign * (2**n + away) for n in range(32) for away in range(-3, 4) for sign in (-1, 1)]
BORDERS = np.array([a for a in [*POWERS, INT32_MIN, INT32_MAX, 0] if INT32_MIN <= a <= INT32_MAX], np.int64)
SCALES = np.array(
    [
        *(2.0**n for n in range(-34, 4)),
        *np.nextafter(np.float32(2.0) ** np.arange(-34, 4, dtype=np.float32), np.float32(0)),
        *np.nextafter(np.float32(2.0) ** np.arange(-34, 4, dtype=np.float32), np.float32(9)),
        *(0.0037, 1e-9, 3.7e-12, 2.1, 300.0, 1e-45, 1e-39, 2.0**-126, 1e30, float(np.finfo(np.float32).max)),
    ],
    np.float32,
)


def require_equal(acc: np.ndarray, scale: np.ndarray, zero_point: int, low: int = -128, high: int = 127) -> None:
    expected = arithmetic.requantize(acc, scale[:, None], zero_point, low, high)
    assert np.array_equal(emulate(acc, Requantize(scale, zero_point, low, high)), expected)


@pytest.mark.parametrize("zero_point", [-128, 0, 127])
def test_emulation_equals_float32_next_to_powers_of_two_and_at_the_ends_of_int32(zero_point):
    require_equal(np.broadcast_to(BORDERS, (SCALES.size, BORDERS.size)), SCALES, zero_point)


def test_emulation_equals_float32_on_random_accumulators_and_scales():
    rng = np.random.default_rng(2)
    for width in (8, 16, 23, 24, 25, 28, 31):
        scale = (2.0 ** rng.uniform(-width - 2, 9 - width, 50)).astype(np.float32)
        acc = rng.integers(-(2**width), 2**width, (50, 4000))
        require_equal(acc, scale, int(rng.integers(0, 256)), 0, 255)


def test_emulation_equals_float32_next_to_the_ties_of_random_scales():
    rng = np.random.default_rng(3)
    scale = (2.0 ** rng.uniform(-23, -2, 2000)).astype(np.float32)
    ties = (np.arange(-130, 130) + 0.5) / scale[:, None].astype(np.float64)
    acc = np.rint(ties).astype(np.int64)[..., None] + np.arange(-2, 3)
    require_equal(np.clip(acc.reshape(2000, -1), INT32_MIN, INT32_MAX), scale, 0)


def test_exact_ties_go_to_even():
    codes = emulate(np.array([[-5, -3, -1, 1, 3, 5]]), Requantize(np.array([0.5], np.float32), 0, -128, 127))
    assert codes.tolist() == [[-2, -2, 0, 0, 2, 2]]


def test_a_scale_is_exactly_its_mantissa_times_a_power_of_two():
    mantissa, exponent = decompose(SCALES)
    assert ((mantissa >= 2**23) & (mantissa < 2**24)).all()
    assert np.array_equal(np.ldexp(mantissa.astype(np.float64), exponent), SCALES.astype(np.float64))
