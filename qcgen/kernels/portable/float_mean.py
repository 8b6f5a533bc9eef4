"""portable/float_mean: the mean of each channel of float32 numbers, added up in onnxruntime's order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import GlobalAveragePool, Operator
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.loop_nest import step_along, strides
from qcgen.kernels.mean import ROW_BY_ROW, MeanImage, image_of, why_no_mean


@dataclass(frozen=True)
class FloatMeanContext(Context):
    """The mean of each channel."""

    template: ClassVar[str] = "kernels/portable/float_mean.c.jinja"

    image: MeanImage
    x_channel: int  # from one channel of x to the next, in elements
    x_pixel: int | None  # from one pixel to the next; None where that is not the same everywhere
    place: str  # then: where pixel i lies, in C


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves every float global average pooling of a whole image."""
    if isinstance(op, GlobalAveragePool) and op.requantize is not None:
        return "its numbers are codes"
    return why_no_mean(op) or (ROW_BY_ROW if setting.in_rows else None)


def prepare(op: Operator, setting: Setting) -> Prepared:
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


FLOAT_MEAN = Kernel("portable/float_mean", FloatMeanContext, frozenset(), why_not, prepare)
