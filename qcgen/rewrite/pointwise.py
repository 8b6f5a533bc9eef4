"""Float operators that work element by element, as functions of numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

import numpy as np

from qcgen import functions
from qcgen.ir.graph import Node
from qcgen.ir.types import Array
from qcgen.rewrite.clamps import clamp_of
from qcgen.rewrite.wiring import NoMatch, Wiring

Function = Callable[[Array], Array]


def _number(node: Node, name: str, default: float) -> float:
    """An attribute as the float32 that the model holds."""
    value = node.attributes.get(name, default)
    if not isinstance(value, int | float):
        raise NoMatch
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


def _prelu(x: Array, slope: Array) -> Array:
    return np.asarray(np.where(x < 0, slope * x, x))


def _where(condition: Array, x: Array, y: Array) -> Array:
    """onnxruntime's Where: -0 of x becomes 0, that of y stays."""
    return np.asarray(np.where(condition != 0, x + np.float32(0), y))


def _selu(node: Node) -> Function:
    alpha = _number(node, "alpha", 1.67326319217681884765625)
    gamma = _number(node, "gamma", 1.05070102214813232421875)
    return lambda x: functions.selu(x, alpha, gamma)


def _celu(node: Node) -> Function:
    alpha = _number(node, "alpha", 1.0)
    return lambda x: functions.celu(x, alpha)


def _shrink(node: Node) -> Function:
    bias, lambd = np.float32(_number(node, "bias", 0.0)), np.float32(_number(node, "lambd", 0.5))
    return lambda x: np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, np.float32(0)))


def _thresholded_relu(node: Node) -> Function:
    alpha = np.float32(_number(node, "alpha", 1.0))
    return lambda x: np.where(x > alpha, x, np.float32(0))


def _gelu(node: Node) -> Function:
    approximation = node.attributes.get("approximate", "none")
    if approximation not in ("none", "tanh"):
        raise NoMatch
    return functions.gelu_tanh if approximation == "tanh" else functions.gelu


def _quick_gelu(node: Node) -> Function:
    alpha = np.float32(_number(node, "alpha", 1.702))
    return lambda x: x * functions.logistic(x * alpha)


UNARY: Mapping[tuple[str, str], Callable[[Node], Function]] = {
    ("", "Abs"): lambda _: np.abs,
    ("", "Ceil"): lambda _: np.ceil,
    ("", "Celu"): _celu,
    ("", "Cos"): lambda _: functions.cosine,
    ("", "Elu"): _elu,
    ("", "Erf"): lambda _: functions.erf,
    ("", "Exp"): lambda _: functions.exponential,
    ("", "Floor"): lambda _: np.floor,
    ("", "Gelu"): _gelu,
    ("", "HardSigmoid"): _hard_sigmoid,
    ("", "HardSwish"): lambda _: functions.hard_swish,
    ("", "LeakyRelu"): _leaky_relu,
    ("", "Log"): lambda _: functions.logarithm,
    ("", "Mish"): lambda _: lambda x: x * functions.tanh(functions.softplus(x)),
    ("", "Neg"): lambda _: np.negative,
    ("", "Reciprocal"): lambda _: lambda x: np.float32(1) / x,
    ("", "Round"): lambda _: np.rint,
    ("", "Selu"): _selu,
    ("", "Sigmoid"): lambda _: functions.logistic,
    ("", "Shrink"): _shrink,
    ("", "Sign"): lambda _: np.sign,
    ("", "Sin"): lambda _: functions.sine,
    ("", "Softplus"): lambda _: functions.softplus,
    ("", "Softsign"): lambda _: functions.softsign,
    ("", "Sqrt"): lambda _: np.sqrt,
    ("", "Tanh"): lambda _: functions.tanh,
    ("", "ThresholdedRelu"): _thresholded_relu,
    ("com.microsoft", "Gelu"): lambda _: functions.gelu,
    ("com.microsoft", "QuickGelu"): _quick_gelu,
}
"""Operators of one input, in float32, by (domain, op_type)."""

BINARY: Mapping[tuple[str, str], Callable[[Array, Array], Array]] = {
    ("", "Add"): np.add,
    ("", "Div"): np.divide,
    ("", "Mul"): np.multiply,
    ("", "Pow"): functions.power,
    ("", "PRelu"): _prelu,
    ("", "Sub"): np.subtract,
}
"""Operators of two inputs, computed in float32."""

CONDITIONS: Mapping[tuple[str, str], Callable[..., Array]] = {
    ("", "And"): np.logical_and,
    ("", "Equal"): np.equal,
    ("", "Greater"): np.greater,
    ("", "GreaterOrEqual"): np.greater_equal,
    ("", "Less"): np.less,
    ("", "LessOrEqual"): np.less_equal,
    ("", "Not"): np.logical_not,
    ("", "Or"): np.logical_or,
    ("", "Where"): _where,
}
"""Comparisons, whose results are 1 or 0, and what reads these."""

FOLDED: Mapping[tuple[str, str], Callable[[Array, Array], Array]] = {
    ("", "Max"): np.maximum,
    ("", "Min"): np.minimum,
}
"""Operators of any number of inputs, two at a time, in float32."""


def arguments(wiring: Wiring, node: Node) -> tuple[str, ...] | None:
    """The inputs that an operator in these tables combines element by element; None for other operators."""
    key = (node.domain, node.op_type)
    if len(node.outputs) != 1:
        return None
    if clamp_of(wiring, node) is not None:
        return node.inputs[:1]
    counts = {1} if key in UNARY else {2} if key in BINARY else {len(node.inputs) or 1} if key in FOLDED else set()
    if key in CONDITIONS:
        counts = {{"Not": 1, "Where": 3}.get(node.op_type, 2)}
    return node.inputs if len(node.inputs) in counts else None


def value(wiring: Wiring, node: Node, inputs: tuple[Array, ...]) -> Array:
    """What the operator makes of float32 arguments."""
    clamp, key = clamp_of(wiring, node), (node.domain, node.op_type)
    with np.errstate(all="ignore"):
        if clamp is not None:
            return clamp.of(inputs[0])
        if key in UNARY:
            return np.asarray(UNARY[key](node)(inputs[0]), np.float32)
        if key in CONDITIONS:
            return np.asarray(CONDITIONS[key](*inputs), np.float32)
        if key in FOLDED:
            return np.asarray(reduce(FOLDED[key], inputs), np.float32)
        return np.asarray(BINARY[key](*inputs), np.float32)
