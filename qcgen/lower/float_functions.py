"""Functions of one number, and of two that are no sum or product: tables between codes, else float."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from qcgen import arithmetic, functions
from qcgen.ir.program import Float32s, FloatActivation, FloatBinary, FloatUnary, Lookup, Operator, Reshape, Tensor
from qcgen.ir.types import DType
from qcgen.lower.source import Source, quantization_of

LARGEST_FLOAT = float(np.finfo(np.float32).max)

SELU = {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}
"""What Selu's attributes are by default."""


def _plain(kind: str, **defaults: float) -> Callable[[Source], FloatActivation]:
    """A function with these attributes as its parameters, in this order."""
    return lambda source: FloatActivation(kind, tuple(source.real(name, value) for name, value in defaults.items()))


def _gelu(source: Source) -> FloatActivation:
    return FloatActivation("GeluTanh" if source.text("approximate", "none") == "tanh" else "Gelu")


def _clip(source: Source) -> FloatActivation:
    """The bounds are attributes before opset 11; an absent one is the end of the type, which is finite for floats."""
    if source.node.version < 11:
        return _plain("Clip", min=-LARGEST_FLOAT, max=LARGEST_FLOAT)(source)
    dtype = source.tensor(0).dtype
    ends = (dtype.low, dtype.high) if dtype.is_code else (-LARGEST_FLOAT, LARGEST_FLOAT)
    return FloatActivation("Clip", (source.number(1, ends[0]), source.number(2, ends[1])))


FUNCTIONS: Mapping[tuple[str, str], Callable[[Source], FloatActivation]] = {
    **{
        ("", kind): _plain(kind)
        for kind in (
            *("Abs", "Ceil", "Cos", "Erf", "Exp", "Floor", "HardSwish", "Log", "Mish", "Neg", "Reciprocal", "Relu"),
            *("Round", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Tanh"),
        )
    },
    ("", "Celu"): _plain("Celu", alpha=1.0),
    ("", "Clip"): _clip,
    ("", "Elu"): _plain("Elu", alpha=1.0),
    ("", "Gelu"): _gelu,
    ("", "HardSigmoid"): _plain("HardSigmoid", alpha=0.2, beta=0.5),
    ("", "LeakyRelu"): _plain("LeakyRelu", alpha=0.01),
    ("", "Selu"): _plain("Selu", **SELU),
    ("", "Shrink"): _plain("Shrink", bias=0.0, lambd=0.5),
    ("", "ThresholdedRelu"): _plain("ThresholdedRelu", alpha=1.0),
    ("com.microsoft", "Gelu"): _plain("Gelu"),
    ("com.microsoft", "QuickGelu"): _plain("QuickGelu", alpha=1.702),
}
"""Functions of one number, by (domain, op_type), with their parameters."""


def lower_function(source: Source) -> Operator:
    """A function of float32 numbers, between codes, alone or in chains, a table; Relu and Clip work on codes, too."""
    activation, (name, op_type, x, y) = FUNCTIONS[source.node.domain, source.node.op_type](source), source.ends
    if x.dtype.is_float:
        return FloatUnary(name, op_type, x, y, activation)
    low, high = activation.params if activation.kind == "Clip" else (0, x.dtype.high)
    codes = np.arange(x.dtype.low, x.dtype.high + 1)
    table = np.minimum(np.maximum(codes, int(max(low, x.dtype.low))), int(min(high, x.dtype.high)))
    return Lookup(name, op_type, x, y, table)


def lower_power(source: Source) -> Operator:
    """Pow of float32 tensors; a function of one where the exponent is a constant number."""
    name, op_type, x, y = source.ends
    if source.is_constant(1) and x.shape == y.shape and source.array(1).size == 1:
        return FloatUnary(name, op_type, x, y, FloatActivation("Pow", (source.number(1),)))
    return FloatBinary(name, op_type, "pow", x, source.tensor(1), y)


def lower_choice(source: Source) -> tuple[Operator, ...]:
    """Max and Min of float32 tensors, two at a time; NaN wins."""
    first, inputs, operators = source.tensor(0), source.node.inputs, list[Operator]()
    if len(inputs) == 1:
        return (Reshape(*source.ends),)
    kind: Literal["max", "min"] = "max" if source.node.op_type == "Max" else "min"
    for index in range(1, len(inputs)):
        second, is_last = source.tensor(index), index == len(inputs) - 1
        shape = np.broadcast_shapes(first.shape, second.shape)
        y = source.result() if is_last else source.inner(f"of{index + 1}", DType.FLOAT32, shape)
        operators.append(FloatBinary(*source.called, kind, first, second, y))
        first = y
    return tuple(operators)


def lower_prelu(source: Source) -> Operator:
    """PRelu of float32 numbers: x, or slope * x below 0."""
    return FloatBinary(*source.called, "prelu", source.tensor(0), source.tensor(1), source.result())


def lower_qlinear_function(source: Source) -> Operator:
    """QLinearSigmoid and QLinearLeakyRelu: (X, scale, zero point, Y_scale, Y_zero_point)."""
    x, y = source.tensor(0, source.quantization(1, 2)), source.result(source.quantization(3, 4))
    alpha = source.real("alpha", 0.01)
    if source.node.op_type == "QLinearSigmoid":
        return lookup(source, x, y, functions.logistic)
    return lookup(source, x, y, lambda values: functions.leaky_relu(values, alpha))


def lookup(source: Source, x: Tensor, y: Tensor, function: Callable[[Float32s], Float32s]) -> Lookup:
    """The table of a float function between two quantized tensors that say what their codes mean."""
    x_by, y_by = quantization_of(x), quantization_of(y)
    codes = np.arange(x.dtype.low, x.dtype.high + 1)
    values = function(arithmetic.dequantize(codes, x_by.scale, x_by.zero_point))
    table = arithmetic.quantize(values, y_by.scale, y_by.zero_point, y.dtype.low, y.dtype.high)
    return Lookup(*source.called, x, y, table)
