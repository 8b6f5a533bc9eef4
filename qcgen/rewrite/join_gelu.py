"""x / 2 * (1 + erf(x / sqrt(2))), as exporters write it, is a Gelu: onnxruntime makes one of it, too."""

from __future__ import annotations

from math import sqrt

import numpy as np

from qcgen.ir.graph import Node
from qcgen.rewrite.wiring import Change, Wiring


def join_gelu(wiring: Wiring, node: Node) -> Change | None:
    """Erf of a quotient by sqrt(2), plus 1, times x, times 1/2 in either order of the products.

    A Gelu multiplies by sqrt(1/2) where the chain divides: some numbers differ in their last bit. What onnxruntime
    leaves alone, x * (1/2 * (1 + erf)) and multiplications by sqrt(1/2), stays. Source: GeluFusion, tried with 1.32.0.
    """
    quotient = wiring.producers.get(node.input(0))
    if _key(node) != "Erf" or quotient is None or _key(quotient) != "Div" or not _is(wiring, quotient.input(1), sqrt(2)):
        return None
    x, raised = quotient.input(0), _reader(wiring, node, "Add")
    if raised is None or not _is(wiring, _other(raised, node.outputs[0]), 1) or _reader(wiring, quotient, "Erf") is None:
        return None
    product = _reader(wiring, raised, "Mul")
    if product is None:
        return None
    other = _other(product, raised.outputs[0])
    if other == x:
        half, last = product, _reader(wiring, product, "Mul")
        halved = last is not None and _is(wiring, _other(last, product.outputs[0]), 0.5)
    else:
        found, last = wiring.producers.get(other), product
        half = product if found is None else found
        halved = _key(half) == "Mul" and _reader(wiring, half, "Mul") is not None
        halved = halved and x in half.inputs and _is(wiring, _other(half, x), 0.5)
    if last is None or not halved:
        return None
    gelu = Node(last.name, "Gelu", "com.microsoft", (x,), last.outputs, {})
    removed = {other.name: other for other in (quotient, node, raised, product, half) if other.name != last.name}
    return Change(last, (gelu,), remove=tuple(removed.values()))


def _key(node: Node) -> str:
    """The operator of ai.onnx, "" for those of other domains."""
    return "" if node.domain else node.op_type


def _reader(wiring: Wiring, node: Node, op_type: str) -> Node | None:
    """The node that alone reads another's output, if it is of this operator."""
    reader = wiring.only_reader(node.outputs[0])
    return reader if reader is not None and _key(reader) == op_type else None


def _other(node: Node, name: str) -> str:
    """The other one of two inputs."""
    return node.input(1) if node.input(0) == name else node.input(0)


def _is(wiring: Wiring, name: str, number: float) -> bool:
    """Whether a tensor is this constant number, as nearly as onnxruntime demands it."""
    constant = wiring.constant(name)
    if constant is None or constant.size != 1 or constant.ndim > 1 or constant.dtype != np.float32:
        return False
    return bool(np.isclose(constant.reshape(()), np.float32(number), rtol=1e-5, atol=1e-8))
