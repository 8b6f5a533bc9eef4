"""Nodes that depend on constants alone become constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from qcgen.ir.graph import Graph, Node, Value
from qcgen.ir.types import Array, DType
from qcgen.rewrite import fold_arithmetic, fold_movement
from qcgen.rewrite.operands import Operands
from qcgen.rewrite.sizes import Budget
from qcgen.rewrite.wiring import Wiring

Fold = Callable[[Operands], tuple[Array, ...] | None]
"""From a node's constant inputs to its outputs; None if this form of the operator cannot be folded."""

FOLDS: dict[tuple[str, str], Fold] = {
    ("", "Add"): fold_arithmetic.add,
    ("", "And"): fold_arithmetic.logic,
    ("", "Cast"): fold_arithmetic.cast,
    ("", "Clip"): fold_arithmetic.clip,
    ("", "Concat"): fold_movement.concat,
    ("", "Constant"): fold_movement.constant,
    ("", "ConstantOfShape"): fold_movement.constant_of_shape,
    ("", "DequantizeLinear"): fold_arithmetic.dequantize,
    ("", "Div"): fold_arithmetic.divide,
    ("", "Equal"): fold_arithmetic.compare,
    ("", "Expand"): fold_movement.expand,
    ("", "Flatten"): fold_movement.flatten,
    ("", "Gather"): fold_movement.gather,
    ("", "Greater"): fold_arithmetic.compare,
    ("", "GreaterOrEqual"): fold_arithmetic.compare,
    ("", "Identity"): fold_movement.identity,
    ("", "Less"): fold_arithmetic.compare,
    ("", "LessOrEqual"): fold_arithmetic.compare,
    ("", "Mul"): fold_arithmetic.multiply,
    ("", "Neg"): fold_arithmetic.negate,
    ("", "Not"): fold_arithmetic.logic,
    ("", "Or"): fold_arithmetic.logic,
    ("", "Pad"): fold_movement.pad,
    ("", "QuantizeLinear"): fold_arithmetic.quantize,
    ("", "Range"): fold_movement.range_,
    ("", "Relu"): fold_arithmetic.relu,
    ("", "Reshape"): fold_movement.reshape,
    ("", "Slice"): fold_movement.slice_,
    ("", "Squeeze"): fold_movement.squeeze,
    ("", "Sub"): fold_arithmetic.subtract,
    ("", "Transpose"): fold_movement.transpose,
    ("", "Unsqueeze"): fold_movement.unsqueeze,
    ("", "Where"): fold_arithmetic.where,
    ("", "Xor"): fold_arithmetic.logic,
    ("com.microsoft", "DequantizeLinear"): fold_arithmetic.dequantize,
    ("com.microsoft", "QuantizeLinear"): fold_arithmetic.quantize,
}
"""How the operators that stand in front of weights and parameters are computed, by (domain, op_type)."""


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
        results = _folded(graph, node, constants, folds, budget)
        if results is None:
            nodes.append(node)
            continue
        for name, array in zip(node.outputs, results, strict=False):
            constants[name] = array
            if node.op_type == "DequantizeLinear":
                dequantized[name] = node
            values[name] = Value(name, DType.of(array), tuple(array.shape))
    return replace(graph, nodes=tuple(nodes), constants=constants, values=values, dequantized=dequantized)


def _folded(
    graph: Graph,
    node: Node,
    constants: Mapping[str, Array],
    folds: Mapping[tuple[str, str], Fold],
    budget: Budget,
) -> tuple[Array, ...] | None:
    """The outputs of a node that can be folded, each in an array of its own; None for any other."""
    if (node.domain, node.op_type) == ("", "Shape") and len(node.inputs) == 1:
        results = _shape(graph, node)
    else:
        fold = folds.get((node.domain, node.op_type))
        if fold is None or any(name and name not in constants for name in node.inputs):
            return None
        operands = Operands(node, tuple(constants.get(name) for name in node.inputs))
        try:
            budget.spend(node, operands)
            with np.errstate(all="ignore"):
                results = fold(operands)
        except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError):
            # A malformed node stays where it is, and check reports it.
            return None
    if results is None or len(results) < len(node.outputs) or not all(node.outputs):
        return None
    return tuple(np.array(result) for result in results)


def _shape(graph: Graph, node: Node) -> tuple[Array, ...] | None:
    shape = graph.value(node.inputs[0]).fixed_shape
    start, end = node.attributes.get("start", 0), node.attributes.get("end")
    if shape is None or not isinstance(start, int) or not (end is None or isinstance(end, int)):
        return None
    return (np.array(shape[start:end], np.int64),)


def float_constant(wiring: Wiring, tensor: str) -> Array | None:
    """A float32 constant, or what a DequantizeLinear makes of constant codes; None for anything else."""
    constant, maker = wiring.constant(tensor), wiring.producers.get(tensor)
    if constant is None and maker is not None and maker.op_type == "DequantizeLinear":
        arrays = tuple(wiring.constant(name) if name else None for name in maker.inputs)
        fold = FOLDS.get((maker.domain, maker.op_type))
        if fold is None or any(array is None for array, name in zip(arrays, maker.inputs, strict=True) if name):
            return None
        found = fold(Operands(maker, arrays))
        constant = None if found is None else found[0]
    return constant if constant is not None and constant.dtype == np.float32 else None
