"""Each convolution told what its accumulators can reach, so that a kernel need see no other operator."""

from __future__ import annotations

from dataclasses import replace

from qcgen.intervals.accumulators import accumulators, partial_sums
from qcgen.intervals.propagate import Ranges, channel_ranges
from qcgen.intervals.windows import image_channel_axis
from qcgen.ir.program import Conv, MatMul, Operator, Program


def annotate(program: Program) -> Program:
    """Every integer convolution and product with its ``accumulator_range``; the last change before planning.

    Intervals are those of output channels: they stay true when a kernel or the planner reorders the input's channels.
    """
    ranges = channel_ranges(program)
    return replace(program, operators=tuple(_annotated(op, ranges) for op in program.operators))


def _annotated(op: Operator, ranges: Ranges) -> Operator:
    if isinstance(op, MatMul) and not op.is_float:
        return replace(op, accumulator_range=partial_sums(op, ranges[op.a.name], ranges[op.b.name]))
    if not isinstance(op, Conv) or not op.x.dtype.is_code:
        return op
    reached = accumulators(op, *ranges[op.x.name].along(image_channel_axis(op.x), op.geometry.in_channels))
    return replace(op, accumulator_range=(reached.lo, reached.hi))
