"""portable/integer_unary: functions of codes of 16 bits by the integers of TensorFlow Lite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qcgen.errors import prove
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import IntegerUnary, Operator, Scaled, Sigmoid
from qcgen.kernels.integer_lstm import logistic_table
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.loop_nest import LoopNest, Placed, elementwise

SIGMOIDS = {"logistic": "integer_logistic", "tanh": "integer_tangent"}
"""The functions of ``templates/library/`` that compute them."""


@dataclass(frozen=True)
class IntegerUnaryContext(Context):
    """A function of codes."""

    template: ClassVar[str] = "kernels/portable/integer_unary.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    x_type: str  # of C
    y_type: str  # of C
    x_zero_point: int  # of codes of x
    y_zero_point: int  # of codes of y
    scales: Scaled | None  # the multipliers and exponents
    is_one: bool  # both are the same
    sigmoid: Sigmoid | None  # or what a sigmoid is taken of
    half: int  # that is added before its shift
    function: str  # the sigmoid in C, without the prefix
    low: int | None  # the lowest code of y; None where no code is below it
    high: int | None  # the same of the highest


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every one."""
    return None if isinstance(op, IntegerUnary) else f"{op.op_type} is not a function of codes of 16 bits"


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Two multiplications at most per element, or a line between two numbers of a table; y may lie over x."""
    assert isinstance(op, IntegerUnary)
    by, reach = op.function, op.x.dtype.high - op.x.dtype.low
    sigmoid, scales = (by, None) if isinstance(by, Sigmoid) else (None, by)
    if scales is not None:
        parts = (scales.above, scales.below)
        prove(all(reach << max(exponent, 0) < 2**30 for _, exponent in parts), "no code leaves int32")
    if sigmoid is not None:
        prove(reach * sigmoid.multiplier + 2**sigmoid.shift < 2**31, "no code leaves int32")
    is_clamped = sigmoid is None and op.y.dtype.bytes < 4
    nest = elementwise({"x": Placed(op.x.shape, setting.xs[0])}, Placed(op.y.shape, setting.y))
    function = SIGMOIDS[sigmoid.kind] if sigmoid is not None else ""
    context = IntegerUnaryContext(
        nest=nest,
        x_type=op.x.dtype.c,
        y_type=op.y.dtype.c,
        x_zero_point=op.x.zero_point or 0,
        y_zero_point=op.y.zero_point or 0,
        scales=scales,
        is_one=scales is not None and scales.above == scales.below,
        sigmoid=sigmoid,
        half=1 << sigmoid.shift >> 1 if sigmoid is not None else 0,
        function=function,
        low=op.low if is_clamped else None,
        high=op.high if is_clamped else None,
    )
    is_in_place = "x" in nest.same_places and op.x.dtype.bytes == op.y.dtype.bytes
    constants = (logistic_table(),) if sigmoid is not None else ()
    return Prepared(constants, context, (), Certificate(), (0,) if is_in_place else ())


INTEGER_UNARY = Kernel("portable/integer_unary", IntegerUnaryContext, frozenset(), why_not, prepare)
