"""portable/lookup: a table of 256 codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

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


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every lookup."""
    return None if isinstance(op, Lookup) else f"{op.op_type} is no function of a single code"


def prepare(op: Operator, setting: Setting) -> Prepared:
    """The table is the program's; y may lie over x."""
    assert isinstance(op, Lookup)
    nest = elementwise({"x": Placed(op.x.shape, setting.xs[0])}, Placed(op.y.shape, setting.y))
    low, high = op.x.dtype.low, op.x.dtype.high
    constants = Constants(
        "table", op.y.dtype.c, op.table, f"the output's code for each of the input's, {low} to {high}."
    )
    context = LookupContext(nest, op.x.dtype.c, op.y.dtype.c, first_code=-low)
    in_place = (0,) if "x" in nest.same_places else ()
    certificate = Certificate(numbers={"kind": "table", "values": op.table})
    return Prepared((constants,), context, (), ("compiler",), certificate, in_place)


LOOKUP = Kernel("portable/lookup", LookupContext, frozenset(), why_not, prepare)
