"""A convolution node as its rules look at it: operands by role, problems in the model's names."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from qcgen.check.model import node_place
from qcgen.convolutions import ConvKind, ConvSpelling, constant_operand, operand
from qcgen.errors import Problem
from qcgen.infer.facts import Shape
from qcgen.ir.graph import Dim, Graph, Node
from qcgen.ir.types import Array, DType

MAX_NUMBER = 2**31 - 1
"""The largest size, stride, dilation or pad, so that all of them fit the C type int32_t."""


def counted(count: int, noun: str) -> str:
    """A number with its noun: "1 element", "3 elements"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


@dataclass(frozen=True)
class ConvOperands:
    """One convolution node in its graph, of a known spelling; ``already_reported`` as in View."""

    graph: Graph
    node: Node
    spelling: ConvSpelling
    already_reported: Collection[str] = ()

    def problem(self, what: str, hint: str) -> Problem:
        """A problem of this node."""
        return Problem(node_place(self.node), what, hint)

    @property
    def is_quantized(self) -> bool:
        """Whether it has scales."""
        return self.spelling.kind is ConvKind.QUANTIZED

    @property
    def is_float(self) -> bool:
        """Whether it computes in float32."""
        return self.spelling.kind is ConvKind.FLOAT

    def tensor(self, role: str) -> str:
        """The name of the tensor that plays a role, "" if it is absent."""
        return operand(self.node, self.spelling, role)

    def title(self, role: str) -> str:
        """The role as the operator's document writes it: "X" or "x"."""
        return next(name for name in self.spelling.inputs if name.lower() == role.lower())

    def dtype(self, role: str) -> DType | None:
        """The element type of an operand, None if it is absent or unknown."""
        name = self.tensor(role)
        array = self.graph.constants.get(name)
        return DType.of(array) if array is not None else self.graph.value(name).dtype if name else None

    def shape(self, role: str) -> Shape | None:
        """The shape of an operand, None if it is absent or unknown."""
        name = self.tensor(role)
        array = self.graph.constants.get(name)
        return tuple(array.shape) if array is not None else self.graph.value(name).shape if name else None

    def array(self, role: str) -> Array | None:
        """The elements of an operand, None if it is absent or not constant."""
        return constant_operand(self.graph, self.node, self.spelling, role)

    @property
    def channels(self) -> int | None:
        """M, the number of output channels, if it is known."""
        w = self.shape("w")
        first: Dim = w[0] if w else None
        return first if isinstance(first, int) else None

    @property
    def kernel(self) -> tuple[int, ...] | None:
        """The spatial axes of w, if they are known."""
        w = self.shape("w")
        if w is None or len(w) < 3:
            return None
        sizes = tuple(dim for dim in w[2:] if isinstance(dim, int))
        return sizes if len(sizes) == len(w) - 2 else None
