"""portable/select: one of two float32 numbers, element by element, as two others compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import Operator, Select
from qcgen.kernels.binary import operands_nest
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.loop_nest import LoopNest


@dataclass(frozen=True)
class SelectContext(Context):
    """A choice by a comparison."""

    template: ClassVar[str] = "kernels/portable/select.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    sign: str  # the comparison in C
    given: tuple[str, ...]  # operands that are parameters: of "a", "b", "c", "d"
    constant: tuple[str, ...]  # operands that are tables
    is_in_place: bool  # y may lie over an operand
    is_negated: bool  # c where the comparison does not hold
    may_be_minus_zero: bool  # c may hold -0, which becomes 0


SIGNS = {"greater": ">", "greater or equal": ">=", "less": "<", "less or equal": "<=", "equal": "=="}


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every choice."""
    return None if isinstance(op, Select) else f"{op.op_type} does not choose by a comparison"


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Constant operands become tables in the order of y; y may lie over an operand that is not broadcast."""
    assert isinstance(op, Select)
    operands = dict(zip("abcd", op.xs, strict=True))
    nest, tables = operands_nest(operands, op.y, setting)
    given = tuple(name for name in operands if name not in tables)
    in_place = tuple(i for i, name in enumerate(operands) if name in given and name in nest.same_places)
    may_be_minus_zero = "c" in given or bool((np.signbit(tables["c"].values) & (tables["c"].values == 0)).any())
    constant = tuple(tables)
    context = SelectContext(
        nest, SIGNS[op.comparison], given, constant, bool(in_place), op.is_negated, may_be_minus_zero
    )
    return Prepared(tuple(tables.values()), context, (), Certificate(), in_place)


SELECT = Kernel("portable/select", SelectContext, frozenset(), why_not, prepare)
