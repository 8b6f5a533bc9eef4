"""Reductions along axes: sums, means, largest and smallest elements, norms."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Literal

import numpy as np

from qcgen import arithmetic
from qcgen.ir.graph import Node
from qcgen.ir.program import (
    ArgMax,
    Dequantize,
    GatherElements,
    GlobalAveragePool,
    Operator,
    Reduce,
    Requantize,
    Reshape,
    Tensor,
    TopK,
)
from qcgen.ir.types import DType, Layout
from qcgen.lower.source import Q8, Source, quantization_of

ReduceKind = Literal["sum", "mean", "max", "min", "l2"]

_KINDS: dict[str, ReduceKind] = {
    "ReduceL2": "l2",
    "ReduceMax": "max",
    "ReduceMean": "mean",
    "ReduceMin": "min",
    "ReduceSum": "sum",
}


MAX_CODES = 2**22
"""The most codes that are summed: 255 times as much, and what their output step adds, fit int32."""


def lower_reduce(source: Source) -> tuple[Operator, ...]:
    """ReduceMax, ReduceMin, ReduceSum and ReduceMean of codes or float32 numbers; ReduceL2 of float32 numbers."""
    x, y, kind = source.tensor(0), source.result(), _KINDS[source.node.op_type]
    named = source.integers(1, "axes")
    if not named and source.integer("noop_with_empty_axes", 0):
        return (Reshape(*source.called, x, y),)
    axes = reduced_axes(named, len(x.shape))
    codes = (source.codes(0, *Q8), source.quantized(*Q8)) if kind in ("sum", "mean") else (None, None)
    return (_of_codes(source.node, *codes, kind, axes) or Reduce(*source.called, x, y, kind, axes, None),)


def _of_codes(
    node: Node, x: Tensor | None, y: Tensor | None, kind: ReduceKind, axes: tuple[int, ...]
) -> Operator | None:
    """A sum or mean of codes, if sums and scale are in range; of whole images where it is one: that is faster."""
    if x is None or y is None:
        return None
    x_by, y_by, count = quantization_of(x), quantization_of(y), prod(x.shape[axis] for axis in axes)
    scale = arithmetic.sum_scale(x_by.scale, y_by.scale, count if kind == "mean" else 1)
    if count > MAX_CODES or not np.isfinite(scale):
        return None
    requantize = Requantize(np.array([scale], np.float32), y_by.zero_point, y.dtype.low, y.dtype.high)
    rank = len(x.shape)
    layout = image_layout(axes, rank) if kind == "mean" else None
    if layout is None:
        return Reduce(node.name, node.op_type, x, y, kind, axes, requantize)
    x, y = replace(x, layout=layout), replace(y, layout=layout if len(y.shape) == rank else None)
    channel_axis = 1 if layout is Layout.CHANNELS_FIRST else rank - 1
    return GlobalAveragePool(node.name, node.op_type, x, y, channel_axis, count, requantize)


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


def lower_arg_max(source: Source) -> tuple[Operator, ...]:
    """ArgMax and ArgMin of codes or float32 numbers, int64."""
    x, y = _compared(source), source.result()
    kind: Literal["max", "min"] = "max" if source.node.op_type == "ArgMax" else "min"
    axis, takes_last = source.integer("axis", 0) % len(x.shape), source.integer("select_last_index", 0) != 0
    return (ArgMax(*source.called, x, y, kind, axis, takes_last),)


def lower_top_k(source: Source) -> tuple[Operator, ...]:
    """TopK of codes or float32 numbers: where they are, int64, and what is there.

    Behind DequantizeLinear the codes are compared, and only those that are found become numbers.
    """
    x, [values, places] = _compared(source), (*source.node.outputs, "")[:2]
    axis, shape = source.integer("axis", -1) % len(x.shape), list(x.shape)
    shape[axis] = int(source.number(1)) if source.has(1) else source.integer("k", 0)
    found = source.result(index=1) if places else source.inner("places", DType.INT64, tuple(shape))
    top = TopK(*source.called, x, found, axis, source.integer("largest", 1) != 0)
    if not values:
        return (top,)
    if x.name == source.node.inputs[0]:
        return top, GatherElements(*source.called, x, found, source.result(), axis)
    taken = replace(x, name=source.inner("codes", x.dtype, tuple(shape)).name, shape=tuple(shape))
    gather = GatherElements(*source.called, x, found, taken, axis)
    return top, gather, Dequantize(*source.called, taken, source.result())


def _compared(source: Source) -> Tensor:
    """The first input, or its codes where larger ones are larger numbers: they are not where both are infinite."""
    codes = source.codes(0, *Q8)
    if codes is None:
        return source.tensor(0)
    by = quantization_of(codes)
    with np.errstate(over="ignore"):
        numbers = arithmetic.dequantize(np.arange(codes.dtype.low, codes.dtype.high + 1), by.scale, by.zero_point)
    return codes if (numbers[1:] > numbers[:-1]).all() else source.tensor(0)
