"""The operators that only move elements, done to numpy arrays of anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import numpy as np

from qcgen.ir.program import Concat, Movement, Pad, Reshape, Resize, Slice, Transpose
from qcgen.ir.types import Array


def move(op: Movement, xs: Sequence[Array], padding: float) -> Array:
    """What stands at each place of y; ``padding`` is what a Pad writes."""
    match op:
        case Transpose():
            return xs[0].transpose(op.perm)
        case Reshape():
            return xs[0].reshape(op.y.shape)
        case Concat():
            return np.concatenate(xs, axis=op.axis)
        case Slice():
            places = zip(op.starts, op.steps, op.y.shape, strict=True)
            return xs[0][np.ix_(*(start + step * np.arange(size) for start, step, size in places))]
        case Pad():
            sides = zip(op.before, op.x.shape, op.y.shape, strict=True)
            widths = [(before, after - before - size) for before, size, after in sides]
            return np.pad(xs[0], widths, constant_values=padding)
        case Resize():
            return xs[0][np.ix_(*op.places)]
        case _:
            assert_never(op)
