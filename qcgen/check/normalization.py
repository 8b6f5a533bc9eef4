"""Rules for normalizations of codes: rows, epsilon, and numbers whose float32 arithmetic can be emulated."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from qcgen.check.model import shape_text
from qcgen.check.node import NodeView
from qcgen.check.operands import counted
from qcgen.check.ranges import scale_at
from qcgen.errors import Problem

FEWEST, MOST = 8, 2**20 - 1
"""How many elements a row may have: onnxruntime computes shorter ones in another order."""

LARGEST = 2.0**30
"""Scales of codes lie between this and its reciprocal: then nothing leaves the normal float32 numbers."""


def row_fits(view: NodeView) -> Iterator[Problem]:
    """Rows are neither short nor very long; scale and bias fit them, and are numbers that can be emulated."""
    row = _row(view)
    if row is None:
        return
    if not FEWEST <= prod(row) <= MOST:
        what = f"it normalizes rows of {counted(prod(row), 'element')}"
        yield view.problem(what, f"rows of {FEWEST} to {MOST} elements are supported; compute it in the firmware")
    yield from _fit_row(view, row, 5)
    yield from _numbers_problems(view)


def float_row_fits(view: NodeView) -> Iterator[Problem]:
    """LayerNormalization of numbers: scale and bias fit the rows."""
    row = _row(view)
    if row is not None:
        yield from _fit_row(view, row, 1)


def _row(view: NodeView) -> tuple[int, ...] | None:
    x, axis = view.fixed_shape(0), view.integer("axis", -1)
    return None if x is None or not -len(x) <= axis < len(x) else x[axis:]


def _fit_row(view: NodeView, row: tuple[int, ...], first: int) -> Iterator[Problem]:
    for index, role in ((first, "Scale"), (first + 1, "B")):
        array = view.array(index)
        if array is None:
            continue
        if array.ndim > len(row) or any(a not in (1, b) for a, b in zip(array.shape[::-1], row[::-1], strict=False)):
            what = f"{role} has shape {shape_text(array.shape)}, but the rows have shape {shape_text(row)}"
            yield view.problem(what, f"give {role} an element for each of a row")


def _numbers_problems(view: NodeView) -> Iterator[Problem]:
    """Numbers that cannot be emulated."""
    for index, role in ((5, "Scale"), (6, "B")):
        array = view.array(index)
        if array is not None and (not np.isfinite(array).all() or np.abs(array).max(initial=0) > LARGEST):
            yield view.problem(f"{role} holds numbers that are not finite, or beyond {LARGEST:.3g}", "export it again")


def channels_fit(view: NodeView) -> Iterator[Problem]:
    """InstanceNormalization: scale and bias have a number for each channel; images are not very large."""
    x = view.fixed_shape(0)
    if x is None or len(x) < 3:
        return
    if prod(x[2:]) > MOST:
        yield view.problem(f"its images have {prod(x[2:])} pixels", f"images of up to {MOST} are supported")
    yield from _fit_channels(view, x, 5)
    yield from _numbers_problems(view)


def float_channels_fit(view: NodeView) -> Iterator[Problem]:
    """InstanceNormalization of numbers: scale and bias have a number for each channel."""
    x = view.fixed_shape(0)
    if x is None:
        return
    if len(x) < 3:
        what = f"its input has shape {shape_text(x)}, but must have batch, channels and spatial axes"
        yield view.problem(what, "give it 3 dimensions or more")
    else:
        yield from _fit_channels(view, x, 1)


def _fit_channels(view: NodeView, x: tuple[int, ...], first: int) -> Iterator[Problem]:
    for index, role in ((first, "Scale"), (first + 1, "B")):
        array = view.array(index)
        if array is not None and array.shape != (x[1],):
            what = f"{role} has shape {shape_text(array.shape)}, but x has {counted(x[1], 'channel')}"
            yield view.problem(what, f"give {role} a number for each channel")


def has_what_it_needs(view: NodeView) -> Iterator[Problem]:
    """Scale is there, and what y's codes mean, or neither of what says it."""
    if not view.has(5):
        yield view.problem("input Scale is missing", "LayerNormalization needs X, Scale")
    if view.has(3) != view.has(4):
        yield view.problem("it has only one of Y_scale and Y_zero_point", "give both, or none of them")


def positive_epsilon(view: NodeView) -> Iterator[Problem]:
    """Rows of equal numbers have the variance 0: without epsilon they would be divided by 0."""
    value = view.node.attributes.get("epsilon", 1e-5)
    if isinstance(value, int | float) and not 1 / LARGEST <= value <= LARGEST:
        hint = f"export it with an epsilon between {1 / LARGEST:.3g} and {LARGEST:.3g}, such as 1e-05"
        yield view.problem(f"epsilon is {value:g}", hint)
    yield from computes_in_float32(view)


def computes_in_float32(view: NodeView) -> Iterator[Problem]:
    """The mean and the variance have type float32."""
    if view.integer("stash_type", 1) != 1:
        yield view.problem(f"stash_type is {view.integer('stash_type', 1)}", "only 1, float32, is supported")


def scales_in_range(view: NodeView) -> Iterator[Problem]:
    """Squares of deviations and quotients stay within the normal float32 numbers."""
    for index, role in ((1, "X_scale"), (3, "Y_scale")):
        scale = scale_at(view, index)
        if scale is not None and not 1 / LARGEST <= scale <= LARGEST:
            hint = "quantize the model again, with data of usual size"
            yield view.problem(f"{role} is {scale:.6g}: float32 arithmetic with it is not emulated", hint)
