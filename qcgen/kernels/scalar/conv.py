"""scalar/conv: convolutions of channels-last images, the windows of two pixels in the halves of words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context
from qcgen.ir.program import Conv, ConvGeometry, Int64s, Operator
from qcgen.ir.types import Layout
from qcgen.kernels.access import blocks as blocks_of
from qcgen.kernels.access import in_pixels
from qcgen.kernels.fast_output import FastOutput, output_constants
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting, number
from qcgen.kernels.packing import IntegerConv, Packed, integer_conv, pack, signed_shift
from qcgen.kernels.reasons import why_not_plain
from qcgen.kernels.scalar.sums import (
    Segment,
    certified,
    core_of,
    extremes,
    large_groups,
    scalar_output,
    segments,
    table,
    with_pairs,
)
from qcgen.kernels.text import unrolled, window_shape
from qcgen.kernels.windows import Images, any_at_border, axes, images

MAX_GATHERED = 256  # elements of a window at the border that are collected beforehand
FEW_CHANNELS = 16  # up to which a tap is too short to be widened by itself
MAX_ALTERNATING = 16  # elements of a run whose words are written out for even and for odd places
MAX_RUNS = 32  # of a window: the C function keeps pointers to those of two windows on its stack, 4 bytes each

BLOCK = 4  # pixels at a time: two words of two
MAX_CHUNK = 16  # channels whose sums are kept on the stack, 16 bytes each

MOST_WORDS = 4096
"""Weights of a layer that are words for --optimize speed on Cortex-M3: 2 to 8 % fewer instructions and 1 to 4 % fewer
cycles for four times the flash."""


@dataclass(frozen=True)
class WidenedWindow:
    """A window as ``runs`` of ``run`` elements, which are widened in rounds of ``round`` of them.

    ``is_gathered``: at the border, rows of taps that leave the image are collected beforehand; otherwise runs there
    are single taps, which leave the image as a whole. ``is_positioned``: windows do not follow each other pixel by
    pixel. ``axes`` are the numbers of four structs, of axes that the image lacks first.
    """

    axes: tuple[tuple[int, ...], ...]
    runs: int
    run: int
    is_rows: bool
    has_border: bool
    is_positioned: bool
    is_gathered: bool
    round: int
    is_by_word: bool = False

    def by_word(self) -> WidenedWindow:
        """The same window for sums by word, whose rounds are whole pairs of elements."""
        pairs = unrolled(self.run // 2, max(1, self.round // 2))
        return replace(self, is_by_word=True, round=2 * max(1, pairs.unroll))

    @property
    def operations(self) -> dict[str, float]:
        """What calls of the library's functions become: fitted to what gcc -O2 makes of 207 layers for three cores."""
        elements = self.round + self.run % self.round
        widen = 5.0 + 3.5 * elements * (2 if self.is_by_word and self.run % 2 else 1) + (9.0 if self.runs > 1 else 0.0)
        return {"scalar_widen": widen, "scalar_find_window": 75.0 if self.has_border else 20.0}

    @property
    def can_be_by_word(self) -> bool:
        """Whether the words of two elements may lie side by side: pairs may begin in one run and end in the next."""
        return self.run % 2 == 0 or self.runs == 1 or self.run <= MAX_ALTERNATING


def _window_of(g: ConvGeometry, unroll: int) -> WidenedWindow:
    """The window of a channels-last image without groups, in rows of taps where that serves, else tap by tap.

    ``unroll`` elements are widened in a round of the loop.
    """
    spatial = axes(g, Layout.CHANNELS_LAST)
    has_border = any_at_border(spatial)
    is_row = g.dilations[-1] == 1
    is_short = g.taps <= MAX_GATHERED and g.in_channels < FEW_CHANNELS
    is_gathered = is_row and has_border and (is_short or prod(g.kernel) > MAX_RUNS)
    is_rows = is_row and (is_gathered or not has_border)
    run = g.in_channels * (g.kernel[-1] if is_rows else 1)
    return WidenedWindow(
        axes=_numbers(g),
        runs=g.taps // run,
        run=run,
        is_rows=is_rows,
        has_border=has_border,
        is_positioned=prod(g.kernel) > 1 or g.is_padded or set(g.strides) != {1},
        is_gathered=is_gathered,
        round=run if unroll == 1 else unrolled(run, unroll).unroll,
    )


