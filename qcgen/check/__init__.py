"""Everything that keeps a model from being compiled, found before anything is compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from qcgen.check.conv import check_conv
from qcgen.check.model import (
    boundary_problems,
    contradictions,
    import_problems,
    unsupported_problems,
)
from qcgen.convolutions import NHWC_DOMAIN
from qcgen.errors import ModelRejected, Problem
from qcgen.ir.graph import Graph, Node

Rule = Callable[[Graph, Node], Iterable[Problem]]
"""From a node to what is wrong with it."""

RULES: dict[tuple[str, str], Rule] = {
    ("", "Conv"): check_conv,
    ("", "ConvInteger"): check_conv,
    ("", "QLinearConv"): check_conv,
    ("com.microsoft", "FusedConv"): check_conv,
    ("com.microsoft", "NhwcFusedConv"): check_conv,
    ("com.microsoft", "QLinearConv"): check_conv,
    (NHWC_DOMAIN, "Conv"): check_conv,
    (NHWC_DOMAIN, "QLinearConv"): check_conv,
}
"""The operators that can be compiled, by (domain, op_type), each with its rules."""


def check(graph: Graph) -> Graph:
    """The graph itself if it can be compiled; otherwise ModelRejected with every problem that was found.

    ``graph`` has been inferred; it may be malformed in any way that ``load`` lets through.
    """
    problems = [
        *boundary_problems(graph),
        *unsupported_problems(graph, RULES),
        *import_problems(graph),
    ]
    for node in graph.nodes:
        rule = RULES.get((node.domain, node.op_type))
        if rule is not None:
            problems += rule(graph, node)
    problems += contradictions(graph)
    if problems:
        raise ModelRejected(dict.fromkeys(problems))
    return graph
