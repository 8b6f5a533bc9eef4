"""Blocks of four output channels: their constants as one stream, in the order in which the Helium kernels read them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qcgen.intervals import INT32_MIN
from qcgen.ir.program import Conv, Int64s
from qcgen.kernels.arm_mve.output import LANES, mve_output, parameters
from qcgen.kernels.kernel import Constants
from qcgen.kernels.packing import Packed
from qcgen.kernels.text import Unrolled

BYTES = 16  # of a vector: elements of a window in a step
MAX_STEPS = 9  # written out in one statement: C99 promises no more than 4095 characters of text
FEW_PIXELS = 15  # so many windows at most pay for a function that sums one alone


@dataclass(frozen=True)
class Lane:
    """A window of those that are summed at the same time: its pointer's name in C, its vector's, and its outputs."""

    name: str
    x: str
    out: str


LANE_A, LANE_B = Lane("a", "x", "out"), Lane("b", "z", "out + OUT_CHANNELS")


@dataclass(frozen=True)
class Windows:
    """The C functions that sum so many ``lanes`` at a time; ``number`` is "one" or "two" in their primitives' names."""

    number: str
    lanes: tuple[Lane, ...]


ONE = Windows("one", (LANE_A,))
TWO = Windows("two", (LANE_A, LANE_B))


def has_last(pixels: int) -> bool:
    """Whether the last of an odd number of windows is summed alone, rather than its neighbour a second time."""
    return pixels == 1 or (pixels % 2 == 1 and pixels <= FEW_PIXELS)


@dataclass(frozen=True)
class Steps:
    """Sums of four channels in ``steps`` of 16 elements; the first starts them, the others are written as ``loop``."""

    steps: int
    loop: Unrolled

    @property
    def words(self) -> int:
        """The words of four channels' weights."""
        return self.steps * LANES * BYTES // 4


def steps_of(terms: int) -> Steps:
    """The steps of sums of so many products."""
    steps = -(-terms // BYTES)
    return Steps(steps, _loop(steps - 1))


@dataclass(frozen=True)
class Blocks(Steps):
    """How ``channels`` are divided: ``whole`` of them in blocks of four, then ``rest``.

    A block's constants are its weights, ``steps`` times 16 bytes of each of its channels, four in a word; then, at so
    many words behind the weights, the initial accumulators (0), the multipliers, offsets (``offset_at``) and the first
    channel (``channel_at``), as far as the output step needs them: ``tail`` words; ``places`` are the enumerators
    of those that the C uses.
    """

    channels: int
    offset_at: int
    guarded_at: int
    channel_at: int
    tail: int
    places: tuple[str, ...]

    @property
    def whole(self) -> int:
        """Channels in whole blocks."""
        return self.channels // LANES * LANES

    @property
    def rest(self) -> int:
        """Channels that are left over."""
        return self.channels % LANES

    @property
    def has_channel(self) -> bool:
        """Whether the first channel is among a block's constants."""
        return self.tail > self.channel_at


def blocks(op: Conv, packed: Packed) -> Blocks:
    """The blocks of a layer."""
    g, mve = op.geometry, mve_output(op, packed)
    sums = steps_of(g.taps)
    offset_at = 2 * LANES if mve.is_fast else LANES
    guarded_at = offset_at + (LANES if mve.is_fast and mve.offset is None else 0)
    channel_at = guarded_at + (LANES if mve.limit else 0)
    tail = channel_at + (1 if mve.is_exact_used and packed.epilogue.output.is_per_channel else 0)
    places = (
        (mve.is_fast, f"MULTIPLIERS = {LANES}"),
        (mve.is_fast and mve.offset is None, f"OFFSETS = {offset_at}"),
        (mve.limit > 0, f"GUARDED = {guarded_at}"),
        (tail > channel_at, f"CHANNEL = {channel_at}"),
        (g.out_channels >= LANES, f"END = {tail}"),
    )
    used = tuple(text for is_used, text in places if is_used)
    return Blocks(sums.steps, sums.loop, g.out_channels, offset_at, guarded_at, channel_at, tail, used)


def _loop(steps: int) -> Unrolled:
    """How the steps after the first are written: in few rounds of a loop, with few copies behind it."""
    most = MAX_STEPS - 1
    if steps <= most:
        return Unrolled(steps, steps, 1 if steps else 0, 0)
    fitting = (n for n in range(1, most + 1) if n + steps % n <= most)
    unroll = min(fitting, key=lambda n: (steps // n, steps % n))
    return Unrolled(steps, unroll, steps // unroll, steps % unroll)


def stream(op: Conv, packed: Packed) -> Constants:
    """The constants of all blocks, int32, for windows in the order [k...][channel]."""
    g, mve, divided = op.geometry, mve_output(op, packed), blocks(op, packed)
    count = -(-g.out_channels // LANES)
    flat = packed.weights.reshape(g.out_channels, g.group_in, -1).transpose(0, 2, 1).reshape(g.out_channels, -1)
    weights = np.zeros((count * LANES, divided.steps * BYTES), np.int64)
    weights[: g.out_channels, : g.taps] = flat
    ordered = weights.reshape(count, LANES, divided.steps, BYTES).transpose(0, 2, 1, 3)
    parts = [_words(ordered.reshape(count, -1)), _blocked(packed.bias, count)]
    texts = ["weights, four in a word", "initial accumulators"]
    if mve.is_fast:
        known = parameters(op, packed)
        parts.append(_blocked(known.multiplier, count))
        texts.append("multipliers")
        if known.offset is not None:
            parts.append(_blocked(known.offset, count))
            texts.append("offsets")
        if mve.limit:
            parts.append(-_blocked(guarded(op, packed), count))
            texts.append("all bits where a channel has a guard band")
    if divided.has_channel:
        parts.append(_first_channels(op, packed, count))
        texts.append("the first channel" + (", -1 if none has a guard band" if mve.is_fast else ""))
    meaning = f"of each block of four channels: {'; '.join(texts)}."
    return Constants("constants", "int32_t", np.concatenate(parts, axis=1).reshape(-1), meaning)


def _blocked(values: Int64s, count: int) -> Int64s:
    """(blocks, 4), zeros for channels that are not there."""
    padded = np.zeros(count * LANES, np.int64)
    padded[: values.size] = values
    return padded.reshape(count, LANES)


def _words(weights: Int64s) -> Int64s:
    """(blocks, bytes) to (blocks, words); the first byte of a word is its lowest."""
    b = weights.reshape(weights.shape[0], -1, 4) & 0xFF
    words: Int64s = b[..., 0] | b[..., 1] << 8 | b[..., 2] << 16 | b[..., 3] << 24
    return (words - INT32_MIN) % 2**32 + INT32_MIN


def _first_channels(op: Conv, packed: Packed, count: int) -> Int64s:
    """(blocks, 1): the number of each block's first channel; -1 if the fast output step serves all of them."""
    first = np.arange(count)[:, None] * LANES
    if not mve_output(op, packed).has_windows:
        return first
    return np.where(_blocked(guarded(op, packed), count).any(axis=1, keepdims=True), first, -1)


def guarded(op: Conv, packed: Packed) -> Int64s:
    """(M,): 1 where a channel has a guard band, 0 elsewhere."""
    channel = parameters(op, packed).channel
    return np.zeros(op.geometry.out_channels, np.int64) if channel is None else (channel >= 0).astype(np.int64)
