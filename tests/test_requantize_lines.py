"""The search for integer lines, against every multiplier and every constant of small problems."""

import numpy as np
import pytest
from requantization_layers import stairs_of

from qcgen.intervals import INT32_MAX, INT32_MIN
from qcgen.requantize import lines

SHIFT = 9


def small_stairs(seed: int):
    """Twelve channels whose multipliers are small numbers at SHIFT; some are constant, some step once."""
    rng = np.random.default_rng(seed)
    lo = rng.integers(-300, 300, 12)
    hi = lo + rng.integers(0, 400, 12)
    low, high = sorted(rng.choice(np.arange(-9, 12), 2, replace=False).tolist())
    return stairs_of(2.0 ** rng.uniform(-7, 0, 12), lo, hi, int(rng.integers(low, high + 1)), low, high)


def is_exact(stairs, m: int, slope: int, constant) -> np.ndarray:
    """Whether (acc * slope + constant) >> SHIFT is the output of channel m at every reachable accumulator."""
    acc = np.arange(int(stairs.lo[m]), int(stairs.hi[m]) + 1)
    meaning = stairs.requantize
    line = (acc[:, None] * slope + np.asarray(constant)[None, :] >> SHIFT) + meaning.zero_point
    expected = stairs.at(np.broadcast_to(acc, (stairs.lo.size, acc.size)))[m]
    return (np.clip(line, meaning.low, meaning.high) == expected[:, None]).all(axis=0)


@pytest.mark.all
def test_the_band_holds_exactly_the_constants_that_make_a_line_exact():
    admitted = refused = 0
    for seed in range(4):
        stairs = small_stairs(seed)
        task = lines.problem(stairs, SHIFT)
        for slope in (1, 2, 3, 17, 64, 200, 333, 512):
            band = lines.band(task, np.full(12, slope))
            for m in range(12):
                reach = 2**SHIFT * 40 + slope * 700  # no constant beyond it could matter, unless clamps hold the line
                constant = np.arange(-reach, reach, 1 + reach // 5000)
                expected = (constant >= band.lowest[m]) & (constant <= band.highest[m])
                assert np.array_equal(is_exact(stairs, m, slope, constant), expected)
                for edge in (int(band.lowest[m]), int(band.highest[m])):
                    if band.admits[m] and abs(edge) < 2**60:
                        assert is_exact(stairs, m, slope, [edge])[0]
                        outward = -1 if edge == band.lowest[m] else 1
                        assert band.lowest[m] == band.highest[m] or not is_exact(stairs, m, slope, [edge + outward])[0]
                admitted, refused = admitted + int(band.admits[m]), refused + int(not band.admits[m])
    assert admitted > 20
    assert refused > 20


def test_the_best_multiplier_has_the_widest_band_of_all():
    for seed in range(20):
        task = lines.problem(small_stairs(seed), SHIFT)
        slopes = np.arange(1, 3000)
        bands = [lines.band(task, np.full(12, slope)) for slope in slopes]
        width = np.array([band.highest - band.lowest for band in bands])
        best = lines.best_multiplier(task)
        found = lines.band(task, best)
        bounded = (np.abs(found.lowest) < 2**61) & (np.abs(found.highest) < 2**61)
        assert (found.highest - found.lowest >= width.max(axis=0))[bounded].all()
        assert bounded.any()


def test_the_admitting_multipliers_are_those_with_a_band():
    counted = 0
    for seed in range(20):
        task = lines.problem(small_stairs(seed), SHIFT)
        best = lines.best_multiplier(task)
        rows = np.flatnonzero(lines.band(task, best).admits)
        part, best = task.take(rows), best[rows]
        smallest, largest = lines.admitting(part, best)
        admits = np.array([lines.band(part, np.full(rows.size, m)).admits for m in range(1, 3000)])
        for row in range(rows.size):
            expected = np.flatnonzero(admits[:, row]) + 1
            assert smallest[row] == expected[0]
            assert np.array_equal(expected, np.arange(expected[0], expected[-1] + 1))
            assert largest[row] == expected[-1] or (expected[-1] == 2999 and largest[row] >= 2999)
            counted += int(expected[-1] < 2999)
    assert counted > 50


def test_bands_at_the_largest_shift_do_not_overflow():
    stairs = stairs_of([2.0**-24, 2.0**-32, 1e-9, 2.0**-25], [INT32_MIN] * 4, [INT32_MAX, INT32_MAX, 5, -9], 127)
    task = lines.problem(stairs, lines.MAX_SHIFT)
    corners = stairs.corners
    for slope in (1, 12345, 2**30, 2**31 - 1):
        band = lines.band(task, np.full(4, slope))
        for m in range(4):
            lower = [
                ((int(k) - 127) << lines.MAX_SHIFT) - int(acc) * slope
                for acc, k, counts in zip(
                    corners.reach_acc[m], corners.reach_code[m], corners.reach_counts[m], strict=True
                )
                if counts
            ]
            upper = [
                ((int(k) - 127) << lines.MAX_SHIFT) - int(acc) * slope - 1
                for acc, k, counts in zip(
                    corners.miss_acc[m], corners.miss_code[m], corners.miss_counts[m], strict=True
                )
                if counts
            ]
            # What stands for "no bound" may only make the band narrower, never wider.
            assert band.lowest[m] == max([*lower, -(2**62)])
            assert band.highest[m] == min([*upper, 2**62])


def test_a_channel_may_be_taken_twice():
    task = lines.problem(small_stairs(3), SHIFT)
    band, twice = lines.band(task, np.full(12, 50)), lines.band(task.take(np.array([4, 4, 7])), np.full(3, 50))
    assert twice.lowest.tolist() == band.lowest[[4, 4, 7]].tolist()
    assert twice.highest.tolist() == band.highest[[4, 4, 7]].tolist()
