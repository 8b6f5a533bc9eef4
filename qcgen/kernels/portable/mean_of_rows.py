"""portable/mean_of_rows: the mean of each channel of an image whose rows come one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.program import GlobalAveragePool, Operator
from qcgen.kernels.epilogue import Output
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.mean import image_of, prepare_mean, why_no_mean


@dataclass(frozen=True)
class MeanOfRowsContext(Context):
    """The mean of each channel; sums and the number of rows that were added lie in memory of the stream's."""

    template: ClassVar[str] = "kernels/portable/mean_of_rows.c.jinja"

    types: Mapping[str, str]  # of C, by "x" and "y"
    channels: int  # of the image
    pixels: int  # of the image
    width: int  # pixels of a row
    rows: int  # of the image
    y_channel: int  # from one mean to the next, in elements
    start: int  # of a sum of codes
    output: Output


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves global average pooling of codes in a stream."""
    if not setting.in_rows:
        return "its rows do not come one by one"
    if isinstance(op, GlobalAveragePool) and op.requantize is None:
        return "its numbers are floats"
    return why_no_mean(op)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """The operator is the whole one; its function takes a row, the output, and the sums."""
    assert isinstance(op, GlobalAveragePool)
    assert op.requantize is not None, "a stage is quantized"
    mean = prepare_mean(op, op.requantize, setting)
    rows = op.x.shape[next(axis for axis in setting.xs[0][1:] if axis != op.channel_axis)]
    image = image_of(op, setting)
    context = MeanOfRowsContext(
        types=image.types,
        channels=image.channels,
        pixels=op.pixels,
        width=op.pixels // rows,
        rows=rows,
        y_channel=image.y_channel,
        start=mean.start,
        output=mean.output,
    )
    return Prepared(mean.constants, context, (), mean.certificate)


MEAN_OF_ROWS = Kernel("portable/mean_of_rows", MeanOfRowsContext, frozenset(), why_not, prepare)
