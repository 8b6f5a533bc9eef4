"""portable/global_average_pool: the mean of each channel, as a requantized sum of codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.program import GlobalAveragePool, Operator
from qcgen.kernels.epilogue import Output
from qcgen.kernels.kernel import Kernel, Prepared, Scratch, Setting
from qcgen.kernels.loop_nest import LoopNest
from qcgen.kernels.mean import ROW_BY_ROW, MeanImage, image_of, pixels_of, prepare_mean, why_no_mean


@dataclass(frozen=True)
class GlobalAveragePoolContext(Context):
    """The mean of each channel."""

    template: ClassVar[str] = "kernels/portable/global_average_pool.c.jinja"

    image: MeanImage
    x_channel: int  # from one channel of x to the next, in elements
    pixels_nest: LoopNest  # the loops over the pixels of a channel
    channels_last: bool  # channels lie side by side, pixels in a row
    start: int  # of a sum
    output: Output


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves every global average pooling of a whole image."""
    if isinstance(op, GlobalAveragePool) and op.requantize is None:
        return "its numbers are floats"
    return why_no_mean(op) or (ROW_BY_ROW if setting.in_rows else None)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Channels last: all sums at once, in the arena. Else one channel after the other."""
    assert isinstance(op, GlobalAveragePool)
    assert op.requantize is not None, "its numbers are codes"
    pixels = pixels_of(op, setting)
    mean = prepare_mean(op, op.requantize, setting)
    context = GlobalAveragePoolContext(
        image=image_of(op, setting),
        x_channel=pixels.channel_step,
        pixels_nest=pixels.nest,
        channels_last=pixels.is_row,
        start=mean.start,
        output=mean.output,
    )
    scratch = (Scratch(4 * op.x.shape[op.channel_axis], 4),) if pixels.is_row else ()
    return Prepared(mean.constants, context, scratch, mean.certificate)


GLOBAL_AVERAGE_POOL = Kernel("portable/global_average_pool", GlobalAveragePoolContext, frozenset(), why_not, prepare)
