"""Blocks of output channels that are summed at the same time: how their constants are divided, their loops written."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

import numpy as np

from qcgen.ir.context import LayerField, own
from qcgen.ir.program import Int64s
from qcgen.kernels.text import ChannelBlocks, Unrolled

Form = Literal["int16", "shared", "bytes", "nibbles"]
"""How weights lie in words; see ``arm_dsp/weights.py``."""


GUARDED_BITS = 8
"""Of the word that tells a block's first channel: which of its channels have a guard band."""


STEP_OPERATIONS = {"int16": 7.0, "shared": 6.4, "bytes": 14.0, "nibbles": 6.4}
"""Of a step for two windows, for each channel."""

OUTPUT_OPERATIONS = (3.5, 4.0)
"""Of storing the outputs of a channel: once, and for each window."""


@dataclass(frozen=True)
class Tail:
    """What follows the weights of a block: what the output step needs, unless all channels share it.

    ``multiplier`` and ``offset`` (M,) as in Equation (5). ``channel`` (M,): the number of the block's first channel
    for output steps that need it, -1 for blocks that do not. ``tells_guarded``: the word says which channels do, too.
    """

    multiplier: Int64s | None
    offset: Int64s | None
    channel: Int64s | None
    tells_guarded: bool = False

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

    @property
    def form(self) -> Hashable:
        """What the text of the functions depends on."""
        return self.has_multipliers, self.has_offsets, self.has_channel, self.tells_guarded

    def words(self, first: int, beyond: int, width: int) -> Int64s:
        """(blocks, words) of the tails of some blocks."""
        parts = [v[first:beyond].reshape(-1, width) for v in (self.multiplier, self.offset) if v is not None]
        if self.channel is not None:
            channel = self.channel[first:beyond].reshape(-1, width)
            known = np.arange(first, beyond, width)[:, None]
            if self.tells_guarded:
                known = (known << GUARDED_BITS) + ((channel >= 0) << np.arange(width)).sum(axis=1, keepdims=True)
            parts.append(np.where(channel.max(axis=1, keepdims=True) >= 0, known, -1))
        return np.concatenate([np.zeros(((beyond - first) // width, 0), np.int64), *parts], axis=1)


@dataclass(frozen=True)
class SegmentSizes:
    """Where the C has what differs from layer to layer: how many ``channels``, the ``first`` and its ``words``."""

    channels: LayerField
    first: LayerField
    words: LayerField


@dataclass(frozen=True)
class Segment(ChannelBlocks):
    """Blocks of channels of one window or two.

    ``steps``: the loop over the window; a step is one pair, or two where a word holds four weights of a channel.
    A block's constants are ``width`` biases, its weights and its ``tail``; those of all blocks follow each other
    from word ``offset`` on. ``is_outlined``: a function of its own computes the sums, so that its loop has all
    registers to itself; without a long loop the call would cost more than it gains. ``for_speed``: cycles count more
    than instructions. ``together``: blocks in a round of the loop over them. ``sizes``: of layers of several sizes.
    ``element_factors``: how often the sum of a window's elements is subtracted from each of four sums, if weights have
    4 bits.
    """

    form: Form
    steps: Unrolled
    offset: int
    tail: Tail
    is_outlined: bool
    for_speed: bool
    together: int
    sizes: SegmentSizes | None = field(default=None, kw_only=True)
    element_factors: tuple[int, ...] = field(default=(), kw_only=True)

    @property
    def sums(self) -> int:
        """Sums of a block: those of two windows."""
        return 2 * self.width

    @property
    def tail_words(self) -> int:
        """The words of the tail."""
        return (self.tail.has_multipliers + self.tail.has_offsets) * self.width + self.tail.has_channel

    @property
    def pair_words(self) -> int | LayerField:
        """How many words two windows are."""
        return own("pair_words") if self.sizes else self.steps.total * (4 if self.form == "bytes" else 2)

    @property
    def loop_words(self) -> int | LayerField:
        """How many of them a loop reads."""
        return self.pair_words if self.sizes else self.copies * self.steps.count * (4 if self.form == "bytes" else 2)

    @property
    def copies(self) -> int:
        """Steps in a round of the loop over a window, 0 without a loop."""
        return self.steps.unroll if self.steps.count > 1 else 0

    @property
    def part(self) -> str:
        """How the sums of channels are parted from those of words."""
        return self.form if self.form in ("shared", "nibbles") else "alone"

    @property
    def tested(self) -> int:
        """Which channels of a block have a guard band in some block: 2^c for channel c."""
        if self.tail.channel is None:
            return 0
        windows = self.tail.channel[self.first : self.beyond].reshape(-1, self.width).max(axis=0)
        return sum(1 << int(c) for c in np.flatnonzero(windows >= 0))

    @property
    def loads_in_row(self) -> bool:
        """Whether a step loads its pair and its first two words one by one: two instructions more, a cycle less."""
        return self.for_speed and self.width > {"int16": 1, "shared": 2}.get(self.form, self.width)


Kind = TypeVar("Kind", bound=Segment)


def step_operations(segments: Sequence[Segment]) -> dict[str, float]:
    """What calls of the library's functions become, on average: so many steps of the blocks in a round."""
    each = [
        (s.copies + s.steps.behind) * s.width * STEP_OPERATIONS[s.form] * (1 if s.is_outlined else s.together)
        for s in segments
    ]
    return {"dsp_steps": sum(each) / len(each)}


def output_operations(segments: Sequence[Segment], windows: int = 2) -> dict[str, float]:
    """The same of calls of the function that stores the codes of a block."""
    once, each = OUTPUT_OPERATIONS
    return {"outputs": sum(s.together * s.width * (once + each * windows) for s in segments) / len(segments)}


def segment_numbers(s: Segment) -> dict[str, int]:
    """What a layer has for itself of its blocks of one width, by the names of its struct."""
    return {f"channels{s.width}": s.size, f"first{s.width}": s.first, f"words{s.width}": s.offset}


def sized(s: Kind) -> Kind:
    """The blocks as a function for layers of several sizes shows them: how many there are is read from the struct."""
    sizes = SegmentSizes(*map(own, segment_numbers(s)))
    return replace(s, first=0, beyond=2 * s.width, offset=0, together=1, sizes=sizes)
