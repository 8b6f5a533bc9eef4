"""Float operators that work element by element, as functions of numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from qcgen.ir.graph import Node
from qcgen.ir.types import Array
from qcgen.rewrite.clamps import clamp_of
from qcgen.rewrite.wiring import Wiring

Wide = Callable[[Array], Array]


def _leaky_relu(node: Node) -> Wide:
    alpha = _number(node, "alpha", 0.01)
    return lambda x: np.where(x >= 0, x, x * alpha)


def _elu(node: Node) -> Wide:
    alpha = _number(node, "alpha", 1.0)
    return lambda x: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0)))


def _hard_sigmoid(node: Node) -> Wide:
    alpha, beta = _number(node, "alpha", 0.2), _number(node, "beta", 0.5)
    return lambda x: np.clip(alpha * x + beta, 0.0, 1.0)


def _number(node: Node, name: str, default: float) -> float:
    """An attribute as the float32 that the model holds."""
    value = node.attributes.get(name, default)
    if not isinstance(value, int | float):
        raise TypeError(f"{name} is no number")
    return float(np.float32(value))


UNARY: Mapping[str, Callable[[Node], Wide]] = {
    "Abs": lambda _: np.abs,
    "Elu": _elu,
    "Exp": lambda _: np.exp,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": lambda _: lambda x: x * np.clip(x / 6.0 + 0.5, 0.0, 1.0),
    "LeakyRelu": _leaky_relu,
    "Neg": lambda _: np.negative,
    "Sigmoid": lambda _: lambda x: 1.0 / (1.0 + np.exp(-x)),
    "Softplus": lambda _: lambda x: np.logaddexp(x, 0.0),
    "Tanh": lambda _: np.tanh,
}
"""Operators of one input, computed in float64 and then rounded to float32."""

BINARY: Mapping[str, Callable[[Array, Array], Array]] = {
    "Add": np.add,
    "Div": np.divide,
    "Mul": np.multiply,
    "Sub": np.subtract,
}
"""Operators of two inputs, computed in float32."""


def arguments(wiring: Wiring, node: Node) -> tuple[str, ...] | None:
    """The inputs that an operator in these tables combines element by element; None for other operators."""
    if node.domain or len(node.outputs) != 1:
        return None
    if clamp_of(wiring, node) is not None:
        return node.inputs[:1]
    if node.op_type in UNARY and len(node.inputs) == 1:
        return node.inputs
    return node.inputs if node.op_type in BINARY and len(node.inputs) == 2 else None


def value(wiring: Wiring, node: Node, inputs: tuple[Array, ...]) -> Array:
    """What the operator makes of float32 arguments."""
    clamp = clamp_of(wiring, node)
    with np.errstate(all="ignore"):
        if clamp is not None:
            return clamp.of(inputs[0])
        if node.op_type in UNARY:
            return np.asarray(UNARY[node.op_type](node)(inputs[0].astype(np.float64)).astype(np.float32))
        return np.asarray(BINARY[node.op_type](*inputs), np.float32)
