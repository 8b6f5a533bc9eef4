"""Softmax over any axis becomes one over the last."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from qcgen import arithmetic
from qcgen.ir.program import FloatSoftmax, Operator, Reshape, Softmax, Tensor, Transpose
from qcgen.lower.codes import narrow_ends, of_type
from qcgen.lower.source import Source, quantization_of

Rows = Callable[[Tensor, Tensor], Operator]
"""From x and y to the operator on their last axis."""


def lower_softmax(source: Source) -> tuple[Operator, ...]:
    """Softmax of codes or float32 numbers, LogSoftmax of float32; before opset 13 all axes from one on are one.

    QLinearSoftmax says in its attribute opset which Softmax is meant.
    """
    is_spelt = source.node.op_type == "QLinearSoftmax"
    is_flat, is_log = source.integer("opset", source.node.version) < 13, source.node.op_type == "LogSoftmax"
    axis = source.integer("axis", 1 if is_flat and not is_spelt else -1)
    ends = None if is_log else narrow_ends(source, 0)
    if ends is not None:
        x, before = of_type(source, ends[0], ends[1].dtype)
        return (*before, *_of_codes(source, x, ends[1], axis, is_flat))
    x, y = source.tensor(0), source.result()
    return _over_rows(source, x, y, axis, is_flat, lambda x, y: FloatSoftmax(*source.called, x, y, is_log))


def _of_codes(source: Source, x: Tensor, y: Tensor, axis: int, is_flat: bool) -> tuple[Operator, ...]:
    def rows(inside: Tensor, result: Tensor) -> Operator:
        table = arithmetic.softmax_table(quantization_of(x).scale, inside.shape[-1])
        factor = arithmetic.softmax_factor(quantization_of(y).scale)
        return Softmax(*source.called, inside, result, table, factor)

    return _over_rows(source, x, y, axis, is_flat, rows)


def _over_rows(source: Source, x: Tensor, y: Tensor, axis: int, is_flat: bool, rows: Rows) -> tuple[Operator, ...]:
    """The operator between what brings the axis to the end and what takes it back.

    Before opset 13 all axes from ``axis`` on are one.
    """
    rank = len(x.shape)
    axis %= rank
    if axis == rank - 1:
        return (rows(x, y),)
    name, op_type = source.called
    if is_flat:
        shape = (prod(x.shape[:axis]), prod(x.shape[axis:]))
        inside, result = source.reshaped("rows", x, shape), source.reshaped("softmax", y, shape)
        return (Reshape(name, op_type, x, inside), rows(inside, result), Reshape(name, op_type, result, y))
    perm = tuple(rank - 1 if i == axis else axis if i == rank - 1 else i for i in range(rank))
    permuted = tuple(x.shape[i] for i in perm)
    inside, result = source.reshaped("rows", x, permuted), source.reshaped("softmax", y, permuted)
    return (Transpose(name, op_type, x, inside, perm), rows(inside, result), Transpose(name, op_type, result, y, perm))
