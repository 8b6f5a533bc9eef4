"""Normalizations of rows and channels."""

from __future__ import annotations

import numpy as np

from qcgen import arithmetic
from qcgen.ir.program import InstanceNorm, LayerNorm, Tensor
from qcgen.ir.types import Array, Layout
from qcgen.reference.elementwise import quantization_of


def evaluate_layer_norm(op: LayerNorm, x: Array) -> Array:
    """Equations (42) and (43), or (77), between (10) and (9) where x or y are codes."""
    return _written(op.y, arithmetic.layer_norm(_read(op.x, x), op.scale, op.bias, op.epsilon))


def evaluate_instance_norm(op: InstanceNorm, x: Array) -> Array:
    """Equations (44) and (45) between (10) and (9) where x and y are codes."""
    last = op.x.layout is Layout.CHANNELS_LAST
    values = _read(op.x, np.moveaxis(x, -1, 1) if last else x)
    normal = arithmetic.instance_norm(values, op.scale, op.bias, op.epsilon)
    return _written(op.y, np.moveaxis(normal, 1, -1) if last else normal)


def _read(tensor: Tensor, values: Array) -> Array:
    """The float32 numbers themselves, or what codes stand for."""
    if not tensor.dtype.is_quantized:
        return values
    by = quantization_of(tensor)
    return arithmetic.dequantize(values, by.scale, by.zero_point)


def _written(tensor: Tensor, values: Array) -> Array:
    """The float32 numbers themselves, or their codes."""
    if not tensor.dtype.is_quantized:
        return values
    by = quantization_of(tensor)
    codes = arithmetic.quantize(values, by.scale, by.zero_point, tensor.dtype.low, tensor.dtype.high)
    return np.asarray(codes.astype(tensor.dtype.numpy))
