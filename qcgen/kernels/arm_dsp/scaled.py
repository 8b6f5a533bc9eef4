"""Sums that are scaled up: their output codes need no offset, and are seldom near a tie."""

from __future__ import annotations

import numpy as np

from qcgen.intervals import INT32_MAX
from qcgen.ir.program import Conv
from qcgen.kernels.arm_dsp.output import dsp_output
from qcgen.kernels.kernel import Constants, Setting
from qcgen.kernels.packing import Packed, pack

MAX_BITS = 8
TOGETHER, WIDTH = 8, 4  # outputs that are found once more if one of them is near a tie, and their channels
EXACT_CYCLES = 30  # of an output that is found once more
UPPER_CYCLES = 1.5  # of parting the sums of channels that share words and adding an offset, which saves SHARED_CYCLES
SHARED_CYCLES = 1 / 8  # a pair


def pack_finely(op: Conv, setting: Setting, pairs: int, *, whole_weights: bool = False) -> Packed:
    """``pack`` for weights in words of int16, sums of so many ``pairs``; with ``bits`` where that saves cycles.

    A line that keeps more bits below its codes comes near a tie less often. Where channels would share words else, that
    must be worth more than sharing them.
    """
    packed = pack(op, setting, 0, whole_weights=whole_weights)
    if packed.epilogue.output.kind != "multiply-high" or packed.wraps or packed.is_corrected:
        return packed
    if _near_ties(op, packed) * EXACT_CYCLES + UPPER_CYCLES < SHARED_CYCLES * pairs:
        return packed
    bits = free_bits(op, packed)
    for fewer in (0, 1):  # the addend of the finer line may take one
        found = pack(op, setting, 0, whole_weights=whole_weights, bits=max(bits - fewer, 0))
        if found.bits and not found.wraps:
            return found
    return packed


def _near_ties(op: Conv, packed: Packed) -> float:
    """The share of outputs that are found once more because they or their neighbours are near a tie."""
    guard, shift = dsp_output(op, packed).guard, packed.epilogue.output.shift
    blocks = np.unique(packed.epilogue.guarded // WIDTH).size / -(-op.geometry.out_channels // WIDTH)
    return float(blocks * (1 - (1 - 2 * guard / 2.0**shift) ** TOGETHER))


def free_bits(op: Conv, packed: Packed) -> int:
    """How often sums may be doubled before a weight could leave int16 or some partial sum int32, at most MAX_BITS."""
    tap = max(abs(op.x.dtype.low), abs(op.x.dtype.high))
    largest = int((np.abs(packed.bias) + tap * np.abs(packed.weights).sum(axis=1)).max())
    weight_bits = max(int(packed.weights.max()), -1 - int(packed.weights.min())).bit_length()
    return max(0, min(MAX_BITS, 15 - weight_bits, INT32_MAX.bit_length() - largest.bit_length()))


def bias_text(packed: Packed) -> str:
    """What the numbers are that are initial accumulators, or which are added to them in the end."""
    [bias, *_] = packed.constants()
    return bias.meaning.removeprefix("initial accumulators: ").removesuffix(".") + times(packed.bits)


def bias_table(packed: Packed) -> Constants:
    """Where the sums of each channel start."""
    return Constants("bias", "int32_t", packed.bias, f"initial accumulators: {bias_text(packed)}.")


def times(bits: int) -> str:
    """What comments say of weights that are scaled up with their sums."""
    return f", times {2**bits}, as sums are" if bits else ""
