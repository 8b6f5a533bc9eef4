"""portable/reduce: sums, means, largest and smallest elements, norms along any axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from qcgen.errors import prove
from qcgen.intervals import AccumulatorInterval, element_sums
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import Operator, Reduce, Requantize
from qcgen.kernels.epilogue import Output, OutputStep, prepare_requantize
from qcgen.kernels.groups import kept_nest
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.loop_nest import LoopNest, loop_nest_of_one, strides
from qcgen.kernels.portable.float_sum import why_no_rows


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


def prepare(op: Operator, setting: Setting) -> Prepared:
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


REDUCE = Kernel("portable/reduce", ReduceContext, frozenset(), why_not, prepare)
