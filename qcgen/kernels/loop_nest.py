"""A loop nest over all elements of an output, or over the axes that stay, and where operands' elements lie under it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from qcgen.ir.program import Tensor
from qcgen.ir.types import Array
from qcgen.kernels.kernel import Order, Setting
from qcgen.kernels.text import INDENT

Stride = int | str
"""The distance between neighbours in elements, or the role of a table of distances from the first."""


@dataclass(frozen=True)
class Dimension:
    """One axis of the output: ``size`` elements, and each tensor's step by its name in C; y's step is a number."""

    size: int
    steps: Mapping[str, Stride]


@dataclass(frozen=True)
class Placed:
    """A tensor's shape and the order of its axes in memory."""

    shape: tuple[int, ...]
    order: Order


@dataclass(frozen=True)
class LoopNumber:
    """An enumerator of the generated C."""

    name: str
    value: int


@dataclass(frozen=True)
class OuterLoop:
    """A loop around the innermost one; ``numbers`` are its enumerators, its count the first of them."""

    variable: str
    numbers: tuple[LoopNumber, ...]
    indent: str


@dataclass(frozen=True)
class Run:
    """A pointer to the first element of an innermost loop: ``name`` in C, and what is added to ``tensor`` for it.

    What always starts at the same element has none.
    """

    tensor: str
    name: str
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class Term:
    """What a loop adds to a pointer: variable times ``step``, or the entry of a table with the role ``table``."""

    variable: str
    step: str
    table: str

    def text(self, tables: Mapping[str, str]) -> str:
        """In C, with the names of the tables by their roles."""
        if self.table:
            return f"{tables[self.table]}[{self.variable}]"
        return " * ".join(factor for factor in (self.variable, self.step) if factor)


@dataclass(frozen=True)
class Element:
    """An operand in the innermost loop: ``pointer`` [ ``term`` ]; no term where it is always the first element."""

    pointer: str
    term: Term | None

    def at(self, tables: Mapping[str, str]) -> str:
        """The element in C."""
        return f"{self.pointer}[{self.term.text(tables) if self.term else 0}]"

    def address(self, tables: Mapping[str, str]) -> str:
        """Where it is, in C."""
        return f"&{self.at(tables)}" if self.term else self.pointer


@dataclass(frozen=True)
class LoopNest:
    """Loops in the order of the output's memory, outermost first, as few as possible.

    ``numbers`` are the enumerators besides those of the outer loops: COUNT elements in the innermost loop, steps other
    than 1; there are none for a single element, which needs no loop. ``contiguous``: in the innermost loop all tensors
    advance by one element. ``ends_at_zero``: it does, and pointers stand behind the last elements. ``is_block``: no
    innermost loop is written.
    """

    outer: tuple[OuterLoop, ...]
    runs: tuple[Run, ...]
    elements: Mapping[str, Element]
    numbers: tuple[LoopNumber, ...]
    indent: str
    contiguous: bool
    count: int
    same_places: frozenset[str]
    ends_at_zero: bool = False
    is_block: bool = False

    @property
    def has_loop(self) -> bool:
        """Whether there is an innermost loop."""
        return bool(self.numbers) and not self.is_block

    @property
    def inside(self) -> str:
        """How far what is in all loops is indented."""
        return self.indent if self.is_block else self.indent + INDENT

    @property
    def size(self) -> int:
        """The number of elements of the output."""
        return self.count * prod(loop.numbers[0].value for loop in self.outer)

    def enumerators(self, indent: str, more: str = "") -> str:
        """The block of enumerators in C, with ``more`` of the kernel's."""
        inner = ", ".join(filter(None, (_listed(self.numbers), more)))
        if not self.outer:
            return f"{indent}enum {{ {inner} }};\n" if inner else ""
        lines = [f"{INDENT}{_listed(loop.numbers)}," for loop in self.outer]
        return "".join(f"{indent}{line}\n" for line in ("enum {", *lines, f"{INDENT}{inner}", "};"))

    def open_outer(self, types: Mapping[str, str], tables: Mapping[str, str]) -> str:
        """The beginning of the loops around the innermost one; ``types``: what each tensor's pointer points to."""
        lines = [f"{loop.indent}{_counted(loop.variable, loop.numbers[0].name)}" for loop in self.outer]
        for run in self.runs:
            terms = " + ".join(term.text(tables) for term in run.terms)
            place = f"({terms})" if len(run.terms) > 1 else terms
            lines.append(f"{self.indent}{types[run.tensor]} *const {run.name} = {run.tensor} + {place};\n")
        return "".join([*lines, "\n"] if self.runs else lines)

    def close_outer(self) -> str:
        """Their end."""
        return "".join(f"{loop.indent}}}\n" for loop in reversed(self.outer))

    def open(self, types: Mapping[str, str], tables: Mapping[str, str]) -> str:
        """The beginning of all loops."""
        inner = f"{self.indent}{_counted('i', 'COUNT')}" if self.has_loop else ""
        if self.ends_at_zero:
            inner = f"{self.indent}for (int32_t i = -COUNT; i < 0; i++) {{ /* up to 0: the end needs no register */\n"
        return self.open_outer(types, tables) + inner

    def places(self, tables: Mapping[str, str]) -> dict[str, str]:
        """The elements in C by the names of their tensors."""
        return {name: element.at(tables) for name, element in self.elements.items()}

    def close(self) -> str:
        """Their end."""
        return (f"{self.indent}}}\n" if self.has_loop else "") + self.close_outer()


