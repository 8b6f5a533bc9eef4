"""A graph up to some of its tensors, which become its outputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches

from qcgen.errors import ModelRejected, Problem
from qcgen.ir.graph import Graph, Node


def cut(graph: Graph, outputs: Sequence[str]) -> Graph:
    """The nodes that ``outputs`` depend on, and no other; without ``outputs`` the graph as it is.

    Inputs that nothing reads any more go, too. ModelRejected with every name that no node computes.
    """
    if not outputs:
        return graph
    producers = {name: node for node in graph.nodes for name in node.outputs if name}
    problems = list(_problems(graph, producers.keys(), outputs))
    if problems:
        raise ModelRejected(problems)
    needed: set[str] = set()
    open_ = list(outputs)
    while open_:
        name = open_.pop()
        if name and name not in needed:
            needed.add(name)
            open_ += producers[name].inputs if name in producers else ()
    return replace(
        graph,
        nodes=tuple(node for node in graph.nodes if not needed.isdisjoint(node.outputs)),
        inputs=tuple(name for name in graph.inputs if name in needed),
        outputs=tuple(dict.fromkeys(outputs)),
    )


def _problems(graph: Graph, computed: Collection[str], outputs: Sequence[str]) -> Iterator[Problem]:
    for name in dict.fromkeys(outputs):
        where = f"tensor {name!r}"
        if name in graph.inputs:
            yield Problem(where, "it is to be an output, but is an input", "name a tensor that a node computes")
        elif name not in computed:
            close = " or ".join(repr(each) for each in get_close_matches(name, computed, n=3))
            hint = f"did you mean {close}?" if close else f"the last node computes {_last(graph.nodes)}"
            yield Problem(where, "no node computes a tensor of this name", hint)


def _last(nodes: Sequence[Node]) -> str:
    names = [name for name in nodes[-1].outputs if name] if nodes else []
    return ", ".join(map(repr, names)) or "nothing"
