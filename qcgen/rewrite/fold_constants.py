"""Nodes that depend on constants alone become constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from qcgen.infer import types_of, value_of
from qcgen.ir.graph import Graph, Node, Value
from qcgen.ir.types import Array, DType
from qcgen.rewrite.budget import Budget
from qcgen.rewrite.folds import FOLDS, MALFORMED, Fold, Result
from qcgen.rewrite.wiring import Wiring


def fold_constants(graph: Graph, folds: Mapping[tuple[str, str], Fold] = FOLDS, budget: Budget | None = None) -> Graph:
    """The graph without the nodes whose inputs are all constant and whose operator is in ``folds``.

    Shape is folded wherever the shape of its input is known, constant or not. What depends on an input of the model
    is never computed. Raises ModelRejected for results that are too large for the ``budget``, which without one is
    that of a model with the graph's constants.
    """
    budget = budget or Budget.of(graph.constants)
    constants, values, dequantized = dict(graph.constants), dict(graph.values), dict(graph.dequantized)
    nodes = []
    for node in graph.nodes:
        result = _shape(graph, node)
        if result is None:
            result = _computed(node, constants, folds, budget)
        if result is None:
            nodes.append(node)
            continue
        [name] = node.outputs
        constants[name], values[name] = result, value_of(name, result)
        if node.op_type == "DequantizeLinear":
            dequantized[name] = node
    return replace(graph, nodes=tuple(nodes), constants=constants, values=values, dequantized=dequantized)


def _shape(graph: Graph, node: Node) -> Array | None:
    """The output of Shape, None for any other node."""
    if node.op_type != "Shape" or node.domain or (len(node.inputs), len(node.outputs)) != (1, 1):
        return None
    shape = graph.value(node.inputs[0]).fixed_shape
    start, end = node.attributes.get("start", 0), node.attributes.get("end")
    if shape is None or not isinstance(start, int) or not (end is None or isinstance(end, int)):
        return None
    return np.array(shape[start:end], np.int64)


def _computed(
    node: Node, constants: Mapping[str, Array], folds: Mapping[tuple[str, str], Fold], budget: Budget | None = None
) -> Array | None:
    """The only output of a node of constants that can be folded, in an array of its own; None for any other node."""
    fold = folds.get((node.domain, node.op_type))
    if fold is None or len(node.outputs) != 1 or any(name and name not in constants for name in node.inputs):
        return None
    types = types_of(node, {name: value_of(name, constants[name]) for name in node.inputs if name}, constants)
    value = Value(node.outputs[0], *types[0]) if types else None
    if value is None or not value.name or value.dtype is None or value.fixed_shape is None:
        return None
    y, inputs = Result(node, value.dtype, value.fixed_shape), [constants.get(name) for name in node.inputs]
    try:
        if budget:
            width = max((array.itemsize for array in inputs if array is not None), default=0)
            budget.spend(node, max(0, prod(y.shape) * width))
        with np.errstate(all="ignore"):
            result = np.array(fold(y, *inputs))
    except MALFORMED:
        return None
    return result if DType.of(result) is y.dtype and result.shape == y.shape else None


def float_constant(wiring: Wiring, tensor: str) -> Array | None:
    """A float32 constant, or what a DequantizeLinear makes of constant codes; None for anything else."""
    constant, maker = wiring.constant(tensor), wiring.producers.get(tensor)
    if constant is None and maker is not None and maker.op_type == "DequantizeLinear":
        constant = _computed(maker, wiring.graph.constants, FOLDS)
    return constant if constant is not None and constant.dtype == np.float32 else None
