"""portable/global_average_pool, mean_of_rows, float_mean, float_mean_of_rows: the mean of each channel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import GlobalAveragePool, Operator
from qcgen.kernels.epilogue import Output
from qcgen.kernels.kernel import Kernel, Prepared, Scratch, Setting
from qcgen.kernels.loop_nest import LoopNest, step_along, strides
from qcgen.kernels.pooling import ROW_BY_ROW, MeanImage, image_of, pixels_of, prepare_mean, why_no_mean


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


def why_not_global_average_pool(op: Operator, setting: Setting) -> str | None:
    """Serves every global average pooling of a whole image."""
    if isinstance(op, GlobalAveragePool) and op.requantize is None:
        return "its numbers are floats"
    return why_no_mean(op) or (ROW_BY_ROW if setting.in_rows else None)


def prepare_global_average_pool(op: Operator, setting: Setting) -> Prepared:
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


GLOBAL_AVERAGE_POOL = Kernel(
    "portable/global_average_pool",
    GlobalAveragePoolContext,
    frozenset(),
    why_not_global_average_pool,
    prepare_global_average_pool,
)


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


def why_not_mean_of_rows(op: Operator, setting: Setting) -> str | None:
    """Serves global average pooling of codes in a stream."""
    if not setting.in_rows:
        return "its rows do not come one by one"
    if isinstance(op, GlobalAveragePool) and op.requantize is None:
        return "its numbers are floats"
    return why_no_mean(op)


def prepare_mean_of_rows(op: Operator, setting: Setting) -> Prepared:
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


MEAN_OF_ROWS = Kernel(
    "portable/mean_of_rows", MeanOfRowsContext, frozenset(), why_not_mean_of_rows, prepare_mean_of_rows
)


@dataclass(frozen=True)
class FloatMeanContext(Context):
    """The mean of each channel."""

    template: ClassVar[str] = "kernels/portable/float_mean.c.jinja"

    image: MeanImage
    x_channel: int  # from one channel of x to the next, in elements
    x_pixel: int | None  # from one pixel to the next; None where that is not the same everywhere
    place: str  # then: where pixel i lies, in C


def why_not_float_mean(op: Operator, setting: Setting) -> str | None:
    """Serves every float global average pooling of a whole image."""
    if isinstance(op, GlobalAveragePool) and op.requantize is not None:
        return "its numbers are codes"
    return why_no_mean(op) or (ROW_BY_ROW if setting.in_rows else None)


def prepare_float_mean(op: Operator, setting: Setting) -> Prepared:
    """One pixel after the other; or four sums of every fourth, then what they add up to, then those that are left."""
    assert isinstance(op, GlobalAveragePool)
    steps = strides(op.x.shape, setting.xs[0])
    axes = [axis for axis in range(1, len(op.x.shape)) if axis != op.channel_axis and op.x.shape[axis] > 1]
    context = FloatMeanContext(
        image=image_of(op, setting),
        x_channel=steps[op.channel_axis],
        x_pixel=(step := step_along(op.x.shape, setting.xs[0], axes)),
        place=_place([(op.x.shape[axis], steps[axis]) for axis in axes]) if step is None else "",
    )
    return Prepared((), context, (), Certificate())


def _place(axes: list[tuple[int, int]]) -> str:
    """Where pixel i lies, whose axes have these sizes and steps, the first one outermost."""
    terms, below = [], 1
    for number, (size, step) in enumerate(reversed(axes), 1):
        along = f"i / {below}" if below > 1 else "i"
        terms.append(f"{along} * {step}" if number == len(axes) else f"{along} % {size} * {step}")
        below *= size
    return " + ".join(reversed(terms))


FLOAT_MEAN = Kernel("portable/float_mean", FloatMeanContext, frozenset(), why_not_float_mean, prepare_float_mean)


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
