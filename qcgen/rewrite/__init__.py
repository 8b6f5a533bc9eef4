"""The model's graph made simpler without a change of meaning: one pattern a module."""

from __future__ import annotations

from qcgen.infer import infer
from qcgen.ir.graph import Graph
from qcgen.rewrite.fold_constants import fold_constants


def rewrite(graph: Graph) -> Graph:
    """The graph with everything computed that does not depend on an input; its types and shapes inferred.

    Folding and inference help each other (the shape of a Reshape may be computed, Shape needs shapes), so they take
    turns until no node is folded.
    """
    while True:
        folded = fold_constants(infer(graph))
        if len(folded.nodes) == len(graph.nodes):
            return folded
        graph = folded
