"""How large constants get that are computed when a model is compiled, known before they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil, prod

from qcgen.errors import ModelRejected, Problem
from qcgen.ir.graph import Node
from qcgen.ir.types import Array
from qcgen.rewrite.operands import Operands, integers

LEAST = 2**22
"""The bytes that all constants together may have whatever the model's own have."""

FACTOR = 16
"""How many times the bytes of the model's own constants all of them may have: int8 weights that turn float."""


@dataclass
class Budget:
    """The bytes of all constants, and how many they may become."""

    used: int
    most: int

    @classmethod
    def of(cls, constants: Mapping[str, Array]) -> Budget:
        """The budget of a model with these constants of its own."""
        used = _bytes(constants)
        return cls(used, max(LEAST, FACTOR * used))

    def spend(self, node: Node, operands: Operands) -> None:
        """Adds what a node computes; raises ModelRejected if that is too much."""
        bytes = result_bytes(operands)
        self.used += bytes
        if self.used > self.most:
            what = (
                f"its result is constant and has {bytes} bytes; all constants together may have {self.most},"
                f" {FACTOR} times the model's own or {LEAST}"
            )
            hint = "correct the shape that it makes, or compute it from an input of the model"
            raise ModelRejected([Problem(f"node {node.name!r} ({node.operator})", what, hint)])


def _bytes(constants: Mapping[str, Array]) -> int:
    return sum(array.nbytes for array in constants.values())


def result_bytes(operands: Operands) -> int:
    """At most so many bytes has the result of a fold; malformed nodes raise what their fold raises."""
    arrays = [array for array in operands.arrays if array is not None]
    measure = SIZES.get(operands.node.op_type)
    elements = max((array.size for array in arrays), default=0) if measure is None else measure(operands)
    return elements * max((array.itemsize for array in arrays), default=1)


def _filled(operands: Operands) -> int:
    return prod(integers(operands[0]))


def _broadcast(operands: Operands) -> int:
    return prod(_shape(operands[0].shape, operands[1].shape))


def _expanded(operands: Operands) -> int:
    return prod(_shape(operands[0].shape, integers(operands[1])))


def _shape(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """As numpy broadcasts, which refuses shapes beyond the address space by another error."""
    rank = max(len(one), len(other))
    padded = ((1,) * (rank - len(shape)) + shape for shape in (one, other))
    return tuple(b if a == 1 else a for a, b in zip(*padded, strict=True))


def _joined(operands: Operands) -> int:
    return sum(array.size for array in operands.arrays if array is not None)


def _padded(operands: Operands) -> int:
    x, pads = operands[0], operands.integers_at(1, "pads") or ()
    axes = integers(operands[3]) if operands.has(3) else tuple(range(x.ndim))
    shape = list(x.shape)
    for index, axis in enumerate(axes):
        shape[axis] += pads[index] + pads[index + len(axes)]
    return prod(shape)


def range_size(operands: Operands) -> int:
    """How many numbers Range gives: (limit - start) / delta, rounded up."""
    start, limit, delta = (operands[index].reshape(()) for index in range(3))
    if delta == 0:
        raise ZeroDivisionError("Range goes on by 0")
    return max(0, ceil(float(limit - start) / float(delta)))


def _gathered(operands: Operands) -> int:
    x, axis = operands[0], operands.integer("axis", 0)
    size: int = operands[1].size * (x.size // max(1, x.shape[axis]))
    return size


def _chosen(operands: Operands) -> int:
    return prod(_shape(_shape(operands[0].shape, operands[1].shape), operands[2].shape))


SIZES: Mapping[str, Callable[[Operands], int]] = {
    "Add": _broadcast,
    "Concat": _joined,
    "ConstantOfShape": _filled,
    "Div": _broadcast,
    "Expand": _expanded,
    "Gather": _gathered,
    "Mul": _broadcast,
    "Pad": _padded,
    "Range": range_size,
    "Sub": _broadcast,
    "Where": _chosen,
    **dict.fromkeys(("And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Or", "Xor"), _broadcast),
}
"""The elements of the results of operators that can be larger than their largest operand."""
