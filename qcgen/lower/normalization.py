"""Normalizations of codes over the last axes become such over the last one."""

from __future__ import annotations

from math import prod

import numpy as np

from qcgen.ir.graph import Graph, Node
from qcgen.ir.program import Float32s, InstanceNorm, LayerNorm, Operator, Reshape
from qcgen.ir.types import Layout
from qcgen.lower.source import Source


def lower_layer_norm(node: Node, graph: Graph) -> tuple[Operator, ...]:
    """qcgen's own LayerNormalization: (x, x_scale, x_zero_point, y_scale, y_zero_point, Scale, B)."""
    source = Source(node, graph)
    x_by, y_by = source.quantization(1, 2), source.quantization(3, 4) if source.has(3) else None
    x, y = source.tensor(0, x_by), source.result(y_by)
    axis = source.integer("axis", -1) % len(x.shape)
    row = x.shape[axis:]
    scale = _spread(source, 5, row)
    bias = _spread(source, 6, row) if source.has(6) else None
    epsilon = source.real("epsilon", 1e-5)
    if len(row) == 1:
        return (LayerNorm(node.name, node.op_type, x, y, scale, bias, epsilon),)
    shape = (prod(x.shape[:axis]), prod(row))
    rows, result = source.inner("rows", x.dtype, shape, x_by), source.inner("normal", y.dtype, shape, y_by)
    return (
        Reshape(node.name, node.op_type, x, rows),
        LayerNorm(node.name, node.op_type, rows, result, scale, bias, epsilon),
        Reshape(node.name, node.op_type, result, y),
    )


def lower_instance_norm(node: Node, graph: Graph) -> tuple[Operator, ...]:
    """qcgen's own InstanceNormalization: inputs as of LayerNormalization."""
    source = Source(node, graph)
    layout = Layout.CHANNELS_FIRST
    x, y = source.tensor(0, source.quantization(1, 2), layout), source.result(source.quantization(3, 4), layout)
    scale, bias = (source.array(index).astype(np.float32).reshape(-1) for index in (5, 6))
    return (InstanceNorm(node.name, node.op_type, x, y, scale, bias, source.real("epsilon", 1e-5)),)


def _spread(source: Source, index: int, row: tuple[int, ...]) -> Float32s:
    """A constant with an element for each of a row."""
    return np.array(np.broadcast_to(source.array(index), row), np.float32).reshape(-1)
