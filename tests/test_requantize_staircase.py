"""The staircase of thresholds, against equation (1) at every accumulator."""

import numpy as np
import pytest
from requantization_layers import stairs_of

from qcgen import arithmetic
from qcgen.intervals import INT32_MAX, INT32_MIN
from qcgen.requantize.lines import Staircase
from qcgen.requantize.lines import staircase as build

SCALES = {
    "tiny": 3.7e-12,
    "subnormal": 1e-45,
    "smallest normal": 2.0**-126,
    "usual": 0.0037,
    "power of two": 2.0**-7,
    "just below a power of two": float(np.nextafter(np.float32(2.0**-7), np.float32(0))),
    "just above a power of two": float(np.nextafter(np.float32(2.0**-7), np.float32(1))),
    "one half": 0.5,
    "one": 1.0,
    "above one": 2.1,
    "huge": 300.0,
    "the largest": float(np.finfo(np.float32).max),
}
RANGES = {"int8": (-128, 127), "uint8": (0, 255), "narrowed": (-20, 31), "two codes": (6, 7), "one code": (5, 5)}
INTERVALS = {
    "about zero": (-3000, 3000),
    "above": (900, 4000),
    "below": (-5000, -60),
    "one accumulator": (77, 77),
    "next to 2^24": (2**24 - 2000, 2**24 + 2000),
    "the lowest of int32": (INT32_MIN, INT32_MIN + 3000),
    "the highest of int32": (INT32_MAX - 3000, INT32_MAX),
}


def require_brute_force(stairs: Staircase) -> None:
    """Fails unless first, last and every threshold are those found by looking at each accumulator."""
    meaning = stairs.requantize
    for m in range(stairs.lo.size):
        lo, hi = int(stairs.lo[m]), int(stairs.hi[m])
        acc = np.arange(lo, hi + 1)
        y = arithmetic.requantize(acc, meaning.scale[m], meaning.zero_point, meaning.low, meaning.high)
        expected = [int(acc[y >= k][0]) if (y >= k).any() else hi + 1 for k in range(meaning.low + 1, meaning.high + 1)]
        assert stairs.thresholds[m].tolist() == expected
        assert (stairs.first[m], stairs.last[m]) == (y[0], y[-1])


@pytest.mark.parametrize("codes", RANGES.values(), ids=RANGES.keys())
@pytest.mark.parametrize("interval", INTERVALS.values(), ids=INTERVALS.keys())
def test_thresholds_are_the_first_accumulators_of_their_codes(interval, codes):
    for zero_point in {codes[0], codes[1], sum(codes) // 2}:
        require_brute_force(stairs_of(list(SCALES.values()), [interval[0]] * 12, interval[1], zero_point, *codes))


def test_thresholds_of_random_scales_are_the_first_accumulators_of_their_codes():
    rng = np.random.default_rng(1)
    for _ in range(20):
        lo = rng.integers(-4000, 4000, 8)
        scale = 2.0 ** rng.uniform(-9, 1, 8)
        require_brute_force(stairs_of(scale, lo, lo + rng.integers(0, 5000, 8), int(rng.integers(-128, 128))))


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES.keys())
def test_on_all_of_int32_every_step_has_the_code_on_its_upper_side_only(scale):
    for zero_point in (-128, 0, 127):
        stairs = stairs_of(scale, INT32_MIN, INT32_MAX, zero_point)
        inside, t = stairs.steps[0], stairs.thresholds[0]
        assert (stairs.at(t[None])[0, inside] >= stairs.codes[inside]).all()
        assert (stairs.at(t[None] - 1)[0, inside] < stairs.codes[inside]).all()
        assert inside.sum() == stairs.last[0] - stairs.first[0]


def test_brackets_that_do_not_hold_are_widened_to_the_interval(monkeypatch):
    scale = np.geomspace(1e-3, 2.1, 9)
    expected = stairs_of(scale, [-9000] * 9, 9000, 3)
    formula = arithmetic.requantize
    # Shifting the formula by 500 accumulators leaves it monotone and puts every threshold outside its bracket.
    monkeypatch.setattr(arithmetic, "requantize", lambda acc, *rest: formula(acc - 500, *rest))
    moved = build(expected.requantize, expected.lo + 500, expected.hi + 500)
    assert np.array_equal(moved.thresholds, expected.thresholds + 500)


def test_steps_and_constants_tell_where_the_output_changes():
    stairs = stairs_of([1.0, 1.0, 1.0], [-2, 200, 5], [3, 900, 5], 0)
    assert stairs.constant.tolist() == [False, True, True]
    assert stairs.steps.sum(axis=1).tolist() == [5, 0, 0]
    assert stairs.codes[stairs.steps[0]].tolist() == [-1, 0, 1, 2, 3]
