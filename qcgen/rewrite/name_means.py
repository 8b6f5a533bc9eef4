"""ReduceMean over all pixels is GlobalAveragePool."""

from __future__ import annotations

from dataclasses import replace

from qcgen.infer.facts import integers
from qcgen.ir.graph import Node
from qcgen.rewrite.wiring import Change, Wiring


def name_means(wiring: Wiring, node: Node) -> Change | None:
    """ReduceMean over every axis but the first two; without keepdims a Flatten follows."""
    if (node.domain, node.op_type) != ("", "ReduceMean"):
        return None
    axes, shape = axes_of(wiring, node), wiring.graph.value(node.input(0)).shape
    if axes is None or shape is None or len(shape) < 3:
        return None
    if sorted(axis % len(shape) for axis in axes) != list(range(2, len(shape))):
        return None
    pool = Node(node.name, "GlobalAveragePool", "", node.inputs[:1], node.outputs, {}, in_float=True)
    if node.attributes.get("keepdims", 1):
        return Change(node, (pool,))
    pixels = wiring.fresh(f"{node.outputs[0]}_pixels")
    flatten = Node(wiring.fresh(f"{node.name}_flatten"), "Flatten", "", (pixels,), node.outputs, {"axis": 1})
    return Change(node, (replace(pool, outputs=(pixels,)), flatten))


def axes_of(wiring: Wiring, node: Node) -> tuple[int, ...] | None:
    """The axes, an input in newer opsets; None if they are absent or not constant."""
    given = wiring.constant(node.input(1)) if node.input(1) else node.attributes.get("axes")
    return None if given is None else integers(given)
