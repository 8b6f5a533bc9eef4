"""portable/integer_unary: functions of codes of 16 bits by the integers of TensorFlow Lite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qcgen.errors import prove
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import IntegerUnary, Operator, Scaled
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.loop_nest import LoopNest, Placed, elementwise


@dataclass(frozen=True)
class IntegerUnaryContext(Context):
    """Codes that are scaled."""

    template: ClassVar[str] = "kernels/portable/integer_unary.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    x_type: str  # of C
    y_type: str  # of C
    x_zero_point: int
    y_zero_point: int
    by: Scaled  # the multipliers and exponents
    is_one: bool  # both are the same
    low: int | None  # the lowest code of y; None where no code is below it
    high: int | None  # the same of the highest


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every one."""
    return None if isinstance(op, IntegerUnary) else f"{op.op_type} is not a function of codes of 16 bits"


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Two multiplications at most per element; y may lie over x."""
    assert isinstance(op, IntegerUnary)
    by, wide = op.function, op.y.dtype.bytes == 4
    reach = op.x.dtype.high - op.x.dtype.low
    prove(all(reach << max(exponent, 0) < 2**30 for _, exponent in (by.above, by.below)), "no code leaves int32")
    nest = elementwise({"x": Placed(op.x.shape, setting.xs[0])}, Placed(op.y.shape, setting.y))
    context = IntegerUnaryContext(
        nest=nest,
        x_type=op.x.dtype.c,
        y_type=op.y.dtype.c,
        x_zero_point=op.x.zero_point or 0,
        y_zero_point=op.y.zero_point or 0,
        by=by,
        is_one=by.above == by.below,
        low=None if wide else op.low,
        high=None if wide else op.high,
    )
    is_in_place = "x" in nest.same_places and op.x.dtype.bytes == op.y.dtype.bytes
    return Prepared((), context, (), ("round_twice",), Certificate(), (0,) if is_in_place else ())


INTEGER_UNARY = Kernel("portable/integer_unary", IntegerUnaryContext, frozenset(), why_not, prepare)
