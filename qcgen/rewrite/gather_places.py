"""GatherND at constant places is Gather along one axis."""

from __future__ import annotations

import numpy as np

from qcgen.ir.graph import Node
from qcgen.rewrite.wiring import Change, Wiring


def gather_places(wiring: Wiring, node: Node) -> Change | None:
    """The axes that the places name become one, along which their numbers are taken; without batch_dims."""
    if (node.domain, node.op_type) != ("", "GatherND") or node.attributes.get("batch_dims", 0):
        return None
    places, shape = wiring.constant(node.input(1)), wiring.graph.value(node.input(0)).fixed_shape
    if places is None or shape is None or places.ndim < 1 or not 1 <= places.shape[-1] <= len(shape):
        return None
    axes = places.shape[-1]
    sizes = np.array(shape[:axes])
    if places.size == 0 or (places < -sizes).any() or (places >= sizes).any():
        return None
    numbers = np.ravel_multi_index(tuple(np.moveaxis(places % sizes, -1, 0)), shape[:axes])
    names = [wiring.fresh(f"{node.name}_{role}") for role in ("joined", "shape", "numbers", "reshape")]
    joined, to, which, reshape = names
    constants = {to: np.array([-1, *shape[axes:]], np.int64), which: np.asarray(numbers, np.int64)}
    nodes = (
        Node(reshape, "Reshape", "", (node.inputs[0], to), (joined,), {}),
        Node(node.name, "Gather", "", (joined, which), node.outputs, {"axis": 0}),
    )
    return Change(node, nodes, constants=constants)
