"""scalar/dense: convolutions with a single window, the whole image; weights of two channels in the halves of words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context, Struct
from qcgen.ir.program import Conv, Int64s, Operator
from qcgen.ir.types import DType
from qcgen.kernels.fast_output import FastOutput, output_constants
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.packing import IntegerConv, Packed, integer_conv
from qcgen.kernels.reasons import why_channels_apart, why_no_dense
from qcgen.kernels.scalar.conv import ordered, packed_bytes
from qcgen.kernels.scalar.sums import (
    SIZES,
    Core,
    Grouping,
    Loop,
    Segment,
    certified,
    core_of,
    extremes,
    grouping,
    is_by_word,
    loop_of,
    loop_of_pairs,
    output_operations,
    scalar_output,
    split_outliers,
)
from qcgen.kernels.text import unrolled

BLOCK = 4  # channels at a time: two words of two; where registers are many two such blocks
BLOCKS_UNROLL = 16  # elements in a round of the loop over two blocks
STEPS = 8  # of two elements in a round of the loop over bytes
BY_WORD_STEPS = 16  # the same of the loop that takes each word's groups apart by itself
WIDEN = 8  # elements in a round of the loop that widens them for it
BYTE_OFFSET = 128  # brings weights to 0..255, so that a mask parts the bytes of a word

GROUP, ELEMENT = 6, 6  # instructions of a group of a block, and of each of its elements
OUTLIER, OUTLIERS = 20, 8  # the same of an outlier, and of a block that may have some


@dataclass(frozen=True)
class DenseSums(Context):
    """The sums of four channels, or of eight."""

    is_wide: bool  # words hold two weights of 16 bits, else four bytes
    is_by_word: bool  # such words, one of two elements behind the other: their elements are words, too
    sums_of: Segment  # the loop over either
    grouping: Grouping  # how many products are added in a word


@dataclass(frozen=True)
class DenseContext(Context):
    """A matrix times a vector."""

    template: ClassVar[str] = "kernels/scalar/dense.c.jinja"

    conv: IntegerConv
    sums: DenseSums
    dsp: FastOutput
    matrix: Struct
    has_outliers: bool  # what weights exceed groups by is added apart
    copy_type: str  # of C, of a copy of the image's elements as they are multiplied, "" for none
    widen: str  # the library's function that brings them to words in it, "" for none
    widen_by: int  # elements in a round of its loop, or those of a group
    odd: bool  # the elements of the vector are odd in number
    shift: int  # what codes are less in the copy


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves kernels that are as large as the image, without padding."""
    return why_channels_apart(setting.x_layout, setting.y_layout) or why_no_dense(op, setting)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Weights of four channels in two words: two of 16 bits for an element, or four bytes for two of them."""
    assert isinstance(op, Conv)
    g = op.geometry
    packed = packed_bytes(op, setting)
    weights = padded(op, packed)
    wide = setting.optimize == "speed"
    core = core_of(setting.target)
    has_two = wide and core.by_channel and len(weights) % (2 * BLOCK) == 0
    most = 2 if not wide else SIZES[0] if has_two else core.most[-1]
    outliers = np.zeros_like(weights)
    if wide and core.by_channel and not setting.is_free:
        weights, outliers = _cheapest_split(weights, most)
    extreme = extremes(weights) if setting.is_free else weights
    loop = loop_of(g.taps, grouping(extreme, -128, 127, most), core)
    by_word = wide and is_by_word(core, loop)
    is_widened = by_word or (wide and core.loads_two)
    is_shifted = wide and not is_widened and op.x.dtype is DType.UINT8
    loop = replace(loop, has_words=is_widened)
    if has_two:
        loop = loop_of(g.taps, loop.grouping, replace(core, unroll=BLOCKS_UNROLL))
    if by_word:
        sums = _sums_by_word(g.taps, loop)
    else:
        sums = _wide_sums(g.taps, core, loop, 2 if has_two else 1) if wide else _byte_sums(g.taps, core, loop)
    words = _pairs_by_word(weights) if by_word else _pairs(weights) if wide else _bytes(weights)
    widen = ("scalar_elements" if is_widened else "") if wide else "scalar_packed_elements"
    numbers = {
        "channels": g.out_channels,
        "blocks": 2 if has_two else 1,
        "words": words.shape[1],
    }
    context = DenseContext(
        conv=integer_conv(op, packed),
        sums=sums,
        dsp=scalar_output(op, packed),
        matrix=Struct("scalar_matrix", (), numbers),
        has_outliers=bool(outliers.any()),
        copy_type="int32_t" if widen else "int8_t" if is_shifted else "",
        widen=widen,
        widen_by=unrolled(g.taps, WIDEN).unroll if wide else loop.grouping.size,
        odd=g.taps % 2 == 1,
        shift=-packed.x_shift,
    )
    scratch = (Scratch(g.taps, 1),) if is_shifted else ()
    if is_widened:
        scratch = (Scratch(4 * (g.taps + g.taps % 2 if by_word else g.taps), 4),)
    elif not wide:
        scratch = (Scratch(4 * -(-g.taps // 2) * (4 if loop.grouping.size == 1 else 3), 4),)
    folded = dict.fromkeys(("scalar_sums_of", "scalar_sums_by_word"), sums.sums_of.operations)
    folded |= {"scalar_packed_sums": _packed_operations(core, sums)} | _image_operations(context, core)
    constants = _constants(packed, words, outliers, sums)
    return Prepared(constants, context, scratch, certified(op, packed), folded=folded)


def _sums_by_word(taps: int, loop: Loop) -> DenseSums:
    """Over words of two weights each, groups of two elements."""
    own = loop_of_pairs(loop, taps, BY_WORD_STEPS)
    segment = Segment(1, 0, 0, by_channel=False, loops=(own,), is_thumb1=True, by_word=32)
    return DenseSums(True, True, segment, loop.grouping)


def _wide_sums(taps: int, core: Core, loop: Loop, blocks: int) -> DenseSums:
    """Over words of two weights each."""
    segment = Segment(blocks, 0, 0, core.by_channel, (loop,), core.is_thumb1, apart=2 * taps if blocks > 1 else 0)
    return DenseSums(True, False, segment, loop.grouping)


def _byte_sums(taps: int, core: Core, loop: Loop) -> DenseSums:
    """Over words of four weights each: two elements, of which each has a word and each group one where it starts."""
    own = loop_of_pairs(loop, taps, STEPS)
    segment = Segment(1, 0, 0, by_channel=False, loops=(own,), is_thumb1=core.is_thumb1 and loop.grouping.size > 1)
    return DenseSums(False, False, segment, loop.grouping)


def _packed_operations(core: Core, sums: DenseSums) -> float:
    """What a call of the library's function for sums of bytes becomes: fitted to what gcc -O2 makes for three cores."""
    [loop] = sums.sums_of.loops
    once = 5.0 + 4.0 * (loop.steps.count > 1) + (27.0 if sums.sums_of.is_thumb1 else 0.0)
    return once + (16.0 if core.loads_two and loop.grouping.size > 1 else 29.0) * (loop.steps.unroll + loop.steps.rest)


