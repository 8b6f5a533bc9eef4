"""Who makes and who reads each tensor of a graph, with the changes that patterns propose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from qcgen.ir.graph import Graph, Node
from qcgen.ir.types import Array


@dataclass(frozen=True)
class Change:
    """``nodes`` take the place of ``anchor``; the nodes in ``remove`` (the anchor need not be named) go.

    ``constants`` are added; every reader of a tensor that is a key of ``rename`` reads its value instead.
    """

    anchor: Node
    nodes: tuple[Node, ...] = ()
    remove: tuple[Node, ...] = ()
    constants: Mapping[str, Array] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Wiring:
    """A graph with its connections: ``producers`` and ``readers`` by tensor, ``nodes`` by name."""

    graph: Graph
    nodes: Mapping[str, Node]
    producers: Mapping[str, Node]
    readers: Mapping[str, tuple[Node, ...]]

    @classmethod
    def of(cls, graph: Graph) -> Wiring:
        """The connections of a graph."""
        readers: dict[str, tuple[Node, ...]] = {}
        for node in graph.nodes:
            for name in node.inputs:
                readers[name] = (*readers.get(name, ()), node)
        producers = {name: node for node in graph.nodes for name in node.outputs if name}
        return cls(graph, {node.name: node for node in graph.nodes}, producers, readers)

    def constant(self, name: str) -> Array | None:
        """The elements of a tensor, None if they are not known."""
        return self.graph.constants.get(name)

    def only_reader(self, name: str) -> Node | None:
        """The node that reads a tensor if there is exactly one, it does so once, and the caller does not."""
        readers = self.readers.get(name, ())
        return readers[0] if len(readers) == 1 and name not in self.graph.outputs else None

    def fresh(self, base: str) -> str:
        """A name that neither a tensor nor a node has; it starts with ``base``."""
        name, number = base, 1
        while self._is_taken(name):
            number += 1
            name = f"{base}_{number}"
        return name

    def _is_taken(self, name: str) -> bool:
        graph = self.graph
        taken = (self.nodes, self.producers, self.readers, graph.constants, graph.values)
        return name in graph.inputs or any(name in names for names in taken)


Pattern = Callable[[Wiring, Node], Change | None]
"""From a node to the change that a pattern around it calls for, None if the pattern is not there."""


def apply(graph: Graph, pattern: Pattern) -> Graph:
    """The graph with every occurrence of a pattern changed, looked for once at each of the nodes."""
    wiring = Wiring.of(graph)
    for name in [node.name for node in graph.nodes]:
        node = wiring.nodes.get(name)
        change = None if node is None else _change(wiring, node, pattern)
        if change is not None:
            wiring = Wiring.of(_changed(wiring.graph, change))
    return wiring.graph


def _change(wiring: Wiring, node: Node, pattern: Pattern) -> Change | None:
    """Patterns are written for well-formed nodes. A malformed one stays where it is, and check reports it."""
    try:
        return pattern(wiring, node)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None


def _changed(graph: Graph, change: Change) -> Graph:
    gone = {node.name for node in change.remove}
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.name == change.anchor.name:
            nodes += change.nodes
        elif node.name not in gone:
            nodes.append(node)
    if change.rename:
        nodes = [replace(node, inputs=tuple(change.rename.get(x, x) for x in node.inputs)) for node in nodes]
    return replace(graph, nodes=tuple(nodes), constants={**graph.constants, **change.constants})


def without_unused(graph: Graph) -> Graph:
    """The graph without the nodes on which no output depends."""
    wanted, nodes = set(graph.outputs), []
    for node in reversed(graph.nodes):
        if wanted.intersection(node.outputs):
            nodes.append(node)
            wanted.update(node.inputs)
    return replace(graph, nodes=tuple(reversed(nodes)))
