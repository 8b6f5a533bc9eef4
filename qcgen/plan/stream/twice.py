"""Layers that run row by row on floats: once, or twice, for the range of floats and then for codes, which are kept."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import prod
from typing import Any, TypeVar

import numpy as np

from qcgen.intervals.accumulators import weight_differences, window_sums
from qcgen.ir.program import (
    AveragePool,
    Concat,
    Conv,
    DynamicParameter,
    DynamicQuantize,
    Extremes,
    FloatBinary,
    FloatOutput,
    FloatUnary,
    GlobalAveragePool,
    MaxPool,
    Operator,
    Resize,
    Tensor,
    ZeroPointCorrection,
    inputs_of,
)
from qcgen.ir.types import DType
from qcgen.kernels.kernel import Order
from qcgen.plan.arrange import Arranged
from qcgen.plan.memory import RowsName
from qcgen.plan.stream.stages import (
    MOST_ROWS,
    RowWindow,
    Stage,
    images_of,
    lies_in_rows,
    mean_stage,
    row_axis,
    rows_geometry,
    rows_of,
    short,
    window_stage,
)


@dataclass(frozen=True)
class RangePass:
    """The first of two passes: ``extremes`` takes the place of the last stage, which writes codes in the second.

    Steps ``between`` the passes make scale and zero point of what it has found.
    """

    extremes: Stage
    between: tuple[int, ...]


@dataclass(frozen=True)
class Floats:
    """Steps up to before ``end`` that run row by row on floats: ``stages``, and views between them.

    The last stage writes a tensor that is there as a whole. If that is of codes, there are two passes.
    """

    end: int
    stages: tuple[Stage, ...]
    first_pass: RangePass | None = None

    @property
    def every_stage(self) -> tuple[Stage, ...]:
        """Those of all passes."""
        return self.stages if self.first_pass is None else (*self.stages, self.first_pass.extremes)


QUANTIZATION: tuple[type[Operator], ...] = (Extremes, DynamicParameter, DynamicParameter, DynamicQuantize)
"""The operators that quantize floats dynamically, as they follow each other."""


def floats_of(steps: Sequence[Arranged], first: int, constants: Collection[str], rows: int) -> Iterator[Floats]:
    """What can run so from step ``first`` on in calls of ``rows`` rows.

    Stages read what is there as a whole, and rows of stages before them; all of these but the last one's are read. An
    output step runs so together with its convolution alone: only then do rows outside the image hold the zero point.
    """
    stages: list[Stage] = []
    views: dict[RowsName, _View] = {}
    for index in range(first, len(steps)):
        step = steps[index]
        if step.is_view and stages:
            x = inputs_of(step.op)[0]
            root = views.get(x.name, _View(x.name, _height(x, step.xs[0]), has_rows=True))
            views[step.op.y.name] = replace(root, has_rows=root.rows == _height(step.op.y, step.y))
            continue
        if isinstance(step.op, Extremes):
            end = index + len(QUANTIZATION)
            last = _quantization(steps[index:end], index, constants, rows)
            last = _of_roots(_by_image(last, step, constants), views)
            if stages and last and _is_read_on([*stages, last[0]]) and _is_read_on([*stages, last[1]]):
                first_pass = RangePass(replace(last[0], gathers=True), (index + 1, index + 2))
                yield Floats(end, (*stages, last[1]), first_pass)
            break
        stage = None if step.is_view else _stage(steps, first, index, constants, rows)
        found = [] if stage is None else _of_roots(_by_image([stage], step, constants), views)
        if not found:
            break
        stages += found
        if len(stages) > 1 and _is_read_on(stages):
            yield Floats(index + 1, tuple(stages))
        if found[0].sums:
            break  # nothing of a mean is there before its last row was added


@dataclass(frozen=True)
class _View:
    """A tensor in the memory of ``root``, which has so many rows, if any; ``has_rows``: as many as the view."""

    root: RowsName
    rows: int | None
    has_rows: bool


def _height(tensor: Tensor, order: Order) -> int | None:
    return rows_of(tensor, order) if lies_in_rows(tensor, order) else None


def _of_roots(stages: Sequence[Stage], views: Mapping[RowsName, _View]) -> list[Stage]:
    """The stages, reading the tensors in whose rows views lie; none if a view that is read has other rows."""
    read = [(views[window.tensor], window) for stage in stages for window in stage.windows if window.tensor in views]
    if any(not view.has_rows or view.rows is None or window.step == 0 for view, window in read):
        return []
    roots = {name: view.root for name, view in views.items()}
    return [
        replace(s, windows=tuple(replace(w, tensor=roots.get(w.tensor, w.tensor)) for w in s.windows)) for s in stages
    ]


def _by_image(stages: Sequence[Stage], step: Arranged, constants: Collection[str]) -> list[Stage]:
    """The stages of a step, image by image; none if it reads rows of more or fewer images than it computes."""
    other = {*constants, *(window.tensor for stage in stages for window in stage.windows if window.step == 0)}
    counts = {images_of(x) for x in inputs_of(step.op) if x.name not in other}
    counts |= set() if isinstance(step.op, Extremes) else {images_of(step.op.y)}
    return [replace(stage, images=min(counts)) for stage in stages] if len(counts) == 1 else []


def _is_read_on(stages: Sequence[Stage]) -> bool:
    """Whether what each stage computes is read by one behind it, of as many images, but for the last one's."""
    if len({stage.images for stage in stages}) > 1:
        return False
    names = [{window.tensor for window in stage.windows} for stage in stages]
    return all(any(stage.y in read for read in names[i + 1 :]) for i, stage in enumerate(stages[:-1]))


