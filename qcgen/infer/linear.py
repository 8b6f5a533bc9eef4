"""Shapes of matrix products."""

from __future__ import annotations

from qcgen.infer.facts import Facts, Shape, broadcast


def matmul(facts: Facts) -> Shape | None:
    """Two matrices as in numpy."""
    a, b = facts.known_shape(0), facts.known_shape(1)
    if not a or not b:
        return None
    return (*(broadcast(a[:-2], b[:-2]) or ()), *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def gemm(facts: Facts) -> Shape | None:
    """(M, N) of two matrices, each transposed if its attribute says so."""
    a, b = facts.known_shape(0), facts.known_shape(1)
    if len(a) != 2 or len(b) != 2:
        return None
    return (a[1 if facts.integer("transA", 0) else 0], b[0 if facts.integer("transB", 0) else 1])


def matmul_of_blocks(facts: Facts) -> Shape:
    """MatMulNBits: (A, packed weights, ...), of N columns."""
    return (*facts.known_shape()[:-1], facts.integer("N", 0))
