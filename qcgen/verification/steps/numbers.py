"""Operators that make one code of each number: numbers on both sides of every step, or all codes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np

from qcgen import arithmetic
from qcgen.ir.program import ChannelLookup, Convert, Dequantize, IntegerUnary, Lookup, Quantize
from qcgen.ir.types import Array, DType
from qcgen.reference import evaluate_operator
from qcgen.reference.elementwise import quantization_of
from qcgen.verification.steps.driven import MOST_ELEMENTS, Driven, beside, spread

INFINITE = 0x7F800000
"""The word of the float32 infinity."""

TIES = 2**12  # integers, and float32 numbers, between which ties are tried


def of_quantize(op: Quantize, generator: np.random.Generator) -> Iterator[Driven]:
    """Two float32 numbers on each side of every step; numbers beyond all codes, the smallest ones, infinities."""
    by, low, high = quantization_of(op.y), op.y.dtype.low, op.y.dtype.high

    def code_of(places: Array) -> Array:
        return arithmetic.quantize(_float32_at(places), by.scale, by.zero_point, low, high, op.is_away)

    codes = np.arange(low, high)
    below, above = beside(code_of, -INFINITE, INFINITE, codes)
    ends = np.array([0, 1, -1, INFINITE - 1, 1 - INFINITE, INFINITE, -INFINITE])
    places = np.concatenate([below, above, below - 1, above + 1, ends])
    values = _float32_at(np.clip(places, -INFINITE, INFINITE))
    x = spread(np.append(values, np.float32(-0.0)), op.x.shape, generator)
    yield Driven("numbers beside steps", (x,), evaluate_operator(op, x), 2 * len(codes), 2 * len(codes))


def _float32_at(places: Array) -> Array:
    """The float32 numbers in ascending order: 0 at 0, infinity at its word."""
    words = np.where(places < 0, 2**31 - places, places)
    return words.astype(np.uint32).view(np.float32)


def of_conversion(op: Dequantize | Convert, generator: np.random.Generator) -> Iterator[Driven]:
    """Every code or float16 number; of wider types those beside ties of what they are rounded to."""
    x, sides = op.x.dtype, 0
    if x is DType.FLOAT16:
        values = np.arange(2**16).astype(np.uint16).view(np.float16)
    elif not op.y.dtype.is_float:
        values = _beside_ends(x, op.y.dtype)
    elif x is DType.INT32:
        values = _integers_beside_ties(op.x.zero_point or 0, generator)
    elif x.is_float:
        numbers, sides = _neighbours(op.y.dtype, generator)
        values = _between(numbers, x)
    elif x.bytes > 2:
        values = _beside_ends(x, x)
    else:
        values = np.arange(x.low, x.high + 1).astype(x.numpy)
    given = spread(values, op.x.shape, generator)
    yield Driven("numbers beside ties", (given,), evaluate_operator(op, given), sides, sides)


def _beside_ends(x: DType, y: DType) -> Array:
    """Numbers beside powers of two, where integers end, whole and a little less or more; and beside 0."""
    powers = [sign * (1 << bit) for bit in range(8 * max(y.bytes, 4) + 1) for sign in (1, -1)]
    whole = [0, *(power + by for power in powers for by in (-257, -1, 0, 1, 257))]
    if not x.is_float:
        inside = [min(max(value, x.low), x.high) for value in whole]
        return np.array(inside, object).astype(x.numpy)
    numbers = np.array(whole, np.float64)
    with np.errstate(over="ignore"):
        beside = [numbers, numbers + 0.5, numbers - 0.5, *(np.nextafter(numbers, end) for end in (-np.inf, np.inf))]
        return np.concatenate([*beside, [np.nan, np.inf, -np.inf]]).astype(x.numpy)


def _integers_beside_ties(zero_point: int, generator: np.random.Generator) -> Array:
    """int32 whose difference to the zero point lies in the middle of two float32 numbers, or next to it."""
    odd = 2 * generator.integers(2**23, 2**24, TIES) + 1
    middle = generator.choice([-1, 1], TIES) * (odd << generator.integers(0, 7, TIES))
    ends = np.array([-(2**31), 2**31 - 1, -1, 0, 1])
    values = np.concatenate([*(middle + by + zero_point for by in (-1, 0, 1)), ends])
    clipped: Array = np.clip(values, -(2**31), 2**31 - 1).astype(np.int32)
    return clipped


def _neighbours(dtype: DType, generator: np.random.Generator) -> tuple[Array, int]:
    """Pairs (2, n) of neighbours of at least 0 as float64; and how many sides of steps lie at all of the type's."""
    if dtype is DType.FLOAT16:
        every = np.arange(0x7C01).astype(np.uint16).view(np.float16).astype(np.float64)
        every[-1] = 2.0**16  # what would follow the largest number
        return np.stack([every[:-1], every[1:]]), 2 * 2 * 0x7C00
    words = generator.integers(0, INFINITE - 1, TIES).astype(np.uint32)
    return np.stack([words, words + 1]).view(np.float32).astype(np.float64), 0


