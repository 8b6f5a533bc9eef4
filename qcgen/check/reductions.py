"""Rules for reductions along axes."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from qcgen import arithmetic
from qcgen.check.movement import numbers_of, wrong_axes
from qcgen.check.node import NodeView
from qcgen.check.operands import counted
from qcgen.check.ranges import RESCALE, scale_at
from qcgen.errors import Problem

MAX_CODES = 2**22
"""The most codes that are summed: 255 times as much, and what their output step adds, fit int32."""


def reduces_axes(view: NodeView) -> Iterator[Problem]:
    """Every axis is one of the input's, and is named once."""
    x, axes = view.shape(0), numbers_of(view, 1, "axes")
    if x is not None and axes is not None:
        yield from wrong_axes(view, axes, len(x))


def reduces_axes_of_codes(view: NodeView) -> Iterator[Problem]:
    """The same where axes are an attribute alone."""
    x, axes = view.shape(0), view.integers("axes")
    if x is not None and axes is not None:
        yield from wrong_axes(view, axes, len(x))


def norm_of_something(view: NodeView) -> Iterator[Problem]:
    """What a norm along no axis is, runtimes do not agree on."""
    if view.integer("noop_with_empty_axes", 0) and not numbers_of(view, 1, "axes"):
        yield view.problem("it names no axes and has noop_with_empty_axes", "name the axes")


def sums_in_range(view: NodeView) -> Iterator[Problem]:
    """The sums of codes fit int32, and their scale is finite; one that underflows makes every output the zero point."""
    x, x_scale, y_scale = view.fixed_shape(0), scale_at(view, 1), scale_at(view, 3)
    if x is None or x_scale is None or y_scale is None:
        return
    axes = view.integers("axes") or range(len(x))
    count = prod(x[axis] for axis in axes if -len(x) <= axis < len(x))
    if count > MAX_CODES:
        yield view.problem(f"it adds {counted(count, 'code')}, more than {MAX_CODES}", "reduce fewer axes at a time")
        return
    divisor = count if view.node.op_type == "ReduceMean" else 1
    scale = float(arithmetic.sum_scale(x_scale, y_scale, divisor))
    if not np.isfinite(scale):
        yield view.problem(f"the scale of its sums is {scale:.6g}", RESCALE)
