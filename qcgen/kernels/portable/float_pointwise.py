"""portable/float_unary and float_binary: float32 numbers element by element."""

from __future__ import annotations

import numpy as np

from qcgen.ir.plan import Certificate
from qcgen.ir.program import FloatBinary, FloatUnary, Operator
from qcgen.kernels.binary import binary_walk, in_place_operands
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.portable.conv_float import bounds, output_step, uses_math
from qcgen.kernels.walk import Placed, elementwise

SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


def why_not_unary(op: Operator, _setting: Setting) -> str | None:
    """Serves every activation of float32 numbers."""
    return None if isinstance(op, FloatUnary) else f"{op.op_type} is no function of one float32 number"


def why_not_binary(op: Operator, _setting: Setting) -> str | None:
    """Serves all four arithmetic operations on float32 numbers."""
    return None if isinstance(op, FloatBinary) else f"{op.op_type} is no function of two float32 numbers"


def prepare_unary(op: Operator, setting: Setting) -> Prepared:
    """The activation of convolutions; y may lie over x."""
    assert isinstance(op, FloatUnary)
    walk = elementwise({"x": Placed(op.x.shape, setting.xs[0])}, Placed(op.y.shape, setting.y))
    context = {
        "walk": walk,
        "activation": output_step(op.activation),
        "bounds": bounds(op.activation),
        "uses_math": uses_math(op.activation),
    }
    return Prepared((), context, (), (), Certificate(), (0,) if "x" in walk.same_places else ())


def prepare_binary(op: Operator, setting: Setting) -> Prepared:
    """Constant operands become tables in the order of y; y may lie over an operand that is not broadcast."""
    assert isinstance(op, FloatBinary)
    walk, tables = binary_walk(op.a, op.b, op.y, setting)
    in_place = in_place_operands(op.a, op.b, walk, setting)
    context = {
        "walk": walk,
        "sign": SIGNS[op.kind],
        "given": [name for name in ("a", "b") if name not in tables],
        "constant": sorted(tables),
        "is_in_place": bool(in_place),
        "uses_math": any(bool(np.isinf(table.values).any()) for table in tables.values()),
    }
    return Prepared(tuple(tables.values()), context, (), (), Certificate(), in_place)


FLOAT_UNARY = Kernel(
    "portable/float_unary", "kernels/portable/float_unary.c.jinja", frozenset(), why_not_unary, prepare_unary
)
FLOAT_BINARY = Kernel(
    "portable/float_binary", "kernels/portable/float_binary.c.jinja", frozenset(), why_not_binary, prepare_binary
)
