"""Weights of 4 bits for --optimize size: four channels share a word for each pair of elements.

Less ``low`` a weight is u, from 0 to 15, and a half of a word is 4096 * (u0 - 8) + 256 * u1 + 16 * u2 + u3. What a half
gives as it is, without u0 and u2, as its lower byte and as that without u2, are four sums of products (``SUMS``), each
by one instruction that unpacks two weights of one, two or four channels. No sum loses a bit: all are modulo 2^32, and
the differences that part them (``dsp_part_nibbles``) fit 32 bits if the channels' own sums fit ``SUM_BITS``.

Since u is not the weight but the weight less ``low``, and u0 - 8 is it less ``low + 8``, the sum of the elements is
subtracted from each sum, as often as ``element_factors`` says.
"""

from __future__ import annotations

import numpy as np

from qcgen.intervals import accumulator_interval
from qcgen.ir.program import Conv, Int64s
from qcgen.kernels.kernel import Setting
from qcgen.kernels.packing import LEAST_SAVED, LEVELS, Packed, low_of

WIDTH = 4
"""The channels of a word."""

SUMS = np.array([[4096, 256, 16, 1], [0, 256, 0, 1], [0, 0, 16, 1], [0, 0, 0, 1]])
"""How often each channel's sum is in each of the four."""

SUM_BITS = (20, 24, 28, 32)
"""What the sum of each channel must fit."""

MIDDLE = LEVELS // 2


def may_pack(op: Conv, packed: Packed, setting: Setting) -> bool:
    """Whether weights fit 4 bits, zero among them, and sums their bits; and flash is saved."""
    channels = op.geometry.out_channels // WIDTH * WIDTH
    if setting.optimize != "size" or packed.wraps or packed.weights[:channels].size // 2 < LEAST_SAVED:
        return False
    bounds, addend = accumulator_interval(op), packed.epilogue.addend
    limits = np.array([2 ** (bits - 1) for bits in SUM_BITS])
    low, high = ((end + addend)[:channels].reshape(-1, WIDTH) for end in (bounds.lo, bounds.hi))
    return _levels(packed) <= LEVELS and bool((low >= -limits).all() and (high < limits).all())


def _levels(packed: Packed) -> int:
    weights = packed.weights
    return max(int(weights.max()), 0) - min(int(weights.min()), 0) + 1


def lowest(packed: Packed) -> int:
    """The weight that 4 bits of zero mean."""
    return low_of(np.append(packed.weights, 0))


def element_factors(packed: Packed) -> tuple[int, ...]:
    """How often the sum of all elements must be subtracted from each of the four sums."""
    low = lowest(packed)
    return tuple(-int(factor) for factor in SUMS @ np.array([low + MIDDLE, low, low, low]))


def pack_nibbles(blocks: Int64s, low: int) -> Int64s:
    """(blocks, 4, slots) to words (blocks, slots / 2)."""
    codes = blocks - low - np.array([MIDDLE, 0, 0, 0])[:, None]
    halves = (codes * SUMS[0][:, None]).sum(axis=1) & 0xFFFF
    words: Int64s = halves[:, 0::2] | halves[:, 1::2] << 16
    return words


def starts(bias: Int64s) -> Int64s:
    """Where the four sums of each block start, of the biases (blocks, 4), in the same shape."""
    found: Int64s = bias @ SUMS.T
    return found


def byte_products(blocks: Int64s, low: int) -> Int64s:
    """(blocks, 4): what the weights of pairs add up to, multiplied with each other, as Winograd's identity needs it.

    ``blocks`` (blocks, 4, slots), slots in fours: an even pair, then an odd one. Two sums are found by the identity, of
    the lower bytes of halves and of the lower halves of these.
    """
    codes = blocks - low
    found = np.zeros(blocks.shape[:2], np.int64)
    for place, weights in ((2, 16 * codes[:, 2] + codes[:, 3]), (3, codes[:, 3])):
        even, odd = weights.reshape(len(weights), -1, 2, 2).transpose(2, 0, 1, 3)
        found[:, place] = (even * odd).sum(axis=(1, 2))
    return found
