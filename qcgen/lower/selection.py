"""Operators that choose or repeat elements along axes, at places that are known when the model is compiled."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from qcgen.ir.graph import Node
from qcgen.ir.program import Embedding, GatherElements, Operator, Reshape, Resize, Slice, Tensor
from qcgen.lower.source import Source


def lower_gather(source: Source) -> tuple[Operator, ...]:
    """Gather along any axis with constant indices, of codes or floats; rows of a constant table at computed ones."""
    if not source.is_constant(1):
        return (Embedding(*source.called, source.tensor(1), source.result(), source.array(0)),)
    x, y = source.tensor(0), source.result()
    axis = source.integer("axis", 0) % len(x.shape)
    indices = source.array(1).astype(np.int64)
    places = tuple(int(place) for place in indices.reshape(-1) % x.shape[axis])
    if indices.ndim == 1:
        return (_taken(source.node, x, y, axis, places),)
    shape = (*x.shape[:axis], len(places), *x.shape[axis + 1 :])
    inner = source.inner("taken", x.dtype, shape)
    return _taken(source.node, x, inner, axis, places), Reshape(*source.called, inner, y)


def _taken(node: Node, x: Tensor, y: Tensor, axis: int, places: tuple[int, ...]) -> Operator:
    """The elements at these places of an axis: a Slice where they are one step apart."""
    rank = len(x.shape)
    step = places[1] - places[0] if len(places) > 1 else 1
    if step and all(later - earlier == step for earlier, later in pairwise(places)):
        starts = tuple(places[0] if index == axis else 0 for index in range(rank))
        steps = tuple(step if index == axis else 1 for index in range(rank))
        return Slice(node.name, node.op_type, x, y, starts, steps)
    all_places = tuple(places if index == axis else tuple(range(size)) for index, size in enumerate(x.shape))
    return Resize(node.name, node.op_type, x, y, all_places)


def lower_gather_elements(source: Source) -> tuple[Operator, ...]:
    """GatherElements of codes or floats, at computed places or at constant ones."""
    x, places = source.tensor(0), source.tensor(1)
    axis = source.integer("axis", 0) % len(x.shape)
    return (GatherElements(*source.called, x, places, source.result(), axis),)


def lower_expand(source: Source) -> tuple[Operator, ...]:
    """Expand to a constant shape, of codes or floats."""
    return _repeated(source)


def lower_tile(source: Source) -> tuple[Operator, ...]:
    """Tile with constant repeats, of codes or floats."""
    return _repeated(source)


def _repeated(source: Source) -> tuple[Operator, ...]:
    """x again and again along every axis on which y is longer."""
    node, x, y = source.node, source.tensor(0), source.result()
    shape = (1,) * (len(y.shape) - len(x.shape)) + x.shape
    places = tuple(tuple(at % size for at in range(length)) for size, length in zip(shape, y.shape, strict=True))
    if shape == x.shape:
        return (Resize(node.name, node.op_type, x, y, places),)
    inner = source.inner("of_more_axes", x.dtype, shape)
    return Reshape(node.name, node.op_type, x, inner), Resize(node.name, node.op_type, inner, y, places)
