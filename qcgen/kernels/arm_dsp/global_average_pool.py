"""arm_dsp/global_average_pool: the means of four channels at a time, summed in pairs of 16 bits."""

from __future__ import annotations

from dataclasses import replace

from qcgen.ir.program import GlobalAveragePool, Operator
from qcgen.ir.types import DType
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.mean import names_of, prepare_mean, why_no_mean
from qcgen.kernels.reasons import CHANNELS_APART

QUAD = 4  # channels in a word, and pixels at a time
RUN = 64  # times four pixels, whose sums fit 16 bits: 256 times -128 or 255


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves codes whose channels lie side by side, four or more."""
    reason = why_no_mean(op)
    if reason is not None:
        return reason
    assert isinstance(op, GlobalAveragePool)
    if op.requantize is None:
        return "its numbers are float32"
    names = names_of(op, setting)
    if not names["channels_last"]:
        return CHANNELS_APART
    channels = op.x.shape[op.channel_axis]
    return None if channels >= QUAD else f"{channels} channels do not fill a word"


def prepare(op: Operator, setting: Setting) -> Prepared:
    """The sums and the output step, without scratch for sums."""
    assert isinstance(op, GlobalAveragePool)
    prepared = prepare_mean(op, setting)
    is_unsigned = op.x.dtype is DType.UINT8
    kind = "u8" if is_unsigned else "s8"
    others = ("is_float", "channels_last", "pixels_walk", "x_channel")
    context = {name: value for name, value in prepared.context.items() if name not in others}
    context |= {
        "x_kind": kind,
        "half_type": "uint16_t" if is_unsigned else "int16_t",
        "fours": op.pixels // QUAD,
        "run": RUN,
        "is_long": op.pixels > QUAD * RUN,
        "collects_at_end": op.pixels <= QUAD * RUN or op.pixels % QUAD != 0,
        "rest": range(op.pixels % QUAD),
        "has_odd_channels": op.x.shape[op.channel_axis] % QUAD != 0,
        "uses_string": True,
    }
    support = (*prepared.support, "dsp", "dsp_load_word", f"dsp_add_even_{kind}", f"dsp_add_odd_{kind}")
    return replace(prepared, context=context, scratch=(), support=support)


GLOBAL_AVERAGE_POOL = Kernel(
    "arm_dsp/global_average_pool", "kernels/arm_dsp/global_average_pool.c.jinja", frozenset({"dsp"}), why_not, prepare
)