def _between(pairs: Array, dtype: DType) -> Array:
    """Numbers in the middle of neighbours (2, n), next to it, and next to what float32 rounds to it; of both signs."""
    own = dtype.numpy
    middle = pairs.mean(axis=0)
    values = [*pairs, middle, middle * (1 + 2.0**-30), middle * (1 - 2.0**-30)]
    beside_middle = [np.nextafter(middle.astype(own), own.type(end)) for end in (0, np.inf)]
    ends = np.array([np.inf, np.nan, np.finfo(own).max, np.finfo(own).tiny])
    every = np.concatenate([each.astype(own) for each in (*values, *beside_middle, ends)])
    return np.concatenate([every, -every])


def of_lookup(op: Lookup, generator: np.random.Generator) -> Iterator[Driven]:
    """All codes."""
    x = spread(np.arange(op.x.dtype.low, op.x.dtype.high + 1).astype(op.x.dtype.numpy), op.x.shape, generator)
    sides = 2 * int(np.count_nonzero(np.diff(op.table)))
    yield Driven("all codes", (x,), evaluate_operator(op, x), sides, sides)


def of_every_code(op: IntegerUnary) -> Iterator[Driven]:
    """All codes of 16 bits."""
    codes = np.arange(op.x.dtype.low, op.x.dtype.high + 1).astype(op.x.dtype.numpy)
    x = spread(codes, op.x.shape, np.random.default_rng(0))
    steps = np.diff(evaluate_operator(op, codes)) != 0
    yield Driven("all codes", (x,), evaluate_operator(op, x), *[2 * int(np.count_nonzero(steps))] * 2)


def of_channel_lookup(op: ChannelLookup) -> Iterator[Driven]:
    """All codes in every channel."""
    shape = op.x.shape
    wide = [-1 if axis == op.axis else 1 for axis in range(len(shape))]
    channels = np.arange(shape[op.axis]).reshape(wide)
    # Of a channel, the elements are numbered by all the other axes.
    number = np.moveaxis(np.arange(prod(shape) // shape[op.axis]).reshape([1, *np.delete(shape, op.axis)]), 0, op.axis)
    count = min(-(-256 // number.size), max(1, MOST_ELEMENTS // prod(shape)))
    first = np.arange(count).reshape(-1, *[1] * len(shape)) * number.size
    places = np.broadcast_to((number + first) % 256, (count, *shape))
    seen = np.zeros(op.tables.shape, np.bool_)
    seen[np.broadcast_to(channels, places.shape), places] = True
    steps = np.diff(op.tables, axis=1) != 0
    sides = int((steps & seen[:, :-1]).sum() + (steps & seen[:, 1:]).sum())
    x = (places + op.x.dtype.low).astype(op.x.dtype.numpy)
    expected = evaluate_operator(replace(op, axis=op.axis + 1), x)
    yield Driven("all codes of each channel", (x,), expected, sides, 2 * int(steps.sum()))
