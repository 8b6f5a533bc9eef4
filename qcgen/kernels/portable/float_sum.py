"""portable/float_sum: sums and means of float32 numbers that onnxruntime adds up in rows, in its order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import Operator, Reduce
from qcgen.kernels.groups import kept_nest
from qcgen.kernels.kernel import Constants, Kernel, Order, Prepared, Setting
from qcgen.kernels.loop_nest import LoopNest, step_along


@dataclass(frozen=True)
class FloatSumContext(Context):
    """Sums or means of rows."""

    template: ClassVar[str] = "kernels/portable/float_sum.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    types: Mapping[str, str]  # of C, behind the pointers of the loops
    way: str  # how a row is added up: "eights" or "fours"
    length: int  # of a row
    step: int  # from one element of a row to the next
    rows: int  # that become one element
    row_step: int  # from one of these to the next
    start_step: int  # the same of where their eights start
    has_starts: bool  # rows differ in where their eights start
    count: int  # elements that become one


def why_no_rows(op: Operator, setting: Setting) -> str | None:
    """Serves sums of float32 numbers in rows at equal distances, as the planner lays them."""
    if not isinstance(op, Reduce) or op.row is None:
        return f"{op.op_type} does not add up rows of float32"
    return None if _steps(op, setting) is not None else "rows of its input do not lie at equal distances"


def _steps(op: Reduce, setting: Setting) -> tuple[int, int] | None:
    """From an element of a row to the next, and from one of the rows that become one element to the next."""
    assert op.row is not None
    inner = op.row[1]
    step = step_along(op.x.shape, setting.xs[0], inner)
    between = step_along(op.x.shape, setting.xs[0], [axis for axis in op.axes if axis not in inner])
    return None if step is None or between is None else (step, between)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """One element of y after the other, in the order of its memory."""
    assert isinstance(op, Reduce)
    assert op.row is not None
    way, inner = op.row
    outer = tuple(axis for axis in op.axes if axis not in inner)
    steps = _steps(op, setting)
    assert steps is not None, "it has rows"
    length, rows = (prod(op.x.shape[axis] for axis in axes) for axes in (inner, outer))
    has_starts = way == "eights" and length % 4 != 0
    context = FloatSumContext(
        nest=kept_nest(op.x, op.y, op.axes, setting, ("start",) * has_starts),
        types={"x": "const float", "y": "float", "start": "const uint8_t"},
        way=way,
        length=length,
        step=steps[0],
        rows=rows,
        row_step=steps[1],
        start_step=op.y.size,
        has_starts=has_starts,
        count=op.count,
    )
    return Prepared((_starts(op, outer, setting.y),) if has_starts else (), context, (), Certificate())


def _starts(op: Reduce, outer: tuple[int, ...], order: Order) -> Constants:
    """The elements of each row in front of its eights: by the outer axes, then as y lies in memory."""
    kept = [axis for axis in range(len(op.x.shape)) if axis not in op.axes]
    named = kept if len(op.y.shape) == len(op.x.shape) else range(len(kept))
    places = [axis for axis in order if axis in named]
    in_memory = [kept[list(named).index(axis)] for axis in places]
    first = np.arange(op.x.size).reshape(op.x.shape)
    for axis in op.axes:
        if axis not in outer:
            first = first.take([0], axis)
    starts = -first.transpose([*outer, *in_memory, *(axis for axis in op.axes if axis not in outer)]) % 4
    return Constants("start", "uint8_t", starts.reshape(-1), "of each row, the elements in front of its eights.")


FLOAT_SUM = Kernel("portable/float_sum", FloatSumContext, frozenset(), why_no_rows, prepare)
