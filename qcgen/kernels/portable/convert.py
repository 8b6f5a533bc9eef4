"""portable/convert: floats in another of the types float16, float32 and float64, and int32 as float32."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import Convert, Operator
from qcgen.ir.types import DType
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.loop_nest import LoopNest, Placed, elementwise


@dataclass(frozen=True)
class ConvertContext(Context):
    """From one type of floats to another."""

    template: ClassVar[str] = "kernels/portable/convert.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    from_half: bool  # x has words of float16 numbers
    to_half: bool  # y has
    by_float: bool  # what is between the two is float32, which neither x nor y is
    is_in_place: bool  # y may lie over x


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every conversion between floats and from int32."""
    return None if isinstance(op, Convert) else f"{op.op_type} does not convert between types of floats"


def prepare(op: Operator, setting: Setting) -> Prepared:
    """float16 by functions of integers, since few cores have it; y may lie over x where that is int32."""
    assert isinstance(op, Convert)
    types = (op.x.dtype, op.y.dtype)
    nest = elementwise({"x": Placed(op.x.shape, setting.xs[0])}, Placed(op.y.shape, setting.y))
    in_place = (0,) if "x" in nest.same_places and op.x.dtype is DType.INT32 else ()
    context = ConvertContext(
        nest=nest,
        from_half=op.x.dtype is DType.FLOAT16,
        to_half=op.y.dtype is DType.FLOAT16,
        by_float=DType.FLOAT32 not in types,
        is_in_place=bool(in_place),
    )
    support = ["double"] * (DType.FLOAT64 in types) + ["from_half"] * context.from_half + ["to_half"] * context.to_half
    headers = ("string.h",) if context.from_half or context.to_half else ()
    return Prepared((), context, (), tuple(support), Certificate(), in_place, headers=headers)


CONVERT = Kernel("portable/convert", ConvertContext, frozenset(), why_not, prepare)
