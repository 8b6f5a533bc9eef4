"""portable/copy: the operators that only move elements, as strided copies into the output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, assert_never

import numpy as np

from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import Concat, Movement, Operator, Pad, Reshape, Resize, Slice, Transpose, inputs_of
from qcgen.ir.types import Array, DType
from qcgen.kernels.kernel import Constants, Kernel, Order, Prepared, Setting
from qcgen.kernels.loop_nest import Dimension, LoopNest, Stride, loop_nest, ordered, strides

NAMES = ("x", "y")


@dataclass(frozen=True)
class Affine:
    """Positions first + step * (i // repeat) for i = 0, 1, ..."""

    first: int
    step: int
    repeat: int


@dataclass(frozen=True)
class Source:
    """The elements of one input, or some of them: under which dimensions of y they go, from which first ones."""

    dimensions: tuple[Dimension, ...]
    x_first: int
    y_first: int


@dataclass(frozen=True)
class Copy:
    """One copy of the generated C: ``parameter`` is the input's name, ``table`` the role if it is a constant.

    ``is_block``: the innermost loop is one memcpy. ``is_whole``: the memory as it is.
    """

    parameter: str
    table: str
    nest: LoopNest
    is_block: bool


@dataclass(frozen=True)
class Fill:
    """What y is filled with before the copy: ``value`` over ``size`` elements, ``byte`` where memset can do it."""

    value: float
    size: int
    byte: int | None


@dataclass(frozen=True)
class CopyContext(Context):
    """An operator that only moves elements."""

    template: ClassVar[str] = "kernels/portable/copy.c.jinja"

    copies: tuple[Copy, ...]  # one for each input of which something is used
    parameters: tuple[str, ...]  # inputs that are not constants
    fill: Fill | None  # what y is filled with before, None if all of it is copied
    type: str  # of C
    is_float: bool  # values are written as float
    is_single: bool  # one input, called x
    is_whole: bool  # the memory as it is
    size: int  # elements of y


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every operator that only moves elements, of any element type."""
    return None if isinstance(op, Movement) else f"{op.op_type} does more than move elements"


def prepare(op: Operator, setting: Setting) -> Prepared:
    """One copy for each input. Nothing is copied within y, so y may lie over x only where no element moves."""
    assert isinstance(op, Movement)
    tables: list[Constants] = []
    sources = _sources(op, setting, tables)
    inputs = inputs_of(op)
    is_single = len(inputs) == 1
    copies, parameters = [], []
    for number, (tensor, order, source) in enumerate(zip(inputs, setting.xs, sources, strict=True)):
        name = "x" if is_single else f"x{number}"
        values = setting.constants.get(tensor.name)
        table = ""
        if values is None:
            parameters.append(name)
        else:
            table = f"part{number}"
            flat = ordered(values, order, values.ndim)
            tables.append(Constants(table, tensor.dtype.c, flat, f"the input {tensor.name}, a constant."))
        if source is not None:
            offsets = {"x": source.x_first, "y": source.y_first}
            loops = loop_nest(source.dimensions, NAMES, offsets, depth=0 if is_single else 1)
            copies.append(Copy(name, table, loops, loops.contiguous))
    fill = _fill(op)
    is_whole = is_single and fill is None and bool(parameters) and _moves_nothing(copies, op)
    context = CopyContext(
        copies=tuple(copies),
        parameters=tuple(parameters),
        fill=fill,
        type=op.y.dtype.c,
        is_float=op.y.dtype in (DType.FLOAT32, DType.FLOAT64),
        is_single=is_single,
        is_whole=is_whole,
        size=op.y.size,
    )
    in_place = (0,) if is_whole else ()
    return Prepared(tuple(tables), context, (), Certificate(), in_place)


def _moves_nothing(copies: Sequence[Copy], op: Operator) -> bool:
    whole = inputs_of(op)[0].size == op.y.size
    return whole and all(not c.nest.outer and c.is_block and "x" in c.nest.same_places for c in copies)


def _fill(op: Movement) -> Fill | None:
    if not isinstance(op, Pad) or (op.x.shape == op.y.shape and not any(op.before)):
        return None
    value = np.asarray(op.value).astype(op.y.dtype.numpy)
    found = set(value.tobytes())
    return Fill(value.item(), op.y.size, found.pop() if len(found) == 1 else None)


def _sources(op: Movement, setting: Setting, tables: list[Constants]) -> list[Source | None]:
    """Where each input's elements go; appends the tables that loops need. None: no element of it is used."""
    y = strides(op.y.shape, setting.y)
    if isinstance(op, Concat):
        return _parts(op, setting.xs, y)
    x = strides(op.x.shape, setting.xs[0])
    match op:
        case Transpose():
            steps = [x[axis] for axis in op.perm]
            return [Source(_dimensions(op.y.shape, steps, y), 0, 0)]
        case Slice():
            steps = [step * stride for step, stride in zip(op.steps, x, strict=True)]
            return [Source(_dimensions(op.y.shape, steps, y), _dot(op.starts, x), 0)]
        case Pad():
            return [_inner(op, x, y)]
        case Reshape():
            return [Source(_reshaped(op, x, y, tables), 0, 0)]
        case Resize():
            return [_resized(op, x, y, tables)]
        case _:
            assert_never(op)


def _dimensions(sizes: Sequence[int], x: Sequence[Stride], y: Sequence[int]) -> tuple[Dimension, ...]:
    return tuple(Dimension(n, {"x": i, "y": o}) for n, i, o in zip(sizes, x, y, strict=True))


def _dot(positions: Sequence[int], steps: Sequence[int]) -> int:
    return sum(position * step for position, step in zip(positions, steps, strict=True))


def _parts(op: Concat, orders: Sequence[Order], y: Sequence[int]) -> list[Source | None]:
    sources: list[Source | None] = []
    begin = 0
    for part, order in zip(op.xs, orders, strict=True):
        dimensions = _dimensions(part.shape, strides(part.shape, order), y)
        sources.append(Source(dimensions, 0, begin * y[op.axis]))
        begin += part.shape[op.axis]
    return sources


def _inner(op: Pad, x: Sequence[int], y: Sequence[int]) -> Source | None:
    """What of x lies within y; a negative number in front cuts elements off."""
    begin = [max(before, 0) for before in op.before]
    end = [min(b + n, size) for b, n, size in zip(op.before, op.x.shape, op.y.shape, strict=True)]
    sizes = [e - b for b, e in zip(begin, end, strict=True)]
    if min(sizes, default=1) <= 0:
        return None
    skipped = [b - before for b, before in zip(begin, op.before, strict=True)]
    return Source(_dimensions(sizes, x, y), _dot(skipped, x), _dot(begin, y))


def _reshaped(op: Reshape, x: Sequence[int], y: Sequence[int], tables: list[Constants]) -> tuple[Dimension, ...]:
    """The dimensions into which both shapes can be cut; if there are none, a table of all places."""
    dimensions = []
    left = [(n, step) for n, step in zip(op.x.shape, x, strict=True) if n != 1]
    right = [(n, step) for n, step in zip(op.y.shape, y, strict=True) if n != 1]
    while left and right:
        (x_size, x_step), (y_size, y_step) = left.pop(), right.pop()
        size = min(x_size, y_size)
        if max(x_size, y_size) % size:
            return (_gathered(op, x, y, tables),)
        dimensions.append(Dimension(size, {"x": x_step, "y": y_step}))
        if x_size > size:
            left.append((x_size // size, x_step * size))
        if y_size > size:
            right.append((y_size // size, y_step * size))
    return tuple(dimensions)


def _gathered(op: Reshape, x: Sequence[int], y: Sequence[int], tables: list[Constants]) -> Dimension:
    """The places in x of the elements of y, in the order of y's memory."""
    grids = zip(np.indices(op.x.shape), x, strict=True)
    source = sum((grid * step for grid, step in grids), np.zeros(op.x.shape, np.int64)).reshape(-1)
    grids = zip(np.indices(op.y.shape), y, strict=True)
    target = sum((grid * step for grid, step in grids), np.zeros(op.y.shape, np.int64)).reshape(-1)
    places = np.zeros(op.y.size, np.int64)
    places[target] = source
    return Dimension(op.y.size, {"x": _table(tables, places, "the place in x of each element of y."), "y": 1})


def _resized(op: Resize, x: Sequence[int], y: Sequence[int], tables: list[Constants]) -> Source:
    """Places at even distances, repeated or not, are steps of loops; others are tables."""
    dimensions, first = [], 0
    for axis, places in enumerate(op.places):
        affine = affine_places(places)
        if affine is None:
            distances = np.asarray(places, np.int64) * x[axis]
            role = _table(tables, distances, f"the distance in x of each position on axis {axis}.")
            dimensions.append(Dimension(len(places), {"x": role, "y": y[axis]}))
            continue
        first += affine.first * x[axis]
        repeat = affine.repeat
        dimensions.append(Dimension(len(places) // repeat, {"x": affine.step * x[axis], "y": y[axis] * repeat}))
        dimensions.append(Dimension(repeat, {"x": 0, "y": y[axis]}))
    return Source(tuple(dimensions), first, 0)


def affine_places(places: Sequence[int]) -> Affine | None:
    """The rule of ``places`` if they have one; else None.

    >>> affine_places((0, 0, 1, 1))
    Affine(first=0, step=1, repeat=2)
    """
    repeat = next((i for i, place in enumerate(places) if place != places[0]), len(places))
    if len(places) % repeat:
        return None
    step = places[repeat] - places[0] if len(places) > repeat else 0
    expected = [places[0] + step * (i // repeat) for i in range(len(places))]
    return Affine(places[0], step, repeat) if list(places) == expected else None


def _table(tables: list[Constants], distances: Array, meaning: str) -> str:
    role = f"places{len(tables)}"
    c_type = "uint16_t" if distances.max() < 2**16 else "int32_t"
    tables.append(Constants(role, c_type, distances, meaning))
    return role


COPY = Kernel("portable/copy", CopyContext, frozenset(), why_not, prepare)