def _numbers(g: ConvGeometry) -> tuple[tuple[int, ...], ...]:
    """For each of four axes the image, the outputs, kernel, stride, dilation and padding along it."""
    own = zip(g.input, g.output, g.kernel, g.strides, g.dilations, g.pads_begin, strict=True)
    return (*[(1, 1, 1, 1, 1, 0)] * (4 - g.rank), *own)


@dataclass(frozen=True)
class Pair:
    """The windows of two ``pixels``, which are widened together.

    There are two places for runs, 0 and 1: windows are ``found`` for some of them beforehand; then those in ``first``
    and ``second`` are the pixels'.
    """

    pixels: tuple[int, int]
    found: tuple[int, ...]
    first: int
    second: int


@dataclass(frozen=True)
class KeptBlocks:
    """Blocks of channels, and how many channels' sums are kept at a time; ``is_ragged``: fewer the last time.

    ``is_single``: those of all channels.

    Their weights begin ``offset`` elements behind the first of all.
    """

    sums: Segment
    offset: int
    chunk: int
    is_ragged: bool
    is_single: bool


@dataclass(frozen=True)
class PixelsByFour(Context):
    """The loops over the pixels of the output, four at a time."""

    images: Images
    pixels: int  # of an output image
    lanes: int  # that are computed at a time, at most
    is_looped: bool  # there are four or more
    pairs_of_few: tuple[Pair, ...]  # the windows that are widened together if there are fewer
    has_overlap: bool  # fours leave pixels over: the last four end with the image
    last: tuple[int, ...]  # the position of the first of the last four, on four axes
    is_split: bool  # there are several images


@dataclass(frozen=True)
class ConvContext(Context):
    """A convolution of windows widened to words of two pixels."""

    template: ClassVar[str] = "kernels/scalar/conv.c.jinja"

    conv: IntegerConv
    image: PixelsByFour
    dsp: FastOutput
    window: WidenedWindow
    segments: tuple[KeptBlocks, ...]  # of output channels
    padding_byte: int  # a code outside the image
    shift: int  # what codes are less when they are widened


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves convolutions of channels-last images without groups whose windows are in few pieces."""
    reason = why_not_plain(op, setting)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    runs = _window_of(op.geometry, core_of(setting.target).widen).runs
    return f"a window is {runs} pieces of the image, more than {MAX_RUNS}" if runs > MAX_RUNS else None


def packed_bytes(op: Conv, setting: Setting) -> Packed:
    """Taps and weights are int8, so that a product takes 15 bits and its sign."""
    return pack(op, setting, signed_shift(op))


def ordered(op: Conv, packed: Packed) -> Int64s:
    """The weights (M, taps) in the order in which a window of a channels-last image lies."""
    g = op.geometry
    return packed.weights.reshape(g.out_channels, g.in_channels, -1).transpose(0, 2, 1).reshape(g.out_channels, -1)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Weights [M][taps]; the widened windows of four pixels as scratch."""
    assert isinstance(op, Conv)
    g = op.geometry
    packed = packed_bytes(op, setting)
    weights = ordered(op, packed)
    core = core_of(setting.target)
    planned = _window_of(g, core.widen)
    extreme = extremes(weights) if setting.is_free else weights
    blocks = segments(extreme, core, -128, 127)
    if core.loads_two and setting.optimize == "speed" and weights.size <= MOST_WORDS:
        blocks = tuple(s.with_words() for s in blocks)
    if planned.can_be_by_word:
        is_packed = setting.optimize == "speed"
        even, ends = (np.pad(each, ((0, 0), (0, g.taps % 2))) for each in (weights, extreme))
        blocks = tuple(with_pairs(s, ends, core, is_packed=is_packed) for s in blocks)
        if any(s.by_word for s in blocks):
            planned, weights = planned.by_word(), even
    context = ConvContext(
        conv=integer_conv(op, packed),
        image=_pixels_by_four(g),
        dsp=scalar_output(op, packed),
        window=planned,
        segments=tuple(kept_blocks(s, g.taps) for s in blocks),
        padding_byte=packed.padding - packed.x_shift,
        shift=-packed.x_shift,
    )
    constants = _constants(op, packed, weights, blocks, planned)
    if planned.is_gathered and setting.is_free:
        constants += (number("padding_byte", "int32_t", context.padding_byte, "an element outside."),)
    scratch = [Scratch(2 * 4 * weights.shape[1], 4)]
    if planned.is_gathered:
        scratch.append(Scratch(min(prod(g.output), 2) * g.taps, 1))
    access = in_pixels(op, setting, blocks_of(prod(g.output), BLOCK), gathers=True)
    sums = sum(s.operations for s in blocks) / len(blocks)
    folded = planned.operations | dict.fromkeys(("scalar_sums_of", "scalar_sums_by_word"), sums)
    return Prepared(constants, context, tuple(scratch), certified(op, packed), access=access, folded=folded)


