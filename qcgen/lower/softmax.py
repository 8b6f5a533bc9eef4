"""Softmax over any axis becomes one over the last."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from qcgen import arithmetic
from qcgen.arithmetic import Quantization
from qcgen.ir.graph import Graph, Node
from qcgen.ir.program import FloatSoftmax, Operator, Reshape, Softmax, Tensor, Transpose
from qcgen.lower.source import Source

Rows = Callable[[Tensor, Tensor], Operator]
"""From x and y to the operator on their last axis."""


def lower_softmax(node: Node, graph: Graph) -> tuple[Operator, ...]:
    """Softmax in float32."""
    return _float_softmax(Source(node, graph), is_log=False)


def lower_log_softmax(node: Node, graph: Graph) -> tuple[Operator, ...]:
    """LogSoftmax in float32."""
    return _float_softmax(Source(node, graph), is_log=True)


def _float_softmax(source: Source, *, is_log: bool) -> tuple[Operator, ...]:
    name, op_type = source.node.name, source.node.op_type
    is_flat = source.node.version < 13
    axis = source.integer("axis", 1 if is_flat else -1)
    return _over_rows(source, None, None, axis, is_flat, lambda x, y: FloatSoftmax(name, op_type, x, y, is_log))


def lower_qlinear_softmax(node: Node, graph: Graph) -> tuple[Operator, ...]:
    """QLinearSoftmax: (X, scale, zero point, y_scale, y_zero_point), attributes axis, -1 if absent, and opset."""
    source = Source(node, graph)
    x_by, y_by = source.quantization(1, 2), source.quantization(3, 4)
    is_flat = source.integer("opset", 13) < 13
    axis = source.integer("axis", -1)

    def rows(x: Tensor, y: Tensor) -> Operator:
        table = arithmetic.softmax_table(x_by.scale, x.shape[-1])
        return Softmax(node.name, node.op_type, x, y, table, arithmetic.softmax_factor(y_by.scale))

    return _over_rows(source, x_by, y_by, axis, is_flat, rows)


def _over_rows(
    source: Source, x_by: Quantization | None, y_by: Quantization | None, axis: int, is_flat: bool, rows: Rows
) -> tuple[Operator, ...]:
    """The operator between what brings the axis to the end and what takes it back.

    Before opset 13 all axes from ``axis`` on are one.
    """
    x, y = source.tensor(0, x_by), source.result(y_by)
    rank = len(x.shape)
    axis %= rank
    shape: tuple[int, ...]
    if axis == rank - 1:
        return (rows(x, y),)
    name, op_type = source.node.name, source.node.op_type
    if is_flat:
        shape = (prod(x.shape[:axis]), prod(x.shape[axis:]))
        inside = source.inner("rows", x.dtype, shape, x_by)
        result = source.inner("softmax", y.dtype, shape, y_by)
        return (Reshape(name, op_type, x, inside), rows(inside, result), Reshape(name, op_type, result, y))
    perm = tuple(rank - 1 if i == axis else axis if i == rank - 1 else i for i in range(rank))
    shape = tuple(x.shape[i] for i in perm)
    inside = source.inner("rows", x.dtype, shape, x_by)
    result = source.inner("softmax", y.dtype, shape, y_by)
    return (Transpose(name, op_type, x, inside, perm), rows(inside, result), Transpose(name, op_type, result, y, perm))
