"""The constants of blocks of output channels as one stream of words, in the order in which kernels read them.

Weights meet pairs of 16-bit elements as one of these:

* "int16": a word holds two weights of one channel.
* "shared": a word holds two weights of each of two channels, 256 * high + low in each half. Its products give
  256 * sum(high) + sum(low); those of its low bytes alone, sign-extended, give sum(low). One instruction unpacks four
  weights of one byte each, where "bytes" needs two. sum(high) is known modulo 2^24, so it must fit 24 bits.
* "bytes": a word holds four weights of one channel, unpacked like the elements of the image.
* "nibbles": a word holds two weights of 4 bits of each of four channels (``arm_dsp/nibble_weights.py``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qcgen.intervals import INT32_MIN, accumulator_interval
from qcgen.ir.program import Conv, Int64s
from qcgen.kernels.arm_dsp.nibble_weights import WIDTH, element_factors, lowest, pack_nibbles, starts
from qcgen.kernels.arm_dsp.segment import Form, Segment, Tail
from qcgen.kernels.arm_dsp.window import MAX_UNROLL, MAX_WHOLE, ZERO
from qcgen.kernels.packing import Packed
from qcgen.kernels.text import divided, unrolled

MOST_BYTES = 2  # channels at a time whose words hold four weights
MAX_BLOCKS = 4  # written out one after the other, each with the ways of its output step
STEP_BYTES = 56  # of a loop's body where cycles count more than instructions: 14 instructions
SHORT_PAIRS = 56  # up to which a loop loads words one by one: a cycle less a step, but two instructions more


@dataclass(frozen=True)
class PackedConstants:
    """The constants of all blocks, (n,) int32, and how they are divided; ``element_factors`` as in Segment."""

    words: Int64s
    segments: tuple[Segment, ...]
    form: Form
    element_factors: tuple[int, ...] = ()


def pack_constants(
    op: Conv,
    packed: Packed,
    order: Int64s,
    tail: Tail,
    widths: tuple[int, ...],
    *,
    wide: bool,
    shares: bool = True,
    packs: bool = False,
    loop_bytes: int = 0,
) -> PackedConstants:
    """The constants of a layer; ``order`` (slots,) says which weight, as ONNX counts them, each half pair multiplies.

    ``widths`` are the widths of blocks, largest first. ``packs``: four channels share words, with 4 bits for a weight.
    ``shares``: two channels may; what does not is int16 if ``wide``, else bytes, in blocks of at most two channels.
    ``loop_bytes``: what a loop may take where cycles count more than instructions, else 0.
    """
    g = op.geometry
    slots = np.where(order[None, :] == ZERO, 0, packed.weights[:, order])
    alone: Form = "int16" if wide else "bytes"
    form: Form = "nibbles" if packs else "shared" if shares and may_share(op, packed) else alone
    low, factors = lowest(packed), element_factors(packed) if packs else ()
    words, segments = [np.zeros(0, np.int64)], []
    most = loop_bytes // STEP_BYTES or MAX_UNROLL
    for width, first, beyond in divided(g.out_channels, block_widths(form, widths)):
        own = form_of(width, form, alone)
        pairs = order.size // 2
        steps = unrolled(pairs // 2 if own == "bytes" else pairs, most, MAX_WHOLE)
        offset = sum(part.size for part in words)
        for_speed = loop_bytes > 0 and (steps.count == 1 or pairs <= SHORT_PAIRS)
        copies = min(MAX_BLOCKS, max(1, most // max(1, steps.total))) if for_speed else 1
        blocks = unrolled((beyond - first) // width, copies)
        segments.append(
            Segment(
                width,
                first,
                beyond,
                own,
                steps,
                offset,
                tail,
                is_outlined=steps.count > 1 and not for_speed,
                for_speed=for_speed,
                blocks=blocks,
                element_factors=factors if own == "nibbles" else (),
            )
        )
        packed_blocks = pack_weights(slots[first:beyond].reshape(-1, width, order.size), own, low)
        bias = biases(packed.bias[first:beyond], own).reshape(-1, width)
        words.append(np.concatenate([bias, packed_blocks, tail.words(first, beyond, width)], axis=1).reshape(-1))
    return PackedConstants(np.concatenate(words), tuple(segments), form, factors)


def form_of(width: int, form: Form, alone: Form = "bytes") -> Form:
    """The form of blocks of this width where the widest have ``form`` and single channels ``alone``."""
    return alone if width == 1 or (form == "nibbles" and width < WIDTH) else form


def block_widths(form: Form, widths: tuple[int, ...]) -> tuple[int, ...]:
    """Those of ``widths`` whose sums registers hold beside words of this form."""
    return tuple(width for width in widths if width <= MOST_BYTES) if form == "bytes" else widths


def may_share(op: Conv, packed: Packed) -> bool:
    """Whether two channels may lie in one word: sums fit 24 bits, and 256 * high + low fits int16."""
    if packed.wraps:
        return False
    bounds = accumulator_interval(op)
    addend, common = packed.epilogue.addend, packed.epilogue.common
    limit, upper = 2**23, packed.weights[0::2]
    if common is not None and common.is_free:
        # Of other models sums may be twice as large, and any weight in the upper place.
        limit, upper = 2**23 if common.form else 2**22, packed.weights
    fits = (bounds.lo + addend >= -limit) & (bounds.hi + addend < limit)
    return bool(fits[0::2].all() and upper.min() > -128)


def pack_weights(blocks: Int64s, form: Form, low: int = 0) -> Int64s:
    """(blocks, width, slots) to words (blocks, n) in the order of steps and the words of a step.

    ``low``: the weight that 4 bits of zero mean.
    """
    count, width, slots = blocks.shape
    match form:
        case "int16":
            halves = blocks.reshape(count, width, slots // 2, 2)
            words = pair(halves[..., 0], halves[..., 1])
        case "shared":
            both = 256 * blocks[:, 0::2] + blocks[:, 1::2]
            halves = both.reshape(count, width // 2, slots // 2, 2)
            words = pair(halves[..., 0], halves[..., 1])
        case "bytes":
            # The word's even bytes are its first pair, the odd ones its second.
            b = blocks.reshape(count, width, slots // 4, 4) & 0xFF
            words = int32(b[..., 0] | b[..., 2] << 8 | b[..., 1] << 16 | b[..., 3] << 24)
        case "nibbles":
            return int32(pack_nibbles(blocks, low))
    return words.transpose(0, 2, 1).reshape(count, -1)


def pair(low: Int64s, high: Int64s) -> Int64s:
    """Words of two halves of 16 bits."""
    return int32((low & 0xFFFF) | (high & 0xFFFF) << 16)


def biases(bias: Int64s, form: Form) -> Int64s:
    """Biases as sums take them: for two channels in one word, first that of 256 * high + low, then that of low.

    For four channels in a word, those of their four sums.
    """
    if form == "nibbles":
        return int32(starts(bias.reshape(-1, WIDTH))).reshape(-1)
    if form != "shared":
        return bias
    both = bias.copy()
    both[0::2] = int32(256 * bias[0::2] + bias[1::2])
    return both


def int32(value: Int64s) -> Int64s:
    """Modulo 2^32, as int32."""
    return (value - INT32_MIN) % 2**32 + INT32_MIN
