"""portable/integer_binary: squares of differences, and all pairs of 16 bits, by the integers of TensorFlow Lite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from qcgen.errors import prove
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import BinaryKind, IntegerBinary, Operator, QuantizedBinary
from qcgen.kernels.binary import binary_nest, in_place_operands
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.loop_nest import LoopNest


@dataclass(frozen=True)
class IntegerBinaryContext(Context):
    """What becomes of two codes."""

    template: ClassVar[str] = "kernels/portable/integer_binary.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    types: Mapping[str, str]  # of C, by "a", "b", "y"
    zero_points: Mapping[str, int]  # of codes, by the same names
    by: IntegerBinary  # the multipliers
    factor: int  # of operands before them
    is_bounded_below: bool  # codes may be below the lowest one
    scales_operands: bool  # before they are added, not of a product
    total: str  # of both in C
    given: tuple[str, ...]  # operands that are parameters: "a", "b"
    constant: tuple[str, ...]  # operands that are tables
    is_in_place: bool  # y may lie over an operand


_TOTALS: Mapping[BinaryKind, str] = {
    "add": "a + b",
    "mul": "a * b",
    "squared_difference": "(a - b) * (a - b)",
    "sub": "a - b",
}


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every square of a difference, and sums, differences and products of 16 bits."""
    if isinstance(op, QuantizedBinary) and op.by is not None and (op.is_wide or op.kind == "squared_difference"):
        return None
    return f"{op.op_type} has a table of all pairs, or is in onnxruntime's arithmetic"


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Constant operands become tables in the order of y; y may lie over an operand that is not broadcast."""
    assert isinstance(op, QuantizedBinary)
    assert op.by is not None, "it is TensorFlow Lite's"
    prove(max(op.by.a[1], op.by.b[1], op.by.y[1]) <= 0, "no scale is above 1")
    _prove_room(op, op.by)
    nest, tables = binary_nest(op.a, op.b, op.y, setting)
    in_place = in_place_operands(op.a, op.b, nest, setting)
    tensors = {"a": op.a, "b": op.b, "y": op.y}
    context = IntegerBinaryContext(
        nest=nest,
        types={name: tensor.dtype.c for name, tensor in tensors.items()},
        zero_points={name: tensor.zero_point or 0 for name, tensor in tensors.items()},
        by=op.by,
        factor=1 << op.by.shift,
        is_bounded_below=op.kind != "squared_difference" or (op.y.zero_point or 0) < op.by.low,
        scales_operands=op.kind != "mul",
        total=_TOTALS[op.kind],
        given=tuple(name for name in ("a", "b") if name not in tables),
        constant=tuple(sorted(tables)),
        is_in_place=bool(in_place),
    )
    return Prepared(tuple(tables.values()), context, (), Certificate(), in_place)


def _prove_room(op: QuantizedBinary, by: IntegerBinary) -> None:
    """Operands are halved at least by their multipliers."""
    first, second = (max(x.dtype.high - (x.zero_point or 0), (x.zero_point or 0) - x.dtype.low) for x in (op.a, op.b))
    if op.kind == "mul":
        prove(first * second < 2**31, "no product leaves int32")
        return
    reach = max(first, second) << by.shift
    prove(reach < 2**31, "no operand leaves int32")
    prove(op.kind != "squared_difference" or reach**2 < 2**31, "no square leaves int32")


INTEGER_BINARY = Kernel("portable/integer_binary", IntegerBinaryContext, frozenset(), why_not, prepare)
