"""arm_dsp/global_average_pool: the means of four channels at a time, summed in pairs of 16 bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.program import GlobalAveragePool, Operator, RoundOnce
from qcgen.ir.types import DType
from qcgen.kernels.epilogue import Output
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.pooling import ROW_BY_ROW, MeanImage, image_of, pixels_of, prepare_mean, why_no_mean
from qcgen.kernels.reasons import CHANNELS_APART

QUAD = 4  # channels in a word, and pixels at a time
RUN = 64  # times four pixels, whose sums fit 16 bits: 256 times -128 or 255


@dataclass(frozen=True)
class GlobalAveragePoolContext(Context):
    """The means of four channels at a time."""

    template: ClassVar[str] = "kernels/arm_dsp/global_average_pool.c.jinja"

    image: MeanImage
    start: int  # of a sum of codes
    output: Output
    x_kind: str  # how the names of instructions end that read x
    half_type: str  # of C, of a sum in half a word
    fours: int  # times four pixels
    run: int  # times four pixels whose sums fit half a word
    is_long: bool  # there are more than one such run
    collects_at_end: bool  # halves hold sums behind the last run
    rest: range  # pixels behind the fours
    has_odd_channels: bool  # fours leave channels over


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves codes whose channels lie side by side, four or more."""
    reason = why_no_mean(op)
    if reason is not None:
        return reason
    assert isinstance(op, GlobalAveragePool)
    if op.requantize is None:
        return "its numbers are float32"
    if op.x.dtype.is_16_bit or op.y.dtype.is_16_bit or isinstance(op.requantize, RoundOnce):
        return "activations have 16 bits"
    if setting.in_rows:
        return ROW_BY_ROW
    if not pixels_of(op, setting).is_row:
        return CHANNELS_APART
    channels = op.x.shape[op.channel_axis]
    return None if channels >= QUAD else f"{channels} channels do not fill a word"


def prepare(op: Operator, setting: Setting) -> Prepared:
    """The sums and the output step, without scratch for sums."""
    assert isinstance(op, GlobalAveragePool)
    assert op.requantize is not None, "why_not refuses float32"
    mean = prepare_mean(op, op.requantize, setting)
    is_unsigned = op.x.dtype is DType.UINT8
    kind = "u8" if is_unsigned else "s8"
    context = GlobalAveragePoolContext(
        image=image_of(op, setting),
        start=mean.start,
        output=mean.output,
        x_kind=kind,
        half_type="uint16_t" if is_unsigned else "int16_t",
        fours=op.pixels // QUAD,
        run=RUN,
        is_long=op.pixels > QUAD * RUN,
        collects_at_end=op.pixels <= QUAD * RUN or op.pixels % QUAD != 0,
        rest=range(op.pixels % QUAD),
        has_odd_channels=op.x.shape[op.channel_axis] % QUAD != 0,
    )
    constants = mean.constants
    return Prepared(constants, context, (), mean.certificate)


GLOBAL_AVERAGE_POOL = Kernel(
    "arm_dsp/global_average_pool", GlobalAveragePoolContext, frozenset({"dsp"}), why_not, prepare
)
