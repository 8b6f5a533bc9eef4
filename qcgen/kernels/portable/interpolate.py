"""portable/interpolate: images of codes that are resized bilinearly, in integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import Between, Interpolate, Operator
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Setting
from qcgen.kernels.loop_nest import strides

AXES = ("image", "row", "column", "channel")


@dataclass(frozen=True)
class InterpolateContext(Context):
    """An image resized bilinearly."""

    template: ClassVar[str] = "kernels/portable/interpolate.c.jinja"

    type: str  # of C, of both images
    batch: int  # images
    rows: int  # of y
    columns: int  # of y
    channels: int  # of both
    x_steps: tuple[tuple[str, int], ...]  # by axis: from one place to the next, in elements; 1 for all others
    y_steps: tuple[tuple[str, int], ...]  # the same of y


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every bilinear resizing of codes."""
    return None if isinstance(op, Interpolate) else f"{op.op_type} does not resize an image bilinearly"


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Tables of where rows and columns of y lie in x; images in any order."""
    assert isinstance(op, Interpolate)
    x, y = strides(op.x.shape, setting.xs[0]), strides(op.y.shape, setting.y)
    constants = (*_tables("row", op.down, x[1]), *_tables("column", op.across, x[2]))
    context = InterpolateContext(
        type=op.x.dtype.c,
        batch=op.y.shape[0],
        rows=op.y.shape[1],
        columns=op.y.shape[2],
        channels=op.y.shape[3],
        x_steps=tuple(zip(AXES, x, strict=True)),
        y_steps=tuple(zip(AXES, y, strict=True)),
    )
    return Prepared(constants, context, (), Certificate())


def _tables(axis: str, by: Between, step: int) -> tuple[Constants, ...]:
    first = np.array(by.first) * step
    return (
        Constants(f"{axis}s", "int32_t", first, f"where the {axis} before each {axis} of y begins in x."),
        Constants(f"{axis}_parts", "int16_t", np.array(by.part), f"how far behind it each {axis} lies, in 1024ths."),
    )


INTERPOLATE = Kernel("portable/interpolate", InterpolateContext, frozenset(), why_not, prepare)
