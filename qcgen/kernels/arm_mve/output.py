"""The output step of the Helium kernels: four sums at once where *multiply-high* serves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qcgen.intervals import INT32_MAX, INT32_MIN, accumulator_interval
from qcgen.ir.context import LayerField
from qcgen.ir.plan import Certificate
from qcgen.ir.program import Conv, Int64s
from qcgen.ir.types import DType
from qcgen.kernels.fast_output import RARE, TESTED_BITS, guarded, parameter, with_fast_step
from qcgen.kernels.packing import Packed
from qcgen.requantize.fast_step import FastStep

LANES = 4  # int32 in a vector
MAX_ROUNDED = 16  # the largest shift that VQRSHRNB has


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
    def guard(self) -> int:
        """The widest guard band that is tested for, in units of 2^-shift; 0 if none is."""
        return (2**31 - self.limit) >> (32 - self.shift) if self.limit else 0


@dataclass(frozen=True)
class Parameters:
    """What the output step needs of each channel, (M,); ``offset`` is None where all channels share it.

    ``channel`` holds the channel's number, or -1 if it has no guard band; None where no channel has one.
    """

    multiplier: Int64s
    offset: Int64s | None
    channel: Int64s | None


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
    output, guarded = mve_output(op, packed), packed.epilogue.guarded
    half = 1 << (output.shift - 1) if output.rounds else 0
    channels = np.arange(packed.bias.size)
    return Parameters(
        multiplier=parameter(packed, "multiplier"),
        offset=parameter(packed, "offset") - half if output.offset is None else None,
        channel=np.where(np.isin(channels, guarded), channels, -1) if output.has_windows else None,
    )
