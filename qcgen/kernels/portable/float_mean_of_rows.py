"""portable/float_mean_of_rows: the float mean of each channel of an image whose rows come one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import GlobalAveragePool, Operator
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.mean import image_of, why_no_mean


@dataclass(frozen=True)
class FloatMeanOfRowsContext(Context):
    """The mean of each channel; sums and the number of pixels that were added lie in memory of the stream's."""

    template: ClassVar[str] = "kernels/portable/float_mean_of_rows.c.jinja"

    types: Mapping[str, str]  # of C, by "x" and "y"
    channels: int  # of the image
    pixels: int  # of the image
    width: int  # pixels of a row
    y_channel: int  # from one mean to the next, in elements
    sum_count: int  # sums of each channel, side by side


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves float global average pooling in a stream."""
    if not setting.in_rows:
        return "its rows do not come one by one"
    if isinstance(op, GlobalAveragePool) and op.requantize is not None:
        return "its numbers are codes"
    return why_no_mean(op)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """The operator is the whole one; its function takes a row, the output, and the sums."""
    assert isinstance(op, GlobalAveragePool)
    rows = op.x.shape[next(axis for axis in setting.xs[0][1:] if axis != op.channel_axis)]
    image = image_of(op, setting)
    context = FloatMeanOfRowsContext(
        image.types, image.channels, image.pixels, op.pixels // rows, image.y_channel, op.sums
    )
    return Prepared((), context, (), Certificate())


FLOAT_MEAN_OF_ROWS = Kernel("portable/float_mean_of_rows", FloatMeanOfRowsContext, frozenset(), why_not, prepare)
