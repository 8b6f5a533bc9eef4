"""The range of a tensor's codes, per channel where channels differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from qcgen.ir.program import Int64s, Tensor
from qcgen.ir.types import Array, DType

MOST = 2**21  # elements of an array of bounds: 16 MiB


def is_large(*sizes: int) -> bool:
    """Whether an array of these sizes would take much time and memory; then channels are not told apart."""
    return prod(sizes) > MOST


@dataclass(frozen=True)
class Range:
    """``lo`` and ``hi`` (n,) int64 bound the elements at each place of ``axis``; n is 1 if ``axis`` is None."""

    axis: int | None
    lo: Int64s
    hi: Int64s

    def along(self, axis: int, size: int) -> tuple[Int64s, Int64s]:
        """The bounds (size,) at each place of this axis, which has ``size`` places."""
        if self.axis == axis:
            return self.lo, self.hi
        return np.full(size, self.lo.min()), np.full(size, self.hi.max())

    def whole(self) -> Range:
        """One range for all channels."""
        return Range(None, self.lo.min(keepdims=True), self.hi.max(keepdims=True))

    def elements(self, shape: tuple[int, ...]) -> tuple[Int64s, Int64s]:
        """The bounds of every element of a tensor of this shape."""
        spread = [1] * len(shape)
        if self.axis is not None:
            spread[self.axis] = -1
        return np.broadcast_to(self.lo.reshape(spread), shape), np.broadcast_to(self.hi.reshape(spread), shape)


def full(dtype: DType) -> Range:
    """Every value of an integer type."""
    return Range(None, np.array([dtype.low], np.int64), np.array([dtype.high], np.int64))


def has_range(tensor: Tensor) -> bool:
    """Whether bounds are kept of this tensor: codes and accumulators have them, floats have none."""
    return tensor.dtype.is_code or tensor.dtype is DType.INT32


def tightest(lo: Array, hi: Array) -> Range:
    """The range of a tensor whose elements have these bounds, along the axis on which it is narrowest on average."""
    whole = Range(None, np.array([lo.min()], np.int64), np.array([hi.max()], np.int64))
    best, least = whole, float((whole.hi - whole.lo)[0])
    for axis in range(lo.ndim):
        others = tuple(other for other in range(lo.ndim) if other != axis)
        along = Range(axis, lo.min(axis=others).astype(np.int64), hi.max(axis=others).astype(np.int64))
        width = float((along.hi - along.lo).mean())
        if width < least or (width == least and best.axis is None and _differs(along)):
            best, least = along, width
    return best


def union(ranges: Sequence[Range], value: int | None = None) -> Range:
    """One range that holds every element of several tensors, and a value besides if one is given."""
    more = [] if value is None else [np.array([value], np.int64)]
    lo, hi = (np.concatenate([*(getattr(each, end) for each in ranges), *more]) for end in ("lo", "hi"))
    return Range(None, lo.min(keepdims=True), hi.max(keepdims=True))


def _differs(range_: Range) -> bool:
    return bool((range_.lo != range_.lo[0]).any() or (range_.hi != range_.hi[0]).any())
