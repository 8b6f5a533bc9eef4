"""The shares of a softmax of codes, as the generated C computes them, are the exact ratio rounded once, half to even.

The sums of whole rows rarely have few digits, so that a share is a tie and its product with the reciprocal is exact:
here the functions are called by themselves, on words of any numbers that they are made for.
"""

from __future__ import annotations

import re
import subprocess
from fractions import Fraction

import numpy as np
import pytest
from batch import require
from cffi import FFI
from network_cases import UNITS
from network_units import artifact

from qcgen.build import STRICT_FLAGS

UNIT = next(unit for unit in UNITS if unit.name == "softmax_u8_0_1_10_256")
CALLED = "void each(const uint32_t *parts, const uint32_t *sums, int32_t *exact, int32_t *near, int32_t count);"


@pytest.fixture
def shares(tmp_path):
    """A function of words of parts and of sums: the shares by division, and by the reciprocal."""
    require("gcc")

    def run(parts: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        made = artifact(UNIT)
        [(name, text)] = [(name, text) for name, text in made.files.items() if name.endswith(".c")]
        symbol = re.search(r"(\w+)_near_share\(uint32_t", text)[1]
        for each, written in made.files.items():
            (tmp_path / each).write_text(written)
        body = (
            f"\n{CALLED}\n{CALLED[:-1]}\n{{\n    for (int32_t i = 0; i < count; i++) {{\n"
            f"        exact[i] = {symbol}_share(parts[i], sums[i]);\n"
            f"        near[i] = {symbol}_near_share(parts[i], sums[i], {symbol}_reciprocal(sums[i]));\n    }}\n}}\n"
        )
        (tmp_path / "shares.c").write_text(f'#include "{name}"\n{body}')
        command = ["gcc", *STRICT_FLAGS, "-O1", "-shared", "-fPIC", "shares.c", "-o", "shares.so"]
        subprocess.run(command, cwd=tmp_path, check=True)
        ffi = FFI()
        ffi.cdef(CALLED)
        exact, near = (np.zeros(parts.size, np.int32) for _ in range(2))
        pointers = [ffi.cast("uint32_t *", each.view(np.uint32).ctypes.data) for each in (parts, sums)]
        results = [ffi.cast("int32_t *", each.ctypes.data) for each in (exact, near)]
        ffi.dlopen(str(tmp_path / "shares.so")).each(*pointers, *results, parts.size)
        return exact, near

    return run


def ratios() -> tuple[np.ndarray, np.ndarray]:
    """Parts and sums: ties, with sums of few digits and of many; and what is next to ties; and random ones."""
    rng = np.random.default_rng(1)
    odd = 2 * rng.integers(0, int(UNIT.op.factor), 4096) + 1.0
    digits = 2.0 ** rng.integers(0, 15, 4096)
    sums = (rng.integers(digits, 2 * digits) * 2.0 ** rng.integers(1, 60, 4096)).astype(np.float32)
    parts = (sums * odd / (2 * UNIT.op.factor)).astype(np.float32)
    beside = [np.nextafter(parts, np.float32(end)) for end in (0, np.inf)]
    any_sums = (2.0 ** rng.uniform(0, 100, 8192)).astype(np.float32)
    any_parts = (any_sums * rng.uniform(0, 1, 8192)).astype(np.float32)
    parts, sums = np.concatenate([parts, *beside, any_parts]), np.concatenate([sums, sums, sums, any_sums])
    return np.minimum(parts, sums), sums


def wrong(found: tuple[np.ndarray, np.ndarray]) -> tuple[int, int]:
    """How many shares are wrong, by division and by the reciprocal."""
    pairs = zip(*(each.tolist() for each in ratios()), strict=True)
    expected = np.array([round(Fraction(part) / Fraction(total) * int(UNIT.op.factor)) for part, total in pairs])
    exact, near = (int((each != expected).sum()) for each in found)
    return exact, near


def test_shares_are_the_exact_ratio_rounded_half_to_even(shares):
    assert wrong(shares(*ratios())) == (0, 0)


def test_half_the_window_around_ties_is_found(shares, mutate):
    mutate("kernels/portable/softmax.c.jinja", "((UINT32_C(1) << BELOW) - 1)) < 2", "((UINT32_C(1) << BELOW) - 1)) < 1")
    exact, near = wrong(shares(*ratios()))
    assert exact == 0
    assert near > 100


def test_ties_rounded_down_are_found(shares, mutate):
    mutate("kernels/portable/softmax.c.jinja", "2 * rest == divisor && (quotient & 1) != 0", "0")
    assert min(wrong(shares(*ratios()))) > 100
