"""Convolutions as ONNX and onnxruntime mean them, tap by tap."""

from __future__ import annotations

from typing import assert_never

import numpy as np

from qcgen import arithmetic
from qcgen.intervals import INT32_MIN
from qcgen.ir.program import Conv, ConvGeometry, FloatActivation, RawAccumulator, Requantize, RoundOnce
from qcgen.ir.types import Array, DType, Layout
from qcgen.reference.activations import OWN, activate, in_float32
from qcgen.reference.taps import taps


def evaluate_conv(op: Conv, x: Array) -> Array:
    """y for x in the model's own shapes and layouts; float convolutions are computed in a wider type, then rounded.

    A tensor without a layout is a matrix: rows of channels.
    """
    g = op.geometry
    rows = x.reshape(g.batch, *g.input, g.in_channels) if op.x.layout is None else x
    image = rows if op.x.layout is Layout.CHANNELS_FIRST else np.moveaxis(rows, -1, 1)
    is_float = isinstance(op.epilogue, FloatActivation)
    wide: type[np.generic] = np.int64
    if is_float:  # wider than the sum of the C, where this machine has such a type
        wide = np.longdouble if op.x.dtype is DType.FLOAT64 else np.float64
    codes = image.astype(wide) - op.x_zero_point
    zero_points = op.w_zero_point.reshape((-1,) + (1,) * (op.geometry.rank + 1))
    weights = op.weights.astype(wide) - zero_points
    acc = convolve(op.geometry, codes, weights) + op.bias.astype(wide).reshape((-1,) + (1,) * op.geometry.rank)
    y = _finish(op, acc)
    if op.y.layout is Layout.CHANNELS_FIRST:
        return y
    last = np.moveaxis(y, 1, -1)
    return last.reshape(op.y.shape) if op.y.layout is None else last


def convolve(g: ConvGeometry, x: Array, weights: Array) -> Array:
    """Sums of products (N, M, out...) of x (N, C, in...) and weights (M, C/group, k...), padding with zeros.

    Works in the type of its arguments; the caller sees to it that nothing overflows.
    """
    grouped = weights.reshape(g.group, g.group_out, g.group_in, -1)
    acc = np.zeros((g.batch, g.group, g.group_out, *g.output), x.dtype)
    for index, part in enumerate(taps(g, x)):
        seen = part.reshape(g.batch, g.group, g.group_in, *g.output)
        acc += np.einsum("ngc...,gmc->ngm...", seen, grouped[..., index])
    return acc.reshape(g.batch, g.out_channels, *g.output)


def _finish(op: Conv, acc: Array) -> Array:
    match op.epilogue:
        case Requantize() as by:
            return arithmetic.codes(by, _wrap(acc), channel_axis=1).astype(op.y.dtype.numpy)
        case RoundOnce() as by:
            shape = (-1,) + (1,) * op.geometry.rank
            return arithmetic.round_once(acc, by, shape).astype(op.y.dtype.numpy)
        case RawAccumulator():
            return _wrap(acc).astype(np.int32)
        case FloatActivation():
            if op.epilogue.kind in OWN and op.y.dtype is DType.FLOAT32:
                return in_float32(op.epilogue, acc.astype(np.float32))
            return activate(op.epilogue, acc).astype(op.y.dtype.numpy)
        case _:
            assert_never(op.epilogue)


def _wrap(acc: Array) -> Array:
    """The int32 number that equals acc modulo 2^32."""
    return (acc - INT32_MIN) % 2**32 + INT32_MIN