def _quantization(steps: Sequence[Arranged], index: int, constants: Collection[str], rows: int) -> list[Stage]:
    """The first and the last of the operators that quantize floats; none if these steps, from ``index`` on, do not."""
    if tuple(type(step.op) for step in steps) != QUANTIZATION:
        return []
    found = [_pointwise(steps[behind], index + behind, constants, rows) for behind in (0, 3)]
    return [stage for stage in found if stage is not None] if None not in found else []


def _stage(steps: Sequence[Arranged], first: int, index: int, constants: Collection[str], rows: int) -> Stage | None:
    """An operator before the quantization; sums of a convolution are read by its output step alone."""
    step = steps[index]
    match step.op:
        case Conv():
            outputs = (each.op for each in steps[index:] if isinstance(each.op, FloatOutput))
            output = next((each for each in outputs if each.x.name == step.op.y.name), None)
            return None if output is None else _sums(step, output, index, rows)
        case FloatOutput():
            convs = (each.op for each in steps[first:index] if isinstance(each.op, Conv))
            conv = next((each for each in convs if each.y.name == step.op.x.name), None)
            inside = None if conv is None else replace(step, op=_inside(step.op, step, conv))
            return None if inside is None else _pointwise(inside, index, constants, rows)
        case FloatBinary() | FloatUnary():
            return _pointwise(step, index, constants, rows)
        case MaxPool() | AveragePool() if _is_divided(step.op.x, step.xs[0], rows) and _is_divided(
            step.op.y, step.y, rows
        ):
            return _pool(steps, index, rows)
        case GlobalAveragePool() if step.op.requantize is None and step.op.x.dtype is DType.FLOAT32:
            return mean_stage(step.op, step, index)
        case Concat():
            return _joined(step, index, constants, rows)
        case Resize():
            return _taken(step, index, rows)
        case _:
            return None


