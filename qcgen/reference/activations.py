"""Activations of float convolutions, in float64."""

from __future__ import annotations

import numpy as np

from qcgen.ir.program import FloatActivation
from qcgen.ir.types import Array


@np.errstate(all="ignore")  # infinities and what comes of them are results
def activate(activation: FloatActivation, x: Array) -> Array:
    """activation(x), element by element; names and parameters as onnxruntime has them."""
    params = activation.params
    match activation.kind:
        case "":
            return x
        case "Relu":
            return np.maximum(x, 0.0)
        case "Tanh":
            return np.asarray(np.tanh(x))
        case "Sigmoid":
            return np.asarray(1.0 / (1.0 + np.exp(-x)))
        case "HardSwish":
            return np.asarray(x * np.clip(x / 6.0 + 0.5, 0.0, 1.0))
        case "LeakyRelu":
            return np.asarray(np.where(x >= 0, x, x * np.float32(params[0])))
        case "Clip":
            # As onnxruntime does: where min exceeds max, max wins.
            return np.minimum(np.maximum(x, np.float32(params[0])), np.float32(params[1]))
        case "HardSigmoid":
            return np.asarray(np.clip(np.float32(params[0]) * x + np.float32(params[1]), 0.0, 1.0))
        case _:
            raise AssertionError(f"no activation is called {activation.kind}")
