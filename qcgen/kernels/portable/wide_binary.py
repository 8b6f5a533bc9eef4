"""portable/wide_binary: sums, differences and products of quantized tensors of which some have 16 bits, in float32."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import BinaryKind, Operator, QuantizedBinary, Tensor
from qcgen.kernels.binary import binary_nest, in_place_operands
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.loop_nest import LoopNest


@dataclass(frozen=True)
class Coded:
    """A quantized tensor as the template writes it."""

    c_type: str
    scale: float
    zero_point: int


@dataclass(frozen=True)
class WideBinaryContext(Context):
    """A sum, difference or product of codes in float32."""

    template: ClassVar[str] = "kernels/portable/wide_binary.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    result: str  # what it is, in words
    sign: str  # in C, of a sum or difference; "": a product
    tensors: Mapping[str, Coded]  # by "a", "b", "y"
    low: int  # the lowest code of y less the zero point
    high: int  # the highest code of y less the zero point
    given: tuple[str, ...]  # operands that are parameters: "a", "b"
    constant: tuple[str, ...]  # operands that are tables
    is_in_place: bool  # y may lie over an operand


_RESULTS: Mapping[BinaryKind, str] = {"add": "sum", "mul": "product", "sub": "difference"}
_SIGNS: Mapping[BinaryKind, str] = {"add": "+", "mul": "", "sub": "-"}


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves sums, differences and products where a tensor has 16 bits."""
    if not isinstance(op, QuantizedBinary):
        return f"{op.op_type} is not a sum or product of quantized tensors"
    return None if op.is_wide and op.by is None else "no tensor has 16 bits, or it is in TensorFlow Lite's integers"


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Constant operands become tables in the order of y; y may lie over an operand of its size."""
    assert isinstance(op, QuantizedBinary)
    nest, tables = binary_nest(op.a, op.b, op.y, setting)
    operands = (op.a, op.b)
    free = in_place_operands(*operands, nest, setting)
    in_place = tuple(number for number in free if operands[number].dtype.bytes == op.y.dtype.bytes)
    tensors = {name: _coded(tensor) for name, tensor in (("a", op.a), ("b", op.b), ("y", op.y))}
    context = WideBinaryContext(
        nest=nest,
        result=_RESULTS[op.kind],
        sign=_SIGNS[op.kind],
        tensors=tensors,
        low=op.y.dtype.low - tensors["y"].zero_point,
        high=op.y.dtype.high - tensors["y"].zero_point,
        given=tuple(name for name in ("a", "b") if name not in tables),
        constant=tuple(sorted(tables)),
        is_in_place=bool(in_place),
    )
    return Prepared(tuple(tables.values()), context, (), Certificate(), in_place)


def _coded(tensor: Tensor) -> Coded:
    assert tensor.scale is not None, "the tensor is quantized"
    return Coded(tensor.dtype.c, tensor.scale, tensor.zero_point or 0)


WIDE_BINARY = Kernel("portable/wide_binary", WideBinaryContext, frozenset(), why_not, prepare)
