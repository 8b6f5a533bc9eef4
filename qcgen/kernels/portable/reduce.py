"""portable/reduce, float_sum: sums, means, largest and smallest elements, norms along any axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

import numpy as np

from qcgen.errors import prove
from qcgen.intervals import AccumulatorInterval, element_sums
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import Operator, Reduce, Requantize
from qcgen.kernels.epilogue import Output, OutputStep, prepare_requantize
from qcgen.kernels.kernel import Constants, Kernel, Order, Prepared, Setting
from qcgen.kernels.loop_nest import LoopNest, kept_nest, loop_nest_of_one, step_along, strides


@dataclass(frozen=True)
class ReduceContext(Context):
    """Sums, means, largest and smallest elements, norms along any axes."""

    template: ClassVar[str] = "kernels/portable/reduce.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    group: LoopNest  # the loops over the elements of x that become one
    types: Mapping[str, str]  # of C, by "x" and "y"
    count: int  # elements that become one
    start: int  # of a sum of codes
    output: Output | None  # None: the largest or the smallest element, or float32


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves every reduction but those of rows of float32."""
    if not isinstance(op, Reduce):
        return f"{op.op_type} is not a reduction along axes"
    return "it adds up rows of float32" if why_no_rows(op, setting) is None else None


def prepare_reduce(op: Operator, setting: Setting) -> Prepared:
    """One element of y after the other, in the order of its memory."""
    assert isinstance(op, Reduce)
    epilogue = None if op.requantize is None else _requantized(op, op.requantize, setting)
    context = ReduceContext(
        nest=kept_nest(op.x, op.y, op.axes, setting),
        group=loop_nest_of_one((op.x.shape[axis], strides(op.x.shape, setting.xs[0])[axis]) for axis in op.axes),
        types={"x": op.x.dtype.c, "y": op.y.dtype.c},
        count=op.count,
        start=0 if epilogue is None else int(epilogue.addend[0]) - op.count * (op.x.zero_point or 0),
        output=None if epilogue is None else epilogue.output,
    )
    if epilogue is None:
        return Prepared((), context, (), Certificate())
    return Prepared(epilogue.constants, context, (), epilogue.certificate)


def _requantized(op: Reduce, requantize: Requantize, setting: Setting) -> OutputStep:
    """The output step of sums, with its certificate: any codes of x's type may come."""
    interval = element_sums(op, *(np.array([end], np.int64) for end in (op.x.dtype.low, op.x.dtype.high)))
    prove(not interval.wraps, "no sum leaves int32")
    scale = "x_scale / (count * y_scale)" if op.kind == "mean" else "x_scale / y_scale"
    epilogue = prepare_requantize(requantize, op.y.dtype.c, interval, setting.features, scale=scale, is_alone=True)
    prove(_starts_in_range(op, epilogue, interval), "no sum leaves int32 on its way")
    numbers = {**epilogue.certificate.numbers, "kind": "sum"}
    return replace(epilogue, certificate=replace(epilogue.certificate, word=None, numbers=numbers))


def _starts_in_range(op: Reduce, epilogue: OutputStep, interval: AccumulatorInterval) -> bool:
    """Whether sums of codes that start with the zero points and the addend stay within int32 at each step."""
    start = int(epilogue.addend[0]) - op.count * (op.x.zero_point or 0)
    steps = (start, start + op.count * op.x.dtype.low, start + op.count * op.x.dtype.high)
    return all(-(2**31) <= step < 2**31 for step in steps) and bool((interval.lo <= interval.hi).all())


REDUCE = Kernel("portable/reduce", ReduceContext, frozenset(), why_not, prepare_reduce)


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
    places: int  # from the place in x of one of these to that of the next
    place: str  # where it matters where a row begins: "computed" or "table", else ""
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


def prepare_float_sum(op: Operator, setting: Setting) -> Prepared:
    """One element of y after the other, in the order of its memory."""
    assert isinstance(op, Reduce)
    assert op.row is not None
    way, inner = op.row
    outer = tuple(axis for axis in op.axes if axis not in inner)
    steps = _steps(op, setting)
    assert steps is not None, "it has rows"
    length, rows = (prod(op.x.shape[axis] for axis in axes) for axes in (inner, outer))
    place = "" if way == "fours" or length % 4 == 0 else "computed" if _is_row_major(op, setting.y) else "table"
    context = FloatSumContext(
        nest=kept_nest(op.x, op.y, op.axes, setting, ("place",) * (place == "table")),
        types={"x": "const float", "y": "float", "place": "const uint8_t"},
        way=way,
        length=length,
        step=steps[0],
        rows=rows,
        row_step=steps[1],
        places=op.y.size * length,
        place=place,
        count=op.count,
    )
    return Prepared((_places(op, setting.y),) if place == "table" else (), context, (), Certificate())


def _is_row_major(op: Reduce, order: Order) -> bool:
    """Whether y lies in memory as the model numbers its elements."""
    moving = [axis for axis in order if op.y.shape[axis] > 1]
    return moving == sorted(moving)


def _places(op: Reduce, order: Order) -> Constants:
    """The places of rows in x modulo 4, as y lies in memory."""
    kept = [axis for axis in range(len(op.x.shape)) if axis not in op.axes]
    named = kept if len(op.y.shape) == len(op.x.shape) else list(range(len(kept)))
    in_memory = [kept[named.index(axis)] for axis in order if axis in named]
    first = np.arange(op.x.size).reshape(op.x.shape)
    for axis in op.axes:
        first = first.take([0], axis)
    places = first.transpose([*in_memory, *op.axes]).reshape(-1) % 4
    return Constants("place", "uint8_t", places, "the place of each row in x, modulo 4.")


FLOAT_SUM = Kernel("portable/float_sum", FloatSumContext, frozenset(), why_no_rows, prepare_float_sum)
