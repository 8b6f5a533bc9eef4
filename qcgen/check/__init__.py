"""Everything that keeps a model from being compiled, found before anything is compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from qcgen.check.conv import check_conv
from qcgen.check.flow import dynamic_nodes, dynamic_problems, float_problems
from qcgen.check.model import (
    boundary_problems,
    contradictions,
    import_problems,
    unsupported_problems,
)
from qcgen.check.node import View, spec_problems
from qcgen.check.specs import SPECS
from qcgen.convolutions import CONVOLUTIONS
from qcgen.errors import ModelRejected, Problem
from qcgen.ir.graph import Graph, Node

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


def check(graph: Graph) -> Graph:
    """The graph itself if it can be compiled; otherwise ModelRejected with every problem that was found.

    ``graph`` has been inferred; it may be malformed in any way that ``load`` lets through. Of nodes that depend on a
    DynamicQuantizeLinear nothing more is said: static quantization replaces them.
    """
    dynamic = dynamic_nodes(graph)
    problems = [
        *boundary_problems(graph),
        *dynamic_problems(graph),
        *unsupported_problems(graph, {*RULES, ("", "DynamicQuantizeLinear")}),
        *import_problems(graph),
    ]
    for node in graph.nodes:
        rule = RULES.get((node.domain, node.op_type))
        if rule is not None and node.name not in dynamic:
            problems += rule(graph, node)
    problems += float_problems(graph)
    problems += contradictions(graph)
    if problems:
        raise ModelRejected(dict.fromkeys(problems))
    return graph
