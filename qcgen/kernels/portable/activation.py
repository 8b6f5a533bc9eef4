"""Functions of one float32 number, as the library computes them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from qcgen.ir.program import FloatActivation
from qcgen.ir.types import DType

_STANDARD = {
    "Abs": "fabsf",
    "Ceil": "ceilf",
    "Cos": "cosf",
    "Floor": "floorf",
    "Log": "logf",
    "Pow": "powf",
    "Round": "rintf",
    "Sin": "sinf",
    "Sqrt": "sqrtf",
}
"""What <math.h> calls them."""

_FUSED = {"Erf": "fused_erf", "Exp": "fused_exponential", "Sigmoid": "fused_logistic", "Tanh": "fused_tangent"}
"""Those of the library that are not called as onnxruntime spells them."""

_PRODUCTS = {2.0: "float_square", 3.0: "float_cube"}
"""Powers that are computed as products, by their exponents."""


@dataclass(frozen=True)
class NumberFunction:
    """A function of a number and of ``params`` in C, of the library or standard; "": the number itself."""

    function: str = ""
    params: tuple[float, ...] = ()
    is_standard: bool = False


def number_function(activation: FloatActivation, dtype: DType = DType.FLOAT32) -> NumberFunction:
    """What computes an activation; nothing where it is a Clip without bounds."""
    kind, params = activation.kind, activation.params
    if kind in ("Relu", "Clip"):
        low, high = params or (0.0, np.inf)
        return _clip(low, high, dtype.c)
    if kind == "Pow" and params[0] in _PRODUCTS:
        return NumberFunction(_PRODUCTS[params[0]])
    if not kind or kind in _STANDARD:
        return NumberFunction(_STANDARD.get(kind, ""), params, is_standard=True)
    name = "_".join(re.findall("[A-Z][a-z]*", kind)).lower()
    return NumberFunction(_FUSED.get(kind, f"float_{name}"), params)


def _clip(low: float, high: float, number: str) -> NumberFunction:
    """Infinite bounds count where every output is infinite.

    A maximum below the minimum wins, as in onnxruntime: min(max(x, low), high).
    """
    low = min(low, high)
    if high == np.inf:
        return NumberFunction() if low == -np.inf else NumberFunction(f"{number}_at_least", (low,))
    if low == -np.inf:
        return NumberFunction(f"{number}_at_most", (high,))
    return NumberFunction(f"{number}_clip", (low, high))
