"""portable/softmax and float_softmax: softmax over the last axis, of codes in integers alone, or of float32 numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qcgen.errors import prove
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import FloatSoftmax, Operator, Softmax, Tensor
from qcgen.ir.types import Array
from qcgen.kernels.kernel import Constants, Kernel, Order, Prepared, Setting
from qcgen.kernels.walk import Dimension, Walk, strides, walk


@dataclass(frozen=True)
class Rows(Context):
    """The loops over the rows, and the distances between neighbours of a row."""

    walk: Walk  # over the first elements of the rows
    length: int  # elements of a row
    x_along: int  # from one element of a row to the next
    y_along: int  # the same of y


@dataclass(frozen=True)
class SoftmaxContext(Context):
    """The softmax of codes."""

    template: ClassVar[str] = "kernels/portable/softmax.c.jinja"

    rows: Rows
    x_type: str  # of C
    y_type: str  # of C
    zero_point: int  # of y
    high: int  # the largest code of y
    factor: int  # what shares of the sum are multiplied by
    bits: int  # of the factor


@dataclass(frozen=True)
class FloatSoftmaxContext(Context):
    """The softmax of float32 numbers."""

    template: ClassVar[str] = "kernels/portable/float_softmax.c.jinja"

    rows: Rows


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every softmax of codes."""
    return None if isinstance(op, Softmax) else f"{op.op_type} is no softmax of quantized numbers"


def why_not_float(op: Operator, _setting: Setting) -> str | None:
    """Serves every softmax of float32 numbers."""
    return None if isinstance(op, FloatSoftmax) else f"{op.op_type} is no softmax of float32 numbers"


def prepare(op: Operator, setting: Setting) -> Prepared:
    """A table of the exponentials, as the words of float32 numbers."""
    assert isinstance(op, Softmax)
    prove(op.factor <= 2**24, "float64 rounds no product of an exponential and the factor")
    meaning = "exponentials of x - max x = -255, ..., 0, as float32."
    constants = (Constants("exponentials", "uint32_t", _words(op.table), meaning),)
    context = SoftmaxContext(
        rows=_rows(op.x, op.y, setting.xs[0], setting.y),
        x_type=op.x.dtype.c,
        y_type=op.y.dtype.c,
        zero_point=op.y.zero_point or 0,
        high=op.y.dtype.high,
        factor=int(op.factor),
        bits=int(op.factor).bit_length(),
    )
    certificate = Certificate(numbers={"kind": "softmax", "exponentials": _words(op.table), "factor": int(op.factor)})
    return Prepared(constants, context, (), ("soft_float_add",), certificate, _in_place(op.x, setting))


def prepare_float(op: Operator, setting: Setting) -> Prepared:
    """No constants."""
    assert isinstance(op, FloatSoftmax)
    context = FloatSoftmaxContext(_rows(op.x, op.y, setting.xs[0], setting.y))
    return Prepared((), context, (), (), Certificate(), _in_place(op.x, setting), headers=("math.h",))


def _words(values: Array) -> Array:
    return values.astype(np.float32).view(np.uint32).astype(np.int64)


def _rows(x: Tensor, y: Tensor, x_order: Order, y_order: Order) -> Rows:
    x_steps, y_steps = strides(x.shape, x_order), strides(y.shape, y_order)
    dimensions = [Dimension(size, {"x": i, "y": o}) for size, i, o in zip(x.shape[:-1], x_steps, y_steps, strict=False)]
    return Rows(walk(dimensions, ("x", "y"), {}), x.shape[-1], x_steps[-1], y_steps[-1])


def _in_place(x: Tensor, setting: Setting) -> tuple[int, ...]:
    """A row is read to its end before the first element of it is written, and each element before it is."""
    return (0,) if strides(x.shape, setting.xs[0]) == strides(x.shape, setting.y) else ()


SOFTMAX = Kernel("portable/softmax", SoftmaxContext, frozenset(), why_not, prepare)
FLOAT_SOFTMAX = Kernel("portable/float_softmax", FloatSoftmaxContext, frozenset(), why_not_float, prepare_float)
