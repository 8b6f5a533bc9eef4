"""Weights of 4 bits, two to a byte."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qcgen.ir.program import Int64s

NIBBLE = 4  # bits
LEVELS = 2**NIBBLE
LEAST_SAVED = 64  # bytes; less is about what the instructions take that unpack


@dataclass(frozen=True)
class Nibbles:
    """How a template reads the weights of a row: the first of two in the lower half of a byte."""

    plus: str  # what is added to 4 bits, in C, such as " - 8"
    row: int  # bytes of one output channel's weights
    is_odd: bool  # the upper half of a row's last byte is empty


def fits_nibbles(weights: Int64s) -> bool:
    """Whether integers are close enough together for 4 bits, and so many that flash is saved."""
    return bool(weights.max() - weights.min() < LEVELS) and weights.size // 2 >= LEAST_SAVED


def nibbles(weights: Int64s) -> Nibbles:
    """How rows (M, taps) are read that ``packed_nibbles`` packs."""
    low = low_of(weights)
    taps = weights.shape[1]
    return Nibbles(f" {'-' if low < 0 else '+'} {abs(low)}" if low else "", (taps + 1) // 2, taps % 2 == 1)


def packed_nibbles(weights: Int64s) -> Int64s:
    """Bytes (M, ceil(taps / 2)) of weights (M, taps)."""
    codes = weights - low_of(weights)
    even, odd = codes[:, 0::2], np.zeros_like(codes[:, 0::2])
    odd[:, : codes.shape[1] // 2] = codes[:, 1::2]
    return even | odd << 4


def low_of(weights: Int64s) -> int:
    """What 4 bits of zero mean: -8, that of int4, where it serves."""
    low, high = int(weights.min()), int(weights.max())
    return -LEVELS // 2 if low >= -LEVELS // 2 and high < LEVELS // 2 else low