def _pool(steps: Sequence[Arranged], index: int, rows: int) -> Stage | None:
    """A pool; rows outside the image hold less than any number, if none is negative."""
    op, step = steps[index].op, steps[index]
    assert isinstance(op, MaxPool | AveragePool)
    if not _is_divided(op.x, step.xs[0], rows) or not _is_divided(op.y, step.y, rows):
        return None
    stage = window_stage(op, step, index, rows)
    if stage is None or stage.windows[0].padding is None:
        return stage
    made = next((each.op for each in steps[:index] if each.op.y.name == op.x.name), None)
    return stage if isinstance(op, MaxPool) and made is not None and _is_positive(made) else None


def _is_positive(op: Operator) -> bool:
    """Whether no number that an operator computes is negative, but for -0."""
    last = op.steps[-1] if isinstance(op, FloatOutput) else op
    if not isinstance(last, FloatUnary):
        return False
    kind, params = last.activation.kind, last.activation.params
    return kind in ("Relu", "Sigmoid") or (kind == "Clip" and params[0] >= 0)


def _joined(step: Arranged, index: int, constants: Collection[str], rows: int) -> Stage | None:
    """Rows of tensors, one behind the other in each row."""
    op = step.op
    assert isinstance(op, Concat)
    names = {x.name for x in op.xs}
    axis = row_axis(op.y, step.y) if _is_divided(op.y, step.y, rows) else op.axis
    if axis == op.axis or len(names) < len(op.xs) or not names.isdisjoint(constants):
        return None
    if not all(lies_in_rows(x, order) for x, order in zip(op.xs, step.xs, strict=True)):
        return None
    xs = tuple(short(x, order, rows) for x, order in zip(op.xs, step.xs, strict=True))
    windows = tuple(RowWindow(x.name, rows, rows, 0, None) for x in op.xs)
    calls = rows_of(op.y, step.y) // rows
    return Stage(index, replace(op, xs=xs, y=short(op.y, step.y, rows)), windows, op.y.name, rows, calls)


def _taken(step: Arranged, index: int, rows: int) -> Stage | None:
    """Rows at places that are known; those of one call always stand side by side in the same way."""
    op = step.op
    assert isinstance(op, Resize)
    if not _is_divided(op.y, step.y, rows) or not lies_in_rows(op.x, step.xs[0]):
        return None
    axis = row_axis(op.y, step.y)
    places = np.reshape(op.places[axis], (-1, rows))
    starts = places.min(axis=1)
    inside = places[0] - starts[0]
    if (places - starts[:, None] != inside).any() or (axis and op.places[0] != tuple(range(images_of(op.x)))):
        return None
    height, by = int(inside.max()) + 1, int(starts[1] - starts[0])
    is_even = by > 0 and np.array_equal(starts, np.arange(len(starts)) * by)
    window = RowWindow(op.x.name, height, by if is_even else 1, 0, None, () if is_even else tuple(starts.tolist()))
    before = ((0,), *op.places[1:axis]) if axis else ()
    taken = (*before, tuple(inside.tolist()), *op.places[axis + 1 :])
    part = replace(op, x=short(op.x, step.xs[0], height), y=short(op.y, step.y, rows), places=taken)
    return Stage(index, part, (window,), op.y.name, rows, len(starts))


def _is_divided(image: Tensor, order: Order, rows: int) -> bool:
    """Whether a tensor is an image in rows that several calls of so many rows compute."""
    if not lies_in_rows(image, order):
        return False
    height = rows_of(image, order)
    return height % rows == 0 and rows < height and height * images_of(image) <= MOST_ROWS


def _sums(step: Arranged, output: FloatOutput, index: int, rows: int) -> Stage | None:
    """The sums of a convolution. Rows outside the image hold the zero point: it may be one that is computed."""
    op = step.op
    assert isinstance(op, Conv)
    g = op.geometry
    is_small = lies_in_rows(op.x, step.xs[0]) and rows_of(op.x, step.xs[0]) * images_of(op.x) <= MOST_ROWS
    if g.rank > 2 or not is_small or not _is_divided(op.y, step.y, rows):
        return None
    stage = window_stage(op, step, index, rows)
    computed = [each.zero_point.name for each in output.steps if isinstance(each, ZeroPointCorrection)]
    if stage is None or not isinstance(stage.op, Conv) or stage.windows[0].padding is None or not computed:
        return stage
    part = replace(stage.op, accumulator_range=None)  # any code may stand outside
    return replace(stage, op=part, windows=(replace(stage.windows[0], padding=computed[0]),))


