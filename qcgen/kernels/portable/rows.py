"""Operators on the rows of a tensor, along its last axis."""

from __future__ import annotations

from dataclasses import dataclass

from qcgen.ir.context import Context
from qcgen.ir.program import Tensor
from qcgen.kernels.kernel import Order, Setting
from qcgen.kernels.loop_nest import Dimension, LoopNest, loop_nest, strides


@dataclass(frozen=True)
class Rows(Context):
    """The loops over the rows, and the distances between neighbours of a row."""

    nest: LoopNest  # over the first elements of the rows
    length: int  # elements of a row
    x_along: int  # from one element of a row to the next
    y_along: int  # the same of y


def rows_of(x: Tensor, y: Tensor, x_order: Order, y_order: Order) -> Rows:
    """The rows of x and y."""
    x_steps, y_steps = strides(x.shape, x_order), strides(y.shape, y_order)
    dimensions = [Dimension(size, {"x": i, "y": o}) for size, i, o in zip(x.shape[:-1], x_steps, y_steps, strict=False)]
    return Rows(loop_nest(dimensions, ("x", "y"), {}), x.shape[-1], x_steps[-1], y_steps[-1])


def in_place(x: Tensor, setting: Setting) -> tuple[int, ...]:
    """A row is read to its end before the first element of it is written, and each element before it is."""
    return (0,) if strides(x.shape, setting.xs[0]) == strides(x.shape, setting.y) else ()
