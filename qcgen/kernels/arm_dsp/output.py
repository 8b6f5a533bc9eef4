"""The output step of the DSP kernels: one multiply-add and one saturating shift where *high word* serves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qcgen.intervals import INT32_MAX, INT32_MIN, reach
from qcgen.ir.program import Conv, Int64s
from qcgen.ir.types import DType
from qcgen.kernels.arm_dsp.weights import Tail
from qcgen.kernels.kernel import Constants
from qcgen.kernels.packing import Packed

RARE = 4  # a tie window of this or more bits less than a step is tested; wider ones take the exact function always
TESTED_BITS = 8  # that one TST instruction compares


@dataclass(frozen=True)
class DspOutput:
    """How sums become output codes.

    ``is_fast``: by SMMLA and a saturating shift. ``has_windows``: some channels have a tie window; then blocks that
    hold one test whether the line comes within ``near`` units of a step: it has done so if, with ``near`` added, the
    bits ``mask`` are all 0. ``near`` is 0 if such blocks always take the exact function.
    ``saturate`` is the primitive's name; ``clamps_low`` and ``clamps_high`` say whether the activation's bounds are
    tighter than the type's.
    """

    is_fast: bool
    has_windows: bool
    is_exact_used: bool
    near: int
    mask: int
    saturate: str
    clamps_low: bool
    clamps_high: bool


def dsp_output(op: Conv, packed: Packed) -> DspOutput:
    """What the templates need to know of the output step, besides ``Epilogue.output``."""
    output = packed.epilogue.output
    is_fast = output.kind == "high word"
    has_windows = is_fast and output.is_guarded
    near = _near(op, packed) if has_windows else 0
    return DspOutput(
        is_fast=is_fast,
        has_windows=has_windows,
        is_exact_used=output.kind != "raw" and (not is_fast or output.is_guarded),
        near=near,
        mask=((1 << output.shift) - 1) & ~(2 * near - 1) if near else 0,
        saturate="dsp_saturate_u8" if op.y.dtype is DType.UINT8 else "dsp_saturate_s8",
        clamps_low=output.low != op.y.dtype.low,
        clamps_high=output.high != op.y.dtype.high,
    )


def _near(op: Conv, packed: Packed) -> int:
    """A power of two that no tie window exceeds, 0 if it would cover too much of a step or leave int32."""
    shift = packed.epilogue.output.shift
    widest = int(_table(packed, "tie_window").max())
    near = max(1 << max(widest - 1, 0).bit_length(), 1 << max(shift - TESTED_BITS - 1, 0))
    if 2 * near << RARE > 1 << shift:
        return 0
    bounds, addend = reach(op), packed.epilogue.addend
    multiplier, offset = _table(packed, "multiplier"), _table(packed, "offset")
    ends = [((end + addend) * multiplier >> 32) + offset + near for end in (bounds.lo, bounds.hi)]
    return near if min(e.min() for e in ends) >= INT32_MIN and max(e.max() for e in ends) <= INT32_MAX else 0


def _table(packed: Packed, role: str) -> Int64s:
    """A parameter of every channel, (M,), whether it has a table or not."""
    for constants in packed.epilogue.constants:
        if constants.role == role:
            return constants.values.astype(np.int64)
    number = {"multiplier": packed.epilogue.output.multiplier, "offset": packed.epilogue.output.offset}[role]
    assert number is not None
    return np.full(packed.start.size, number, np.int64)


def output_support(op: Conv, packed: Packed) -> tuple[str, ...]:
    """The C functions that the output step calls."""
    dsp = dsp_output(op, packed)
    exact = packed.epilogue.support if dsp.is_exact_used else ()
    return exact + (("right_shift", "dsp_scale", dsp.saturate) if dsp.is_fast else ())


def output_tail(packed: Packed) -> Tail:
    """What the output step reads behind the weights of a block of channels."""
    output, guarded = packed.epilogue.output, packed.epilogue.guarded
    if output.kind == "raw":
        return Tail(None, None, None)
    channels = np.arange(packed.start.size)
    if output.kind != "high word":
        return Tail(None, None, channels if output.is_per_channel else None)
    return Tail(
        multiplier=_table(packed, "multiplier") if output.multiplier is None else None,
        offset=_table(packed, "offset") if output.offset is None else None,
        channel=np.where(np.isin(channels, guarded), channels, -1) if guarded.size else None,
    )


def exact_constants(packed: Packed) -> tuple[Constants, ...]:
    """The tables of the exact function, for kernels whose streams hold what the fast one needs."""
    is_fast = packed.epilogue.output.kind == "high word"
    return () if is_fast and not packed.epilogue.guarded.size else packed.epilogue.constants


def output_constants(packed: Packed) -> tuple[Constants, ...]:
    """The tables of the output step for kernels that compute one channel after the other."""
    constants = packed.epilogue.constants
    if not packed.epilogue.guarded.size or packed.epilogue.output.kind != "high word":
        return constants
    has_window = np.isin(np.arange(packed.start.size), packed.epilogue.guarded)
    text = "1 where a channel has a tie window."
    return (*constants, Constants("has_window", "uint8_t", has_window.astype(np.int64), text))
