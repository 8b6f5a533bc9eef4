"""portable/arg_max: where the largest or the smallest element of an axis is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import ArgMax, Operator
from qcgen.kernels.groups import kept_nest
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.loop_nest import LoopNest, strides


@dataclass(frozen=True)
class ArgMaxContext(Context):
    """Where the largest or the smallest element of an axis is."""

    template: ClassVar[str] = "kernels/portable/arg_max.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    types: Mapping[str, str]  # of C, by "x" and "y"
    count: int  # elements that are compared
    step: int  # from one of them to the next
    better: str  # how C compares an element with the best before it


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every search for the largest or the smallest element."""
    return None if isinstance(op, ArgMax) else f"{op.op_type} does not look for an element"


def prepare(op: Operator, setting: Setting) -> Prepared:
    """One element of y after the other, in the order of its memory."""
    assert isinstance(op, ArgMax)
    context = ArgMaxContext(
        nest=kept_nest(op.x, op.y, (op.axis,), setting),
        types={"x": op.x.dtype.c, "y": op.y.dtype.c},
        count=op.x.shape[op.axis],
        step=strides(op.x.shape, setting.xs[0])[op.axis],
        better=(">" if op.kind == "max" else "<") + ("=" if op.takes_last else ""),
    )
    return Prepared((), context, (), Certificate())


ARG_MAX = Kernel("portable/arg_max", ArgMaxContext, frozenset(), why_not, prepare)
