"""The oracle for Orion's convolution: slow, plain numpy in Orion's arithmetic."""

from __future__ import annotations

from itertools import product
from types import EllipsisType

import numpy as np

from qcgen.ir.program import Int64s, OrionConv
from qcgen.ir.types import Array
from qcgen.orion.arithmetic import multiply
from qcgen.orion.arithmetic import requantize_orion as requantize_orion


def evaluate_orion_conv(op: OrionConv, x: Array) -> Array:
    """y (N, M, spatial...) int8 of x (N, C, spatial...) int8.

    The order of the additions is free: the program was made only if no order of Orion's leaves 32 bits, and additions
    that do not overflow commute.
    """
    geometry = op.geometry
    images = _pad(op, op.x_values[x.astype(np.int64) + 128])
    acc = np.empty((geometry.batch, geometry.out_channels, *geometry.output), dtype=np.int64)
    for m in range(geometry.out_channels):
        first = (m // geometry.group_out) * geometry.group_in
        acc[:, m] = op.bias[m] + _sum_of_products(op, images[:, first : first + geometry.group_in], op.weights[m])
    return requantize_orion(op, acc).astype(np.int8)


def _pad(op: OrionConv, images: Int64s) -> Int64s:
    """Dequantized images with their padding, which is 0: what Orion leaves out of a sum adds nothing to it."""
    spatial = zip(op.geometry.pads_begin, op.geometry.pads_end, strict=True)
    return np.pad(images, ((0, 0), (0, 0), *spatial))


def _sum_of_products(op: OrionConv, images: Int64s, weights: Int64s) -> Int64s:
    """(N, output...) sums of truncated products of padded images (N, C/group, ...) and weights (C/group, k...)."""
    geometry = op.geometry
    acc = np.zeros((geometry.batch, *geometry.output), dtype=np.int64)
    for tap in product(*(range(size) for size in geometry.kernel)):
        starts = [index * dilation for index, dilation in zip(tap, geometry.dilations, strict=True)]
        window = (
            slice(start, start + (size - 1) * stride + 1, stride)
            for start, size, stride in zip(starts, geometry.output, geometry.strides, strict=True)
        )
        seen: tuple[slice | EllipsisType, ...] = (..., *window)
        weight_index: tuple[int | EllipsisType, ...] = (..., *tap)
        weight = weights[weight_index].reshape(-1, *(1 for _ in geometry.output))
        acc += multiply(images[seen], weight, op.fraction_bits).sum(axis=1)
    return acc
