"""The constants of blocks of output channels as one stream of words, in the order in which kernels read them.

Weights meet pairs of 16-bit elements as one of these:

* "int16": a word holds two weights of one channel.
* "shared": a word holds two weights of each of two channels, 256 * high + low in each half. Its products give
  256 * sum(high) + sum(low); those of its low bytes alone, sign-extended, give sum(low). One instruction unpacks four
  weights of one byte each, where "bytes" needs two. sum(high) is known modulo 2^24, so it must fit 24 bits.
* "bytes": a word holds four weights of one channel, unpacked like the elements of the image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from qcgen.intervals import INT32_MIN, reach
from qcgen.ir.program import Conv, Int64s
from qcgen.kernels.arm_dsp.window import MAX_UNROLL, MAX_WHOLE, ZERO
from qcgen.kernels.packing import Packed
from qcgen.kernels.unroll import Unrolled, unrolled

MOST_BYTES = 2  # channels at a time whose words hold four weights
SPEED_UNROLL = 56  # copies of a loop's body, 13 instructions each, where flash may be spent

Form = Literal["int16", "shared", "bytes"]


@dataclass(frozen=True)
class Tail:
    """What follows the weights of a block: what the output step needs, unless all channels share it.

    ``multiplier`` and ``offset`` (M,) as in Equation (5). ``channel`` (M,): the number of the block's first channel
    for output steps that need it, -1 for blocks that do not.
    """

    multiplier: Int64s | None
    offset: Int64s | None
    channel: Int64s | None

    @property
    def has_multipliers(self) -> bool:
        """Whether each channel has a multiplier of its own."""
        return self.multiplier is not None

    @property
    def has_offsets(self) -> bool:
        """Whether each channel has an offset of its own."""
        return self.offset is not None

    @property
    def has_channel(self) -> bool:
        """Whether some block's channels must be known."""
        return self.channel is not None

    def words(self, first: int, beyond: int, width: int) -> Int64s:
        """(blocks, words) of the tails of some blocks."""
        parts = [v[first:beyond].reshape(-1, width) for v in (self.multiplier, self.offset) if v is not None]
        if self.channel is not None:
            channel = self.channel[first:beyond].reshape(-1, width)
            known = np.arange(first, beyond, width)[:, None]
            parts.append(np.where(channel.max(axis=1, keepdims=True) >= 0, known, -1))
        return np.concatenate([np.zeros(((beyond - first) // width, 0), np.int64), *parts], axis=1)


@dataclass(frozen=True)
class Segment:
    """Blocks of ``width`` output channels, from ``first`` on and before ``beyond``, summed at the same time.

    ``steps``: the loop over the window; a step is one pair, or two where a word holds four weights of a channel.
    A block's constants are ``width`` start values, its weights and its ``tail``; those of all blocks follow each other
    from word ``offset`` on. ``is_apart``: a function of its own computes the sums, so that its loop has all registers
    to itself; without a loop the call would cost more than it gains. ``hurries``: cycles count more than instructions.
    ``blocks``: the loop over the blocks.
    """

    width: int
    first: int
    beyond: int
    form: Form
    steps: Unrolled
    offset: int
    tail: Tail
    is_apart: bool
    hurries: bool
    blocks: Unrolled

    @property
    def size(self) -> int:
        """How many channels there are."""
        return self.beyond - self.first

    @property
    def round_channels(self) -> int:
        """Channels in a round of the loop over the blocks."""
        return self.blocks.unroll * self.width

    @property
    def loop_channels(self) -> int:
        """Channels in the loop over the blocks."""
        return self.blocks.count * self.round_channels

    @property
    def round_firsts(self) -> range:
        """The first channel of each block in a round, counted from the round's first."""
        return range(0, self.round_channels, self.width)

    @property
    def rest_firsts(self) -> range:
        """The first channel of each block behind the loop, counted from the loop's end."""
        return range(0, self.blocks.rest * self.width, self.width)

    @property
    def sums(self) -> int:
        """Sums of a block: those of two windows."""
        return 2 * self.width

    @property
    def offsets_at(self) -> int:
        """Where in the tail offsets are."""
        return self.width if self.tail.has_multipliers else 0

    @property
    def channel_at(self) -> int:
        """Where in the tail the channel is."""
        return self.offsets_at + (self.width if self.tail.has_offsets else 0)

    @property
    def tail_words(self) -> int:
        """The words of the tail."""
        return self.channel_at + (1 if self.tail.has_channel else 0)

    @property
    def last(self) -> int:
        """The last channel."""
        return self.beyond - 1

    @property
    def xs_round(self) -> int:
        """How many words of two windows one round of the loop reads."""
        return self.steps.unroll * (4 if self.form == "bytes" else 2)

    @property
    def channels(self) -> range:
        """The channels of a block, counted from its first."""
        return range(self.width)

    @property
    def tested(self) -> tuple[int, ...]:
        """Which channels of a block have a tie window in some block."""
        if self.tail.channel is None:
            return ()
        windows = self.tail.channel[self.first : self.beyond].reshape(-1, self.width).max(axis=0)
        return tuple(int(c) for c in np.flatnonzero(windows >= 0))

    @property
    def untested(self) -> tuple[int, ...]:
        """The other channels of a block."""
        return tuple(c for c in self.channels if c not in self.tested)

    @property
    def channel_twos(self) -> tuple[tuple[int, int], ...]:
        """The channels of a block two by two, as what they have for themselves is loaded."""
        return tuple((c, c + 1) for c in range(0, self.width - 1, 2))

    @property
    def words(self) -> range:
        """The words of weights that a step needs."""
        return range(self.width // 2 if self.form == "shared" else self.width)

    @property
    def word_twos(self) -> tuple[tuple[int, int], ...]:
        """These words two by two, as they are loaded."""
        return tuple((w, w + 1) for w in range(0, len(self.words) - 1, 2))

    @property
    def loads_in_row(self) -> bool:
        """Whether a step loads its pair and its first two words one by one: two instructions more, a cycle less."""
        return self.hurries and self.form != "bytes" and len(self.words) > 1

    @property
    def is_odd(self) -> bool:
        """Whether one word is left over by twos."""
        return len(self.words) % 2 == 1

    @property
    def last_word(self) -> int:
        """The number of the last word."""
        return self.words[-1]

    @property
    def upper(self) -> tuple[int, ...]:
        """The upper channel of each word that holds two."""
        return tuple(2 * w for w in self.words)

    @property
    def lower(self) -> tuple[int, ...]:
        """The lower channel of each word that holds two."""
        return tuple(2 * w + 1 for w in self.words)

    @property
    def below(self) -> tuple[int, ...]:
        """For each channel the lower one of its word."""
        return tuple(c | 1 for c in self.channels)


@dataclass(frozen=True)
class Stream:
    """The constants of all blocks, (n,) int32, and how they are divided."""

    words: Int64s
    segments: tuple[Segment, ...]
    form: Form


def stream(
    op: Conv,
    packed: Packed,
    order: Int64s,
    tail: Tail,
    widths: tuple[int, ...],
    *,
    wide: bool,
    shares: bool = True,
    hurries: bool = False,
) -> Stream:
    """The constants of a layer; ``order`` (slots,) says which weight, as ONNX counts them, each half pair multiplies.

    ``widths`` are the widths of blocks, largest first. ``shares``: two channels may share words; what does not is
    int16 if ``wide``, else bytes, in blocks of at most two channels. ``hurries``: as in Segment, without a loop.
    """
    g = op.geometry
    slots = np.where(order[None, :] == ZERO, 0, packed.weights[:, order])
    alone: Form = "int16" if wide else "bytes"
    form: Form = "shared" if shares and may_share(op, packed) else alone
    if form == "bytes":
        widths = tuple(width for width in widths if width <= MOST_BYTES)
    words, segments, first = [np.zeros(0, np.int64)], [], 0
    for width in widths:
        beyond = first + (g.out_channels - first) // width * width
        if beyond == first:
            continue
        own = alone if width == 1 else form
        pairs = order.size // 2
        steps = unrolled(pairs // 2 if own == "bytes" else pairs, SPEED_UNROLL if wide else MAX_UNROLL, MAX_WHOLE)
        offset = sum(part.size for part in words)
        apart = steps.count > 1
        hurried = hurries and not apart
        copies = max(1, SPEED_UNROLL // max(1, steps.total)) if hurried else 1
        blocks = unrolled((beyond - first) // width, copies)
        segments.append(
            Segment(width, first, beyond, own, steps, offset, tail, is_apart=apart, hurries=hurried, blocks=blocks)
        )
        packed_blocks = pack_weights(slots[first:beyond].reshape(-1, width, order.size), own)
        start = starts(packed.start[first:beyond], own).reshape(-1, width)
        words.append(np.concatenate([start, packed_blocks, tail.words(first, beyond, width)], axis=1).reshape(-1))
        first = beyond
    return Stream(np.concatenate(words), tuple(segments), form)


def may_share(op: Conv, packed: Packed) -> bool:
    """Whether two channels may lie in one word: sums fit 24 bits, and 256 * high + low fits int16."""
    if packed.wraps:
        return False
    bounds = reach(op)
    addend = packed.epilogue.addend
    fits = (bounds.lo + addend >= -(2**23)) & (bounds.hi + addend < 2**23)
    return bool(fits[0::2].all() and packed.weights[0::2].min() > -128)


def pack_weights(blocks: Int64s, form: Form) -> Int64s:
    """(blocks, width, slots) to words (blocks, n) in the order of steps and the words of a step."""
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
    return words.transpose(0, 2, 1).reshape(count, -1)


def pair(low: Int64s, high: Int64s) -> Int64s:
    """Words of two halves of 16 bits."""
    return int32((low & 0xFFFF) | (high & 0xFFFF) << 16)


def starts(start: Int64s, form: Form) -> Int64s:
    """Where sums start: for two channels in one word, first that of 256 * high + low, then that of low."""
    if form != "shared":
        return start
    both = start.copy()
    both[0::2] = int32(256 * start[0::2] + start[1::2])
    return both


def int32(value: Int64s) -> Int64s:
    """Modulo 2^32, as int32."""
    return (value - INT32_MIN) % 2**32 + INT32_MIN
