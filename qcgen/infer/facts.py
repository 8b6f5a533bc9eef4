"""What a rule of inference is told about one node, and the form of its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from qcgen.ir.graph import Dim, Malformed, Node, Value
from qcgen.ir.types import Array, DType

Shape = tuple[Dim, ...]

AGAIN = "correct the node, or export the model again"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: A, B and C."""
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), names[-1]])


def counted(count: int, noun: str) -> str:
    """A number with its noun: "1 element", "3 elements"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def shape_text(shape: Shape) -> str:
    """A shape for a message: (N, 3, ?, 32)."""
    dims = ["?" if dim is None else str(dim) for dim in shape]
    return f"({', '.join(dims)}{',' if len(dims) == 1 else ''})"


def axes_text(count: int) -> str:
    """A number of axes."""
    return f"{count} ax{'is' if count == 1 else 'es'}"


def contradict(first: Shape, second: Shape) -> bool:
    """Whether no tensor has both shapes."""
    pairs = zip(first, second, strict=False)
    return len(first) != len(second) or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)


class TensorType(NamedTuple):
    """The type and the shape of a tensor, None where they are unknown."""

    dtype: DType | None
    shape: Shape | None


class Unknown(ValueError):
    """What the rule for a shape needs is not known."""


@dataclass(frozen=True)
class Facts:
    """One node with what is known of its inputs; ``problems`` are what its rule finds wrong, each with what to do."""

    node: Node
    inputs: tuple[Value, ...]
    constants: tuple[Array | None, ...]
    problems: list[tuple[str, str]] = field(default_factory=list)

    def wrong(self, what: str, hint: str = "") -> Unknown:
        """Notes a problem; to be raised where no shape follows. Without a hint the size of an input may be to blame."""
        self.problems.append((what, hint))
        return Unknown(what)

    def has(self, index: int) -> bool:
        """Whether the input is there."""
        return self.node.input(index) != ""

    def dtype(self, index: int) -> DType | None:
        """The element type of an input."""
        return self.inputs[index].dtype if index < len(self.inputs) else None

    def shape(self, index: int) -> Shape | None:
        """The shape of an input."""
        return self.inputs[index].shape if index < len(self.inputs) else None

    def known_shape(self, index: int = 0) -> Shape:
        """The shape of an input that must be known."""
        if (shape := self.shape(index)) is None:
            raise Unknown
        return shape

    def integers_at(self, index: int, name: str = "") -> tuple[int, ...] | None:
        """A list of integers that older opsets have as an attribute and newer ones as an input, None if it is absent.

        An input must be constant.
        """
        if not self.has(index):
            return self.node.integers(name)
        if (array := self.constants[index]) is None:
            raise Unknown
        return integers(array)

    def known_integers(self, index: int, name: str = "") -> tuple[int, ...]:
        """The same of a list that must be there."""
        if (found := self.integers_at(index, name)) is None:
            raise self.wrong(f"it has no {name}", f"add {name}, or export the model again")
        return found

    def broadcast(self, *shapes: Shape | None) -> Shape | None:
        """The shape of an element by element result of the inputs, or of these parts of their shapes."""
        try:
            return reduce(broadcast, shapes)
        except ValueError:
            told = listed([shape_text(value.shape) for value in self.inputs if value.shape is not None])
            raise self.wrong(f"the shapes {told} cannot be broadcast", "correct the shapes of the operands") from None

    def axis(self, default: int, rank: int, *, behind: bool = False) -> int:
        """The attribute axis, counted from 0: one of so many, or with ``behind`` the place behind them."""
        axis = self.node.integer("axis", default)
        if not -rank <= axis < rank + behind:
            what = f"axis is {axis}, but its input has {counted(rank, 'dimension')}"
            raise self.wrong(what, "correct axis" if rank else "give its input a dimension")
        return axis if axis >= 0 else axis + rank

    def axes(self, axes: Iterable[int], rank: int, subject: str = "input") -> tuple[int, ...]:
        """Axes of so many, counted from 0; each must be there, and be named once."""
        found = tuple(axes)
        for axis in found:
            if not -rank <= axis < rank:
                raise self.wrong(f"it names axis {axis}, but its {subject} has {counted(rank, 'dimension')}", AGAIN)
        found = tuple(axis % rank for axis in found)
        for axis in found:
            if found.count(axis) > 1:
                raise self.wrong(f"it names axis {axis} twice", "name every axis once")
        return found


TypeRule = Callable[[Facts], tuple[TensorType, ...]]
"""From what is known of a node's inputs to the types of its outputs, as many as the rule knows."""

ShapeRule = Callable[[Facts], Shape | None]
"""From the same to the shape of every output; None, or Unknown, if it is not known."""

ElementRule = int | DType | tuple[int | DType, ...] | Callable[[Facts], DType | None]
"""The element type of an output: that of an input, one, the first of these that is known, or what a function says."""


def rule(shape: ShapeRule, *elements: ElementRule, of: slice | None = None, keeps_rank: bool = False) -> TypeRule:
    """The rule for outputs of one shape with these elements; the rule for the shape sees the inputs ``of`` alone.

    ``keeps_rank``: where nothing else is known of the shape, it has as many axes as the first input.
    """

    def types(facts: Facts) -> tuple[TensorType, ...]:
        try:
            dims = shape(replace(facts, inputs=facts.inputs[of], constants=facts.constants[of]) if of else facts)
        except Unknown:
            x = facts.shape(0)
            dims = (None,) * len(x) if keeps_rank and x is not None else None
        return tuple(TensorType(_element(facts, each), dims) for each in elements)

    return types


def _element(facts: Facts, element: ElementRule) -> DType | None:
    match element:
        case int():
            return facts.dtype(element)
        case DType():
            return element
        case tuple():
            return next((found for each in element if (found := _element(facts, each))), None)
    return element(facts)


def integers(values: object) -> tuple[int, ...]:
    """The elements of a list or one-dimensional array of integers; anything else is Malformed."""
    flat = np.asarray(values)
    if flat.size and flat.dtype.kind not in "iu":
        raise Malformed("integers are expected")
    return tuple(int(value) for value in flat.reshape(-1))


def product(dims: Sequence[Dim]) -> int | None:
    """The product of dimensions, None if one of them is not known."""
    total = 1
    for dim in dims:
        if not isinstance(dim, int):
            return None
        total *= dim
    return total


def broadcast(first: Shape | None, second: Shape | None) -> Shape | None:
    """The shape of an element by element result, as in numpy; shapes that do not agree raise ValueError."""
    if first is None or second is None:
        return None
    rank = max(len(first), len(second))
    pairs = zip((1,) * (rank - len(first)) + first, (1,) * (rank - len(second)) + second, strict=True)
    return tuple(_broadcast_dim(a, b) for a, b in pairs)


def _broadcast_dim(a: Dim, b: Dim) -> Dim:
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if isinstance(a, int) and isinstance(b, int):
        raise ValueError(f"dimensions {a} and {b} do not agree")
    return a if isinstance(a, int) else b if isinstance(b, int) else None
