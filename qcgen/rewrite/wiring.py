"""Who makes and who reads each tensor of a graph, with the changes that patterns propose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from qcgen.infer.facts import integers
from qcgen.ir.graph import Attribute, Graph, Malformed, Node
from qcgen.ir.types import Array

CAST_TO_FLOAT = 1
"""ONNX's number of float."""


class NoMatch(ValueError):
    """Raised by a pattern where the nodes around are others than it is looked for in, or are malformed.

    Then they stay as they are, and check reports what is malformed.
    """


@dataclass(frozen=True)
class Change:
    """``nodes`` take the place of ``anchor``; the nodes in ``remove`` (the anchor need not be named) go.

    ``constants`` are added; every reader of a tensor that is a key of ``rename`` reads its value instead. ``again``
    names nodes at which the pattern can be there now: it is looked for at them before anything else.
    """

    anchor: Node
    nodes: tuple[Node, ...] = ()
    remove: tuple[Node, ...] = ()
    constants: Mapping[str, Array] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)
    again: tuple[str, ...] = ()


class Wiring:
    """A graph with its connections: ``producers`` and ``readers`` by tensor, ``nodes`` by name.

    ``make`` changes it in place: of ``graph``, what holds all along are inputs, outputs, values and constants, but not
    the nodes, which ``changed`` gives in order.
    """

    def __init__(self, graph: Graph) -> None:
        self._constants = dict(graph.constants)
        self._aliases = dict(graph.origin.aliases) if graph.origin else {}
        self.graph = replace(graph, constants=self._constants)
        self.outputs = frozenset(graph.outputs)
        self.nodes: dict[str, Node] = {}
        self.producers: dict[str, Node] = {}
        self.readers: dict[str, tuple[Node, ...]] = {}
        self._inputs = frozenset(graph.inputs)
        # By name: of which node at the start a node has taken the place, and after how many others.
        self._places: dict[str, tuple[int, int]] = {}
        self._count = 0
        for place, node in enumerate(graph.nodes):
            self._add(node, place)
            for name in node.inputs:
                self.readers[name] = (*self.readers.get(name, ()), node)

    def _add(self, node: Node, place: int) -> None:
        self._count += 1
        self._places[node.name] = place, self._count
        self.nodes[node.name] = node
        self.producers.update((name, node) for name in node.outputs if name)

    def _read(self, name: str, readers: Iterable[Node]) -> None:
        """Notes who reads a tensor, in the order of the nodes."""
        self.readers[name] = tuple(sorted(readers, key=self._place))
        if not self.readers[name]:
            del self.readers[name]

    def _place(self, node: Node) -> tuple[int, int]:
        return self._places[node.name]

    def _remove(self, node: Node) -> None:
        for name in dict.fromkeys(node.inputs):
            self._read(name, [other for other in self.readers[name] if other is not node])
        del self.nodes[node.name], self._places[node.name]
        for name in node.outputs:
            if self.producers.get(name) is node:
                del self.producers[name]

    def make(self, change: Change) -> None:
        """Does what a pattern proposes."""
        place, _ = self._places[change.anchor.name]
        for name in dict.fromkeys([change.anchor.name, *(node.name for node in change.remove)]):
            self._remove(self.nodes[name])
        for node in change.nodes:
            self._add(node, place)
            for name in node.inputs:
                self._read(name, [*self.readers.get(name, ()), node])
        self._constants.update(change.constants)
        for old, new in change.rename.items():
            self._aliases.setdefault(new, old)
            for reader in dict.fromkeys(node.name for node in self.readers.get(old, ())):
                self._rename(self.nodes[reader], old, new)

    def _rename(self, node: Node, old: str, new: str) -> None:
        """Lets a node read another tensor, at the same place."""
        renamed = replace(node, inputs=tuple(new if name == old else name for name in node.inputs))
        self.nodes[node.name] = renamed
        for name in dict.fromkeys((*node.inputs, *renamed.inputs)):
            others = [other for other in self.readers.get(name, ()) if other is not node]
            self._read(name, [*others, *[renamed] * renamed.inputs.count(name)])
        self.producers.update((name, renamed) for name in node.outputs if name)

    def changed(self) -> Graph:
        """The graph with all changes."""
        origin = self.graph.origin and replace(self.graph.origin, aliases=self._aliases)
        return replace(self.graph, nodes=tuple(sorted(self.nodes.values(), key=self._place)), origin=origin)

    def constant(self, name: str) -> Array | None:
        """The elements of a tensor, None if they are not known."""
        return self.graph.constants.get(name)

    def floats(self, name: str) -> Array | None:
        """The elements of a tensor if they are known, and float32."""
        found = self.constant(name)
        return found if found is not None and found.dtype == np.float32 else None

    def number(self, name: str) -> float | None:
        """The only element of a tensor, None if it has several, or if they are not known."""
        found = self.constant(name)
        return None if found is None or found.size != 1 else found.reshape(()).item()

    def known(self, name: str) -> Array:
        """The elements of a tensor; NoMatch if they are not known."""
        if name not in self.graph.constants:
            raise NoMatch
        return self.graph.constants[name]

    def integers(self, node: Node, index: int, name: str) -> tuple[int, ...] | None:
        """A list that older opsets have as an attribute and newer ones as an input; None if absent or not constant."""
        if not node.input(index):
            return node.integers(name)
        found = self.constant(node.input(index))
        return None if found is None else integers(found)

    def only_reader(self, name: str) -> Node | None:
        """The node that reads a tensor if there is exactly one, it does so once, and the caller does not.

        Inputs without a name read nothing, also where an output has none.
        """
        readers = self.readers.get(name, ()) if name else ()
        return readers[0] if len(readers) == 1 and name not in self.outputs else None

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
        return name in self._inputs or any(name in names for names in taken)


