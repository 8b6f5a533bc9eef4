"""How far a float32 output may lie from the reference's: rounding errors in proportion to what was summed."""

from __future__ import annotations

import numpy as np

from qcgen.ir.program import Conv, FloatActivation, Operator
from qcgen.ir.types import Array, Layout
from qcgen.reference.conv import convolve

RELATIVE = 2e-6
"""The error allowed for each unit of magnitude: 33 half units of the last place of a float32."""


def magnitude(op: Conv, x: Array) -> Array:
    """sum |x| |w| + |bias| of every output, float64 in y's own shape and layout: what cancellation cannot hide."""
    image = np.moveaxis(x, -1, 1) if op.x.layout is Layout.CHANNELS_LAST else x
    sums = convolve(op.geometry, np.abs(image.astype(np.float64)), np.abs(op.weights.astype(np.float64)))
    sums += np.abs(op.bias.astype(np.float64)).reshape((-1,) + (1,) * op.geometry.rank)
    return np.moveaxis(sums, 1, -1) if op.y.layout is Layout.CHANNELS_LAST else sums


def tolerance(op: Operator, x: Array, y: Array) -> Array:
    """The largest |error| of every output y for the input x: 0 for integers, else

    2e-6 * max(slope * (sum |x| |w| + |bias|) + offset, |y|)

    with the greatest slope of the activation, and the offset that it adds.
    """
    if not isinstance(op, Conv) or not isinstance(op.epilogue, FloatActivation):
        return np.zeros(y.shape)
    slope, offset = _steepness(op.epilogue)
    bound: Array = RELATIVE * np.maximum(slope * magnitude(op, x) + offset, np.abs(y.astype(np.float64)))
    return bound


def _steepness(activation: FloatActivation) -> tuple[float, float]:
    params = activation.params
    match activation.kind:
        case "LeakyRelu":
            return max(1.0, abs(params[0])), 0.0
        case "HardSigmoid":
            return abs(params[0]), abs(params[1])
        case "HardSwish":
            return 2.0, 0.0  # 1.5 for the product's slope, 0.5 for the rounding of its second factor
        case _:
            return 1.0, 0.0
