"""Integer lines in place of a table of codes for each channel, equal to it at every code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qcgen.ir.program import Int64s
from qcgen.ir.types import Array

SHIFTS = range(20, 7, -4)
"""The shifts that are tried, finest first."""

SEARCH = 40
"""Halvings of the interval of slopes: enough for int32."""


@dataclass(frozen=True)
class ChannelLines:
    """y = clamp((x * slope + offset) >> shift, low, high), equal to the table at every code x.

    ``slope`` and ``offset`` (P, C) int64: lines for codes below ``split`` and from it on (P = 2), or for all (P = 1).
    No product and no sum leaves int32.
    """

    slope: Int64s
    offset: Int64s
    shift: int
    low: int
    high: int
    split: int


def channel_lines(tables: Int64s, first: int, low: int, high: int, split: int) -> ChannelLines | None:
    """The lines for ``tables`` (C, 256), whose columns are the codes from ``first`` on; None if there are none.

    One line a channel if that suffices, else two that meet at the code ``split``.
    """
    codes = np.arange(first, first + tables.shape[1])
    halves = [codes < split, codes >= split]
    for parts in ([np.ones_like(codes, np.bool_)], [half for half in halves if half.any()]):
        for shift in SHIFTS:
            found = [_lines(tables[:, part], codes[part], low, high, shift) for part in parts]
            lines = [line for line in found if line is not None]
            if len(lines) == len(parts):
                slope, offset = (np.stack(numbers) for numbers in zip(*lines, strict=True))
                return ChannelLines(slope, offset, shift, low, high, split)
    return None


def _lines(tables: Int64s, codes: Int64s, low: int, high: int, shift: int) -> tuple[Int64s, Int64s] | None:
    """Slopes and offsets of all channels with this shift, None if some channel has none that int32 holds.

    What a slope leaves for the offset, the least upper bound less the greatest lower one, is concave in the slope: it
    is largest where a ternary search ends.
    """
    steepest = 2**31 // (2 * 256)
    lo, hi = np.full(len(tables), -steepest), np.full(len(tables), steepest)
    for _ in range(SEARCH):
        third = (hi - lo) // 3
        one, other = lo + third, hi - third
        rises = _room(tables, codes, low, high, shift, one) <= _room(tables, codes, low, high, shift, other)
        lo, hi = np.where(rises, one, lo), np.where(rises, hi, other)
    near = [lo + step for step in range(3)]
    best = np.argmax([_room(tables, codes, low, high, shift, slope) for slope in near], axis=0)
    slope = np.asarray(lo + best)
    least, most = _bounds(tables, codes, low, high, shift, slope)
    # A line that lies beyond all codes has one bound only.
    offset = np.clip(np.where((least > -(2**40)) & (most < 2**40), (least + most) // 2, 0), least, most)
    ends = np.stack([slope * codes[0] + offset, slope * codes[-1] + offset, offset])
    fits = (least <= most).all() and (np.abs(ends) < 2**31).all()
    return (slope, offset) if fits and _equal(tables, codes, low, high, shift, slope, offset) else None


def _equal(tables: Int64s, codes: Int64s, low: int, high: int, shift: int, slope: Int64s, offset: Int64s) -> bool:
    """Whether the lines give the tables at every code."""
    values = (slope[:, None] * codes + offset[:, None]) >> shift
    return bool(np.array_equal(np.clip(values, low, high), tables))


def _bounds(tables: Int64s, codes: Int64s, low: int, high: int, shift: int, slope: Int64s) -> tuple[Array, Array]:
    """The least and the greatest offset of each channel with which its line has every code right."""
    product = slope[:, None] * codes
    least = np.where(tables > low, (tables << shift) - product, -(2**42)).max(axis=1)
    most = np.where(tables < high, ((tables + 1) << shift) - 1 - product, 2**42).min(axis=1)
    return least, most


def _room(tables: Int64s, codes: Int64s, low: int, high: int, shift: int, slope: Int64s) -> Array:
    least, most = _bounds(tables, codes, low, high, shift, slope)
    return np.asarray(most - least)
