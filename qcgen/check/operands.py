"""A convolution node as its rules look at it."""

from __future__ import annotations

from qcgen.check.node import NodeView
from qcgen.convolutions import CONVOLUTIONS, ConvKind, ConvSpelling
from qcgen.ir.graph import Dim


class ConvOperands(NodeView):
    """One convolution node in its graph, of a known spelling; operands are asked for by role, "x" is "X"."""

    @property
    def spelling(self) -> ConvSpelling:
        """How it is spelt."""
        return CONVOLUTIONS[self.node.domain, self.node.op_type]

    @property
    def is_quantized(self) -> bool:
        """Whether it has scales."""
        return self.spelling.kind is ConvKind.QUANTIZED

    @property
    def is_float(self) -> bool:
        """Whether it computes in float32."""
        return self.spelling.kind is ConvKind.FLOAT

    def title(self, role: str) -> str:
        """The role as the operator's document writes it: "X" or "x"."""
        return next(name for name in self.spelling.inputs if name.lower() == role.lower())

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
