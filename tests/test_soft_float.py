"""Float32 arithmetic in integers, as the generated C has it, equals the processor's."""

import subprocess

import numpy as np
import pytest
from batch import require
from cffi import FFI

from qcgen.arithmetic import fused
from qcgen.build import STRICT_FLAGS
from qcgen.render import library

COUNT = 400_000
WRAPPERS = """
void each_sum(const uint32_t *a, const uint32_t *b, uint32_t *y, int32_t count);
void each_ratio(const uint32_t *a, const uint32_t *b, uint32_t *y, int32_t count);
void each_integer(const uint32_t *a, int32_t *y, int32_t count);
void each_fused(const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *y, int32_t count);
void each_product(const uint32_t *a, const uint32_t *b, uint32_t *y, int32_t count);
void each_root(const uint32_t *a, uint32_t *y, int32_t count);
uint32_t mean(int64_t sum, uint32_t count, int32_t exponent);
"""
BODIES = """
void each_sum(const uint32_t *a, const uint32_t *b, uint32_t *y, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        y[i] = t_soft_float_add(a[i], b[i]);
    }
}
void each_ratio(const uint32_t *a, const uint32_t *b, uint32_t *y, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        y[i] = t_soft_float_divide(a[i], b[i]);
    }
}
void each_fused(const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *y, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        y[i] = t_soft_float_multiply_add(a[i], b[i], c[i]);
    }
}
void each_product(const uint32_t *a, const uint32_t *b, uint32_t *y, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        y[i] = t_soft_float_multiply(a[i], b[i]);
    }
}
void each_root(const uint32_t *a, uint32_t *y, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        y[i] = t_soft_float_root(a[i]);
    }
}
uint32_t mean(int64_t sum, uint32_t count, int32_t exponent)
{
    return t_soft_float_mean(sum, count, exponent);
}
void each_integer(const uint32_t *a, int32_t *y, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        y[i] = t_soft_float_round(a[i]);
    }
}
"""


@pytest.fixture(scope="module")
def soft(tmp_path_factory):
    """A function of the C function's name and arrays of words."""
    require("gcc")
    folder, ffi = tmp_path_factory.mktemp("soft_float"), FFI()
    names = ("soft_float_add", "soft_float_split", "soft_float_divide", "soft_float_round", "soft_float_multiply_add")
    names = (*names, "soft_float_multiply", "soft_float_root", "soft_float_mean")
    text = "".join(library("").needed([], "t", names))
    (folder / "soft.c").write_text(f"#include <stdint.h>\n{text}{WRAPPERS}{BODIES}")
    command = ["gcc", *STRICT_FLAGS, "-O2", "-shared", "-fPIC", "soft.c", "-o", "soft.so"]
    subprocess.run(command, cwd=folder, check=True)
    ffi.cdef(WRAPPERS)
    built = ffi.dlopen(str(folder / "soft.so"))

    def run(name, *arrays):
        if name == "mean":
            return built.mean(*arrays)
        y = np.zeros(arrays[0].size, np.int32 if name == "each_integer" else np.uint32)
        words = [np.ascontiguousarray(array.view(np.uint32)) for array in arrays]
        kind = "int32_t *" if name == "each_integer" else "uint32_t *"
        pointers = [ffi.cast("uint32_t *", array.ctypes.data) for array in words]
        getattr(built, name)(*pointers, ffi.cast(kind, y.ctypes.data), y.size)
        return y

    return run


def floats(seed: int, lowest: int, highest: int) -> np.ndarray:
    """Numbers of both signs with exponents in a range, many of them with very simple or very full significands."""
    rng = np.random.default_rng(seed)
    significand = rng.integers(0, 2**23, COUNT)
    significand = np.choose(rng.integers(0, 3, COUNT), [significand, significand & 0x700000, significand | 0x7FFFF0])
    exponent, sign = rng.integers(lowest, highest, COUNT), rng.integers(0, 2, COUNT)
    return (sign << 31 | exponent << 23 | significand).astype(np.uint32).view(np.float32)


RANGES = {"all": (0, 253), "subnormal": (0, 4), "near": (110, 140), "large": (225, 253)}


