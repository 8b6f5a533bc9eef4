"""Nodes that give their input unchanged vanish."""

from __future__ import annotations

from qcgen.ir.element_types import element_type
from qcgen.ir.graph import Node
from qcgen.rewrite.wiring import Change, Wiring


def remove_identities(wiring: Wiring, node: Node) -> Change | None:
    """Identity, Dropout outside of training, and Cast to the type that the input has, unless they make an output."""
    if node.domain or not node.inputs or not _is_identity(wiring, node):
        return None
    output = node.outputs[0]
    if output in wiring.outputs or any(wiring.readers.get(name) for name in node.outputs[1:]):
        return None
    return Change(node, rename={output: node.input(0)})


def _is_identity(wiring: Wiring, node: Node) -> bool:
    match node.op_type:
        case "Identity":
            return True
        case "Dropout":
            training = wiring.constant(node.input(2))
            return not node.input(2) or (training is not None and not training.any())
        case "Cast":
            to = node.attributes.get("to")
            dtype = wiring.graph.value(node.input(0)).dtype
            return isinstance(to, int) and dtype is not None and element_type(to) is dtype
    return False
