"""If nodes whose branches lie in the graph around them: one is taken now, or both are computed and one is chosen."""

from __future__ import annotations

from dataclasses import replace

from qcgen.ir.graph import Graph, Node
from qcgen.ir.types import DType
from qcgen.rewrite.wiring import Change, Wiring, apply


def choose_branches(graph: Graph) -> Graph:
    """The graph without If nodes whose condition is constant, and with Where nodes for those that give float32 numbers.

    Branches only compute, so what an If gives, Where gives, too. That both are computed is noted.
    """
    changed = apply(graph, _choose)
    left = {node.name for node in changed.nodes if node.op_type == "If"}
    gone = [node for node in graph.nodes if node.op_type == "If" and node.name not in left]
    notes = (
        f"node {node.name!r} (If): both branches are computed, then one is chosen"
        for node in gone
        if node.input(0) not in graph.constants
    )
    return replace(changed, notes=(*graph.notes, *notes)) if gone else graph


def _choose(wiring: Wiring, node: Node) -> Change | None:
    count = len(node.outputs)
    if (node.domain, node.op_type) != ("", "If") or len(node.inputs) != 1 + 2 * count:
        return None
    branches = node.inputs[1 : 1 + count], node.inputs[1 + count :]
    condition = wiring.constant(node.inputs[0])
    inputs: list[tuple[str, ...]]
    if condition is not None and condition.size == 1:
        op_type, inputs = "Identity", [(name,) for name in branches[0 if condition.reshape(-1)[0] else 1]]
    elif all(_can_be_chosen(wiring, node.inputs[0], *pair) for pair in zip(*branches, strict=True)):
        op_type, inputs = "Where", [(node.inputs[0], *pair) for pair in zip(*branches, strict=True)]
    else:
        return None
    names = [node.name, *(wiring.fresh(f"{node.name}_{number}") for number in range(1, count))]
    nodes = (
        Node(name, op_type, "", reads, (output,), {})
        for name, output, reads in zip(names, node.outputs, inputs, strict=True)
        if output
    )
    return Change(node, tuple(nodes))


def _can_be_chosen(wiring: Wiring, condition: str, one: str, other: str) -> bool:
    """Whether two float32 tensors have one shape, which the condition leaves as it is."""
    shapes = [_shape(wiring, name) for name in (condition, one, other)]
    types = {wiring.graph.dtype(name) for name in (one, other)}
    is_known = types == {DType.FLOAT32} and shapes[1] is not None and shapes[1] == shapes[2]
    return is_known and shapes[0] in ((), (1,)[: len(shapes[1] or ())])


def _shape(wiring: Wiring, name: str) -> tuple[int, ...] | None:
    constant = wiring.constant(name)
    return wiring.graph.value(name).fixed_shape if constant is None else constant.shape
