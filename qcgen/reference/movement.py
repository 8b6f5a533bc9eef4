"""Operators that only move elements."""

from __future__ import annotations

from typing import assert_never

import numpy as np

from qcgen import arithmetic
from qcgen.ir.program import Concat, GatherElements, Interpolate, Movement, Pad, Reshape, Resize, Slice, Transpose
from qcgen.ir.types import Array


def evaluate_interpolate(op: Interpolate, x: Array) -> Array:
    """Equation (83)."""
    return arithmetic.interpolate(op, x).astype(op.y.dtype.numpy)


def evaluate_gather_elements(op: GatherElements, x: Array, places: Array) -> Array:
    """Elements at places of an axis, those at its ends for places beyond them."""
    length = x.shape[op.axis]
    numbers = np.clip(np.where(places < 0, places + length, places), 0, length - 1)
    sizes = (length if axis == op.axis else size for axis, size in enumerate(places.shape))
    return np.take_along_axis(x[tuple(map(slice, sizes))], numbers, op.axis)


def evaluate_movement(op: Movement, *inputs: Array) -> Array:
    """y, in x's own type."""
    x = inputs[0]
    match op:
        case Transpose():
            return np.transpose(x, op.perm)
        case Reshape():
            return x.reshape(op.y.shape)
        case Concat():
            return np.concatenate(inputs, axis=op.axis)
        case Slice():
            return x[np.ix_(*_sliced(op))]
        case Pad():
            return _padded(op, x)
        case Resize():
            return x[np.ix_(*op.places)]
        case _:
            assert_never(op)


def _sliced(op: Slice) -> list[Array]:
    """The places that are taken, axis by axis."""
    return [start + step * np.arange(size) for start, step, size in zip(op.starts, op.steps, op.y.shape, strict=True)]


def _padded(op: Pad, x: Array) -> Array:
    y = np.full(op.y.shape, op.value, op.y.dtype.numpy)
    inside = tuple(slice(before, before + size) for before, size in zip(op.before, op.x.shape, strict=True))
    y[inside] = x
    return y
