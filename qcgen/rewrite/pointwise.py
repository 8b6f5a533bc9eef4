"""Float operators that work element by element, as functions of numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from qcgen import functions
from qcgen.ir.graph import Node
from qcgen.ir.types import Array
from qcgen.rewrite.clamps import clamp_of
from qcgen.rewrite.wiring import Wiring

Function = Callable[[Array], Array]


def _number(node: Node, name: str, default: float) -> float:
    """An attribute as the float32 that the model holds."""
    value = node.attributes.get(name, default)
    if not isinstance(value, int | float):
        raise TypeError(f"{name} is no number")
    return float(np.float32(value))


def _elu(node: Node) -> Function:
    alpha = _number(node, "alpha", 1.0)
    return lambda x: functions.elu(x, alpha)


def _hard_sigmoid(node: Node) -> Function:
    alpha, beta = _number(node, "alpha", 0.2), _number(node, "beta", 0.5)
    return lambda x: functions.hard_sigmoid(x, alpha, beta)


def _leaky_relu(node: Node) -> Function:
    alpha = _number(node, "alpha", 0.01)
    return lambda x: functions.leaky_relu(x, alpha)


UNARY: Mapping[str, Callable[[Node], Function]] = {
    "Abs": lambda _: np.abs,
    "Elu": _elu,
    "Exp": lambda _: functions.exponential,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": lambda _: functions.hard_swish,
    "LeakyRelu": _leaky_relu,
    "Neg": lambda _: np.negative,
    "Sigmoid": lambda _: functions.logistic,
    "Softplus": lambda _: functions.softplus,
    "Tanh": lambda _: functions.tanh,
}
"""Operators of one input, in float32."""

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
            return np.asarray(UNARY[node.op_type](node)(inputs[0]), np.float32)
        return np.asarray(BINARY[node.op_type](*inputs), np.float32)
