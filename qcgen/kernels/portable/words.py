"""Float32 numbers as the words that hold their bits."""

from __future__ import annotations

import numpy as np

from qcgen.ir.types import Array


def words(values: Array) -> Array:
    """Of each number, as an integer."""
    return values.astype(np.float32).view(np.uint32).astype(np.int64)


def word(value: float) -> int:
    """Of one number."""
    return int(words(np.asarray(value)))
