"""Operators that work element by element, with the functions that they compute, or only move elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import erf
from typing import assert_never

import numpy as np

from qcgen import arithmetic, functions
from qcgen.arithmetic import Quantization
from qcgen.ir.program import (
    ChannelLookup,
    Comparison,
    Concat,
    Convert,
    Dequantize,
    Embedding,
    FloatActivation,
    FloatBinary,
    FloatUnary,
    GatherElements,
    IntegerUnary,
    Interpolate,
    Lookup,
    Movement,
    Pad,
    Quantize,
    QuantizedBinary,
    Reshape,
    Resize,
    Select,
    Slice,
    Tensor,
    Transpose,
)
from qcgen.ir.types import Array

# Functions of float numbers, in float64, and onnxruntime's own in float32.

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


# Operators.


def evaluate_lookup(op: Lookup, x: Array) -> Array:
    """y = table[x]."""
    return op.table[x.astype(np.int64) - op.x.dtype.low].astype(op.y.dtype.numpy)


def evaluate_embedding(op: Embedding, x: Array) -> Array:
    """The rows of the table, those at its ends for numbers beyond them."""
    rows = len(op.table)
    return np.asarray(op.table[np.clip(np.where(x < 0, x + rows, x), 0, rows - 1)])


def evaluate_channel_lookup(op: ChannelLookup, x: Array) -> Array:
    """y = tables[channel, x]."""
    channels = np.arange(len(op.tables)).reshape([-1 if axis == op.axis else 1 for axis in range(x.ndim)])
    return op.tables[channels, x.astype(np.int64) - op.x.dtype.low].astype(op.y.dtype.numpy)


def evaluate_quantized_binary(op: QuantizedBinary, a: Array, b: Array) -> Array:
    """Equation (12) or (13); (74), (75) or (76) of tensors of 16 bits; (80)."""
    return arithmetic.binary(op, a, b).astype(op.y.dtype.numpy)


def evaluate_integer_unary(op: IntegerUnary, x: Array) -> Array:
    """Equation (86)."""
    return arithmetic.unary_in_integers(op, x).astype(op.y.dtype.numpy)


def quantization_of(tensor: Tensor) -> Quantization:
    """What the codes of a quantized tensor mean."""
    assert tensor.scale is not None, f"the scale of {tensor.name!r} is not known"
    assert tensor.zero_point is not None, f"the zero point of {tensor.name!r} is not known"
    return Quantization(tensor.scale, tensor.zero_point)


def evaluate_quantize(op: Quantize, x: Array) -> Array:
    """Equation (9)."""
    by = quantization_of(op.y)
    codes = arithmetic.quantize(x, by.scale, by.zero_point, op.y.dtype.low, op.y.dtype.high, op.is_away)
    return codes.astype(op.y.dtype.numpy)


def evaluate_dequantize(op: Dequantize, x: Array) -> Array:
    """Equation (10)."""
    by = quantization_of(op.x)
    return arithmetic.dequantize(x, by.scale, by.zero_point)


def evaluate_convert(op: Convert, x: Array) -> Array:
    """The same numbers, rounded."""
    return arithmetic.convert(np.ascontiguousarray(x), op.y.dtype.numpy)


def evaluate_float_unary(op: FloatUnary, x: Array) -> Array:
    """An activation: onnxruntime's, operation by operation, where it has its own, else in float64, rounded."""
    if op.activation.kind in OWN and x.dtype == np.float32:
        return in_float32(op.activation, x)
    return activate(op.activation, x.astype(np.float64)).astype(op.y.dtype.numpy)


def evaluate_for_table(op: FloatUnary | FloatBinary, *xs: Array) -> Array:
    """Functions of numbers that codes stand for, all of them in onnxruntime's arithmetic."""
    if isinstance(op, FloatBinary):
        return functions.power(*xs) if op.kind == "pow" else evaluate_float_binary(op, *xs)
    if op.activation.kind in OWN_OF_CODES:
        return in_float32(op.activation, *xs)
    return evaluate_float_unary(op, *xs)


def evaluate_float_binary(op: FloatBinary, a: Array, b: Array) -> Array:
    """One operation in float32."""
    with np.errstate(all="ignore"):
        match op.kind:
            case "add":
                return np.asarray(np.add(a, b))
            case "sub":
                return np.asarray(np.subtract(a, b))
            case "mul":
                return np.asarray(np.multiply(a, b))
            case "div":
                return np.asarray(np.divide(a, b))
            case "max":
                return np.asarray(np.maximum(a, b))
            case "min":
                return np.asarray(np.minimum(a, b))
            case "pow":
                return np.asarray(np.power(a.astype(np.float64), b), np.float32)
            case "prelu":
                return np.asarray(np.where(a < 0, b * a, a))
            case _:
                assert_never(op.kind)


COMPARISONS: Mapping[Comparison, Callable[[Array, Array], Array]] = {
    "greater": np.greater,
    "greater or equal": np.greater_equal,
    "less": np.less,
    "less or equal": np.less_equal,
    "equal": np.equal,
}


def evaluate_select(op: Select, a: Array, b: Array, c: Array, d: Array) -> Array:
    """c where a compares to b, or where it does not, else d; c + 0 is c, but 0 for -0."""
    return np.asarray(np.where(COMPARISONS[op.comparison](a, b) != op.is_negated, c + np.float32(0), d))


# Operators that only move elements.


def evaluate_interpolate(op: Interpolate, x: Array) -> Array:
    """Equation (83)."""
    return arithmetic.interpolate(op, x).astype(op.y.dtype.numpy)


def evaluate_gather_elements(op: GatherElements, x: Array, places: Array) -> Array:
    """Elements at places of an axis, those at its ends for places beyond them."""
    length = x.shape[op.axis]
    numbers = np.clip(np.where(places < 0, places + length, places), 0, length - 1)
    sizes = (length if axis == op.axis else size for axis, size in enumerate(places.shape))
    return np.take_along_axis(x[tuple(map(slice, sizes))], numbers, op.axis)


def evaluate_movement(op: Movement, *inputs: Array) -> Array:
    """y, in x's own type."""
    x = inputs[0]
    match op:
        case Transpose():
            return np.transpose(x, op.perm)
        case Reshape():
            return x.reshape(op.y.shape)
        case Concat():
            return np.concatenate(inputs, axis=op.axis)
        case Slice():
            return x[np.ix_(*_sliced(op))]
        case Pad():
            return _padded(op, x)
        case Resize():
            return x[np.ix_(*op.places)]
        case _:
            assert_never(op)


def _sliced(op: Slice) -> list[Array]:
    """The places that are taken, axis by axis."""
    return [start + step * np.arange(size) for start, step, size in zip(op.starts, op.steps, op.y.shape, strict=True)]


def _padded(op: Pad, x: Array) -> Array:
    y = np.full(op.y.shape, op.value, op.y.dtype.numpy)
    inside = tuple(slice(before, before + size) for before, size in zip(op.before, op.x.shape, strict=True))
    y[inside] = x
    return y
