"""Products of two matrices neither of which need be constant."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from qcgen.ir.program.epilogue import FloatActivation, RawAccumulator, Requantize
from qcgen.ir.program.tensor import Tensor


@dataclass(frozen=True)
class MatMul:
    """acc[..., i, j] = sum over k of (a[..., i, k] - a_zero_point) * (b[..., k, j] - b_zero_point); then the epilogue.

    a (..., M, K) and b (..., K, N) are int8 or uint8; leading axes are broadcast as numpy does. Either may be
    a constant of the program. No sum leaves int32 (checked when the program was made). ``epilogue`` has one scale.
    ``accumulator_range`` bounds all partial sums within the program where that has been proved; None: for all codes.

    Where the epilogue is a FloatActivation, all three are float32, and zero points 0.
    """

    name: str
    op_type: str
    a: Tensor
    b: Tensor
    y: Tensor
    a_zero_point: int
    b_zero_point: int
    epilogue: Requantize | RawAccumulator | FloatActivation
    accumulator_range: tuple[int, int] | None = None

    @property
    def is_float(self) -> bool:
        """Whether it multiplies float32 numbers."""
        return isinstance(self.epilogue, FloatActivation)

    @property
    def terms(self) -> int:
        """K, the products summed for one output."""
        return self.a.shape[-1]

    @property
    def block(self) -> int:
        """The terms of float32 that onnxruntime sums by themselves. Source: MlasSgemmOperation, one thread."""
        width, block = 128, 128
        while self.y.shape[-1] < self.terms and width > 16 and width // 2 >= self.y.shape[-1]:
            width, block = width // 2, block * 2
        return block

    @property
    def is_in_order(self) -> bool:
        """Whether onnxruntime adds the products of float32 numbers by (93): not those of one row or one column."""
        rows = self.a.size // self.terms if len(self.b.shape) == 2 else self.a.shape[-2]
        return self.is_float and rows > 1 and self.y.shape[-1] > 1

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return prod(self.y.shape) * self.terms
