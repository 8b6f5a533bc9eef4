"""The loops over the elements of a window, how many output channels they serve at a time, and the output step of sums.

A word holds two numbers, low + high * 2^16. Times a weight it is the products of both, and such words add up lane by
lane as long as no sum leaves 16 bits, with its sign: then the lower half, less its borrow, and the upper one are the
two sums. Elements are added in groups of 1, 2, 4 or 8, then taken apart; a group's bound follows from its weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from qcgen.cores import Target
from qcgen.ir.context import Struct
from qcgen.ir.plan import Certificate
from qcgen.ir.program import Conv, Int64s
from qcgen.kernels import fast_output
from qcgen.kernels.epilogue import Output
from qcgen.kernels.fast_output import FastOutput
from qcgen.kernels.packing import Packed
from qcgen.kernels.text import ChannelBlocks, Unrolled, divided, unrolled

SIZES = (8, 4, 2, 1)  # of groups
LANE_LOW, LANE_HIGH = -(2**15), 2**15 - 1

FEW, SOME = 8, 16  # registers

THUMB1_GROUP = {1: 13, 2: 19, 4: 33, 8: 61}
"""Instructions of a group of so many elements, four products each, on cores with Thumb's first instruction set."""

REACH = 1900
"""Bytes over which a branch surely reaches back on such a core: 2 KiB, less what ``Segment.operations`` may be off."""

BY_WORD_GROUP = {8: 18, 16: 17, 32: 15}
"""The same of a group of two elements by word, whose weights have so many bits."""

WORTH = 0.03  # products per element that a second loop must save
MAX_ELEMENTS = 32  # in a round of the loop: as many bytes as a Cortex-M0 reaches from one pointer

SCALE = {"multiply-high": "scalar_scale", "split": "scalar_scale_split"}


@dataclass(frozen=True)
class Grouping:
    """Groups of ``size`` elements, the last of which may be shorter.

    Their sums of products lie within [low, high], which is within int16.
    """

    size: int
    low: int
    high: int


def grouping(weights: Int64s, x_low: int, x_high: int, most: int = SIZES[0]) -> Grouping:
    """The largest groups up to ``most`` that are safe for weights (channels, elements) and every x in [x_low, x_high].

    Groups of one element always are if x and w fit int8: no product exceeds 2^14.
    """
    for size in SIZES:
        if size > most:
            continue
        low, high = sums_of_groups(weights, size, x_low, x_high)
        if low >= LANE_LOW and high <= LANE_HIGH and (size == 1 or size <= weights.shape[1]):
            return Grouping(size, low, high)
    raise AssertionError("a product leaves 16 bits")


def extremes(weights: Int64s) -> Int64s:
    """The weights that bound the sums of any others: of the symmetric range, if all of these are within it."""
    return np.full_like(weights, -127 if weights.min() > -128 else -128)


def sums_of_groups(weights: Int64s, size: int, x_low: int, x_high: int) -> tuple[int, int]:
    """The least and the greatest sum of products that any group of ``size`` neighbouring elements reaches."""
    products = np.stack([weights * x_low, weights * x_high])
    starts = range(0, weights.shape[1], size)
    low = np.add.reduceat(products.min(axis=0), starts, axis=1).min()
    high = np.add.reduceat(products.max(axis=0), starts, axis=1).max()
    return int(low), int(high)


