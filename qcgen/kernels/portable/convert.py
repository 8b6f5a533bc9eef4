"""portable/convert: numbers in another type: floats of 16, 32 and 64 bits, integers, and bool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import Convert, Operator
from qcgen.ir.types import DType
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.loop_nest import LoopNest, Placed, elementwise

WHOLE = {DType.INT32: "2147483648.0", DType.INT64: "9223372036854775808.0"}
"""The integers that floats are truncated to, with what is beyond the largest, in C."""


@dataclass(frozen=True)
class ConvertContext(Context):
    """From one type to another."""

    template: ClassVar[str] = "kernels/portable/convert.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    from_half: bool  # x has words of float16 numbers
    to_half: bool  # y has
    by_float: bool  # numbers become float32 before they become float16
    to_truth: bool  # y is 0 or 1
    whole: DType | None  # the integers whose low bits y has
    beyond: str  # what a float must be less than to be truncated to them; "" if x is no float
    low_bits: str  # these bits in C, of an integer called whole
    note: str  # what becomes of numbers that y does not hold
    is_in_place: bool  # y may lie over x


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every conversion."""
    return None if isinstance(op, Convert) else f"{op.op_type} does not convert between types"


def prepare(op: Operator, setting: Setting) -> Prepared:
    """float16 by functions of integers, since few cores have it; y may lie over x where that is int32."""
    assert isinstance(op, Convert)
    x, y = op.x.dtype, op.y.dtype
    nest = elementwise({"x": Placed(op.x.shape, setting.xs[0])}, Placed(op.y.shape, setting.y))
    in_place = (0,) if "x" in nest.same_places and (x, y) == (DType.INT32, DType.FLOAT32) else ()
    whole = _whole(x, y)
    context = ConvertContext(
        nest=nest,
        from_half=x is DType.FLOAT16,
        to_half=y is DType.FLOAT16,
        by_float=y is DType.FLOAT16 and x is not DType.FLOAT32,
        to_truth=y is DType.BOOL,
        whole=whole,
        beyond=WHOLE[whole] + ("" if x is DType.FLOAT64 else "f") if whole is not None and x.is_float else "",
        low_bits=_low_bits(y) if whole is not y else "whole",
        note=_note(x, y, whole),
        is_in_place=bool(in_place),
    )
    return Prepared((), context, (), Certificate(), in_place)


def _whole(x: DType, y: DType) -> DType | None:
    """The integers whose low bits y has; None where it is a float or 0 or 1, or holds every number of x."""
    if y.is_float or y is DType.BOOL or (not x.is_float and y.low <= x.low and x.high <= y.high):
        return None
    return DType.INT64 if DType.INT64 in (x, y) or x is DType.UINT32 else DType.INT32


def _low_bits(y: DType) -> str:
    """Of a signed type by way of an unsigned one, since C leaves open what a conversion gives that does not fit."""
    if y.is_float or not y.low:
        return "whole"
    return f"(((whole & 0x{2 * y.high + 1:X}) ^ 0x{-y.low:X}) - 0x{-y.low:X})"


def _note(x: DType, y: DType, whole: DType | None) -> str:
    if y is DType.BOOL:
        return ": whether a number is not 0"
    if whole is None:
        return ", by way of float, as in onnxruntime" if y is DType.FLOAT16 and x is not DType.FLOAT32 else ""
    how = (
        f"truncated to {whole.value} as on x86-64, the lowest number for what that does not hold" if x.is_float else ""
    )
    return ": " + "; ".join([how] * x.is_float + ["the low bits"] * (whole is not y))


CONVERT = Kernel("portable/convert", ConvertContext, frozenset(), why_not, prepare)
