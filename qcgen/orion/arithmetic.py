"""Orion's sign-magnitude fixed point on numpy integers, one formula each."""

from __future__ import annotations

import numpy as np

from qcgen.ir.program import Int64s, OrionConv

MAGNITUDE_MAX = 2**32 - 1
"""The largest magnitude that Orion's numbers hold; Orion panics beyond it."""

LOWEST, HIGHEST = -128, 127
"""The codes that an output is clamped to."""


def truncate(values: Int64s, fraction_bits: int) -> Int64s:
    """values / 2^fraction_bits, truncated toward zero as the shift of a magnitude does."""
    truncated: Int64s = np.sign(values) * (np.abs(values) >> fraction_bits)
    return truncated


def multiply(a: Int64s, b: int | Int64s, fraction_bits: int) -> Int64s:
    """The product of numbers with ``fraction_bits``: (|a|·|b|) >> f, the sign applied after.

    The product of the magnitudes stays below 2^64, as that of two magnitudes of 32 bits does; whoever calls has proved
    it.
    """
    magnitude = (np.abs(a).astype(np.uint64) * np.abs(b).astype(np.uint64)) >> np.uint64(fraction_bits)
    product: Int64s = np.sign(a) * np.sign(b) * magnitude.astype(np.int64)
    return product


def divide(a: Int64s, b: int, fraction_bits: int) -> Int64s:
    """The quotient of numbers with ``fraction_bits``: (|a| << f) / |b| truncated; b > 0, |a| < 2^32."""
    quotient: Int64s = np.sign(a) * ((np.abs(a) << fraction_bits) // b)
    return quotient


def requantize_orion(op: OrionConv, acc: Int64s) -> Int64s:
    """The int8 code, as int64 and of the same shape, that an accumulator (|acc| < 2^32) becomes.

    Divided by y_scale, moved by y_zero_point, clamped, truncated toward zero: four steps that never decrease, so the
    code never decreases with the accumulator either.
    """
    moved = divide(acc, op.y_scale, op.fraction_bits) + op.y_zero_point
    one = 1 << op.fraction_bits
    return truncate(np.clip(moved, LOWEST * one, HIGHEST * one), op.fraction_bits)
