"""A graph restricted to one of its nodes."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches

from qcgen.convolutions import spelling_of
from qcgen.errors import ModelRejected, Problem
from qcgen.ir.graph import Graph


def select_node(graph: Graph, name: str) -> Graph:
    """The graph of one node: its inputs that are not constant are the graph's inputs, its outputs the graph's.

    ``graph`` is inferred, so that the new inputs have types and shapes. A name that no node has raises ModelRejected.
    """
    node = next((node for node in graph.nodes if node.name == name), None)
    if node is None:
        what = "the model has no node of this name"
        raise ModelRejected([Problem(f"node {name!r}", what, _suggestions(graph, name))])
    used = {*node.inputs, *node.outputs} - {""}
    return replace(
        graph,
        nodes=(node,),
        inputs=tuple(name for name in dict.fromkeys(node.inputs) if name and name not in graph.constants),
        outputs=tuple(filter(None, node.outputs)),
        values={name: value for name, value in graph.values.items() if name in used},
        constants={name: array for name, array in graph.constants.items() if name in used},
    )


def _suggestions(graph: Graph, name: str) -> str:
    names = [node.name for node in graph.nodes]
    close = get_close_matches(name, names, n=3)
    convolutions = [repr(node.name) for node in graph.nodes if spelling_of(node) is not None]
    parts = [f"did you mean {' or '.join(map(repr, close))}?"] if close else []
    more = f" and {len(convolutions) - 3} more" if len(convolutions) > 3 else ""
    named = f"the model's convolutions are {', '.join(convolutions[:3])}{more}"
    parts += [named if convolutions else "it has no convolutions"]
    return " ".join(parts)