def _pixels_by_four(g: ConvGeometry) -> PixelsByFour:
    pixels = prod(g.output)
    return PixelsByFour(
        images=images(g),
        pixels=pixels,
        lanes=min(pixels, BLOCK),
        is_looped=pixels >= BLOCK,
        pairs_of_few=_pairs_of_few(pixels) if pixels < BLOCK else (),
        has_overlap=pixels > BLOCK and pixels % BLOCK != 0,
        last=last_block(g),
        is_split=g.batch > 1,
    )


def _pairs_of_few(pixels: int) -> tuple[Pair, Pair]:
    """The four windows of an image of fewer pixels than a block has, which repeats the last one."""
    match pixels:
        case 1:
            return Pair((0, 0), (0,), 0, 0), Pair((0, 0), (), 0, 0)
        case 2:
            return Pair((0, 1), (0, 1), 0, 1), Pair((1, 1), (), 1, 1)
        case _:
            return Pair((0, 1), (0, 1), 0, 1), Pair((2, 2), (0,), 0, 0)


def _constants(
    op: Conv, packed: Packed, weights: Int64s, blocks: tuple[Segment, ...], planned: WidenedWindow
) -> tuple[Constants, ...]:
    """The weights, initial accumulators, a tap outside, which channels have larger groups; the output step's tables."""
    g = op.geometry
    text = f"weights [{g.out_channels} channels]{window_shape(g, Layout.CHANNELS_LAST)}{packed.weights_remark}."
    [c_type] = {s.weight_type for s in blocks}
    if blocks[0].by_word == 16:
        text = f"{text[:-1]}, those of two elements in a word: the first in its lower half."
    constants = [Constants("weights", c_type, table(weights, blocks), text)]
    constants.append(Constants("bias", "int32_t", packed.bias, "initial accumulators."))
    if planned.has_border and not planned.is_gathered:
        code = packed.padding - packed.x_shift
        constants.append(Constants("padding", op.x.dtype.c, np.full(planned.run, code), "a tap outside."))
    if any(s.is_mixed for s in blocks):
        text = f"1 where groups of {blocks[0].loops[0].grouping.size} elements are safe."
        constants.append(Constants("is_large", "uint8_t", large_groups(weights, blocks[0]), text))
    return (*constants, *output_constants(packed))


def kept_blocks(s: Segment, taps: int) -> KeptBlocks:
    """Chunks that divide the channels evenly, if there are any that are large enough."""
    blocks = (s.beyond - s.first) // s.width
    most = min(MAX_CHUNK // s.width, blocks)
    chunk = max((n for n in range(most // 2, most + 1) if n and blocks % n == 0), default=most)
    return KeptBlocks(s, s.first * taps, chunk * s.width, blocks % chunk != 0, chunk == blocks)


def last_block(g: ConvGeometry) -> tuple[int, ...]:
    """The position of the first pixel of the last block, on four axes, those that the image lacks first."""
    at = np.unravel_index(max(prod(g.output) - BLOCK, 0), g.output)
    return (*[0] * (4 - g.rank), *map(int, at))


CONV = Kernel("scalar/conv", ConvContext, frozenset({"scalar"}), why_not, prepare)
