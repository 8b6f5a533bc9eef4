"""Normalizations over the last axes become such over the last one."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from qcgen.ir.graph import Graph, Node
from qcgen.ir.program import Float32s, InstanceNorm, LayerNorm, Operator, Reshape, Tensor
from qcgen.ir.types import Layout
from qcgen.lower.source import Q8, Source

FEWEST, MOST = 8, 2**20 - 1
"""How many elements rows of codes have: onnxruntime computes shorter ones in another order."""

LARGEST = 2.0**30
"""Of codes, scales and epsilon lie between this and its reciprocal: then nothing leaves the normal float32 numbers."""


def lower_layer_norm(source: Source) -> tuple[Operator, ...]:
    """LayerNormalization of float32 numbers or of codes: (X, Scale, B)."""
    x, y, axis = source.codes(0, *Q8), source.quantized(*Q8), source.integer("axis", -1)
    if x is not None and prod(x.shape[axis:]) >= FEWEST and _are_emulated(source, (x, y), x.shape[axis:]):
        return _of_rows(source, x, y or source.result())
    found = _of_rows(source, source.tensor(0), source.result())
    is_joined = _is_joined(source.node, source.graph)
    return tuple(replace(op, is_one_by_one=is_joined) if isinstance(op, LayerNorm) else op for op in found)


def _are_emulated(source: Source, codes: tuple[Tensor | None, ...], row: tuple[int, ...]) -> bool:
    """Whether normalizations of codes keep to the float32 arithmetic whose emulation has been checked."""
    epsilon = source.real("epsilon", 1e-5)
    sizes = [epsilon, *(tensor.scale for tensor in codes if tensor is not None and tensor.scale is not None)]
    numbers = [source.array(index) for index in (1, 2) if source.has(index)]
    is_in_range = all(1 / LARGEST <= size <= LARGEST for size in sizes)
    return is_in_range and prod(row) <= MOST and all(np.abs(each).max(initial=0) <= LARGEST for each in numbers)


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


def _of_rows(source: Source, x: Tensor, y: Tensor) -> tuple[Operator, ...]:
    """Rows over several axes as rows over one."""
    node, axis = source.node, source.integer("axis", -1) % len(x.shape)
    row = x.shape[axis:]
    scale = _spread(source, 1, row)
    bias = _spread(source, 2, row) if source.has(2) else None
    epsilon = source.real("epsilon", 1e-5)
    if len(row) == 1:
        return (LayerNorm(node.name, node.op_type, x, y, scale, bias, epsilon),)
    shape = (prod(x.shape[:axis]), prod(row))
    rows, result = source.reshaped("rows", x, shape), source.reshaped("normal", y, shape)
    return (
        Reshape(node.name, node.op_type, x, rows),
        LayerNorm(node.name, node.op_type, rows, result, scale, bias, epsilon),
        Reshape(node.name, node.op_type, result, y),
    )


def lower_instance_norm(source: Source) -> tuple[Operator, ...]:
    """InstanceNormalization of float32 numbers or of codes: (input, scale, B)."""
    x, y = source.codes(0, *Q8), source.quantized(*Q8)
    if x is None or y is None or not _are_emulated(source, (x, y), x.shape[2:]):
        x, y = source.tensor(0), source.result()
    x, y = (replace(tensor, layout=Layout.CHANNELS_FIRST) for tensor in (x, y))
    scale, bias = (source.array(index).astype(np.float32).reshape(-1) for index in (1, 2))
    return (InstanceNorm(*source.called, x, y, scale, bias, source.real("epsilon", 1e-5)),)


def _spread(source: Source, index: int, row: tuple[int, ...]) -> Float32s:
    """A constant with an element for each of a row."""
    return np.array(np.broadcast_to(source.array(index), row), np.float32).reshape(-1)
