"""The shares of a softmax of codes, as the generated C computes them, are the exact ratio rounded once, half to even.

The sums of whole rows rarely have few digits, so that a share is a tie and its product with the reciprocal is exact:
here the functions are called by themselves, on words of any numbers that they are made for.
"""

from __future__ import annotations

import subprocess
from fractions import Fraction

import numpy as np
import pytest
from batch import require
from cffi import FFI
from network_cases import UNITS

import qcgen.render
from qcgen.build import STRICT_FLAGS

OP = next(unit.op for unit in UNITS if unit.name == "softmax_u8_0_1_10_256")
CALLED = "void each(const uint32_t *parts, const uint32_t *sums, int32_t *found, int32_t count);"
RECIPROCAL = "&layer, parts[i], sums[i], t_code_softmax_reciprocal(&layer, sums[i])"
FORMS = {
    "by division": "found[i] = t_code_softmax_divided(&layer, parts[i], sums[i])",
    "by the reciprocal": f"uint8_t code; t_code_softmax_share({RECIPROCAL}, &code); found[i] = code",
    "by the reciprocal, compared always": f"found[i] = t_code_softmax_constant_share({RECIPROCAL})",
}
HIGHEST = {"by the reciprocal": 255}
"""Of forms that give codes: a share of 256 is one of 255."""


@pytest.fixture
def wrong(tmp_path):
    """How many shares are wrong in a form."""
    require("gcc")

    def run(form: str) -> int:
        body = f"""{CALLED}
{CALLED[:-1]}
{{
    const struct t_code_softmax layer = {{
        .factor = {int(OP.factor)}, .bits = {int(OP.factor).bit_length()}, .high = 255
    }};

    for (int32_t i = 0; i < count; i++) {{
        {FORMS[form]};
    }}
}}
"""
        text = "\n".join(["#include <stdint.h>\n", *qcgen.render.library("").needed([body], "t"), body])
        (tmp_path / "shares.c").write_text(text)
        command = ["gcc", *STRICT_FLAGS, "-O1", "-shared", "-fPIC", "shares.c", "-o", "shares.so"]
        subprocess.run(command, cwd=tmp_path, check=True)
        ffi = FFI()
        ffi.cdef(CALLED)
        parts, sums = ratios()
        found = np.zeros(parts.size, np.int32)
        pointers = [ffi.cast("uint32_t *", each.view(np.uint32).ctypes.data) for each in (parts, sums)]
        ffi.dlopen(str(tmp_path / "shares.so")).each(*pointers, ffi.cast("int32_t *", found.ctypes.data), parts.size)
        pairs = zip(parts.tolist(), sums.tolist(), strict=True)
        expected = np.array([round(Fraction(part) / Fraction(total) * int(OP.factor)) for part, total in pairs])
        return int((found != np.minimum(expected, HIGHEST.get(form, 256))).sum())

    return run


def ratios() -> tuple[np.ndarray, np.ndarray]:
    """Parts and sums: ties, with sums of few digits and of many; and what is next to ties; and random ones."""
    rng = np.random.default_rng(1)
    odd = 2 * rng.integers(0, int(OP.factor), 4096) + 1.0
    digits = 2.0 ** rng.integers(0, 15, 4096)
    sums = (rng.integers(digits, 2 * digits) * 2.0 ** rng.integers(1, 60, 4096)).astype(np.float32)
    parts = (sums * odd / (2 * OP.factor)).astype(np.float32)
    beside = [np.nextafter(parts, np.float32(end)) for end in (0, np.inf)]
    any_sums = (2.0 ** rng.uniform(0, 100, 8192)).astype(np.float32)
    any_parts = (any_sums * rng.uniform(0, 1, 8192)).astype(np.float32)
    parts, sums = np.concatenate([parts, *beside, any_parts]), np.concatenate([sums, sums, sums, any_sums])
    return np.minimum(parts, sums), sums


@pytest.mark.parametrize("form", FORMS)
def test_shares_are_the_exact_ratio_rounded_half_to_even(wrong, form):
    assert wrong(form) == 0


def test_half_the_window_around_ties_is_found(wrong, mutate):
    mutate("library/softmax.h", "((UINT32_C(1) << 12) - 1u)) < 2u", "((UINT32_C(1) << 12) - 1u)) < 1u")
    assert wrong("by the reciprocal") > 100


@pytest.mark.parametrize("form", ["by the reciprocal", "by the reciprocal, compared always"])
def test_ties_rounded_up_are_found(wrong, mutate, form):
    mutate("library/softmax.h", "+ ((uint64_t)low & 1u)", "+ 1u")
    assert wrong(form) > 100


def test_ties_rounded_down_by_division_are_found(wrong, mutate):
    mutate("library/softmax.h", "2 * rest == divisor && (quotient & 1) != 0", "0")
    assert wrong("by division") > 100
