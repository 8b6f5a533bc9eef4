"""portable/copy: the operators that only move elements, as strided copies into the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, assert_never

import numpy as np

from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import Concat, Movement, Operator, Pad, Reshape, Resize, Slice, Transpose, inputs_of
from qcgen.ir.types import Array
from qcgen.kernels.kernel import Constants, Kernel, Order, Prepared, Setting
from qcgen.kernels.loop_nest import Dimension, LoopNest, Stride, loop_nest, ordered, strides
from qcgen.kernels.text import INDENT


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
class Part:
    """Loops and the statement in them, C with blanks for elements and ``numbers``; ``constant``: the table it reads."""

    nest: LoopNest
    statement: str
    constant: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class CopyContext(Context):
    """An operator that only moves elements."""

    template: ClassVar[str] = "kernels/portable/copy.c.jinja"

    parameters: str  # of C
    pointed: Mapping[str, str]  # what pointers point to, in C
    parts: tuple[Part, ...]  # what y is filled with, then one for each input
    opened: str  # what stands before each
    closed: str  # what stands behind each
    indent: str  # between them


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every operator that only moves elements, of any element type."""
    return None if isinstance(op, Movement) else f"{op.op_type} does more than move elements"


def prepare(op: Operator, setting: Setting) -> Prepared:
    """One copy for each input. Nothing is copied within y, so y may lie over x only where no element moves."""
    assert isinstance(op, Movement)
    tables: list[Constants] = []
    sources = _sources(op, setting, tables)
    inputs, fill = inputs_of(op), _fill(op)
    names = [f"x{number}" for number in range(len(inputs))] if len(inputs) > 1 else ["x"]
    depth = int(len(inputs) > 1 or fill is not None)
    parts, constant = [] if fill is None else [_filling(op, *fill, depth)], []
    for name, tensor, order, source in zip(names, inputs, setting.xs, sources, strict=True):
        values = setting.constants.get(tensor.name)
        if values is not None:
            constant.append(name)
            flat = ordered(values, order, values.ndim)
            tables.append(Constants(name, tensor.dtype.c, flat, f"the input {tensor.name}, a constant."))
        parts.append(_copying(name, source, depth, is_constant=values is not None))
    is_whole = not depth and not constant and _moves_nothing(parts[0].nest, op)
    if is_whole:
        parts = [replace(parts[0], statement=parts[0].statement.replace("memcpy", "memmove"))]
    pointed = dict.fromkeys(names, f"const {op.y.dtype.c}") | {"y": op.y.dtype.c}
    qualified = "*" if is_whole else "*restrict "
    context = CopyContext(
        parameters=", ".join(f"{kind} {qualified}{name}" for name, kind in pointed.items() if name not in constant),
        pointed=pointed,
        parts=tuple(parts),
        opened="    {\n" * depth,
        closed="    }\n" * depth,
        indent=INDENT * (1 + depth),
    )
    return Prepared(tuple(tables), context, (), Certificate(), (0,) if is_whole else ())


def _copying(name: str, source: Source | None, depth: int, *, is_constant: bool) -> Part:
    """The elements of an input, or those of them that are used."""
    if source is None:
        return Part(loop_nest((), ("y",), {}, depth), f"(void){name};")
    moved = [Dimension(each.size, {name: each.steps["x"], "y": each.steps["y"]}) for each in source.dimensions]
    nest = loop_nest(moved, (name, "y"), {name: source.x_first, "y": source.y_first}, depth)
    constant = name if is_constant else ""
    if not (nest.contiguous and nest.numbers):
        return Part(nest, f"{{y}} = {{{name}}};", constant)
    block = f"(void)memcpy({nest.elements['y'].pointer}, {nest.elements[name].pointer}, COUNT * sizeof *y);"
    return Part(replace(nest, is_block=True), block, constant)


def _filling(op: Movement, value: float, byte: int | None, depth: int) -> Part:
    """All of y, by memset where that can do it."""
    nest = loop_nest([Dimension(op.y.size, {"y": 1})], ("y",), {}, depth)
    if byte is None or not nest.numbers:
        return Part(nest, "{y} = {value};", numbers={"value": value})
    return Part(replace(nest, is_block=True), f"(void)memset(y, {byte}, COUNT * sizeof *y);")


def _moves_nothing(nest: LoopNest, op: Operator) -> bool:
    whole = inputs_of(op)[0].size == op.y.size
    return whole and not nest.outer and nest.contiguous and "x" in nest.same_places


def _fill(op: Movement) -> tuple[float, int | None] | None:
    """What y is filled with before the copies, and as a byte if all are alike; None if all of it is copied."""
    if not isinstance(op, Pad) or (op.x.shape == op.y.shape and not any(op.before)):
        return None
    value = np.asarray(op.value).astype(op.y.dtype.numpy)
    found = set(value.tobytes())
    return value.item(), found.pop() if len(found) == 1 else None


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
