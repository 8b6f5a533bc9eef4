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
    raised = _raised(wiring, node)
    if raised is None:
        return None
    quotient = wiring.producers[node.input(0)]
    x, product = quotient.input(0), _reader(wiring, raised, "Mul")
    products = None if product is None else _products(wiring, product, x, raised.outputs[0])
    if products is None:
        return None
    inner, last = products
    gelu = Node(last.name, "Gelu", "com.microsoft", (x,), last.outputs, {})
    return Change(last, (gelu,), remove=(quotient, node, raised, inner))


def _raised(wiring: Wiring, node: Node) -> Node | None:
    """The Add of 1 behind an Erf of a quotient by sqrt(2), where nothing else reads what is between."""
    quotient = wiring.producers.get(node.input(0))
    if _key(node) != "Erf" or quotient is None or _key(quotient) != "Div" or _reader(wiring, quotient, "Erf") is None:
        return None
    raised = _reader(wiring, node, "Add")
    if raised is None or not _is(wiring, quotient.input(1), sqrt(2)):
        return None
    return raised if _is(wiring, _other(raised, node.outputs[0]), 1) else None


def _products(wiring: Wiring, product: Node, x: str, raised: str) -> tuple[Node, Node] | None:
    """The two products, first and last, that make x / 2 * raised of x and raised; ``product`` reads raised."""
    other = _other(product, raised)
    inner = product if other == x else wiring.producers.get(other)
    if inner is None or _key(inner) != "Mul" or x not in inner.inputs:
        return None
    last = _reader(wiring, inner, "Mul")
    half = None if last is None else _other(last, product.outputs[0]) if other == x else _other(inner, x)
    return (inner, last) if last is not None and half is not None and _is(wiring, half, 0.5) else None


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
