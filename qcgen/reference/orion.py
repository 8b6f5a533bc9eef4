"""The oracle for Orion's convolution: slow, plain numpy in Orion's arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from types import EllipsisType

import numpy as np

from qcgen.errors import OrionPanic
from qcgen.ir.program import Int64s, OrionConv
from qcgen.ir.types import Array
from qcgen.orion import MAGNITUDE_MAX, divide, multiply, run_time_tests
from qcgen.orion import requantize_orion as requantize_orion


def evaluate_orion_conv(op: OrionConv, x: Array) -> Array:
    """y (N, M, spatial...) int8 of x (N, C, spatial...) int8; raises OrionPanic where Orion panics.

    Additions that cannot leave 32 bits commute, so their order is free; others are done in Orion's.
    """
    geometry = op.geometry
    can_panic = run_time_tests(op).any
    values = op.x_values[x.astype(np.int64) + 128]
    images = _pad(op, _fits(op, values, "a dequantized input"))
    acc = np.empty((geometry.batch, geometry.out_channels, *geometry.output), dtype=np.int64)
    for m in range(geometry.out_channels):
        first = (m // geometry.group_out) * geometry.group_in
        seen = images[:, first : first + geometry.group_in]
        acc[:, m] = _tested_sum(op, seen, m) if can_panic else op.bias[m] + _sum_of_products(op, seen, op.weights[m])
    if can_panic:
        quotients = _fits(op, divide(acc, op.y_scale, op.fraction_bits), "a quotient")
        _fits(op, quotients + op.y_zero_point, "a quotient plus y_zero_point")
    return requantize_orion(op, acc).astype(np.int8)


def _fits(op: OrionConv, values: Int64s, quantity: str) -> Int64s:
    """The values, none of which has a magnitude beyond 32 bits."""
    if values.size and int(np.abs(values).max()) > MAGNITUDE_MAX:
        raise OrionPanic(f"Orion panics in node '{op.name}': {quantity} needs more than 32 bits")
    return values


def _tested_sum(op: OrionConv, images: Int64s, m: int) -> Int64s:
    """The accumulators (N, output...) of channel m, added up in Orion's order, each step tested.

    Products of one input channel from 0, then the channels onto the bias; with groups the channels first and the bias
    last.
    """
    geometry = op.geometry
    is_grouped = geometry.group > 1
    acc = np.full((geometry.batch, *geometry.output), 0 if is_grouped else op.bias[m], np.int64)
    for c in range(geometry.group_in):
        one = slice(c, c + 1)
        channel = np.zeros_like(acc)
        for products in _products(op, images[:, one], op.weights[m, one]):
            channel = _fits(op, channel + _fits(op, products[:, 0], "a product"), "a sum of products")
        acc = _fits(op, acc + channel, "a sum of input channels")
    return _fits(op, acc + op.bias[m], "a sum and the bias") if is_grouped else acc


def _pad(op: OrionConv, images: Int64s) -> Int64s:
    """Dequantized images with their padding, which is 0: what Orion leaves out of a sum adds nothing to it."""
    spatial = zip(op.geometry.pads_begin, op.geometry.pads_end, strict=True)
    return np.pad(images, ((0, 0), (0, 0), *spatial))


def _sum_of_products(op: OrionConv, images: Int64s, weights: Int64s) -> Int64s:
    """(N, output...) sums of truncated products of padded images (N, C/group, ...) and weights (C/group, k...)."""
    acc = np.zeros((op.geometry.batch, *op.geometry.output), dtype=np.int64)
    for products in _products(op, images, weights):
        acc += products.sum(axis=1)
    return acc


def _products(op: OrionConv, images: Int64s, weights: Int64s) -> Iterator[Int64s]:
    """For each tap in the kernel's order the truncated products (N, C/group, output...)."""
    geometry = op.geometry
    for tap in product(*(range(size) for size in geometry.kernel)):
        starts = [index * dilation for index, dilation in zip(tap, geometry.dilations, strict=True)]
        window = (
            slice(start, start + (size - 1) * stride + 1, stride)
            for start, size, stride in zip(starts, geometry.output, geometry.strides, strict=True)
        )
        seen: tuple[slice | EllipsisType, ...] = (..., *window)
        weight_index: tuple[int | EllipsisType, ...] = (..., *tap)
        weight = weights[weight_index].reshape(-1, *(1 for _ in geometry.output))
        yield multiply(images[seen], weight, op.fraction_bits)
