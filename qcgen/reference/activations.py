"""Activations of float numbers, in float64, and onnxruntime's own in float32."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import erf

import numpy as np

from qcgen import functions
from qcgen.ir.program import FloatActivation
from qcgen.ir.types import Array

_erf = np.vectorize(erf, otypes=[np.float64])


def _softplus(x: Array) -> Array:
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def _gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + _erf(x / np.sqrt(2))))


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x * x * x))))


FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    "Abs": np.abs,
    "Ceil": np.ceil,
    "Celu": lambda x, alpha: np.where(x > 0, x, np.minimum(alpha * np.expm1(x / alpha), 0)),
    "Cos": np.cos,
    "Elu": lambda x, alpha: np.where(x >= 0, x, alpha * np.expm1(x)),
    "Erf": _erf,
    "Exp": np.exp,
    "Floor": np.floor,
    "Gelu": _gelu,
    "GeluTanh": _gelu_tanh,
    "Log": np.log,
    "Mish": lambda x: x * np.tanh(_softplus(x)),
    "Neg": np.negative,
    "Pow": np.power,
    "QuickGelu": lambda x, alpha: x / (1 + np.exp(-alpha * x)),
    "Reciprocal": lambda x: 1 / x,
    "Round": np.rint,
    "Selu": lambda x, alpha, gamma: gamma * np.where(x > 0, x, alpha * np.expm1(x)),
    "Shrink": lambda x, bias, lambd: np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0)),
    "Sign": np.sign,
    "Sin": np.sin,
    "Softplus": _softplus,
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Sqrt": np.sqrt,
    "ThresholdedRelu": lambda x, alpha: np.where(x > alpha, x, 0),
}
"""Functions that no convolution has, of float64 numbers and of their parameters."""


@np.errstate(all="ignore")  # infinities and what comes of them are results
def activate(activation: FloatActivation, x: Array) -> Array:
    """activation(x), element by element; names and parameters as onnxruntime has them."""
    params = activation.params
    match activation.kind:
        case "":
            return x
        case "Relu":
            return np.asarray(np.where(x < 0, 0, x))  # -0.0 stays, as in onnxruntime
        case "Tanh":
            return np.asarray(np.tanh(x))
        case "Sigmoid":
            return np.asarray(1.0 / (1.0 + np.exp(-x)))
        case "HardSwish":
            return np.asarray(x * np.clip(x / 6.0 + 0.5, 0.0, 1.0))
        case "LeakyRelu":
            return np.asarray(np.where(x >= 0, x, x * np.float32(params[0])))
        case "Clip":
            # As onnxruntime does: where min exceeds max, max wins; zeros keep their signs.
            low, high = map(np.float32, params)
            above = np.where(x < low, low, x)
            return np.asarray(np.where(above > high, high, above))
        case "HardSigmoid":
            return np.asarray(np.clip(np.float32(params[0]) * x + np.float32(params[1]), 0.0, 1.0))
        case _ if activation.kind in FUNCTIONS:
            return np.asarray(FUNCTIONS[activation.kind](x, *map(np.float32, params)), np.float64)
        case _:
            raise AssertionError(f"no activation is called {activation.kind}")


OWN: Mapping[str, Callable[..., Array]] = {
    "Erf": functions.erf,
    "Exp": functions.exponential,
    "Gelu": functions.gelu,
    "GeluTanh": functions.gelu_tanh,
    "HardSigmoid": functions.hard_sigmoid,
    "HardSwish": functions.hard_swish,
    "QuickGelu": lambda x, alpha: x * functions.logistic(np.float32(alpha) * x),
    "Sigmoid": functions.logistic,
    "Softsign": functions.softsign,
    "Tanh": functions.tanh,
}
"""Activations whose every bit is onnxruntime's, by their kinds."""

OWN_OF_CODES: Mapping[str, Callable[..., Array]] = {
    **OWN,
    "Celu": functions.celu,
    "Cos": functions.cosine,
    "Elu": functions.elu,
    "Log": functions.logarithm,
    "Mish": lambda x: x * functions.tanh(functions.softplus(x)),
    "Pow": lambda x, exponent: functions.power(x, np.full_like(x, exponent)),
    "Selu": functions.selu,
    "Sin": functions.sine,
    "Softplus": functions.softplus,
}
"""The same of those that have tables alone; between floats the C calls its library."""


@np.errstate(all="ignore")
def in_float32(activation: FloatActivation, x: Array) -> Array:
    """The same of float32 numbers for a kind in OWN_OF_CODES, operation by operation."""
    return np.asarray(OWN_OF_CODES[activation.kind](x, *activation.params), np.float32)
