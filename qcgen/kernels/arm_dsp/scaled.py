"""Sums that are scaled up, so that their output codes are seldom near a tie and are then found on the short way."""

from __future__ import annotations

import numpy as np

from qcgen.intervals import INT32_MAX
from qcgen.ir.program import Conv
from qcgen.kernels.arm_dsp.output import dsp_output
from qcgen.kernels.packing import Packed, pack

MAX_BITS = 8  # weights of eight bits times 2^8 fit int16
TOGETHER, WIDTH = 8, 4  # outputs that are found once more if one of them is near a tie, and their channels
EXACT_CYCLES = 30  # of an output that is found once more
UPPER_CYCLES = 1  # of parting sums of channels that share words, which saves SHARED_CYCLES a pair
SHARED_CYCLES = 1 / 8


def pack_finely(op: Conv, features: frozenset[str], pairs: int) -> Packed:
    """``pack`` for weights in words of int16, sums of so many ``pairs``; with ``bits`` where that saves cycles.

    A line that keeps more bits below its codes comes near a tie less often. Where channels would share words else, that
    must be worth more than sharing them.
    """
    packed = pack(op, features, 0)
    dsp = dsp_output(op, packed)
    bits = free_bits(op, packed)
    if packed.epilogue.output.kind != "high word" or not dsp.near or packed.wraps or packed.is_corrected or not bits:
        return packed
    blocks = np.unique(packed.epilogue.guarded // WIDTH).size / -(-op.geometry.out_channels // WIDTH)
    near = 1 - (1 - 2 * dsp.near / 2.0**packed.epilogue.output.shift) ** TOGETHER
    if blocks * near * EXACT_CYCLES < max(0, SHARED_CYCLES * pairs - UPPER_CYCLES):
        return packed
    found = pack(op, features, 0, bits=bits)
    return found if found.bits and not found.wraps else packed


def free_bits(op: Conv, packed: Packed) -> int:
    """How often sums may be doubled before some partial sum could leave int32, at most MAX_BITS."""
    tap = max(abs(op.x.dtype.low), abs(op.x.dtype.high))
    largest = int((np.abs(packed.start) + tap * np.abs(packed.weights).sum(axis=1)).max())
    return max(0, min(MAX_BITS, INT32_MAX.bit_length() - largest.bit_length()))