@pytest.mark.parametrize("label", RANGES)
def test_sums_are_those_of_the_processor(soft, label):
    a, b = floats(1, *RANGES[label]), floats(2, *RANGES[label])
    expected = a + b
    found = soft("each_sum", a, b).view(np.float32)
    assert np.array_equal(found, expected)
    assert np.array_equal(soft("each_sum", a, -a), np.zeros(COUNT, np.uint32))


@pytest.mark.parametrize("label", RANGES)
def test_ratios_are_those_of_the_processor_unless_they_leave_its_normal_range(soft, label):
    a, b = floats(3, *RANGES[label]), np.abs(floats(4, *RANGES[label]))
    b[b == 0] = 1.0
    with np.errstate(over="ignore", under="ignore"):
        expected = a / b
    found = soft("each_ratio", a, b).view(np.float32)
    size = np.abs(expected)
    inside = (size >= 2.0**-125) & (size < 2.0**126)
    assert np.array_equal(found[inside], expected[inside])
    assert (np.abs(found[size < 2.0**-126]) <= 2.0**-126).all()
    assert (np.abs(found[size > 2.0**127]) > 2.0**126).all()


def test_integers_are_rounded_half_to_even(soft):
    halves = np.arange(-1200, 1200).astype(np.float32) / 2
    beside = [np.nextafter(halves, np.float32(side)) for side in (-1e9, 1e9)]
    values = np.concatenate([halves, *beside, floats(5, 100, 160)])
    expected = np.rint(values.astype(np.float64))
    expected = np.where(np.abs(values) >= 2**23, np.copysign(2**24, values), expected)
    assert np.array_equal(soft("each_integer", values), expected.astype(np.int64))


def normal(values: np.ndarray) -> np.ndarray:
    """Whether numbers are neither subnormal nor near the largest."""
    size = np.abs(values)
    return (size >= 2.0**-125) & (size < 2.0**126)


@pytest.mark.parametrize("label", ["near", "wide", "cancelling"])
def test_products_and_sums_that_are_rounded_once_are_those_of_the_processor(soft, label):
    a, b = floats(6, 90, 160), floats(7, 90, 160)
    exact = a.astype(np.float64) * b
    c = {"near": floats(8, 90, 160), "wide": floats(9, 0, 250), "cancelling": -exact.astype(np.float32)}[label]
    expected = fused(a, b, c)
    inside = normal(expected) | (expected == 0)
    found = soft("each_fused", a, b, c).view(np.float32)
    assert inside.mean() > 0.5
    assert np.array_equal(found[inside], expected[inside])
    assert np.array_equal(soft("each_fused", a * 0, b, c), c.view(np.uint32))


@pytest.mark.parametrize("label", RANGES)
def test_products_are_those_of_the_processor_unless_they_leave_its_normal_range(soft, label):
    a, b = floats(10, *RANGES[label]), floats(11, *RANGES[label])
    with np.errstate(over="ignore", under="ignore"):
        expected = a * b
    found = soft("each_product", a, b).view(np.float32)
    assert np.array_equal(found[normal(expected)], expected[normal(expected)])
    assert (np.abs(found[np.abs(expected) < 2.0**-126]) <= 2.0**-126).all()


def test_roots_are_those_of_the_processor(soft):
    values = np.abs(floats(12, 0, 253))
    values[values == 0] = 4.0
    squares = (np.arange(1, 4096) ** 2).astype(np.float32)
    for numbers in (values, squares, np.nextafter(squares, np.float32(0)), np.nextafter(squares, np.float32(1e9))):
        assert np.array_equal(soft("each_root", numbers).view(np.float32), np.sqrt(numbers))


def test_means_are_the_nearest_numbers(soft):
    rng = np.random.default_rng(13)
    for _ in range(3000):
        count = int(rng.integers(1, 2 ** rng.integers(1, 20)))
        total = int(rng.integers(-(2**52), 2**52)) >> int(rng.integers(0, 50))
        # A float64 quotient is next to a tie only if it is one: float32 then rounds the exact quotient.
        expected = np.float32(total / count * 2.0**-20)
        assert soft("mean", total, count, -20) == expected.view(np.uint32)
