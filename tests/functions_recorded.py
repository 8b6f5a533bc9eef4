"""Functions of one number whose values onnxruntime computed: the nodes, and models with one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from qdq import Chain

Step = tuple[str, str] | tuple[str, str, Mapping[str, Any]]
"""An operator, its inputs, its attributes; inputs are x, results of earlier steps (#0, #1, ...), numbers."""

FUNCTIONS: Mapping[str, Sequence[Step]] = {
    "Abs": [("Abs", "x")],
    "Celu": [("Celu", "x", {"alpha": 0.7})],
    "Cos": [("Cos", "x")],
    "Elu": [("Elu", "x", {"alpha": 1.7})],
    "Erf": [("Erf", "x")],
    "Exp": [("Exp", "x")],
    "Gelu": [("Gelu", "x")],
    "Gelu by tanh": [("Gelu", "x", {"approximate": "tanh"})],
    "Gelu of com.microsoft": [("Gelu", "x", {"domain": "com.microsoft"})],
    "HardSigmoid": [("HardSigmoid", "x", {"alpha": 0.37, "beta": 0.1})],
    "HardSwish": [("HardSwish", "x")],
    "LeakyRelu": [("LeakyRelu", "x", {"alpha": -0.3})],
    "Log": [("Log", "x")],
    "Mish": [("Mish", "x")],
    "QuickGelu": [("QuickGelu", "x", {"domain": "com.microsoft", "alpha": 1.3})],
    "Reciprocal": [("Reciprocal", "x")],
    "Round": [("Round", "x")],
    "Selu": [("Selu", "x")],
    "Sigmoid": [("Sigmoid", "x")],
    "Sign": [("Sign", "x")],
    "Sin": [("Sin", "x")],
    "Softplus": [("Softplus", "x")],
    "Shrink": [("Shrink", "x", {"bias": 0.2, "lambd": 0.6})],
    "Softsign": [("Softsign", "x")],
    "Sqrt": [("Sqrt", "x")],
    "Tanh": [("Tanh", "x")],
    "ThresholdedRelu": [("ThresholdedRelu", "x", {"alpha": 0.6})],
    "-x + 0.2": [("Neg", "x"), ("Add", "#0 0.2")],
    "x^2": [("Pow", "x 2")],
    "x^3": [("Pow", "x 3")],
    "x^1.7": [("Pow", "x 1.7")],
    "x^-3": [("Pow", "x -3")],
    "0.3^x": [("Pow", "0.3 x")],
    "max(x, 0.4)": [("Max", "x 0.4")],
    "min(2, x, 0.9)": [("Min", "2 x 0.9")],
    "PRelu": [("PRelu", "x -0.2")],
    "ceil(x) - floor(x)": [("Ceil", "x"), ("Floor", "x"), ("Sub", "#0 #1")],
    "x sigmoid(x)": [("Sigmoid", "x"), ("Mul", "x #0")],
    "x tanh(softplus(x))": [("Softplus", "x"), ("Tanh", "#0"), ("Mul", "x #1")],
    "x clip(x + 3, 0, 6) / 6": [("Add", "x 3"), ("Clip", "#0 0 6"), ("Mul", "x #1"), ("Div", "#2 6")],
    "x hard_sigmoid(x)": [("HardSigmoid", "x", {"alpha": 1 / 6}), ("Mul", "x #0")],
    "x (1 + erf(x / sqrt 2)) 0.5": [
        *(("Div", "x 1.4142135"), ("Erf", "#0"), ("Add", "#1 1"), ("Mul", "x #2"), ("Mul", "#3 0.5")),
    ],
    "(0.5 x) (1 + erf(x / sqrt 2))": [
        *(("Div", "x 1.4142135"), ("Erf", "#0"), ("Add", "1 #1"), ("Mul", "x 0.5"), ("Mul", "#3 #2")),
    ],
    "x (0.5 (1 + erf(x / sqrt 2)))": [
        *(("Div", "x 1.4142135"), ("Erf", "#0"), ("Add", "#1 1"), ("Mul", "#2 0.5"), ("Mul", "x #3")),
    ],
    "x (1 + erf(x sqrt 0.5)) 0.5": [
        *(("Mul", "x 0.70710677"), ("Erf", "#0"), ("Add", "#1 1"), ("Mul", "x #2"), ("Mul", "#3 0.5")),
    ],
    "gelu by tanh in parts": [
        *(("Pow", "x 3"), ("Mul", "#0 0.044715"), ("Add", "x #1"), ("Mul", "#2 0.7978846"), ("Tanh", "#3")),
        *(("Add", "#4 1"), ("Mul", "x #5"), ("Mul", "#6 0.5")),
    ],
}
"""Functions of x, step by step, by the name under which they are recorded."""

WITH_NUMBERS = (
    *("Celu", "Elu", "Erf", "Exp", "Gelu", "Gelu by tanh", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Selu"),
    *("Sigmoid", "Softplus", "Softsign", "Tanh", "x^2", "x^3"),
)
"""Those that are recorded as functions of float32 numbers, too."""

CHANNELS = 5
_DRAW = np.random.RandomState(3)
CONSTANTS: Mapping[str, np.ndarray] = {
    "v": _DRAW.uniform(-0.3, 1.4, (CHANNELS, 1)).astype(np.float32),
    "w": _DRAW.normal(0, 0.5, (1, CHANNELS, 1)).astype(np.float32),
    "scale": np.append(_DRAW.uniform(0.4, 1.6, CHANNELS - 2), [-0.7, 0]).astype(np.float32),
    "bias": _DRAW.normal(0, 0.3, CHANNELS).astype(np.float32),
    "mean": _DRAW.normal(0, 0.3, CHANNELS).astype(np.float32),
    "var": _DRAW.uniform(0.2, 2, CHANNELS).astype(np.float32),
}
"""Numbers for each channel."""

OF_CHANNELS: Mapping[str, Sequence[Step]] = {
    "BatchNormalization": [("BatchNormalization", "x scale bias mean var", {"epsilon": 1e-3})],
    "BatchNormalization, Relu": [("BatchNormalization", "x scale bias mean var"), ("Relu", "#0")],
    "PRelu of channels": [("PRelu", "x v")],
    "x * v + w": [("Mul", "x v"), ("Add", "#0 w")],
    "sigmoid(x + w) / v": [("Add", "x w"), ("Sigmoid", "#0"), ("Div", "#1 v")],
}
"""Functions of x (1, CHANNELS, 256) whose constants differ from channel to channel."""

OPSET = 20


def steps(chain: Chain, name: str, x: str) -> str:
    """The nodes of a function; the name of its result."""
    results: list[str] = []
    for number, (op_type, inputs, *rest) in enumerate({**FUNCTIONS, **OF_CHANNELS}[name]):
        operands = [_operand(chain, text, x, results) for text in inputs.split()]
        attributes: Mapping[str, Any] = rest[0] if rest else {}
        results.append(chain.node(op_type, operands, f"step {number}", **attributes))
    return results[-1]


def _operand(chain: Chain, text: str, x: str, results: Sequence[str]) -> str:
    if text == "x":
        return x
    if text in CONSTANTS:
        return chain.constant(text, CONSTANTS[text])
    return results[int(text[1:])] if text[0] == "#" else chain.constant(text, np.float32(text))


def alone(name: str, shape: Sequence[int]) -> bytes:
    """The function of float32 numbers."""
    chain = Chain()
    result = steps(chain, name, "x")
    return bytes(chain.model(shape, outputs=(result,), opset=OPSET).SerializeToString())


def between_codes(
    name: str, x_scale: np.float32, x_zero_point: np.int8, y_scale: np.float32, y_zero_point: np.int8
) -> bytes:
    """DequantizeLinear, the function, QuantizeLinear, of 256 codes, or as many for each channel."""
    chain = Chain()
    value = steps(chain, name, chain.dequantize("x", (x_scale, x_zero_point)))
    chain.quantize(value, (y_scale, y_zero_point), "y")
    shape = (1, CHANNELS, 256) if name in OF_CHANNELS else (256,)
    return bytes(chain.model(shape, opset=OPSET, x_type="int8").SerializeToString())
