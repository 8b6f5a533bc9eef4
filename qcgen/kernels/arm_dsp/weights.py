"""The constants of blocks of output channels as one stream of words, in the order in which kernels read them.

Weights meet pairs of 16-bit elements as one of these:

* "int16": a word holds two weights of one channel.
* "shared": a word holds two weights of each of two channels, 256 * high + low in each half. Its products give
  256 * sum(high) + sum(low); those of its low bytes alone, sign-extended, give sum(low). One instruction unpacks four
  weights of one byte each, where "bytes" needs two. sum(high) is known modulo 2^24, so it must fit 24 bits.
* "bytes": a word holds four weights of one channel, unpacked like the elements of the image.
* "nibbles": a word holds two weights of 4 bits of each of four channels, for --optimize size.

Of "nibbles" a weight less ``low`` is u, from 0 to 15, and half a word is 4096 * (u0 - 8) + 256 * u1 + 16 * u2 + u3.
What a half gives as it is, without u0 and u2, as its lower byte and as that without u2, are four sums of products
(``SUMS``), each by one instruction that unpacks two weights of one, two or four channels. No sum loses a bit: all are
modulo 2^32, and the differences that part them (``dsp_part_nibbles``) fit 32 bits if the channels' own sums fit
``SUM_BITS``.

Since u is not the weight but the weight less ``low``, and u0 - 8 is it less ``low + 8``, the sum of the elements is
subtracted from each sum, as often as ``element_factors`` says.

Of depthwise kernels two taps of a channel lie in a word (``KernelWords``).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from qcgen.intervals import INT32_MIN, accumulator_interval
from qcgen.ir.program import Conv, Int64s
from qcgen.kernels.arm_dsp.segment import Form, Segment, Tail
from qcgen.kernels.arm_dsp.window import MAX_UNROLL, MAX_WHOLE, ZERO
from qcgen.kernels.kernel import Setting
from qcgen.kernels.packing import LEAST_SAVED, LEVELS, Packed, low_of
from qcgen.kernels.text import divided, unrolled
from qcgen.kernels.windows import PlaneAxis

WIDTH = 4
"""The channels of a word of "nibbles"."""

SUMS = np.array([[4096, 256, 16, 1], [0, 256, 0, 1], [0, 0, 16, 1], [0, 0, 0, 1]])
"""How often each channel's sum is in each of the four of "nibbles"."""

SUM_BITS = (20, 24, 28, 32)
"""What the sum of each channel must fit."""

MIDDLE = LEVELS // 2

MOST_BYTES = 2  # channels at a time whose words hold four weights
MAX_BLOCKS = 4  # written out one after the other, each with the ways of its output step
STEP_BYTES = 56  # of a loop's body where cycles count more than instructions: 14 instructions
SHORT_PAIRS = 56  # up to which a loop loads words one by one: a cycle less a step, but two instructions more


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


def _pack_nibbles(blocks: Int64s, low: int) -> Int64s:
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
                together=_together((beyond - first) // width, copies),
                element_factors=factors if own == "nibbles" else (),
            )
        )
        packed_blocks = pack_weights(slots[first:beyond].reshape(-1, width, order.size), own, low)
        bias = biases(packed.bias[first:beyond], own).reshape(-1, width)
        words.append(np.concatenate([bias, packed_blocks, tail.words(first, beyond, width)], axis=1).reshape(-1))
    return PackedConstants(np.concatenate(words), tuple(segments), form, factors)


def _together(blocks: int, most: int) -> int:
    """How many blocks are in a round of the loop over them; all, if few are in none of equal rounds."""
    found = max(n for n in range(1, most + 1) if blocks % n == 0)
    return blocks if found < most // 2 and blocks < 2 * most else found


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
            return int32(_pack_nibbles(blocks, low))
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


Tap = tuple[int, int]  # row and column of the kernel
Pair = tuple[Tap | None, Tap | None]  # lower and upper half of a word, None for a half that is zero


@dataclass(frozen=True)
class KernelWords:
    """The taps of a kernel, two in a word, row by row; ``width`` is the axis along its rows.

    A row has so many pairs from even elements on, then from odd ones; so many other taps stand alone behind all rows.
    """

    width: PlaneAxis
    even_pairs: int
    odd_pairs: int
    lone: int
    words: tuple[Pair, ...]

    def products(self, row: int, start: int) -> list[tuple[int, tuple[int, int] | None, int]]:
        """(word of the plane's row, halves if not whole words, word of weights) for a window's ``row`` at ``start``."""
        return [
            ((start + t) // 2, *self._product(_neighbours(self.width, row, t)))
            for t in range(-(start % 2), self.width.span, 2)
            if _neighbours(self.width, row, t) != (None, None)
        ]

    def _product(self, taps: Pair) -> tuple[tuple[int, int] | None, int]:
        """By both taps, or one of them, wherever that stands."""
        if None not in taps and taps in self.words:
            return None, self.words.index(taps)
        [(upper, tap)] = [(half, tap) for half, tap in enumerate(taps) if tap is not None]
        place = next(i for i, pair in enumerate(self.words) if tap in pair)
        return (upper, self.words[place].index(tap)), place


def kernel_words(height: PlaneAxis, width: PlaneAxis) -> KernelWords:
    """The words of a kernel: pairs from odd elements on only if windows start there, and none of a dilated kernel."""
    starts_odd, taps = width.stride % 2 == 1 and width.output > 1, width.kernel if width.dilation == 1 else 0
    firsts = [*range(0, taps - 1, 2), *(range(1, taps - 1, 2) if starts_odd else ())]
    rows = range(height.kernel)
    pairs: list[Pair] = [((row, t), (row, t + 1)) for row in rows for t in firsts]
    lone = [(row, t) for row in rows for t in range(width.kernel) if not {t - 1, t} & {*firsts}]
    words = (*pairs, *zip_longest(lone[::2], lone[1::2]))
    return KernelWords(width, taps // 2, len(firsts) - taps // 2, len(lone) // height.kernel, words)


def _neighbours(width: PlaneAxis, row: int, t: int) -> Pair:
    """Elements ``t`` and ``t`` + 1 of a kernel's row, which has no tap beyond it or where dilation leaves a gap."""
    low, high = ((row, i // width.dilation) if i in range(0, width.span, width.dilation) else None for i in (t, t + 1))
    return low, high
