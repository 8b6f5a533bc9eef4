"""The output step of the DSP kernels: one multiply-add and one saturating shift where *multiply-high* serves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import Conv
from qcgen.kernels import fast_output
from qcgen.kernels.arm_dsp.segment import Tail
from qcgen.kernels.epilogue import Number, Output
from qcgen.kernels.fast_output import FAST, RARE, FastOutput, parameter
from qcgen.kernels.packing import Packed

COMMON_RARE = 1  # in place of RARE where only channels with a guard band are tested: half of the exact codes are saved


@dataclass(frozen=True)
class KeptOutput(Context):
    """The output step, and which of its numbers stay in registers for a channel's whole plane."""

    output: Output
    dsp: FastOutput
    keeps_own: bool  # the channel's multiplier
    keeps_offset: bool  # the offset
    shared_offset: Number  # that of all channels, if it is kept


def dsp_output(op: Conv, packed: Packed) -> FastOutput:
    """What the templates need to know of the output step: SMMUL or, with an offset, SMMLA; and a saturating shift."""
    rare = RARE if packed.epilogue.common is None else COMMON_RARE
    return fast_output.fast_output(op, packed, {"multiply-high": "dsp_scale"}, "dsp_saturate", "dsp_high", rare)


def certified(op: Conv, packed: Packed) -> Certificate:
    """The certificate of a node with this output step."""
    return fast_output.certified(op, packed, dsp_output(op, packed))


def output_tail(packed: Packed) -> Tail:
    """What the output step reads behind the weights of a block of channels."""
    output, guarded = packed.epilogue.output, packed.epilogue.guarded
    if output.kind == "raw":
        return Tail(None, None, None)
    channels = np.arange(packed.bias.size)
    if output.kind not in FAST:
        return Tail(None, None, channels if output.is_per_channel else None)
    return Tail(
        multiplier=parameter(packed, "multiplier") if output.multiplier is None else None,
        offset=parameter(packed, "offset") if output.offset is None else None,
        channel=np.where(np.isin(channels, guarded), channels, -1) if output.is_guarded else None,
        tells_guarded=packed.epilogue.common is not None,
    )


def parameter_text(packed: Packed, role: str) -> str:
    """What a parameter of the output step is, and in which unit, for comments."""
    meanings = [constants.meaning for constants in packed.epilogue.constants if constants.role == role]
    [meaning] = meanings or [f"y_zero_point and rounding, in units of 2^-{packed.epilogue.output.shift}."]
    return meaning.removesuffix(".")


def kept_output(output: Output, dsp: FastOutput) -> KeptOutput:
    """What stays in registers where one channel is computed after the other."""
    keeps_own = dsp.is_fast and output.multiplier is None
    shared_offset = output.offset if keeps_own and not dsp.has_windows and not dsp.bare else None
    if shared_offset is not None:
        output = replace(output, offset=None)
    return KeptOutput(output, dsp, keeps_own, keeps_own and output.offset is None, shared_offset)