def _counted(variable: str, count: str) -> str:
    """The line that begins a loop from 0 on."""
    return f"for (int32_t {variable} = 0; {variable} < {count}; {variable}++) {{\n"


def _listed(numbers: Iterable[LoopNumber]) -> str:
    return ", ".join(f"{number.name} = {number.value}" for number in numbers)


def strides(shape: Sequence[int], order: Order) -> tuple[int, ...]:
    """The distance in memory between neighbours on each axis, for axes that lie in ``order``."""
    steps, step = [0] * len(shape), 1
    for axis in reversed(order):
        steps[axis] = step
        step *= shape[axis]
    return tuple(steps)


def pixel_stride(shape: Sequence[int], order: Order, spatial: Sequence[int]) -> int:
    """The distance between neighbouring pixels of an image in either layout, whose axes ``spatial`` follow each other.

    Axes of size 1 have no neighbours: they may lie anywhere in ``order``.
    """
    steps = strides(shape, order)
    return min((steps[axis] for axis in spatial if shape[axis] > 1), default=1)


def step_along(shape: Sequence[int], order: Order, axes: Iterable[int]) -> int | None:
    """The distance between neighbours along ``axes``, numbered as one, the last one fastest; None if it varies."""
    steps = strides(shape, order)
    moving = [axis for axis in axes if shape[axis] > 1]
    is_even = all(steps[outer] == shape[inner] * steps[inner] for outer, inner in pairwise(moving))
    return (steps[moving[-1]] if moving else 1) if is_even else None


def broadcast_strides(shape: Sequence[int], order: Order, target: Sequence[int]) -> tuple[int, ...]:
    """The same under the axes of ``target`` by numpy's broadcasting: 0 where one element serves all."""
    steps = strides(shape, order)
    missing = len(target) - len(shape)
    aligned = [0 if size == 1 else step for size, step in zip(shape, steps, strict=True)]
    return (*(0,) * missing, *aligned)


def ordered(values: Array, order: Order, rank: int) -> Array:
    """A constant with its elements in the order of an output of ``rank`` axes, flat: see ``constant_order``."""
    return values.transpose(constant_order(values.ndim, order, rank)).reshape(-1)


def constant_order(own_rank: int, order: Order, rank: int) -> Order:
    """The order of a constant operand's axes that follows the output's ``order``."""
    missing = rank - own_rank
    return tuple(axis - missing for axis in order if axis >= missing)


def elementwise(operands: Mapping[str, Placed], y: Placed) -> LoopNest:
    """The loop nest over the elements of y, operands broadcast against it."""
    steps = {name: broadcast_strides(placed.shape, placed.order, y.shape) for name, placed in operands.items()}
    return nest_of(y.shape, {**steps, "y": strides(y.shape, y.order)})


def nest_of(shape: Sequence[int], steps: Mapping[str, Sequence[Stride]]) -> LoopNest:
    """The loop nest over an output of this shape: on each axis the step of each tensor, "y" among them, by its name."""
    axes = enumerate(shape)
    dimensions = [Dimension(size, {name: own[axis] for name, own in steps.items()}) for axis, size in axes]
    return loop_nest(dimensions, tuple(steps), {})


def loop_nest(
    dimensions: Sequence[Dimension], names: Sequence[str], offsets: Mapping[str, int], depth: int = 0
) -> LoopNest:
    """The loop nest over ``dimensions``, whose steps are those of the tensors ``names``, "y" among them.

    ``offsets`` are the places of the first elements where they are not 0; ``depth`` of braces around the nest.
    """
    merged = _merge(dimensions, names)
    *around, last = merged
    outer = tuple(_outer(index, dimension, INDENT * (depth + 1 + index)) for index, dimension in enumerate(around))
    runs = tuple(run for name in names if (run := _run(name, around, offsets.get(name, 0))).terms)
    moved = {run.tensor for run in runs}
    elements = {name: _element(name, last, name in moved) for name in names}
    numbers = [LoopNumber("COUNT", last.size)]
    numbers += [
        LoopNumber(f"{name.upper()}_STEP", step)
        for name, step in last.steps.items()
        if not isinstance(step, str) and step not in (0, 1)
    ]
    numbers += [LoopNumber(f"{name.upper()}_FIRST", offset) for name, offset in offsets.items() if offset]
    y_steps = [dimension.steps["y"] for dimension in merged]
    same = {
        name
        for name in names
        if [dimension.steps[name] for dimension in merged] == y_steps and offsets.get(name, 0) == offsets.get("y", 0)
    }
    contiguous = all(step == 1 for step in last.steps.values())
    indent = INDENT * (depth + 1 + len(outer))
    if merged == [_one(names)] and not runs:
        numbers, indent = [], INDENT * depth
        elements = {name: Element(name, None) for name in names}
    return LoopNest(outer, runs, elements, tuple(numbers), indent, contiguous, last.size, frozenset(same - {"y"}))


