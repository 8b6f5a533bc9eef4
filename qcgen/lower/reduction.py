"""Reductions along axes: sums, means, largest and smallest elements, norms."""

from __future__ import annotations

from math import prod
from typing import Literal

import numpy as np

from qcgen import arithmetic
from qcgen.ir.graph import Graph, Node
from qcgen.ir.program import ArgMax, GlobalAveragePool, Operator, Reduce, Requantize, Reshape
from qcgen.ir.types import Layout
from qcgen.lower.source import Source

_KINDS: dict[str, Literal["sum", "mean", "max", "min", "l2"]] = {
    "ReduceL2": "l2",
    "ReduceMax": "max",
    "ReduceMean": "mean",
    "ReduceMin": "min",
    "ReduceSum": "sum",
}


def lower_reduce(node: Node, graph: Graph) -> tuple[Operator, ...]:
    """ReduceMax and ReduceMin of codes or float32 numbers, ReduceSum, ReduceMean and ReduceL2 of float32 numbers."""
    source = Source(node, graph)
    x, y = source.tensor(0), source.result()
    named = source.integers(1, "axes")
    if not named and source.integer("noop_with_empty_axes", 0):
        return (Reshape(node.name, node.op_type, x, y),)
    return (_reduction(source, reduced_axes(named, len(x.shape)), None),)


def lower_quantized_reduction(node: Node, graph: Graph) -> tuple[Operator, ...]:
    """qcgen's own ReduceMean and ReduceSum: (x, x_scale, x_zero_point, y_scale, y_zero_point)."""
    source = Source(node, graph)
    x_by, y_by = source.quantization(1, 2), source.quantization(3, 4)
    x, y = source.tensor(0, x_by), source.result(y_by)
    axes = reduced_axes(source.attribute_integers("axes"), len(x.shape))
    count = prod(x.shape[axis] for axis in axes) if node.op_type == "ReduceMean" else 1
    scale = np.array([arithmetic.sum_scale(x_by.scale, y_by.scale, count)], np.float32)
    return (_reduction(source, axes, Requantize(scale, y_by.zero_point, y.dtype.low, y.dtype.high)),)


def _reduction(source: Source, axes: tuple[int, ...], requantize: Requantize | None) -> Operator:
    """A mean of whole images of codes where it is one, because that has faster kernels."""
    by = (source.quantization(1, 2), source.quantization(3, 4)) if requantize else (None, None)
    node, kind = source.node, _KINDS[source.node.op_type]
    rank = len(source.tensor(0).shape)
    layout = image_layout(axes, rank) if kind == "mean" and requantize else None
    x = source.tensor(0, by[0], layout)
    if layout is None:
        return Reduce(node.name, node.op_type, x, source.result(by[1]), kind, axes, requantize)
    y = source.result(by[1], layout if source.integer("keepdims", 1) else None)
    channel_axis = 1 if layout is Layout.CHANNELS_FIRST else rank - 1
    pixels = prod(x.shape[axis] for axis in axes)
    return GlobalAveragePool(node.name, node.op_type, x, y, channel_axis, pixels, requantize)


def image_layout(axes: tuple[int, ...], rank: int) -> Layout | None:
    """The layout in which these axes of an image are the spatial ones, None if there is none."""
    if rank < 3:
        return None
    if axes == tuple(range(2, rank)):
        return Layout.CHANNELS_FIRST
    return Layout.CHANNELS_LAST if axes == tuple(range(1, rank - 1)) else None


def reduced_axes(named: tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    """The axes from 0 on, ascending; all of them if none is named."""
    return tuple(sorted(axis % rank for axis in named)) if named else tuple(range(rank))


def lower_arg_max(node: Node, graph: Graph) -> tuple[Operator, ...]:
    """ArgMax and ArgMin of codes or float32 numbers, int64."""
    source = Source(node, graph)
    x, y = source.tensor(0), source.result()
    kind: Literal["max", "min"] = "max" if node.op_type == "ArgMax" else "min"
    axis, takes_last = source.integer("axis", 0) % len(x.shape), source.integer("select_last_index", 0) != 0
    return (ArgMax(node.name, node.op_type, x, y, kind, axis, takes_last),)