class Steps:
    """Nodes and constants that take the place of a node, one after the other; NoMatch for one without an output."""

    def __init__(self, wiring: Wiring, node: Node) -> None:
        if not any(node.outputs):
            raise NoMatch
        self._wiring, self._node = wiring, node
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}

    def fresh(self, role: str) -> str:
        """A new name."""
        return self._wiring.fresh(f"{self._node.name}_{role}")

    def constant(self, role: str, value: Array) -> str:
        """A new constant."""
        name = self.fresh(role)
        self.constants[name] = value
        return name

    def step(self, op_type: str, *inputs: str, is_last: bool = False, role: str = "", **attributes: Attribute) -> str:
        """Adds a node; the name of its output, which is the whole's if it is the last one.

        The last one has the name of the whole, too, unless it has a ``role``.
        """
        number = len(self.nodes)
        output = self._node.outputs[0] if is_last else self.fresh(f"{role}_result" if role else f"step_{number}")
        name = self._node.name if is_last and not role else self.fresh(role or f"{op_type.lower()}_{number}")
        written = self._node.operator if name == self._node.name and op_type != self._node.operator else ""
        self.nodes.append(Node(name, op_type, "", inputs, (output,), attributes, written=written))
        return output

    def again(self, op_type: str, *inputs: str, **attributes: Attribute) -> str:
        """Adds a node with the attributes of the one that is replaced, but these."""
        name = self.step(op_type, *inputs)
        self.nodes[-1] = replace(self.nodes[-1], attributes={**self._node.attributes, **attributes})
        return name

    def dequantized(self, role: str, x: str, scale: Array, zero_point: Array, axis: int = 1) -> str:
        """Adds a DequantizeLinear of a tensor."""
        by = self.constant(f"{role}_scale", scale), self.constant(f"{role}_zero_point", zero_point)
        return self.step("DequantizeLinear", x, *by, role=f"{role}_dequantized", axis=axis)

    def units(self, zero_point: Array) -> tuple[str, str]:
        """New constants, the scale 1 and a zero point."""
        return self.constant("unit", np.asarray(1, np.float32)), self.constant("zero_point", zero_point)

    def change(self, remove: Sequence[Node] = ()) -> Change:
        """All of them in the node's place, and instead of those in ``remove``."""
        return Change(self._node, tuple(self.nodes), remove=tuple(remove), constants=self.constants)


Pattern = Callable[[Wiring, Node], Change | None]
"""From a node to the change that a pattern around it calls for, None if the pattern is not there."""


def apply(graph: Graph, *patterns: Pattern) -> Graph:
    """The graph with every occurrence of a pattern changed, of the first of these that is there at all.

    It is looked for once at each of the nodes, and where a change asks for it.
    """
    wiring, is_changed = Wiring(graph), False
    for pattern in patterns:
        names = [node.name for node in reversed(graph.nodes)]
        while names:
            node = wiring.nodes.get(names.pop())
            change = None if node is None else _change(wiring, node, pattern)
            if change is not None:
                wiring.make(change)
                names += change.again
                is_changed = True
        if is_changed:
            return wiring.changed()
    return graph


def _change(wiring: Wiring, node: Node, pattern: Pattern) -> Change | None:
    try:
        return pattern(wiring, node)
    except (NoMatch, Malformed):
        return None


def without_unused(graph: Graph) -> Graph:
    """The graph without the nodes on which no output depends."""
    wanted, nodes = set(graph.outputs), []
    for node in reversed(graph.nodes):
        if wanted.intersection(node.outputs):
            nodes.append(node)
            wanted.update(node.inputs)
    return replace(graph, nodes=tuple(reversed(nodes)))
