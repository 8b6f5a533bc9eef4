"""The nodes of a model by name and in an order in which they can run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush

from qcgen.errors import Problem
from qcgen.ir.graph import Node

DUPLICATE = "give every tensor a name of its own"


def unique_names(nodes: Sequence[tuple[str, str]]) -> list[str]:
    """A name for every node, given as (name, op_type): its own if it is the first of that name, else with a number.

    Nodes without a name are called by their operator: "Conv_0".
    """
    taken = {name for name, _ in nodes if name}
    used: set[str] = set()
    numbers: dict[str, int] = {}
    names = []
    for name, op_type in nodes:
        if not name or name in used:
            stem = name or op_type
            number = numbers.get(stem, 1 if name else 0)
            while f"{stem}_{number}" in taken:
                number += 1
            numbers[stem] = number + 1
            name = f"{stem}_{number}"
            taken.add(name)
        used.add(name)
        names.append(name)
    return names


def sorted_nodes(nodes: Sequence[Node], known: Collection[str]) -> tuple[Node, ...]:
    """The nodes so that each comes after those that compute its inputs; otherwise their order is kept.

    ``known`` are the tensors that need no node. Nodes whose inputs never become known are left out.
    """
    available = set(known) | {""}
    waiting: dict[str, list[int]] = {}
    missing = []
    for index, node in enumerate(nodes):
        needs = {name for name in node.inputs if name not in available}
        missing.append(len(needs))
        for name in needs:
            waiting.setdefault(name, []).append(index)
    ready = [index for index, count in enumerate(missing) if count == 0]
    heapify(ready)
    order = []
    while ready:
        index = heappop(ready)
        order.append(nodes[index])
        for name in nodes[index].outputs:
            for user in waiting.pop(name, ()):
                missing[user] -= 1
                if missing[user] == 0:
                    heappush(ready, user)
    return tuple(order)


def order_problems(
    nodes: Sequence[Node], inputs: Sequence[str], outputs: Sequence[str], constants: Collection[str]
) -> Iterator[Problem]:
    """Why the nodes cannot run in any order: names given twice, tensors nobody computes, cycles, no output.

    ``inputs`` and ``outputs`` are the declared ones of the model, ``constants`` its initializers.
    """
    yield from _repeated("input", inputs)
    yield from _repeated("output", outputs)
    produced = set(inputs) | set(constants)
    for node in nodes:
        for name in filter(None, node.outputs):
            if name in produced:
                what = f"it computes tensor {name!r}, which is already an input, an initializer or a node's output"
                yield Problem(_where(node), what, DUPLICATE)
            produced.add(name)
    for node in nodes:
        for name in filter(None, dict.fromkeys(node.inputs)):
            if name not in produced:
                what = f"it reads tensor {name!r}, which is not an input, an initializer or a node's output"
                yield Problem(_where(node), what, "export the model again")
    if not outputs:
        yield Problem("model", "it has no output", "declare the tensors that it computes as outputs of the graph")
    for name in outputs:
        if name not in produced:
            yield Problem(f"output {name!r}", "no node computes it", "export the model again")
    yield from _cycle(nodes)


def _repeated(kind: str, names: Iterable[str]) -> Iterator[Problem]:
    for name, count in Counter(names).items():
        if count > 1:
            yield Problem(f"{kind} {name!r}", f"the model declares it {count} times", DUPLICATE)
        if not name:
            yield Problem(kind, f"the model has an {kind} without a name", DUPLICATE)


def _cycle(nodes: Sequence[Node]) -> Iterator[Problem]:
    """One cycle, if there is any: the nodes of it in the order of the data."""
    computed = {name for node in nodes for name in node.outputs if name}
    others = {name for node in nodes for name in node.inputs} - computed
    placed = {node.name for node in sorted_nodes(nodes, others)}
    producers = {name: node for node in nodes if node.name not in placed for name in node.outputs}
    if not producers:
        return
    node = next(iter(producers.values()))
    path: dict[str, Node] = {}
    while node.name not in path:
        path[node.name] = node
        node = next(producers[name] for name in node.inputs if name in producers)
    members = list(path.values())
    ring = members[list(path).index(node.name) :][::-1]
    names = ", ".join(repr(member.name) for member in ring[:3])
    more = f" and {len(ring) - 3} more" if len(ring) > 3 else ""
    yield Problem(
        f"nodes {names}{more}", "each needs the output of the one before it, in a circle", "export the model again"
    )


def _where(node: Node) -> str:
    return f"node {node.name!r} ({node.operator})"
