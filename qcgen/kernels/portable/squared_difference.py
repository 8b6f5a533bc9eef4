"""portable/squared_difference: squares of differences of codes, by the integers of TensorFlow Lite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from qcgen.errors import prove
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import IntegerBinary, Operator, QuantizedBinary
from qcgen.kernels.binary import binary_nest, in_place_operands
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.loop_nest import LoopNest


@dataclass(frozen=True)
class SquaredDifferenceContext(Context):
    """The square of a difference of codes."""

    template: ClassVar[str] = "kernels/portable/squared_difference.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    types: Mapping[str, str]  # of C, by "a", "b", "y"
    zero_points: Mapping[str, int]  # of codes, by the same names
    by: IntegerBinary  # the multipliers
    factor: int  # of operands before them
    given: tuple[str, ...]  # operands that are parameters: "a", "b"
    constant: tuple[str, ...]  # operands that are tables
    is_in_place: bool  # y may lie over an operand


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every square of a difference."""
    if isinstance(op, QuantizedBinary) and op.kind == "squared_difference":
        return None
    return f"{op.op_type} is not the square of a difference"


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Constant operands become tables in the order of y; y may lie over an operand that is not broadcast."""
    assert isinstance(op, QuantizedBinary)
    assert op.by is not None, "TensorFlow Lite alone has squares of differences"
    reach = 255 << op.by.shift  # an operand's, halved at least by its multiplier
    prove(max(op.by.a[1], op.by.b[1], op.by.y[1]) <= 0 and reach**2 < 2**31, "no square leaves int32")
    nest, tables = binary_nest(op.a, op.b, op.y, setting)
    in_place = in_place_operands(op.a, op.b, nest, setting)
    tensors = {"a": op.a, "b": op.b, "y": op.y}
    context = SquaredDifferenceContext(
        nest=nest,
        types={name: tensor.dtype.c for name, tensor in tensors.items()},
        zero_points={name: tensor.zero_point or 0 for name, tensor in tensors.items()},
        by=op.by,
        factor=1 << op.by.shift,
        given=tuple(name for name in ("a", "b") if name not in tables),
        constant=tuple(sorted(tables)),
        is_in_place=bool(in_place),
    )
    return Prepared(tuple(tables.values()), context, (), ("round_twice",), Certificate(), in_place)


SQUARED_DIFFERENCE = Kernel("portable/squared_difference", SquaredDifferenceContext, frozenset(), why_not, prepare)