def split_outliers(weights: Int64s, size: int, x_low: int, x_high: int) -> tuple[Int64s, Int64s]:
    """Weights whose groups of ``size`` are safe, and the few that remain: both add up to ``weights``.

    The largest weights of a group give off what exceeds 16 bits.
    """
    taps = weights.shape[1]
    inliers = np.pad(weights, ((0, 0), (0, -taps % size))).reshape(len(weights), -1, size)
    while True:
        products = np.stack([inliers * x_low, inliers * x_high])
        low, high = products.min(axis=0).sum(axis=-1), products.max(axis=0).sum(axis=-1)
        excess = np.maximum(LANE_LOW - low, high - LANE_HIGH)
        rows, groups = np.nonzero(excess > 0)
        if not len(rows):
            found = inliers.reshape(len(weights), -1)[:, :taps]
            return found, weights - found
        members = inliers[rows, groups]
        largest = np.abs(members).argmax(axis=1)
        values = members[np.arange(len(rows)), largest]
        less = np.minimum(-(-excess[rows, groups] // min(-x_low, x_high)), np.abs(values))
        inliers[rows, groups, largest] -= np.sign(values) * less


@dataclass(frozen=True)
class Core:
    """What a core's registers admit: output channels at a time, and elements of a group with them, most first.

    ``by_channel``: a group's words are kept in registers for all channels of a block; otherwise blocks have one
    channel, and words are loaded as they are multiplied. ``unroll`` are elements of a round of the loop; ``widen``
    those that are widened in one. ``is_thumb1``: the loops are a statement of assembly for Thumb's first instruction
    set. ``loads_two``: a load takes two words and moves its pointer, so factors that are words take fewer instructions.
    """

    widths: tuple[int, ...]
    most: tuple[int, ...]
    by_channel: bool
    unroll: int
    widen: int
    is_thumb1: bool = False
    loads_two: bool = False


ARM = Core((1,), (8,), by_channel=False, unroll=MAX_ELEMENTS, widen=4)
FEW_REGISTERS = Core((1,), (8,), by_channel=False, unroll=MAX_ELEMENTS, widen=8)
MANY_REGISTERS = Core((4, 2, 1), (2, 4, 4), by_channel=True, unroll=8, widen=4)


def core_of(target: Target) -> Core:
    """How to use the registers of a target."""
    if target.registers <= FEW:
        return replace(FEW_REGISTERS, is_thumb1=target.isa == "armv6-m")
    return replace(ARM, loads_two=target.isa == "armv7-m") if target.registers <= SOME else MANY_REGISTERS


@dataclass(frozen=True)
class Loop:
    """The loop over the elements of a window: ``steps`` of ``step`` elements each, then ``rest`` groups.

    ``has_words``: factors are words, else bytes.
    """

    grouping: Grouping
    step: int
    steps: Unrolled
    rest: tuple[int, ...]
    has_words: bool = False

    @property
    def elements(self) -> int:
        """Elements of a round."""
        return self.steps.unroll * self.step

    @property
    def groups(self) -> int:
        """All groups of a window."""
        return self.steps.count * self.elements // self.grouping.size + len(self.rest)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Those of the groups of a round, and of those behind the last one."""
        return (*[self.grouping.size] * (self.elements // self.grouping.size), *self.rest)


def loop_of(taps: int, found: Grouping, core: Core) -> Loop:
    """The loop over ``taps`` elements; what whole steps leave over are groups, the last ones smaller: of 4, 2, 1."""
    size = found.size
    step = 2 * size if size == 2 and not core.by_channel else size
    steps = unrolled(taps // step, core.unroll // step)
    left = taps - steps.count * steps.unroll * step
    rest = [size] * (left // size)
    left %= size
    while left:
        size //= 2
        rest += [size] * (left // size)
        left %= size
    return Loop(found, step, steps, tuple(rest))


@dataclass(frozen=True)
class Segment(ChannelBlocks):
    """Blocks of channels of four windows.

    Their weights are [block][element][channel]. There are two ``loops`` where many channels admit larger groups than
    the others; the first one is theirs. ``by_word``: the bits of a weight if each word of a group of two elements is
    rounded by itself instead of starting at HALF: both elements' words of two windows lie side by side, as weights of
    16 bits do in a word.
    ``apart``: words from those of one sum to those of the next, if these are not the same for all.
    """

    by_channel: bool
    loops: tuple[Loop, ...]
    is_thumb1: bool = False
    by_word: int | None = None
    apart: int = 0

    @property
    def weight_type(self) -> str:
        """The C type of an element of the table."""
        return "int32_t" if (self.by_word or 8) > 8 or self.loops[0].has_words else "int8_t"

    def with_words(self) -> Segment:
        """The same with weights that are words."""
        return replace(self, loops=tuple(replace(loop, has_words=True) for loop in self.loops))

    @property
    def is_mixed(self) -> bool:
        """Whether each channel has its size of groups."""
        return len(self.loops) > 1

    @property
    def layers(self) -> tuple[tuple[str, Struct], ...]:
        """What the library's functions are told of the loops, by the names of these."""
        return tuple(
            (f"{'large_' if self.is_mixed and loop is self.loops[0] else ''}loop", self._layer(loop))
            for loop in self.loops
        )

    def _layer(self, loop: Loop) -> Struct:
        numbers = {
            "width": self.width,
            "apart": self.apart,
            "size": loop.grouping.size,
            "groups": loop.groups,
            "elements": loop.elements,
            "rounds": loop.steps.count,
            "rest": sum(loop.rest),
            "is_far": int(self.is_mixed and self.is_thumb1 and 2 * self.operations > REACH),
        }
        return Struct("scalar_loop", (), {name: number for name, number in numbers.items() if number})

    @property
    def add(self) -> str:
        """The library's function for a group."""
        if self.apart:
            return "scalar_words_of_two"
        return "scalar_channels" if self.by_channel else f"scalar_group{'_of_words' if self.loops[0].has_words else ''}"

    @property
    def operations(self) -> float:
        """What a call of the library's function for all groups becomes.

        Fitted to what gcc -O2 makes of 206 layers for three cores, as are the bytes of an operation.
        """
        sizes = [size for loop in self.loops for size in loop.sizes]
        loops, rounds = len(self.loops), sum(loop.steps.count > 1 for loop in self.loops)
        if self.by_word:
            return 20.0 + 4.0 * rounds + (4.0 + BY_WORD_GROUP[self.by_word]) * len(sizes)
        if self.is_thumb1:
            return 21.5 + 15.0 * loops + 7.0 * rounds + sum(THUMB1_GROUP[size] for size in sizes)
        channels = self.width * (5.0 + sum(4.6 + 4.0 * size for size in sizes))
        return channels + 4.0 * rounds + 13.0 * (loops - 1)


def is_by_word(core: Core, loop: Loop) -> bool:
    """Whether a loop's groups can do without HALF, see Segment: those of two elements on a core that adds a carry.

    Upper halves must stay above -2^15, because no HALF makes up for what the lower ones borrow from them.
    """
    return core.is_thumb1 and loop.grouping.size == 2 and loop.grouping.low > LANE_LOW


def with_pairs(segment: Segment, weights: Int64s, core: Core, *, is_packed: bool) -> Segment:
    """The segment by word if that takes fewer instructions for ``weights`` (M, an even number of elements)."""
    least = segment.loops[-1]
    if not is_by_word(core, least):
        return segment
    large = large_groups(weights, segment).mean() if segment.is_mixed else 0.0
    grouped = large * _thumb1_cost(segment.loops[0].grouping.size) + (1 - large) * _thumb1_cost(2)
    bits = 16 if is_packed else 8
    if grouped <= BY_WORD_GROUP[bits] / (4 * 2):
        return segment
    return replace(segment, loops=(loop_of_pairs(least, weights.shape[1], MAX_ELEMENTS // 2),), by_word=bits)


def loop_of_pairs(loop: Loop, taps: int, most: int) -> Loop:
    """The same over two elements at a time, ``most`` times in a round."""
    size, steps = loop.grouping.size, unrolled(-(-taps // 2), most)
    return replace(loop, step=2, steps=steps, rest=(size,) * (2 * steps.rest // size))


def _thumb1_cost(size: int) -> float:
    """Instructions of a product in groups of so many elements."""
    return THUMB1_GROUP[size] / (4 * size)


def segments(weights: Int64s, core: Core, x_low: int, x_high: int) -> tuple[Segment, ...]:
    """The blocks of all channels of ``weights`` (M, elements), widest first."""
    common = grouping(weights, x_low, x_high).size
    # Larger groups save more than wider blocks.
    most = {
        width: most
        for width, most in zip(core.widths, core.most, strict=True)
        if most >= min(common, core.most[-1]) or width == core.widths[-1]
    }
    return tuple(
        Segment(
            width,
            first,
            beyond,
            core.by_channel,
            _loops(weights[first:beyond], core, most[width], x_low, x_high),
            core.is_thumb1,
        )
        for width, first, beyond in divided(len(weights), tuple(most))
    )


def _loops(weights: Int64s, core: Core, most: int, x_low: int, x_high: int) -> tuple[Loop, ...]:
    """One loop for all channels, or one for many and another for the rest."""
    safe = grouping(weights, x_low, x_high, most)
    loops = [loop_of(weights.shape[1], safe, core)]
    if core.by_channel:
        return tuple(loops)
    own = np.array([grouping(row[None], x_low, x_high, most).size for row in weights])
    # Taking groups apart costs as much as one product: what is saved is the difference of 1 / size.
    saved = {size: float((own >= size).mean()) * (1 / safe.size - 1 / size) for size in SIZES if size > safe.size}
    best = max(saved, key=lambda size: saved[size], default=safe.size)
    if saved.get(best, 0.0) >= WORTH:
        large = grouping(weights[own >= best], x_low, x_high, best)
        loops.insert(0, loop_of(weights.shape[1], large, core))
    return tuple(loops)


def large_groups(weights: Int64s, segment: Segment, x_low: int = -128, x_high: int = 127) -> Int64s:
    """(M,) 1 for the channels of the first of two loops."""
    size = segment.loops[0].grouping.size
    return np.array([int(grouping(row[None], x_low, x_high, size).size == size) for row in weights])


def table(weights: Int64s, found: tuple[Segment, ...]) -> Int64s:
    """The weights (n,) in the order in which the loops read them."""
    if any(s.by_word == 16 for s in found):
        low, high = weights[:, 0::2], weights[:, 1::2]
        return (low & 0xFFFF | high << 16).reshape(-1)
    parts = [
        weights[s.first : s.beyond].reshape(-1, s.width, weights.shape[1]).transpose(0, 2, 1).reshape(-1) for s in found
    ]
    return np.concatenate(parts)


def scalar_output(op: Conv, packed: Packed) -> FastOutput:
    """How sums become output codes on cores without SIMD."""
    return fast_output.fast_output(op, packed, SCALE, "scalar_saturate")


def output_operations(output: Output, fast: FastOutput, core: Core) -> float:
    """What the output of a sum becomes, where the library's functions store it: fitted as Segment.operations are."""
    if not fast.is_fast:
        return 14.0 if output.kind == "narrow" else 4.0
    step = 11.0 if not core.is_thumb1 else 31.0 if output.kind == "multiply-high" else 13.0
    return 2 * step + 3.0 if fast.has_windows else step


def certified(op: Conv, packed: Packed) -> Certificate:
    """The certificate of a node with this output step."""
    return fast_output.certified(op, packed, scalar_output(op, packed))
