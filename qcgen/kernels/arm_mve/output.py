"""The output step of the Helium kernels, and blocks of four output channels that end with what it needs.

The constants of blocks are one stream in the order in which kernels read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qcgen.intervals import INT32_MAX, INT32_MIN, accumulator_interval
from qcgen.ir.context import LayerField, Struct
from qcgen.ir.plan import Certificate
from qcgen.ir.program import Conv, Int64s
from qcgen.ir.types import DType
from qcgen.kernels.fast_output import RARE, TESTED_BITS, guarded, parameter, with_fast_step
from qcgen.kernels.kernel import Constants
from qcgen.kernels.packing import Packed
from qcgen.requantize.fixed_point import FastStep

LANES = 4  # int32 in a vector
MAX_ROUNDED = 16  # the largest shift that VQRSHRNB has

BYTES = 16  # of a vector: elements of a window in a step
MAX_STEPS = 9  # written out; of more some are a loop
FEW_PIXELS = 15  # so many windows at most pay for a function that sums one alone


@dataclass(frozen=True)
class MveOutput:
    """How sums become output codes.

    ``is_fast``: by VMULH and a saturating shift. That shift rounds (``rounds``) wherever VQRSHRNB can do it: then the
    offsets are less by half a step, which it adds. ``offset`` is None where each channel has its own.
    ``low`` and ``high`` are the activation's bounds for the number that is shifted, None where the type's are as tight.
    ``has_windows``: some channels have a guard band; blocks that hold one take the exact function, or first test if a
    sum comes near a tie: then the number that is shifted, less whole steps and as a signed number in units of 2^-32
    steps, has a magnitude of ``limit`` or more. ``limit`` is 0 where the test does not serve.
    """

    is_fast: bool
    has_windows: bool
    is_exact_used: bool
    rounds: bool
    shift: int
    offset: int | None
    low: int | None
    high: int | None
    saturate: str
    limit: int

    @property
    def rare(self) -> str:
        """The function of the library that stores exact codes where they are needed, "" if they never are."""
        return "mve_guarded" if self.has_windows else "" if self.is_fast else "mve_always"

    @property
    def guard(self) -> int:
        """The widest guard band that is tested for, in units of 2^-shift; 0 if none is."""
        return (2**31 - self.limit) >> (32 - self.shift) if self.limit else 0


@dataclass(frozen=True)
class Parameters:
    """What the output step needs of each channel, (M,); ``offset`` is None where all channels share it."""

    multiplier: Int64s
    offset: Int64s | None


def mve_output(op: Conv, packed: Packed) -> MveOutput:
    """What the templates need to know of the output step, besides ``Epilogue.output``."""
    output = packed.epilogue.output
    is_fast = output.kind == "multiply-high"
    rounds = is_fast and _may_round(op, packed)
    half = 1 << (output.shift - 1) if rounds else 0
    if isinstance(output.offset, LayerField):
        raise AssertionError("a layer that is packed knows its offset")
    return MveOutput(
        is_fast=is_fast,
        has_windows=is_fast and output.is_guarded,
        is_exact_used=output.kind != "raw" and (not is_fast or output.is_guarded),
        rounds=rounds,
        shift=output.shift,
        offset=None if output.offset is None else output.offset - half,
        low=_bound((output.low << output.shift) - half) if output.low != op.y.dtype.low else None,
        high=_bound(((output.high + 1) << output.shift) - 1 - half) if output.high != op.y.dtype.high else None,
        saturate="mve_saturate_u8" if op.y.dtype is DType.UINT8 else "mve_saturate_s8",
        limit=_limit(packed) if rounds and output.is_guarded else 0,
    )


def certified(op: Conv, packed: Packed) -> Certificate:
    """The certificate of a node with this output step: what the templates make of it is proved, too."""
    mve = mve_output(op, packed)
    if not mve.is_fast:
        return packed.certificate
    half = 1 << (mve.shift - 1) if mve.rounds else 0
    return with_fast_step(
        packed,
        FastStep(
            multiplier=parameter(packed, "multiplier"),
            addend=packed.epilogue.addend,
            offset=parameter(packed, "offset") - half if mve.offset is None else np.full(packed.bias.size, mve.offset),
            guarded=guarded(packed),
            bits=packed.bits,
            word=32,
            is_split=False,
            shift=mve.shift,
            half=half,
            least=INT32_MIN if mve.low is None else mve.low,
            most=INT32_MAX if mve.high is None else mve.high,
            low=op.y.dtype.low,
            high=op.y.dtype.high,
            guard=0,
            mask=0,
            limit=mve.limit,
        ),
    )


def _limit(packed: Packed) -> int:
    """2^31 less the widest guard band, in units of 2^-32 steps; 0 if windows cover too much of a step."""
    shift = packed.epilogue.output.shift
    widest, common = int(parameter(packed, "guard_band").max()), packed.epilogue.common
    if common is not None and common.is_free:
        widest = max(widest, common.guard, 1 << max(shift - TESTED_BITS - 1, 0))
    return 2**31 - (widest << (32 - shift)) if 2 * widest << RARE <= 1 << shift else 0


def _bound(value: int) -> int | None:
    """A bound of an int32, None if no int32 is beyond it."""
    return value if INT32_MIN < value < INT32_MAX else None


def _may_round(op: Conv, packed: Packed) -> bool:
    """Whether the line less half a step, which VQRSHRNB adds without overflow, stays in int32 for every sum."""
    shift = packed.epilogue.output.shift
    if not 1 <= shift <= MAX_ROUNDED:
        return False
    bounds, addend = accumulator_interval(op), packed.epilogue.addend
    lowest = ((bounds.lo + addend) * parameter(packed, "multiplier") >> 32) + parameter(packed, "offset")
    return int(lowest.min()) - (1 << (shift - 1)) >= INT32_MIN


def parameters(op: Conv, packed: Packed) -> Parameters:
    """What a stream of constants holds of each channel for the fast output step."""
    output = mve_output(op, packed)
    half = 1 << (output.shift - 1) if output.rounds else 0
    return Parameters(
        multiplier=parameter(packed, "multiplier"),
        offset=parameter(packed, "offset") - half if output.offset is None else None,
    )


def has_window(packed: Packed, mve: MveOutput) -> Int64s:
    """(M,): 1 for channels with a guard band, which the fast output step may miss."""
    found = np.zeros(packed.bias.size, np.int64)
    found[packed.epilogue.guarded if mve.has_windows else []] = 1
    return found


ONE, TWO = "one", "two"
"""So many windows are summed at a time, in names of functions."""


def has_last(pixels: int) -> bool:
    """Whether the last of an odd number of windows is summed alone, rather than its neighbour a second time."""
    return pixels == 1 or (pixels % 2 == 1 and pixels <= FEW_PIXELS)


@dataclass(frozen=True)
class Steps:
    """Sums of four channels in ``steps`` of 16 elements: one starts them, of the others ``copies`` are a round."""

    steps: int
    copies: int

    @property
    def words(self) -> int:
        """The words of four channels' weights."""
        return self.steps * LANES * BYTES // 4

    @property
    def operations(self) -> dict[str, float]:
        """What the library's functions of sums become, over one window and two: most is for each step of assembly."""
        more = self.steps - 1
        written = self.steps if more <= self.copies else 1 + self.copies + more % self.copies
        return {"mve_sums_one": 14.0 + 5 * written, "mve_sums_two": 20.0 + 6 * written}


