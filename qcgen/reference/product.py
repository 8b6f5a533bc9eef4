"""Products of two matrices."""

from __future__ import annotations

import numpy as np

from qcgen import arithmetic
from qcgen.ir.program import MatMul, Requantize
from qcgen.ir.types import Array


def evaluate_matmul(op: MatMul, a: Array, b: Array) -> Array:
    """Equation (1) of sums that no int32 overflows, or the sums themselves; sums of floats in float64, then rounded."""
    if op.is_float:
        with np.errstate(all="ignore"):
            return np.asarray(np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.float32))
    sums = np.matmul(a.astype(np.int64) - op.a_zero_point, b.astype(np.int64) - op.b_zero_point)
    if isinstance(op.epilogue, Requantize):
        sums = arithmetic.codes(op.epilogue, sums)
    return np.asarray(sums.astype(op.y.dtype.numpy))
