"""portable/float_unary and float_binary: float32 numbers element by element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import FloatBinary, FloatUnary, Operator
from qcgen.kernels.binary import binary_nest, in_place_operands
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.loop_nest import LoopNest, Placed, elementwise
from qcgen.kernels.portable.activation import NumberFunction, number_function


@dataclass(frozen=True)
class UnaryContext(Context):
    """An activation of float32 numbers."""

    template: ClassVar[str] = "kernels/portable/float_unary.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    number: str  # the type of C of x and y
    activation: NumberFunction


@dataclass(frozen=True)
class BinaryContext(Context):
    """An operation on two float32 numbers."""

    template: ClassVar[str] = "kernels/portable/float_binary.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    sign: str  # the operator in C; "": a function
    function: str  # of the library
    given: tuple[str, ...]  # operands that are parameters: "a", "b"
    constant: tuple[str, ...]  # operands that are tables
    is_in_place: bool  # y may lie over an operand


SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_FUNCTIONS = {"max": "float_larger", "min": "float_smaller", "pow": "float_power", "prelu": "float_prelu"}


def why_not_unary(op: Operator, _setting: Setting) -> str | None:
    """Serves every activation of float32 numbers."""
    return None if isinstance(op, FloatUnary) else f"{op.op_type} is not a function of one float32 number"


def why_not_binary(op: Operator, _setting: Setting) -> str | None:
    """Serves every operation on two float32 numbers."""
    return None if isinstance(op, FloatBinary) else f"{op.op_type} is not a function of two float32 numbers"


def prepare_unary(op: Operator, setting: Setting) -> Prepared:
    """The activation of convolutions; y may lie over x."""
    assert isinstance(op, FloatUnary)
    nest = elementwise({"x": Placed(op.x.shape, setting.xs[0])}, Placed(op.y.shape, setting.y))
    context = UnaryContext(nest, op.x.dtype.c, number_function(op.activation, op.x.dtype))
    in_place = (0,) if "x" in nest.same_places else ()
    return Prepared((), context, (), Certificate(), in_place)


def prepare_binary(op: Operator, setting: Setting) -> Prepared:
    """Constant operands become tables in the order of y; y may lie over an operand that is not broadcast."""
    assert isinstance(op, FloatBinary)
    nest, tables = binary_nest(op.a, op.b, op.y, setting)
    in_place = in_place_operands(op.a, op.b, nest, setting)
    context = BinaryContext(
        nest=nest,
        sign=SIGNS.get(op.kind, ""),
        function=_FUNCTIONS.get(op.kind, ""),
        given=tuple(name for name in ("a", "b") if name not in tables),
        constant=tuple(sorted(tables)),
        is_in_place=bool(in_place),
    )
    return Prepared(tuple(tables.values()), context, (), Certificate(), in_place)


FLOAT_UNARY = Kernel("portable/float_unary", UnaryContext, frozenset(), why_not_unary, prepare_unary)
FLOAT_BINARY = Kernel("portable/float_binary", BinaryContext, frozenset(), why_not_binary, prepare_binary)
