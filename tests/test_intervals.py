"""Reachable accumulators, against the inputs that reach them."""

import itertools

import numpy as np
import pytest

from qcgen.intervals import INT32_MAX, INT32_MIN, reach
from qcgen.ir.program import Conv, ConvGeometry, RawAccumulator, Tensor
from qcgen.ir.types import DType


def conv(weights, x_type: str, x_zero_point: int, w_zero_point, bias) -> Conv:
    """A 1x1 convolution of one pixel with weights (M, C)."""
    m, c = weights.shape
    geometry = ConvGeometry(1, 1, c, m, (1,), (1,), (1,), (1,), (0,), (0,), (1,))
    x, y = Tensor("x", DType(x_type), (1, c, 1)), Tensor("y", DType.INT32, (1, m, 1))
    w_zero_point = np.broadcast_to(np.asarray(w_zero_point, np.int32), (m,))
    bias = np.broadcast_to(np.asarray(bias, np.int32), (m,))
    return Conv(
        "conv", "ConvInteger", x, y, geometry, x_zero_point, weights[..., None], w_zero_point, bias, RawAccumulator()
    )


def sums(op: Conv, x: np.ndarray) -> np.ndarray:
    """The accumulators (N, M) of inputs (N, C), in int64 and so without wrapping."""
    w = op.weights[..., 0].astype(np.int64) - op.w_zero_point[:, None]
    return (x.astype(np.int64) - op.x_zero_point) @ w.T + op.bias


@pytest.mark.parametrize("w_type", ["int8", "uint8"])
@pytest.mark.parametrize("x_type", ["int8", "uint8"])
def test_both_ends_are_those_of_all_extreme_inputs(x_type, w_type):
    rng = np.random.default_rng(13)
    ends, w_ends = np.iinfo(x_type), np.iinfo(w_type)
    corners = np.array(list(itertools.product([ends.min, ends.max], repeat=6)))
    for _ in range(30):
        weights = rng.integers(w_ends.min, w_ends.max + 1, (4, 6)).astype(w_type)
        weights[0] = rng.choice([w_ends.min, w_ends.max], 6)
        w_zero_point = rng.choice([w_ends.min, 0, w_ends.max, int(rng.integers(w_ends.min, w_ends.max))], 4)
        x_zero_point = int(rng.choice([ends.min, ends.max, rng.integers(ends.min, ends.max)]))
        op = conv(weights, x_type, x_zero_point, w_zero_point, rng.integers(-(2**30), 2**30, 4))
        found, extreme = reach(op), sums(op, corners)
        assert np.array_equal(found.lo, extreme.min(axis=0))
        assert np.array_equal(found.hi, extreme.max(axis=0))
        assert found.bounds == (extreme.min(), extreme.max())
        inner = sums(op, rng.integers(ends.min, ends.max + 1, (200, 6)))
        assert ((inner >= found.lo) & (inner <= found.hi)).all()
        assert not found.wraps


def test_padding_lies_inside_the_interval():
    op = conv(np.array([[5, -7]], np.int8), "uint8", 200, 0, 11)
    found = reach(op)
    assert found.lo[0] <= 11 - 7 * 55 <= 11 <= found.hi[0]


@pytest.mark.parametrize(("bias", "wraps"), [(INT32_MAX - 255 * 3, False), (INT32_MAX - 255 * 3 + 1, True)])
def test_sums_wrap_from_the_first_that_exceeds_the_highest_int32(bias, wraps):
    found = reach(conv(np.array([[1, 2, -4]], np.int8), "uint8", 0, 0, bias))
    assert found.wraps is wraps
    expected = (INT32_MIN, INT32_MAX) if wraps else (bias - 255 * 4, INT32_MAX)
    assert found.bounds == expected


@pytest.mark.parametrize(("bias", "wraps"), [(INT32_MIN + 255 * 4, False), (INT32_MIN + 255 * 4 - 1, True)])
def test_sums_wrap_from_the_first_that_exceeds_the_lowest_int32(bias, wraps):
    found = reach(conv(np.array([[1, 2, -4]], np.int8), "uint8", 0, 0, bias))
    assert found.wraps is wraps
    assert found.bounds == ((INT32_MIN, INT32_MAX) if wraps else (INT32_MIN, bias + 255 * 3))


def test_a_channel_that_wraps_leaves_the_intervals_of_others_alone():
    found = reach(conv(np.array([[1], [1], [0]], np.int8), "int8", 0, 0, [INT32_MAX, 5, INT32_MIN]))
    assert found.wraps
    assert found.lo.tolist() == [INT32_MIN, 5 - 128, INT32_MIN]
    assert found.hi.tolist() == [INT32_MAX, 5 + 127, INT32_MIN]
