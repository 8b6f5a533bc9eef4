"""portable/lookup: a table of 256 codes; portable/clamp: bounds of 16-bit codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qcgen.errors import prove
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import Lookup, Operator
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Setting
from qcgen.kernels.loop_nest import LoopNest, Placed, elementwise


@dataclass(frozen=True)
class LookupContext(Context):
    """A table of codes."""

    template: ClassVar[str] = "kernels/portable/lookup.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    x_type: str  # of C
    y_type: str  # of C
    first_code: int  # what is added to a code of x for its place in the table
    joined: tuple[str, ...]  # the nodes in front of this one that the table computes, too


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every lookup of 8-bit codes."""
    if not isinstance(op, Lookup):
        return f"{op.op_type} is not a function of a single code"
    return "a table would have 65,536 codes" if op.x.dtype.is_16_bit else None


def prepare(op: Operator, setting: Setting) -> Prepared:
    """The table is the program's; y may lie over x."""
    assert isinstance(op, Lookup)
    nest = elementwise({"x": Placed(op.x.shape, setting.xs[0])}, Placed(op.y.shape, setting.y))
    low, high = op.x.dtype.low, op.x.dtype.high
    constants = Constants(
        "table", op.y.dtype.c, op.table, f"the output's code for each of the input's, {low} to {high}."
    )
    context = LookupContext(nest, op.x.dtype.c, op.y.dtype.c, first_code=-low, joined=op.joined)
    in_place = (0,) if "x" in nest.same_places else ()
    certificate = Certificate(numbers={"kind": "table", "values": op.table})
    return Prepared((constants,), context, (), certificate, in_place)


@dataclass(frozen=True)
class ClampContext(Context):
    """Bounds of codes."""

    template: ClassVar[str] = "kernels/portable/clamp.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    c_type: str  # of x and y
    low: int | None  # None: that of the type
    high: int | None  # the same


def why_not_clamp(op: Operator, _setting: Setting) -> str | None:
    """Serves the clamps of 16-bit codes."""
    if not isinstance(op, Lookup):
        return f"{op.op_type} is not a function of a single code"
    return None if op.x.dtype.is_16_bit else "its codes have 8 bits"


def prepare_clamp(op: Operator, setting: Setting) -> Prepared:
    """Two comparisons; y may lie over x."""
    assert isinstance(op, Lookup)
    nest = elementwise({"x": Placed(op.x.shape, setting.xs[0])}, Placed(op.y.shape, setting.y))
    low, high = int(op.table[0]), int(op.table[-1])
    codes = np.arange(op.x.dtype.low, op.x.dtype.high + 1)
    prove(np.array_equal(op.table, np.clip(codes, low, high)), "the table is a clamp")
    in_place = (0,) if "x" in nest.same_places else ()
    context = ClampContext(
        nest=nest,
        c_type=op.x.dtype.c,
        low=low if low > op.x.dtype.low else None,
        high=high if high < op.x.dtype.high else None,
    )
    return Prepared((), context, (), Certificate(), in_place)


CLAMP = Kernel("portable/clamp", ClampContext, frozenset(), why_not_clamp, prepare_clamp)
LOOKUP = Kernel("portable/lookup", LookupContext, frozenset(), why_not, prepare)
