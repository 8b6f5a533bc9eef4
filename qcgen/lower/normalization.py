"""Normalizations over the last axes become such over the last one."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from qcgen.arithmetic import Quantization
from qcgen.ir.graph import Graph, Node
from qcgen.ir.program import Float32s, InstanceNorm, LayerNorm, Operator, Reshape, Tensor
from qcgen.ir.types import Layout
from qcgen.lower.source import Source


def lower_layer_norm(node: Node, graph: Graph) -> tuple[Operator, ...]:
    """qcgen's own LayerNormalization: (x, x_scale, x_zero_point, y_scale, y_zero_point, Scale, B)."""
    source = Source(node, graph)
    x_by, y_by = source.quantization(1, 2), source.quantization(3, 4) if source.has(3) else None
    return _of_rows(source, 5, x_by, y_by)


def lower_float_layer_norm(node: Node, graph: Graph) -> tuple[Operator, ...]:
    """ai.onnx's LayerNormalization of float32 numbers: (X, Scale, B)."""
    found = _of_rows(Source(node, graph), 1, None, None)
    is_joined = _is_joined(node, graph)
    return tuple(replace(op, is_one_by_one=is_joined) if isinstance(op, LayerNorm) else op for op in found)


def _is_joined(node: Node, graph: Graph) -> bool:
    """Whether onnxruntime joins the normalization to the sum of two tensors (N, rows, length) that it alone reads.

    Source: SkipLayerNormFusion, tried with 1.32.0.
    """
    x = node.input(0)
    maker = next((each for each in graph.nodes if x in each.outputs), None)
    readers = sum(each.inputs.count(x) for each in graph.nodes)
    if maker is None or (maker.domain, maker.op_type) != ("", "Add") or readers > 1 or x in graph.outputs:
        return False
    shape, axis = graph.value(x).fixed_shape, node.attributes.get("axis", -1)
    terms = [graph.value(name).fixed_shape for name in maker.inputs]
    return shape is not None and len(shape) == 3 and axis in (-1, 2) and terms == [shape, shape]


def _of_rows(source: Source, first: int, x_by: Quantization | None, y_by: Quantization | None) -> tuple[Operator, ...]:
    """Rows over several axes as rows over one; ``first`` is the input that holds the scale."""
    node, x, y = source.node, source.tensor(0, x_by), source.result(y_by)
    axis = source.integer("axis", -1) % len(x.shape)
    row = x.shape[axis:]
    scale = _spread(source, first, row)
    bias = _spread(source, first + 1, row) if source.has(first + 1) else None
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
    return _of_channels(source, x, y, 5)


def lower_float_instance_norm(node: Node, graph: Graph) -> tuple[Operator, ...]:
    """ai.onnx's InstanceNormalization of float32 numbers: (input, scale, B)."""
    source = Source(node, graph)
    layout = Layout.CHANNELS_FIRST
    return _of_channels(source, source.tensor(0, layout=layout), source.result(layout=layout), 1)


def _of_channels(source: Source, x: Tensor, y: Tensor, first: int) -> tuple[Operator, ...]:
    scale, bias = (source.array(index).astype(np.float32).reshape(-1) for index in (first, first + 1))
    node = source.node
    return (InstanceNorm(node.name, node.op_type, x, y, scale, bias, source.real("epsilon", 1e-5)),)


def _spread(source: Source, index: int, row: tuple[int, ...]) -> Float32s:
    """A constant with an element for each of a row."""
    return np.array(np.broadcast_to(source.array(index), row), np.float32).reshape(-1)
