"""Operators that can compute their output a few rows at a time, and the operator of such a few rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from qcgen.intervals import accumulator_interval
from qcgen.ir.plan import AccessOrder
from qcgen.ir.program import (
    AveragePool,
    Conv,
    ConvGeometry,
    GlobalAveragePool,
    Lookup,
    MaxPool,
    Operator,
    QuantizedBinary,
    Requantize,
    Tensor,
    inputs_of,
)
from qcgen.ir.types import Layout
from qcgen.kernels.kernel import Order
from qcgen.plan.arrange import Arranged, same, stored
from qcgen.plan.memory import WORD, CopiedRows, RowsName, RowSums

MOST_ROWS = 1024  # of an image that runs row by row: planning walks through all of them, and the order names each


@dataclass(frozen=True)
class RowWindow:
    """The rows of an input that one call reads: ``rows`` of them, ``step`` further on at each call.

    The first call's begin ``above`` rows above the image. ``padding`` is the code of rows outside the image, or the
    tensor that holds it, None where none is read. What each call reads whole has a ``step`` of 0. ``places``: the first
    row of each call where rows are not ``step`` apart; then the tensor must be there as a whole.
    """

    tensor: RowsName
    rows: int
    step: int
    above: int
    padding: int | str | None
    places: tuple[int, ...] = ()

    def start(self, call: int) -> int:
        """The first row that a call reads."""
        return self.places[call] if self.places else call * self.step - self.above


@dataclass(frozen=True)
class Stage:
    """An operator that computes ``rows`` rows of its output at each of ``calls`` calls.

    ``over`` is the number of the input whose rows lie where the output is written, because nothing else reads them.
    ``front``: the output's rows begin so many bytes before those of the only input and lie over them, if they do.
    ``sums``: bytes that calls add up in, zero at first; then the last call alone writes the output, and ``rows`` is 0.
    ``gathers``: the output is not an image, and every call adds to it what its rows change there.
    ``images``: of a batch, one behind the other; rows and calls are those of each.
    ``index`` is its step's; ``op`` the operator of one call: its input holds the rows of a window, without padding. A
    stage without an operator copies rows of a tensor that is there as a whole, so that rows of padding can stand beside
    them.
    """

    index: int
    op: Operator | None
    windows: tuple[RowWindow, ...]
    y: RowsName
    rows: int
    calls: int
    over: int | None = None
    front: int | None = None
    sums: int = 0
    gathers: bool = False
    images: int = 1

    @property
    def overwritten(self) -> RowsName | None:
        """The input whose rows lie where the output is written."""
        return None if self.over is None else self.windows[self.over].tensor

    @property
    def sums_name(self) -> RowSums:
        """What calls add up in, where they do."""
        assert self.op is not None, "it is a mean"
        return RowSums(self.op.y.name)


def stage_of(step: Arranged, index: int, rows: int) -> Stage | None:
    """The operator in calls of ``rows`` rows, None if it cannot run so."""
    op, orders = step.op, [*step.xs, step.y]
    if isinstance(op, GlobalAveragePool):
        return _mean_stage(op, step, index) if rows == 1 and not step.is_view else None
    tensors = [*inputs_of(op), op.y]
    if step.is_view or any(not _has_rows(t, order) for t, order in zip(tensors, orders, strict=True)):
        return None
    height = rows_of(op.y, step.y)
    if height % rows or height == rows or max(map(rows_of, tensors, orders)) * images_of(op.y) > MOST_ROWS:
        return None
    match op:
        case Conv() | MaxPool() if op.geometry.rank == 2 and op.x.dtype.is_quantized:
            stage = window_stage(op, step, index, rows)
            return None if stage is None else replace(stage, images=images_of(op.y))
        case QuantizedBinary() | Lookup() if all(t.shape == op.y.shape for t in tensors) and len(set(orders)) == 1:
            windows = tuple(RowWindow(t.name, rows, rows, 0, None) for t in inputs_of(op))
            part = _elementwise(op, step.y, rows)
            return Stage(index, part, windows, op.y.name, rows, height // rows, images=images_of(op.y))
        case _:
            return None


def _mean_stage(op: GlobalAveragePool, step: Arranged, index: int) -> Stage | None:
    """A mean of codes."""
    if not isinstance(op.requantize, Requantize) or not _has_rows(op.x, step.xs[0]) or not op.y.dtype.is_quantized:
        return None
    return mean_stage(op, step, index)


def mean_stage(op: GlobalAveragePool, step: Arranged, index: int) -> Stage | None:
    """A mean whose calls add a row each; its operator stays the whole one."""
    if not lies_in_rows(op.x, step.xs[0]):
        return None
    height, channels = rows_of(op.x, step.xs[0]), op.x.shape[op.channel_axis]
    is_plain = step.xs[0][-1] == op.channel_axis and op.x.shape[step.xs[0][1]] == height
    if height == 1 or height > MOST_ROWS or not is_plain or op.pixels * channels != op.x.size:
        return None
    windows = (RowWindow(op.x.name, 1, 1, 0, None),)
    return Stage(index, op, windows, op.y.name, 0, height, sums=SUM_BYTES * (channels * op.sums + 1))


def in_rows(step: Arranged, op: Operator) -> Arranged:
    """The step of a stage's operator, channels last as its rows are.

    The order of a whole image of one pixel may be another one: with rows of padding beside the pixel they differ.
    """
    return replace(step, op=op, xs=tuple(map(_last, inputs_of(op), step.xs)), y=_last(op.y, step.y))


def with_copied_source(stages: Sequence[Stage], source: str, height: int, *, is_pushed: bool = False) -> list[Stage]:
    """The stages, with one before them that copies rows of what the stream reads, if its rows cannot be read in place.

    A row that is pushed is gone at the next one. Others can be read in place where no window leaves the image, and
    where the source is the first input of who reads it: a schedule names a row of the first input only.
    """
    windows = [(stage, window) for stage in stages for window in stage.windows if window.tensor == source]
    ends = [window.start(stage.calls - 1) + window.rows for stage, window in windows]
    is_first = all(stage.windows[0] == window for stage, window in windows)
    if not is_pushed and is_first and max(ends) <= height and all(window.above == 0 for _, window in windows):
        return list(stages)
    copied = CopiedRows(source, windows[0][0].index)
    copy = Stage(COPY, None, (RowWindow(source, 1, 1, 0, None),), copied, 1, height, images=stages[0].images)
    moved = [
        replace(stage, windows=tuple(replace(w, tensor=copied) if w.tensor == source else w for w in stage.windows))
        for stage in stages
    ]
    return [*(stage for stage in moved if stage.index == COPY), copy, *(s for s in moved if s.index != COPY)]


def written_over(stages: Sequence[Stage], in_place: Callable[[Stage], Sequence[int]]) -> list[Stage]:
    """The stages, those that can with their outputs over the rows of an input that nothing else reads.

    ``in_place``: the numbers of inputs whose elements a stage reads right before it writes the same ones.
    """
    readers = Counter(window.tensor for stage in stages for window in stage.windows)
    rows = {stage.y: stage.rows for stage in stages if stage.op is not None}
    found = []
    for stage in stages:
        may = [] if stage.op is None else in_place(stage)
        over = (n for n in may if readers[(x := stage.windows[n].tensor)] == 1 and rows.get(x) == stage.rows)
        found.append(replace(stage, over=next(over, None)))
    return found


def over_old_rows(
    stages: Sequence[Stage],
    access: Callable[[Stage], AccessOrder | None],
    row_bytes: Callable[[RowsName], int],
) -> list[Stage]:
    """The stages, those that can with their outputs over the oldest rows of their input, which go after the call.

    They can where nothing else reads these rows, where the kernel's order allows it, and where the next call is that of
    the only stage that reads the output, all of it: the rows go after that one.
    """
    readers: dict[RowsName, list[Stage]] = {}
    for stage in stages:
        for window in stage.windows:
            readers.setdefault(window.tensor, []).append(stage)
    computed = {stage.y for stage in stages}
    lying = {stage.overwritten for stage in stages}
    found = []
    for stage in stages:
        order = access(stage) if _hands_on(stage, readers) and stage.y not in lying else None
        window = stage.windows[0]
        x = window.tensor
        if order is not None and len(readers[x]) == 1 and x in computed and x not in lying:
            front = _front(order)
            if stage.rows * row_bytes(stage.y) <= front + window.step * row_bytes(x):
                lying.add(stage.y)
                found.append(replace(stage, front=front))
                continue
        found.append(stage)
    return found


def _hands_on(stage: Stage, readers: Mapping[RowsName, Sequence[Stage]]) -> bool:
    """Whether a stage of one input computes what one other stage of one input reads at each call, and nothing more."""
    if stage.op is None or len(stage.windows) > 1 or len(readers.get(stage.y, ())) != 1:
        return False
    windows = readers[stage.y][0].windows
    return len(windows) == 1 and windows[0].above == 0 and windows[0].rows == windows[0].step == stage.rows


def _front(order: AccessOrder) -> int:
    """The least distance from the output's start to the input's that is not negative; a multiple of WORD if one is."""
    least = max(order.distance, order.distance % order.multiple)
    ways = [least + times * order.multiple for times in range(WORD)]
    return next((way for way in ways if way % WORD == 0), least)


SUM_BYTES = 4  # of a sum, and of the number of rows or pixels that were added

BELOW_ZERO = 0x80
"""The bytes of a float32 number that is less than all that are not negative."""

COPY = -1
"""The index of a stage that copies rows."""


def images_of(tensor: Tensor) -> int:
    """How many images or sequences a batch has; a matrix has rows alone."""
    return tensor.shape[0] if len(tensor.shape) > 2 else 1


def rows_of(tensor: Tensor, order: Order) -> int:
    """How many rows an image has that lies channels last."""
    return tensor.shape[row_axis(tensor, order)]


def row_axis(tensor: Tensor, order: Order) -> int:
    """The axis of rows: where the model says so, else the second in memory, of a matrix the first."""
    if tensor.layout is None:
        return order[min(1, len(order) - 2)]
    return 1 if tensor.layout is Layout.CHANNELS_LAST else 2


def _has_rows(tensor: Tensor, order: Order) -> bool:
    """Whether these are such images of codes."""
    return tensor.dtype.is_quantized and len(tensor.shape) == 4 and lies_in_rows(tensor, order)


def lies_in_rows(tensor: Tensor, order: Order) -> bool:
    """Whether these are images of a batch whose rows lie one behind the other, channels last.

    Or sequences, whose rows are their elements, or a matrix.
    """
    if not 2 <= len(tensor.shape) <= 4:
        return False
    if tensor.layout is not None:
        return same(order, stored(tensor, Layout.CHANNELS_LAST), tensor.shape)
    if len(tensor.shape) == 2:
        return 1 not in tensor.shape
    return order[0] == 0 and 1 not in tensor.shape[1:]


def _last(tensor: Tensor, order: Order) -> Order:
    return order if tensor.layout is None else stored(tensor, Layout.CHANNELS_LAST)


def short(tensor: Tensor, order: Order, rows: int) -> Tensor:
    """The tensor with so many rows of one image."""
    shape = [1, *tensor.shape[1:]] if len(tensor.shape) > 2 else list(tensor.shape)
    shape[row_axis(tensor, order)] = rows
    return replace(tensor, shape=tuple(shape))


def _elementwise(op: QuantizedBinary | Lookup, order: Order, rows: int) -> Operator:
    y = short(op.y, order, rows)
    if isinstance(op, QuantizedBinary):
        return replace(op, a=short(op.a, order, rows), b=short(op.b, order, rows), y=y)
    return replace(op, x=short(op.x, order, rows), y=y)


def window_stage(op: Conv | MaxPool | AveragePool, step: Arranged, index: int, rows: int) -> Stage | None:
    """A convolution or a pool of ``rows`` rows a call; None if the first of its windows lies outside the image.

    Rows outside the image are right for a float MaxPool if no number is negative, for an AveragePool never.
    """
    g = op.geometry
    window = (rows - 1) * g.strides[0] + (g.kernel[0] - 1) * g.dilations[0] + 1
    below = (g.output[0] - 1) * g.strides[0] - g.pads_begin[0] + window - (rows - 1) * g.strides[0] - g.input[0]
    is_padded = g.pads_begin[0] > 0 or below > 0
    if g.pads_begin[0] >= window:
        return None  # a window of padding alone
    outside = op.x_zero_point if isinstance(op, Conv) else BELOW_ZERO if op.x.dtype.is_float else op.x.dtype.low
    padding = outside if is_padded else None
    wide = g.batch * g.output[0] // (rows_of(op.y, step.y) * images_of(op.y))  # a product has an axis of all positions
    part = replace(
        op,
        x=short(op.x, step.xs[0], window),
        y=short(op.y, step.y, rows),
        geometry=rows_geometry(g, window * wide, rows * wide),
    )
    if isinstance(op, Conv) and isinstance(part, Conv):
        sums = accumulator_interval(op)
        part = replace(part, accumulator_range=(sums.lo, sums.hi))  # proved of the whole: rows outside hold padding
    windows = (RowWindow(op.x.name, window, rows * g.strides[0], g.pads_begin[0], padding),)
    return Stage(index, part, windows, op.y.name, rows, rows_of(op.y, step.y) // rows)


def rows_geometry(g: ConvGeometry, window: int, rows: int) -> ConvGeometry:
    """The geometry of a call that reads ``window`` rows of an image, none of them outside, and computes ``rows``."""
    return replace(
        g,
        batch=1,
        input=(window, *g.input[1:]),
        output=(rows, *g.output[1:]),
        pads_begin=(0, *g.pads_begin[1:]),
        pads_end=(0, *g.pads_end[1:]),
    )