def _inside(op: FloatOutput, step: Arranged, conv: Conv) -> FloatOutput:
    """The output step with the sums of a whole window of weights for every row, in the image or not."""
    axis, g = row_axis(op.y, step.y), conv.geometry
    one = rows_geometry(g, (g.kernel[0] - 1) * g.dilations[0] + 1, 1)
    weights = weight_differences(conv).reshape(g.out_channels, g.group_in, -1)
    steps = []
    for each in op.steps:
        if isinstance(each, ZeroPointCorrection):
            shape = (*each.sums.shape[:axis], 1, *each.sums.shape[axis + 1 :])
            places = (*each.places[:axis], (0,) * len(each.places[axis]), *each.places[axis + 1 :])
            sums = window_sums(one, weights.sum(axis=1)).reshape(shape)
            each = replace(each, sums=sums, places=places)
        steps.append(each)
    return replace(op, steps=tuple(steps))


def _pointwise(step: Arranged, index: int, constants: Collection[str], rows: int) -> Stage | None:
    """An operator, element by element, on ``rows`` rows a call; what it broadcasts is the same for all of them.

    But for constants of as many rows, if each of these lies in one piece.
    """
    op, is_read = step.op, isinstance(step.op, Extremes)
    image, order = (inputs_of(op)[0], step.xs[0]) if is_read else (op.y, step.y)
    if not _is_divided(image, order, rows):
        return None
    rank = len(image.shape)
    behind = rank - row_axis(image, order)
    windows: list[RowWindow] = []
    parts: dict[str, Tensor] = {}
    for x, x_order in zip(inputs_of(op), step.xs, strict=True):
        is_tall = len(x.shape) >= behind and x.shape[-behind] > 1
        if is_tall and x.name in constants and prod(x.shape[:-behind]) == 1:
            windows.append(RowWindow(x.name, rows, rows, 0, None))
            parts[x.name] = replace(x, shape=(*x.shape[:-behind], rows, *x.shape[len(x.shape) - behind + 1 :]))
        elif x.shape == image.shape and lies_in_rows(x, x_order) and x.name not in constants:
            windows.append(RowWindow(x.name, rows, rows, 0, None))
        elif is_tall or (len(x.shape) == rank and images_of(x) > 1):
            return None
        elif x.name not in constants:
            windows.append(RowWindow(x.name, 1, 0, 0, None))
    calls = rows_of(image, order) // rows
    return Stage(index, _with_rows(op, image, order, rows, parts), tuple(windows), op.y.name, rows, calls)


_Op = TypeVar("_Op", bound=Operator)


def _with_rows(op: _Op, image: Tensor, order: Order, rows: int, parts: Mapping[str, Tensor]) -> _Op:
    """The operator with so many rows in each of its tensors that has the shape of ``image``; of others ``parts``."""
    changed: dict[str, Any] = {
        each.name: parts[value.name] if value.name in parts else short(value, order, rows)
        for each in fields(op)
        if isinstance(value := getattr(op, each.name), Tensor) and (value.shape == image.shape or value.name in parts)
    }
    if isinstance(op, FloatOutput):
        changed["steps"] = tuple(_with_rows(each, image, order, rows, parts) for each in op.steps)
    if isinstance(op, ZeroPointCorrection):
        axis = row_axis(image, order)
        changed["places"] = (*op.places[:axis], op.places[axis][:rows], *op.places[axis + 1 :])
    return replace(op, **changed)