def steps_of(terms: int) -> Steps:
    """The steps of sums of so many products: in few rounds of a loop, with few copies behind it."""
    steps = -(-terms // BYTES)
    more, most = steps - 1, MAX_STEPS - 1
    if more <= most:
        return Steps(steps, max(more, 1))
    fitting = (n for n in range(1, most + 1) if n + more % n <= most)
    return Steps(steps, min(fitting, key=lambda n: (more // n, more % n)))


@dataclass(frozen=True)
class Blocks(Steps):
    """How channels are divided: in blocks of four, of which the last may have less.

    A block's constants are its weights, ``steps`` times 16 bytes of each of its channels, four in a word; then, at so
    many words behind the weights, the initial accumulators (0), the multipliers, offsets, bits of guard bands and the
    first channel (``channel_at``), as far as the output step needs them: ``tail`` words.
    """

    mve: MveOutput
    channels: int
    y_bytes: int
    channel_at: int
    tail: int

    def operations_over(self, windows: Sequence[str]) -> float:
        """What the library's function of all channels becomes, on average over one window and two."""
        sums, rare = self.operations, 9 if self.mve.has_windows else 0
        each = [sums["mve_sums_one"] + 18 if w == ONE else sums["mve_sums_two"] + 29 + rare for w in windows]
        blocks_written = (self.channels >= LANES) + (self.channels % LANES > 0)
        return blocks_written * sum(each) / len(each)

    @property
    def has_channel(self) -> bool:
        """Whether the first channel is among a block's constants."""
        return self.tail > self.channel_at

    @property
    def struct(self) -> Struct:
        """What the library's functions take."""
        numbers = {
            "steps": self.steps,
            "copies": self.copies,
            "channels": self.channels,
            "y_bytes": self.y_bytes,
            "has_offsets": int(self.mve.is_fast and self.mve.offset is None),
            "guarded": self.channel_at - LANES if self.mve.limit else 0,
            "channel": self.channel_at if self.has_channel else 0,
            "words": self.tail,
            "limit": self.mve.limit,
        }
        return Struct("mve_blocks", (), {name: number for name, number in numbers.items() if number})


def blocks(op: Conv, packed: Packed) -> Blocks:
    """The blocks of a layer."""
    mve, sums = mve_output(op, packed), steps_of(op.geometry.taps)
    channel_at = LANES * (1 + mve.is_fast + (mve.is_fast and mve.offset is None) + (mve.limit > 0))
    tail = channel_at + (1 if mve.is_exact_used and packed.epilogue.output.is_per_channel else 0)
    channels, y_bytes = op.geometry.out_channels, op.y.dtype.bytes
    return Blocks(sums.steps, sums.copies, mve, channels, y_bytes, channel_at, tail)


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
            parts.append(-_blocked(has_window(packed, mve), count))
            texts.append("all bits where a channel has a guard band")
    if divided.has_channel:
        parts.append(_first_channels(packed, mve, count))
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


def _first_channels(packed: Packed, mve: MveOutput, count: int) -> Int64s:
    """(blocks, 1): the number of each block's first channel; -1 if the fast output step serves all of them."""
    first = np.arange(count)[:, None] * LANES
    if not mve.has_windows:
        return first
    return np.where(_blocked(has_window(packed, mve), count).any(axis=1, keepdims=True), first, -1)
