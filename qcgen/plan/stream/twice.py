"""Layers that are computed twice, row by row: for the range of their floats, then for codes, which alone are kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from qcgen.ir.program import (
    Conv,
    ConvGeometry,
    DynamicParameter,
    DynamicQuantize,
    Extremes,
    FloatBinary,
    FloatOutput,
    FloatUnary,
    MaxPool,
    Operator,
    Tensor,
    ZeroPointCorrection,
    inputs_of,
)
from qcgen.kernels.kernel import Order
from qcgen.plan.arrange import Arranged
from qcgen.plan.stream.stages import MOST_ROWS, RowWindow, Stage, lies_in_rows, row_axis, rows_of, short, window_stage


@dataclass(frozen=True)
class Twice:
    """Steps up to before ``end`` in two passes: what becomes of a tensor that is there, and its quantization.

    The second pass runs through ``stages``, the last of which writes codes. In the first, ``extremes`` takes its place;
    steps ``between`` make scale and zero point of what it has found.
    """

    end: int
    stages: tuple[Stage, ...]
    extremes: Stage
    between: tuple[int, ...]


QUANTIZATION: tuple[type[Operator], ...] = (Extremes, DynamicParameter, DynamicParameter, DynamicQuantize)
"""The operators that quantize floats dynamically, as they follow each other."""


def twice_of(steps: Sequence[Arranged], first: int, constants: Collection[str], rows: int) -> Twice | None:
    """What begins with step ``first``, in calls of ``rows`` rows; None if it cannot run so.

    That is a convolution with its output step or an operator on floats, others on its floats, and their quantization.
    An output step runs so together with its convolution alone: only then do rows outside the image hold the zero point.
    """
    if isinstance(steps[first].op, FloatOutput):
        return None
    last = next((i for i in range(first, len(steps)) if not _computes_floats(steps[i].op)), len(steps))
    found = steps[last : last + len(QUANTIZATION)]
    kinds = tuple(type(step.op) for step in found)
    if kinds != QUANTIZATION or last == first or not _is_chain(steps[first:last], found):
        return None
    stages = [_stage(steps, index, constants, rows) for index in range(first, last)]
    stages += [_pointwise(steps[last + behind], last + behind, constants, rows) for behind in (0, 3)]
    possible = [stage for stage in stages if stage is not None]
    if len(possible) < len(stages):
        return None
    *before, gathering, writing = possible
    return Twice(last + len(QUANTIZATION), (*before, writing), replace(gathering, gathers=True), (last + 1, last + 2))


def _computes_floats(op: Operator) -> bool:
    return isinstance(op, Conv | FloatOutput | FloatBinary | FloatUnary | MaxPool)


def _is_chain(body: Sequence[Arranged], quantization: Sequence[Arranged]) -> bool:
    """Whether each step reads what the one before it computes, and the quantization what the last one does."""
    names = [step.op.y.name for step in body]
    readers = [*body[1:], quantization[0]]
    return (
        all(name in {x.name for x in inputs_of(step.op)} for name, step in zip(names, readers, strict=True))
        and inputs_of(quantization[-1].op)[0].name == names[-1]
    )


def _stage(steps: Sequence[Arranged], index: int, constants: Collection[str], rows: int) -> Stage | None:
    """An operator before the quantization; sums of a convolution are read by its output step alone."""
    step = steps[index]
    match step.op:
        case Conv() if isinstance(output := steps[index + 1].op, FloatOutput):
            return _sums(step, output, index, rows)
        case FloatOutput() if isinstance(conv := steps[index - 1].op, Conv):
            stage, op = _pointwise(step, index, constants, rows), _inside(step.op, step, conv.geometry)
            return None if stage is None or op is None else replace(stage, op=_with_rows(op, op.y, step.y, rows))
        case FloatBinary() | FloatUnary():
            return _pointwise(step, index, constants, rows)
        case MaxPool() if _is_divided(step.op.x, step.xs[0], rows) and _is_divided(step.op.y, step.y, rows):
            stage = window_stage(step.op, step, index, rows)
            return None if stage is None or stage.windows[0].padding is not None else stage
        case _:
            return None


def _is_divided(image: Tensor, order: Order, rows: int) -> bool:
    """Whether a tensor is an image in rows that several calls of so many rows compute."""
    if not lies_in_rows(image, order):
        return False
    height = rows_of(image, order)
    return height % rows == 0 and rows < height <= MOST_ROWS


def _sums(step: Arranged, output: FloatOutput, index: int, rows: int) -> Stage | None:
    """The sums of a convolution. Rows outside the image hold the zero point: it may be one that is computed."""
    op = step.op
    assert isinstance(op, Conv)
    is_small = lies_in_rows(op.x, step.xs[0]) and rows_of(op.x, step.xs[0]) <= MOST_ROWS
    if op.geometry.rank != 2 or op.geometry.batch > 1 or not is_small or not _is_divided(op.y, step.y, rows):
        return None
    stage = window_stage(op, step, index, rows)
    computed = [each.zero_point.name for each in output.steps if isinstance(each, ZeroPointCorrection)]
    if stage is None or stage.windows[0].padding is None or not computed:
        return stage
    return replace(stage, windows=(replace(stage.windows[0], padding=computed[0]),))


def _inside(op: FloatOutput, step: Arranged, g: ConvGeometry) -> FloatOutput | None:
    """The output step with the sums of a whole window of weights for every row; None if no window is whole."""
    axis, reach = row_axis(op.y, step.y), (g.kernel[0] - 1) * g.dilations[0]
    starts = (row * g.strides[0] - g.pads_begin[0] for row in range(g.output[0]))
    row = next((row for row, start in enumerate(starts) if start >= 0 and start + reach < g.input[0]), None)
    if row is None:
        return None
    steps = []
    for each in op.steps:
        if isinstance(each, ZeroPointCorrection):
            sums = np.take(each.sums, [each.places[axis][row]], axis=axis)
            places = (*each.places[:axis], (0,) * g.output[0], *each.places[axis + 1 :])
            each = replace(each, sums=sums, places=places)
        steps.append(each)
    return replace(op, steps=tuple(steps))


def _pointwise(step: Arranged, index: int, constants: Collection[str], rows: int) -> Stage | None:
    """An operator, element by element, on ``rows`` rows a call; what it broadcasts is the same for all of them."""
    op, is_read = step.op, isinstance(step.op, Extremes)
    image, order = (inputs_of(op)[0], step.xs[0]) if is_read else (op.y, step.y)
    if not _is_divided(image, order, rows):
        return None
    behind = len(image.shape) - row_axis(image, order)
    windows = []
    for x, x_order in zip(inputs_of(op), step.xs, strict=True):
        if x.shape == image.shape and lies_in_rows(x, x_order) and x.name not in constants:
            windows.append(RowWindow(x.name, rows, rows, 0, None))
        elif len(x.shape) >= behind and x.shape[-behind] > 1:
            return None
        elif x.name not in constants:
            windows.append(RowWindow(x.name, 1, 0, 0, None))
    calls = rows_of(image, order) // rows
    return Stage(index, _with_rows(op, image, order, rows), tuple(windows), op.y.name, rows, calls)


_Op = TypeVar("_Op", bound=Operator)


def _with_rows(op: _Op, image: Tensor, order: Order, rows: int) -> _Op:
    """The operator with so many rows in each of its tensors that has the shape of ``image``."""
    changed: dict[str, Any] = {
        each.name: short(value, order, rows)
        for each in fields(op)
        if isinstance(value := getattr(op, each.name), Tensor) and value.shape == image.shape
    }
    if isinstance(op, FloatOutput):
        changed["steps"] = tuple(_with_rows(each, image, order, rows) for each in op.steps)
    if isinstance(op, ZeroPointCorrection):
        axis = row_axis(image, order)
        changed["places"] = (*op.places[:axis], op.places[axis][:rows], *op.places[axis + 1 :])
    return replace(op, **changed)
