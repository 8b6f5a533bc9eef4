"""How large constants may get that are computed when a model is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qcgen.errors import ModelRejected, Problem
from qcgen.ir.graph import Node
from qcgen.ir.types import Array

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
        used = sum(array.nbytes for array in constants.values())
        return cls(used, max(LEAST, FACTOR * used))

    def spend(self, node: Node, count: int) -> None:
        """Adds the bytes that a node computes; raises ModelRejected if that is too much."""
        self.used += count
        if self.used > self.most:
            what = (
                f"its result is constant and has {count} bytes; all constants together may have {self.most},"
                f" {FACTOR} times the model's own or {LEAST}"
            )
            hint = "correct the shape that it makes, or compute it from an input of the model"
            raise ModelRejected([Problem(f"node {node.name!r} ({node.operator})", what, hint)])