def _image_operations(context: DenseContext, core: Core) -> dict[str, float]:
    """The same of those for an image."""
    g, width = context.conv.conv.g, BLOCK * context.matrix.numbers["blocks"]
    outputs = (width if g.out_channels >= width else 0) + g.out_channels % width
    return {
        "scalar_times_vector": 8.0 + outputs * output_operations(context.conv.output, context.dsp, core),
        "scalar_elements": 2.2 * (context.widen_by + g.taps % context.widen_by),
        "scalar_packed_elements": 10.0 * (1 + g.taps % 2),
    }


def _cheapest_split(weights: Int64s, most: int) -> tuple[Int64s, Int64s]:
    """Weights whose groups have the size that takes the fewest instructions, and the outliers that they leave."""
    splits = [split_outliers(weights, size, -128, 127) for size in SIZES[SIZES.index(most) :]]
    return min(splits, key=lambda split: _instructions(split[0], split[1], most))


def _instructions(weights: Int64s, outliers: Int64s, most: int) -> int:
    blocks = len(weights) // BLOCK
    taps: int = weights.shape[1]
    groups = -(-taps // grouping(weights, -128, 127, most).size)
    few = int(outliers.reshape(blocks, BLOCK, taps).any(axis=1).sum())
    apart = OUTLIER * few + OUTLIERS * blocks if few else 0
    return blocks * (GROUP * groups + ELEMENT * taps) + apart


def _constants(packed: Packed, words: Int64s, outliers: Int64s, sums: DenseSums) -> tuple[Constants, ...]:
    """The weights for the fewest instructions or the least flash; biases; the output step's tables."""
    text = "weights of blocks of four channels, a, b, c, d: for each element a + b * 2^16, c + d * 2^16."
    if sums.is_by_word:
        text = (
            "weights of blocks of four channels, a, b, c, d: for two elements a + b * 2^16 of each, then c + d * 2^16 "
            "of each."
        )
    elif not sums.is_wide:
        text = (
            "weights plus 128 of blocks of four channels, a, b, c, d. Two words for two elements: from the lowest byte "
            "on a of element 0, a of 1, b of 0, b of 1; then the same of c and d."
        )
    constants = [Constants("weights", "int32_t", words, text)]
    if outliers.any():
        text = "what these lack, by blocks: an element's number and its two words; -1 behind the last of a block."
        constants.append(Constants("outliers", "int32_t", _outlier_words(outliers), text))
    constants.append(Constants("bias", "int32_t", packed.bias, "initial accumulators."))
    return (*constants, *output_constants(packed))


def padded(op: Conv, packed: Packed) -> Int64s:
    """The weights (channels, taps) in the order of the image, channels up to a whole number of blocks."""
    weights = ordered(op, packed)
    return np.pad(weights, ((0, -len(weights) % BLOCK), (0, 0)))


def _pairs(weights: Int64s) -> Int64s:
    """(blocks, words): for each element the weights of two channels, then of the other two."""
    pairs = weights[0::2] + weights[1::2] * 2**16
    return pairs.reshape(-1, 2, weights.shape[1]).transpose(0, 2, 1).reshape(len(weights) // BLOCK, -1)


def _outlier_words(outliers: Int64s) -> Int64s:
    """(n,) for each block its elements and their words; -1."""
    found = []
    for words in _pairs(outliers).reshape(len(outliers) // BLOCK, -1, 2):
        for element in np.flatnonzero(words.any(axis=1)):
            found += [int(element), *words[element].tolist()]
        found.append(-1)
    return np.array(found)


def _pairs_by_word(weights: Int64s) -> Int64s:
    """(blocks, words): for two elements the weights of two channels, then of the other two."""
    padded = np.pad(weights, ((0, 0), (0, weights.shape[1] % 2)))
    pairs = padded[0::2] + padded[1::2] * 2**16
    words = pairs.reshape(len(weights) // BLOCK, 2, -1, 2).transpose(0, 2, 1, 3)
    return words.reshape(len(weights) // BLOCK, -1)


def _bytes(weights: Int64s) -> Int64s:
    """(blocks, words): for two elements those of two channels, then of the other two."""
    padded = np.pad(weights, ((0, 0), (0, weights.shape[1] % 2))) + BYTE_OFFSET
    even, odd = padded[:, 0::2], padded[:, 1::2]
    halves = even | odd << 8
    words = halves[0::2] | halves[1::2] << 16
    words = (words + 2**31) % 2**32 - 2**31
    return words.reshape(-1, 2, words.shape[1]).transpose(0, 2, 1).reshape(len(weights) // BLOCK, -1)


DENSE = Kernel("scalar/dense", DenseContext, frozenset({"scalar"}), why_not, prepare)
