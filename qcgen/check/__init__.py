"""Everything that keeps a model from being compiled, found before anything is compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from qcgen.check.conv import check_conv
from qcgen.check.flow import dynamic_nodes, dynamic_problems, float_problems
from qcgen.check.model import (
    boundary_problems,
    contradictions,
    import_problems,
    unsupported_problems,
)
from qcgen.check.node import View, size_problems, spec_problems
from qcgen.check.specs import SPECS
from qcgen.convolutions import CONVOLUTIONS
from qcgen.errors import ModelRejected, Problem
from qcgen.infer import computed_values
from qcgen.ir.graph import Graph, Node, Value

Rule = Callable[[Graph, Node], Iterable[Problem]]
"""From a node to what is wrong with it."""


def check_operator(graph: Graph, node: Node) -> Iterator[Problem]:
    """Everything that is wrong with a node that is no convolution, by its Spec."""
    yield from spec_problems(View(graph, node), SPECS[node.domain, node.op_type])


RULES: dict[tuple[str, str], Rule] = {
    **dict.fromkeys(CONVOLUTIONS, check_conv),
    **dict.fromkeys(SPECS, check_operator),
}
"""The operators that can be compiled, by (domain, op_type), each with its rules."""


def result_problems(view: View, computed: Mapping[str, Value]) -> Iterator[Problem]:
    """Results whose size does not follow from the node's inputs and attributes, whatever the model declares of them.

    Where the size of an input is unknown or wrong, that is said where it is declared or computed.
    """
    sizes = [view.fixed_shape(index) for index, name in enumerate(view.node.inputs) if name]
    if any(size is None or min(size, default=1) < 1 for size in sizes):
        return
    outputs = view.node.outputs if view.node.op_type == "Split" else view.node.outputs[:1]
    for name in filter(None, outputs):
        yield from size_problems(view, computed[name])


def check(graph: Graph) -> Graph:
    """The graph itself if it can be compiled; otherwise ModelRejected with every problem that was found.

    ``graph`` has been inferred; it may be malformed in any way that ``load`` lets through. Of nodes that depend on a
    DynamicQuantizeLinear nothing more is said: static quantization replaces them.
    """
    dynamic, computed = dynamic_nodes(graph), computed_values(graph)
    problems = [
        *boundary_problems(graph),
        *dynamic_problems(graph),
        *unsupported_problems(graph, {*RULES, ("", "DynamicQuantizeLinear")}),
        *import_problems(graph),
    ]
    for node in graph.nodes:
        rule = RULES.get((node.domain, node.op_type))
        if rule is not None and node.name not in dynamic:
            problems += list(rule(graph, node)) or result_problems(View(graph, node), computed)
    problems += float_problems(graph)
    problems += contradictions(graph)
    if problems:
        raise ModelRejected(dict.fromkeys(problems))
    return graph
