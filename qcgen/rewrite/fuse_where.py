"""Where with a comparison of float32 numbers is one operator, so that no tensor of truth values is left."""

from __future__ import annotations

from qcgen.infer.select import COMPARISONS, SELECT
from qcgen.ir.graph import Attribute, Node
from qcgen.ir.types import DType
from qcgen.rewrite.wiring import Change, Wiring


def fuse_where(wiring: Wiring, node: Node) -> Change | None:
    """Where(a > b, x, y), or with Not around the comparison, of which others may read, too."""
    if (node.domain, node.op_type) != ("", "Where") or len(node.inputs) != 3:
        return None
    condition, *chosen = node.inputs
    maker, is_negated = wiring.producers.get(condition), False
    if maker is not None and (maker.domain, maker.op_type) == ("", "Not"):
        maker, is_negated = wiring.producers.get(maker.input(0)), True
    if maker is None or maker.domain or maker.op_type not in COMPARISONS or len(maker.inputs) != 2:
        return None
    inputs = (*maker.inputs, *chosen)
    if any(_dtype(wiring, name) not in (DType.FLOAT32, None) for name in inputs):
        return None  # a type that is not known yet, that of another Where, is found once that is changed
    domain, op_type = SELECT
    own: dict[str, Attribute] = {"comparison": COMPARISONS[maker.op_type], "negated": int(is_negated)}
    return Change(node, (Node(node.name, op_type, domain, inputs, node.outputs, own),))


def _dtype(wiring: Wiring, name: str) -> DType | None:
    array = wiring.constant(name)
    return wiring.graph.value(name).dtype if array is None else DType.of(array)
