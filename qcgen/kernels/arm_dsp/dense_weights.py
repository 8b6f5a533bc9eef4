"""The constants of matrices times a vector, whose products are formed by Winograd's identity for inner products (1968).

A word of the image is two pairs, even and odd, the weights of a channel for it are too. With pairs as vectors of two,

    even * w_even + odd * w_odd = (even + w_odd) * (odd + w_even) - even * odd - w_even * w_odd

where even * odd is the same for all channels, and w_even * w_odd is known: initial accumulators are that much lower.
One instruction adds two bytes to a pair, so that three instructions multiply and add four weights of one byte that lie
in one word:

* "bytes": a word holds the four weights of one channel for a word of the image.
* "shared": a word holds the weights of two channels for a pair, 256 * upper + lower in each half. Its products with the
  pair need no unpacking and give 256 * sum(upper) + sum(lower); the identity gives sum(lower). Two words take five
  instructions for eight weights.

For each word of the image there is one word of weights for each channel in both forms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from qcgen.ir.program import Conv, Int64s
from qcgen.kernels.arm_dsp.nibble_weights import WIDTH, byte_products, lowest, starts
from qcgen.kernels.arm_dsp.segment import Form, Segment, Tail, segment_numbers, sized
from qcgen.kernels.arm_dsp.weights import PackedConstants, biases, form_of, int32, may_share, pack_weights
from qcgen.kernels.arm_dsp.window import ZERO
from qcgen.kernels.packing import Packed
from qcgen.kernels.text import sized_loop, unrolled


@dataclass(frozen=True)
class DenseSegment(Segment):
    """Blocks of channels; the loop's ``steps`` take ``step_words`` words of the image each; one more may be left.

    ``finds_pair_products``: the only block also sums even * odd, which the blocks behind it need too.
    ``has_remainder``: words of the image leave some elements over.
    """

    step_words: int
    is_word_left: bool
    has_remainder: bool
    finds_pair_products: bool

    @property
    def round_elements(self) -> int:
        """How many elements of the image one round of the loop reads."""
        return 4 * self.step_words * self.steps.unroll

    @property
    def pair_products(self) -> tuple[int, ...]:
        """The channels of a block whose sums are found by the identity."""
        return self.lower if self.form == "shared" else tuple(self.channels)

    @property
    def has_word(self) -> bool:
        """Whether some step takes one word."""
        return self.is_word_left or (self.step_words == 1 and self.steps.total > 0)

    @property
    def has_quad(self) -> bool:
        """Whether some step takes the pairs of four elements."""
        return self.has_word or self.has_remainder


def pack_dense_constants(
    op: Conv, packed: Packed, order: Int64s, tail: Tail, most: int, *, packs: bool = False, is_sized: bool = False
) -> PackedConstants:
    """The constants of a layer; ``order`` (slots,) says which weight each half pair multiplies, slots in fours.

    ``most``: how many words of the image the copies of a loop's body take at most. ``packs``: weights of four channels
    share words of 4 bits each. ``is_sized``: blocks have as few
    widths as can be, and elements fill words.
    """
    g = op.geometry
    taps = order.size if is_sized else g.taps
    slots = np.where(order[None, :] == ZERO, 0, packed.weights[:, order])
    form: Form = "nibbles" if packs else "shared" if may_share(op, packed) else "bytes"
    low = lowest(packed)
    words, segments, offset = [], [], 0
    for width, first, beyond in _divided(g.out_channels, form, is_sized=is_sized):
        own = form_of(width, form)
        blocks = _blocks(slots[first:beyond], width, own, low)
        bias = _biases(packed.bias[first:beyond], slots[first:beyond], own, low).reshape(-1, width)
        words.append(np.concatenate([bias, blocks, tail.words(first, beyond, width)], axis=1).reshape(-1))
        finds = first == 0 and beyond == width and width < 6 and not packs
        segments.append(_segment((width, first, beyond), own, offset, tail, taps, most, finds_pair_products=finds))
        offset += words[-1].size
    return PackedConstants(np.concatenate(words), tuple(segments), form)


def shown_sizes(
    packed: PackedConstants, tail: Tail, words: int, unroll: int, channels: Sequence[int]
) -> tuple[tuple[Segment, ...], dict[str, int]]:
    """The segments as a function for layers of several sizes shows them, and the layer's own numbers by their names.

    ``words`` are those of a vector, of which a loop's body takes ``unroll``; ``channels`` are those of all layers.
    """
    shown: list[Segment] = []
    numbers: dict[str, int] = {}
    widths = [block_widths(each, packed.form) for each in channels]
    found = {segment.width: segment for segment in packed.segments}
    for width in sorted(set().union(*widths), key=_BLOCKS.index):
        form = form_of(width, packed.form)
        s = found.get(width) or _segment((width, 0, 0), form, 0, tail, 4 * words, unroll)
        assert isinstance(s, DenseSegment)
        numbers |= segment_numbers(s)
        is_optional = not all(width in each for each in widths)
        looped = replace(s, steps=sized_loop(unroll // s.step_words), finds_pair_products=False)
        shown.append(sized(looped, is_optional=is_optional))
    return tuple(shown), numbers


def block_widths(channels: int, form: Form) -> set[int]:
    """Those of the blocks that a function for layers of several sizes divides so many channels into."""
    return {width for width, _, _ in _divided(channels, form, is_sized=True)}


_BLOCKS = (2, 4, 6, 1)
"""The widths of blocks in the order in which they follow each other."""


def _divided(channels: int, form: Form, *, is_sized: bool = False) -> Iterator[tuple[int, int, int]]:
    """Blocks as wide as registers allow, behind a narrower one: each width with where its blocks begin and end.

    >>> list(_divided(17, "shared")), list(_divided(6, "bytes"))
    ([(4, 0, 4), (6, 4, 16), (1, 16, 17)], [(2, 0, 2), (4, 2, 6)])
    """
    widest = 6 if form == "shared" else 4
    pairs = channels // 2 * 2
    narrow = pairs % widest
    if narrow:
        yield 2 if is_sized else narrow, 0, narrow
    if pairs > narrow:
        yield widest, narrow, pairs
    if channels > pairs:
        yield 1, pairs, channels


def _segment(
    place: tuple[int, int, int],
    form: Form,
    offset: int,
    tail: Tail,
    taps: int,
    most: int,
    *,
    finds_pair_products: bool = False,
) -> DenseSegment:
    width, first, beyond = place
    step_words = 2 if width == 6 else 1
    total = taps // 4
    return DenseSegment(
        *place,
        form,
        steps=unrolled(total // step_words, most // step_words),
        offset=offset,
        tail=tail,
        is_outlined=False,
        for_speed=False,
        blocks=unrolled((beyond - first) // width, 1),
        step_words=step_words,
        is_word_left=total % step_words == 1,
        has_remainder=taps % 4 != 0,
        finds_pair_products=finds_pair_products,
    )


def _blocks(slots: Int64s, width: int, form: Form, low: int) -> Int64s:
    """(channels, slots) to words (blocks, n): those for a word of the image side by side, channel by channel."""
    words = pack_weights(slots.reshape(-1, width, slots.shape[1]), form, low)
    if form != "shared":
        return words
    by_pairs = words.reshape(words.shape[0], -1, 2, width // 2)
    return by_pairs.transpose(0, 1, 3, 2).reshape(words.shape)


def _biases(bias: Int64s, slots: Int64s, form: Form, low: int) -> Int64s:
    """Initial accumulators: less the products of the weights with each other, where the identity gives the sum."""
    if form == "nibbles":
        blocks = slots.reshape(-1, WIDTH, slots.shape[1])
        return int32(starts(bias.reshape(-1, WIDTH)) - byte_products(blocks, low)).reshape(-1)
    even, odd = slots.reshape(slots.shape[0], -1, 2, 2).transpose(2, 0, 1, 3)
    pair_products = (even * odd).sum(axis=(1, 2))
    if form == "shared":
        pair_products[0::2] = 0
    return int32(biases(bias, form) - pair_products)
