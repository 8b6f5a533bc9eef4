"""Functions of float32 numbers that no table of codes took: what stands between floats stays float."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from qcgen.ir.program import FloatActivation, FloatBinary, FloatUnary, Operator, Reshape
from qcgen.ir.types import DType
from qcgen.lower.source import Source

SELU = {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}
"""What Selu's attributes are by default."""


def _plain(kind: str, **defaults: float) -> Callable[[Source], FloatActivation]:
    """A function with these attributes as its parameters, in this order."""
    return lambda source: FloatActivation(kind, tuple(source.real(name, value) for name, value in defaults.items()))


def _gelu(source: Source) -> FloatActivation:
    return FloatActivation("GeluTanh" if source.text("approximate", "none") == "tanh" else "Gelu")


FUNCTIONS: Mapping[tuple[str, str], Callable[[Source], FloatActivation]] = {
    ("", "Abs"): _plain("Abs"),
    ("", "Ceil"): _plain("Ceil"),
    ("", "Celu"): _plain("Celu", alpha=1.0),
    ("", "Cos"): _plain("Cos"),
    ("", "Elu"): _plain("Elu", alpha=1.0),
    ("", "Erf"): _plain("Erf"),
    ("", "Exp"): _plain("Exp"),
    ("", "Floor"): _plain("Floor"),
    ("", "Gelu"): _gelu,
    ("", "Log"): _plain("Log"),
    ("", "Mish"): _plain("Mish"),
    ("", "Neg"): _plain("Neg"),
    ("", "Reciprocal"): _plain("Reciprocal"),
    ("", "Round"): _plain("Round"),
    ("", "Selu"): _plain("Selu", **SELU),
    ("", "Shrink"): _plain("Shrink", bias=0.0, lambd=0.5),
    ("", "Sign"): _plain("Sign"),
    ("", "Sin"): _plain("Sin"),
    ("", "Softplus"): _plain("Softplus"),
    ("", "Softsign"): _plain("Softsign"),
    ("", "Sqrt"): _plain("Sqrt"),
    ("", "ThresholdedRelu"): _plain("ThresholdedRelu", alpha=1.0),
    ("com.microsoft", "Gelu"): _plain("Gelu"),
    ("com.microsoft", "QuickGelu"): _plain("QuickGelu", alpha=1.702),
}
"""Functions of one number, by (domain, op_type), with their parameters."""


CHOICES: Mapping[str, Literal["max", "min"]] = {"Max": "max", "Min": "min"}


def lower_function(source: Source) -> tuple[Operator, ...]:
    """A function of float32 numbers; between DequantizeLinear and QuantizeLinear, alone or in chains, a table."""
    activation = FUNCTIONS[source.node.domain, source.node.op_type](source)
    return (FloatUnary(*source.called, source.tensor(0), source.result(), activation),)


def lower_power(source: Source) -> tuple[Operator, ...]:
    """Pow of float32 tensors; a function of one where the exponent is a constant number."""
    x, exponent, y = source.tensor(0), source.tensor(1), source.result()
    if source.is_constant(1) and x.shape == y.shape and source.array(1).size == 1:
        return (FloatUnary(*source.called, x, y, FloatActivation("Pow", (source.number(1),))),)
    return (FloatBinary(*source.called, "pow", x, exponent, y),)


def lower_choice(source: Source) -> tuple[Operator, ...]:
    """Max and Min of float32 tensors, two at a time; NaN wins."""
    first = source.tensor(0)
    if len(source.node.inputs) == 1:
        return (Reshape(*source.called, first, source.result()),)
    operators: list[Operator] = []
    for index in range(1, len(source.node.inputs)):
        second, is_last = source.tensor(index), index == len(source.node.inputs) - 1
        shape = np.broadcast_shapes(first.shape, second.shape)
        y = source.result() if is_last else source.inner(f"of{index + 1}", DType.FLOAT32, shape)
        operators.append(FloatBinary(*source.called, CHOICES[source.node.op_type], first, second, y))
        first = y
    return tuple(operators)


def lower_prelu(source: Source) -> tuple[Operator, ...]:
    """PRelu of float32 numbers: x, or slope * x below 0."""
    tensors = source.tensor(0), source.tensor(1), source.result()
    return (FloatBinary(*source.called, "prelu", *tensors),)
