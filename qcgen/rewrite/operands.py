"""What a fold is told about the node that it computes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qcgen.ir.graph import Attribute, Node
from qcgen.ir.types import Array


@dataclass(frozen=True)
class Operands:
    """A node with the elements of its inputs, None for absent ones."""

    node: Node
    arrays: tuple[Array | None, ...]

    def has(self, index: int) -> bool:
        """Whether the input is there."""
        return index < len(self.arrays) and self.arrays[index] is not None

    def __getitem__(self, index: int) -> Array:
        array = self.arrays[index] if index < len(self.arrays) else None
        if array is None:
            raise ValueError(f"input {index} is absent")
        return array

    def attribute(self, name: str) -> Attribute:
        """An attribute, None if it is absent."""
        return self.node.attributes.get(name)

    def integer(self, name: str, default: int) -> int:
        """An integer attribute."""
        value = self.node.attributes.get(name, default)
        if not isinstance(value, int):
            raise TypeError(f"{name} is not an integer")
        return value

    def integers(self, name: str) -> tuple[int, ...] | None:
        """An attribute that is a list of integers, None if it is absent."""
        value = self.attribute(name)
        return None if value is None else integers(np.asarray(value))

    def integers_at(self, index: int, name: str) -> tuple[int, ...] | None:
        """A list of integers that older opsets have as an attribute and newer ones as an input."""
        return integers(self[index]) if self.has(index) else self.integers(name)


def integers(array: Array) -> tuple[int, ...]:
    """The elements of an array of integers; anything else raises TypeError."""
    if array.size and array.dtype.kind not in "iu":
        raise TypeError("integers are expected")
    return tuple(int(value) for value in array.reshape(-1))
