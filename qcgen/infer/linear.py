"""Types and shapes of matrix products."""

from __future__ import annotations

from qcgen.infer.facts import Facts, Shape, TensorType, broadcast
from qcgen.ir.types import DType


def matmul(facts: Facts) -> tuple[TensorType, ...]:
    """MatMul as in numpy."""
    return (TensorType(facts.dtype(0), _product(facts.shape(0), facts.shape(1))),)


def matmul_integer(facts: Facts) -> tuple[TensorType, ...]:
    """MatMulInteger: int32."""
    return (TensorType(DType.INT32, _product(facts.shape(0), facts.shape(1))),)


def quantized_matmul(facts: Facts) -> tuple[TensorType, ...]:
    """QLinearMatMul: (a, scale, zero point, b, scale, zero point, y_scale, y_zero_point)."""
    return (TensorType(facts.dtype(7), _product(facts.shape(0), facts.shape(3))),)


def gemm(facts: Facts) -> tuple[TensorType, ...]:
    """Gemm: (M, N)."""
    return (TensorType(facts.dtype(0), _gemm(facts, facts.shape(0), facts.shape(1))),)


def quantized_gemm(facts: Facts) -> tuple[TensorType, ...]:
    """QGemm: (A, scale, zero point, B, scale, zero point, C, y_scale, y_zero_point); float without a y_scale."""
    dtype = facts.dtype(8) if facts.has(8) else DType.FLOAT32
    return (TensorType(dtype, _gemm(facts, facts.shape(0), facts.shape(3))),)


def matmul_of_blocks(facts: Facts) -> tuple[TensorType, ...]:
    """MatMulNBits: (A, packed weights, ...), of N columns."""
    a = facts.shape(0)
    return (TensorType(facts.dtype(0), None if a is None else (*a[:-1], facts.integer("N", 0))),)


def _gemm(facts: Facts, a: Shape | None, b: Shape | None) -> Shape | None:
    if a is None or b is None or len(a) != 2 or len(b) != 2:
        return None
    a = a[::-1] if facts.integer("transA", 0) else a
    b = b[::-1] if facts.integer("transB", 0) else b
    return (a[0], b[1])


def _product(a: Shape | None, b: Shape | None) -> Shape | None:
    if a is None or b is None or not a or not b:
        return None
    rows: Shape = a[-2:-1]
    columns: Shape = b[-1:] if len(b) > 1 else ()
    batch = broadcast(a[:-2], b[:-2])
    return None if batch is None else (*batch, *rows, *columns)
