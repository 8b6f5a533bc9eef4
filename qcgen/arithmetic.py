"""onnxruntime's arithmetic of quantized operators, each formula once, in numpy."""

from __future__ import annotations

import numpy as np

from qcgen.ir.program import Float32s, Int64s


def requantize(acc: Int64s, scale: Float32s, zero_point: int, low: int, high: int) -> Int64s:
    """Equation (1): the output code of an accumulator.

    v = fl32(fl32(acc) * scale);  y = round_half_even(clamp(v, low - zero_point, high - zero_point)) + zero_point

    ``acc`` holds int32 values, ``scale`` broadcasts against it. For a positive scale y never decreases with acc.
    Source: onnxruntime's CPU kernels (MlasRequantizeOutput), which give ONNX's QLinearConv its numbers.
    """
    with np.errstate(over="ignore", under="ignore"):
        value = acc.astype(np.float32) * scale
    clamped = np.clip(value, np.float32(low - zero_point), np.float32(high - zero_point))
    codes: Int64s = np.rint(clamped).astype(np.int64) + zero_point
    return codes


def multiplier_scale(x_scale: Float32s, w_scale: Float32s, y_scale: Float32s) -> Float32s:
    """Equation (2): fl32(fl32(x_scale * w_scale[m]) / y_scale), in float32, the product first."""
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        product = x_scale.astype(np.float32) * w_scale.astype(np.float32)
        scale: Float32s = np.divide(product, y_scale.astype(np.float32), dtype=np.float32)
    return scale
