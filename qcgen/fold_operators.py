"""Operators of constants alone, of which no rewriting knows how, become the results that the reference computes."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from qcgen.check import RULES, check
from qcgen.errors import ModelRejected
from qcgen.infer import infer
from qcgen.ir.graph import Graph, Node, Value
from qcgen.ir.types import Array, DType
from qcgen.lower import lower
from qcgen.parts import select_node
from qcgen.reference import evaluate
from qcgen.rewrite import rewrite
from qcgen.rewrite.fold_constants import Budget

MOST_PRODUCTS = 2**32
"""A node with more elements of its result times elements of its constants is left to whoever made the model."""


def fold_operators(graph: Graph) -> Graph:
    """The graph without supported nodes whose inputs are all constant; ``graph`` is inferred and rewritten, so is this.

    onnxruntime folds them when it loads a model. What cannot be computed stays where it is, and ``check`` reports it.
    """
    while True:
        folded = _folded(graph)
        if folded is graph:
            return graph
        graph = infer(rewrite(infer(folded)))


def _folded(graph: Graph) -> Graph:
    budget = Budget.of(graph.constants)
    for node in graph.nodes:
        result = _result(graph, node, budget)
        if result is not None:
            name = node.outputs[0]
            graph = replace(
                graph,
                nodes=tuple(other for other in graph.nodes if other is not node),
                constants={**graph.constants, name: result},
                values={**graph.values, name: Value.of(name, result)},
            )
    return graph


def _result(graph: Graph, node: Node, budget: Budget) -> Array | None:
    """The output of a node whose inputs are all constant; None if it has several, or cannot or must not be computed."""
    inputs = [name for name in node.inputs if name]
    names = {name for name in node.outputs if name}
    if (node.domain, node.op_type) not in RULES or not inputs or len(names) != 1 or names & set(graph.outputs):
        return None
    if not graph.constants.keys() >= set(inputs) or not _is_affordable(graph, node, budget):
        return None
    [name], x = names, node.inputs[0]
    others = {each: array for each, array in graph.constants.items() if each != x}
    try:
        alone = check(select_node(replace(graph, constants=others), node.name))
        result: Array = evaluate(lower(alone), {x: graph.constants[x]})[name]
    except ModelRejected:
        return None
    return result


def _is_affordable(graph: Graph, node: Node, budget: Budget) -> bool:
    """Whether the result fits the budget of constants, to which it is added, and takes a bearable time."""
    value = graph.value(node.outputs[0])
    if value.fixed_shape is None or value.dtype in (None, DType.OTHER):
        return False
    elements = prod(value.fixed_shape)
    budget.used += 4 * elements
    return (
        budget.used <= budget.most
        and elements * sum(graph.constants[n].size for n in node.inputs if n) <= MOST_PRODUCTS
    )
