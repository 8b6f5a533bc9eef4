"""Normalizations of rows."""

from __future__ import annotations

import numpy as np

from qcgen import arithmetic
from qcgen.ir.program import InstanceNorm, LayerNorm
from qcgen.ir.types import Array, Layout
from qcgen.reference.elementwise import quantization_of


def evaluate_layer_norm(op: LayerNorm, x: Array) -> Array:
    """Equations (42) and (43) between (10) and, where y are codes, (9)."""
    x_by = quantization_of(op.x)
    values = arithmetic.dequantize(x, x_by.scale, x_by.zero_point)
    normal = arithmetic.layer_norm(values, op.scale, op.bias, op.epsilon)
    if not op.y.dtype.is_quantized:
        return normal
    y_by = quantization_of(op.y)
    codes = arithmetic.quantize(normal, y_by.scale, y_by.zero_point, op.y.dtype.low, op.y.dtype.high)
    return np.asarray(codes.astype(op.y.dtype.numpy))


def evaluate_instance_norm(op: InstanceNorm, x: Array) -> Array:
    """Equations (44) and (45) between (10) and (9)."""
    x_by, y_by = quantization_of(op.x), quantization_of(op.y)
    last = op.x.layout is Layout.CHANNELS_LAST
    values = arithmetic.dequantize(np.moveaxis(x, -1, 1) if last else x, x_by.scale, x_by.zero_point)
    normal = arithmetic.instance_norm(values, op.scale, op.bias, op.epsilon)
    codes = arithmetic.quantize(normal, y_by.scale, y_by.zero_point, op.y.dtype.low, op.y.dtype.high)
    return np.asarray((np.moveaxis(codes, 1, -1) if last else codes).astype(op.y.dtype.numpy))
