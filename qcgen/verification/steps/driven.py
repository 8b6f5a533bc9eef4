"""Inputs that lie beside steps, and how they are found where output codes never decrease from a number to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from qcgen.ir.types import Array

MOST_ELEMENTS = 2**23
"""Of all inputs of a kind that are made for one node."""

Codes = Callable[[Array], Array]
"""Codes (n,) of ascending numbers (n,), which never decrease; numbers are integers, or stand for what is ordered."""


@dataclass(frozen=True)
class Driven:
    """Inputs beside steps: ``sides`` of steps are reached, of ``sides_of``; in words ``what`` they are.

    ``xs`` are (count, ...) for each input that is not a constant, in the model's own shapes. ``expected`` are the
    outputs (count, ...); None: the reference is asked for one input after the other.
    """

    what: str
    xs: Sequence[Array]
    expected: Array | None = None
    sides: int = 0
    sides_of: int = 0


def beside(code_of: Codes, low: int, high: int, codes: Array) -> tuple[Array, Array]:
    """The last number in [low, high] whose code is at most k, and the next one, for each k of ``codes`` (n,)."""
    below, above = np.full(len(codes), low, np.int64), np.full(len(codes), high, np.int64)
    while (above - below > 1).any():
        middle = (below + above) >> 1
        is_below = code_of(middle) <= codes
        below, above = np.where(is_below, middle, below), np.where(is_below, above, middle)
    return below, above


def sums_beside(code_of: Codes, low: int, high: int, most: int, generator: np.random.Generator) -> Array:
    """The sums in [low, high] on both sides of each step there, and both ends, ascending.

    Of more than ``most`` steps, the first, the last, and some of the others are taken.
    """
    first, last = (int(code_of(np.array([end], np.int64))[0]) for end in (low, high))
    codes = np.arange(first, last)
    if len(codes) > most:
        codes = np.concatenate([codes[[0, -1]], generator.choice(codes, most, replace=False)])
    return np.unique(np.concatenate([[low, high], *beside(code_of, low, high, codes)]))


def spread(values: Array, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    """Values (n, ...) over the elements of as many tensors as they fill, (count, *shape, ...), the last ones at random.

    There are at most MOST_ELEMENTS of them.
    """
    size = prod(shape)
    kept = values[: max(1, MOST_ELEMENTS // max(size, values[0].size)) * size]
    more = kept[generator.integers(0, len(kept), -len(kept) % size)]
    return np.concatenate([kept, more]).reshape(-1, *shape, *values.shape[1:])