def loop_nest_of_one(axes: Iterable[tuple[int, int]]) -> LoopNest:
    """The loop nest over the elements of x alone, whose axes have these sizes and steps, in the order of its memory."""
    # Nothing is written in this order: y has the steps of x for the sake of the nest.
    found = loop_nest([Dimension(size, {"x": step, "y": step}) for size, step in axes], ("x", "y"), {})
    outer = tuple(replace(loop, numbers=_without_y(loop.numbers)) for loop in found.outer)
    runs = tuple(run for run in found.runs if run.tensor != "y")
    elements = {"x": found.elements["x"]}
    return replace(found, outer=outer, runs=runs, elements=elements, numbers=_without_y(found.numbers))


def kept_nest(x: Tensor, y: Tensor, axes: tuple[int, ...], setting: Setting, tables: tuple[str, ...] = ()) -> LoopNest:
    """The loops over the axes of x but ``axes``, which y has with one element each, or lacks.

    ``tables`` have an element for each of y, in the order of its memory.
    """
    x_steps, y_steps = strides(x.shape, setting.xs[0]), strides(y.shape, setting.y)
    kept = [axis for axis in range(len(x.shape)) if axis not in axes]
    places = kept if len(y.shape) == len(x.shape) else range(len(kept))
    pairs = zip(kept, places, strict=True)
    steps = [(x.shape[i], x_steps[i], y_steps[j]) for i, j in pairs]
    found = [Dimension(size, {"x": own, **dict.fromkeys(("y", *tables), step)}) for size, own, step in steps]
    return loop_nest(found, ("x", "y", *tables), {})


def _without_y(numbers: tuple[LoopNumber, ...]) -> tuple[LoopNumber, ...]:
    return tuple(number for number in numbers if not number.name.startswith("Y_"))


def _merge(dimensions: Sequence[Dimension], names: Sequence[str]) -> list[Dimension]:
    """The dimensions that matter, in the order of y's memory, those made one that all tensors pass through as one."""
    moving = [dimension for dimension in dimensions if dimension.size != 1 or _tables(dimension)]
    moving.sort(key=lambda dimension: -_number(dimension.steps["y"]))
    merged: list[Dimension] = []
    for inner in moving:
        if merged and _continues(merged[-1], inner):
            merged[-1] = Dimension(merged[-1].size * inner.size, inner.steps)
        else:
            merged.append(inner)
    return merged or [_one(names)]


def _one(names: Sequence[str]) -> Dimension:
    """That of a single element."""
    return Dimension(1, dict.fromkeys(names, 1))


def _tables(dimension: Dimension) -> bool:
    return any(isinstance(step, str) for step in dimension.steps.values())


def _number(step: Stride) -> int:
    assert isinstance(step, int), "y's steps are numbers"
    return step


def _continues(outer: Dimension, inner: Dimension) -> bool:
    """Whether every tensor steps on from the end of the inner dimension to the next of the outer one."""
    if _tables(outer) or _tables(inner):
        return False
    return all(outer.steps[name] == _number(step) * inner.size for name, step in inner.steps.items())


def _outer(index: int, dimension: Dimension, indent: str) -> OuterLoop:
    steps = {name: step for name, step in dimension.steps.items() if not isinstance(step, str) and step != 0}
    numbers = [LoopNumber(f"COUNT_{index}", dimension.size)]
    numbers += [LoopNumber(f"{name.upper()}_STEP_{index}", step) for name, step in steps.items()]
    return OuterLoop(f"i{index}", tuple(numbers), indent)


def _run(name: str, around: Sequence[Dimension], offset: int) -> Run:
    terms = [Term("", f"{name.upper()}_FIRST", "")] if offset else []
    for index, dimension in enumerate(around):
        step = dimension.steps[name]
        if isinstance(step, str):
            terms.append(Term(f"i{index}", "", step))
        elif step:
            terms.append(Term(f"i{index}", f"{name.upper()}_STEP_{index}", ""))
    return Run(name, f"{name}_run", tuple(terms))


def _element(name: str, last: Dimension, has_run: bool) -> Element:
    pointer = f"{name}_run" if has_run else name
    step = last.steps[name]
    if isinstance(step, str):
        return Element(pointer, Term("i", "", step))
    if step == 0:
        return Element(pointer, None)
    return Element(pointer, Term("i", "" if step == 1 else f"{name.upper()}_STEP", ""))
