"""Integer lines for functions of codes: of two, proved for every pair, and of one in every channel.

The code of a pair is that of a linear function of one or two integer terms (a and b, or their product) plus a constant,
rounded half to even after a few float32 roundings. Those matter only next to a tie; so the search is for a line that
passes all pairs on the right side of each step, or that knows where it is too close to a tie and takes the even code
there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, log2
from typing import Literal

import numpy as np

from qcgen.errors import prove
from qcgen.ir.program import Int64s
from qcgen.ir.types import Array, Bools

PairForm = Literal["line", "split line", "even window", "split even window", "exceptions", "table"]

MAX_SHIFT = 24  # more fraction bits than float32 has in its significand are of no use before the fine part
MAX_FINE_SHIFT = 12
MAX_EXCEPTIONS = 4096
FLOAT_BITS = 15  # codes are below 2^9, so their float32 neighbours are 2^-15 apart at most


@dataclass(frozen=True)
class Pairs:
    """What is to be computed: ``codes`` (P,) of all pairs, about ``constant`` + sum of slopes[j] * terms[j] (P,)."""

    codes: Int64s
    terms: tuple[Int64s, ...]
    slopes: tuple[float, ...]
    constant: float
    low: int
    high: int


@dataclass(frozen=True)
class PairLine:
    """Equation (22): h = sum t_j * slopes[j] + offset + ((sum t_j * fine_slopes[j] + fine_offset) >> fine_shift).

    Everything is int32. The code is clamp(h >> shift, low, high); with a ``window`` g, where h is within g units of
    2^-shift of a step k, it is the even one of k - 1 and k. ``exceptions`` (E,) are the pairs that still differ,
    ascending; all of them within ``exception_window`` units of a step. ``form`` "table" has no line at all.
    """

    form: PairForm
    slopes: tuple[int, ...]
    offset: int
    fine_slopes: tuple[int, ...]
    fine_offset: int
    fine_shift: int
    shift: int
    window: int | None
    exceptions: Int64s
    exception_window: int
    comparisons: int


def fit_pairs(pairs: Pairs, most_shift: int = MAX_SHIFT, form: str = "") -> PairLine:
    """The cheapest exact form, certified at every pair; that of the name ``form`` comes first."""
    found = _search(pairs, most_shift, form)
    if found is None:
        return PairLine("table", (), 0, (), 0, 0, 0, None, np.zeros(0, np.int64), 0, pairs.codes.size)
    wrong = np.flatnonzero(evaluate(found, pairs) != pairs.codes)
    prove(np.array_equal(wrong, found.exceptions), "the exceptions are all the pairs that differ")
    return replace(found, comparisons=pairs.codes.size)


def _scaled(line: PairLine, terms: Sequence[Int64s]) -> Int64s:
    """h of equation (22)."""
    fine = sum((t * m for t, m in zip(terms, line.fine_slopes, strict=True)), np.int64(line.fine_offset))
    h = sum((t * m for t, m in zip(terms, line.slopes, strict=True)), np.int64(line.offset))
    return np.asarray(h + (fine >> line.fine_shift))


def evaluate(line: PairLine, pairs: Pairs) -> Int64s:
    """The codes by equation (22), exceptions left out, exactly as the generated C computes them."""
    return np.asarray(np.clip(_unclamped(line, pairs), pairs.low, pairs.high))


def clamps(line: PairLine, pairs: Pairs) -> tuple[bool, bool]:
    """Whether some pair's code is below the lowest one before it is clamped, and whether one is above the highest."""
    if line.form == "table":
        return False, False
    codes = _unclamped(line, pairs)
    return bool(codes.min() < pairs.low), bool(codes.max() > pairs.high)


def _unclamped(line: PairLine, pairs: Pairs) -> Int64s:
    h = _scaled(line, pairs.terms)
    if line.window is None:
        return h >> line.shift
    moved = h + line.window
    code = moved >> line.shift
    return np.asarray(code - (code & ((moved & ((1 << line.shift) - 1)) <= 2 * line.window)))


def _search(pairs: Pairs, most_shift: int, form: str) -> PairLine | None:
    reach = sum(abs(s) * _largest(t) for s, t in zip(pairs.slopes, pairs.terms, strict=True)) + abs(pairs.constant) + 2
    shift = min(MAX_SHIFT, most_shift, 30 - ceil(log2(reach)))
    if shift < 1:
        return None
    bits = ceil(log2(sum(_largest(t) for t in pairs.terms) + 1))
    fine_shift = min(MAX_FINE_SHIFT, 30 - bits)
    ways = [partial(search, pairs, shift, fine) for fine in (0, fine_shift) for search in (_line, _even)]
    exact = (found for way in ways if (found := way()) is not None)
    if form:
        return next(
            (found for found in (*exact, _excepted(pairs, shift, fine_shift)) if found and found.form == form), None
        )
    return next(exact, None) or _excepted(pairs, shift, fine_shift)


def _largest(term: Int64s) -> int:
    return int(np.abs(term).max())


def _nominal(pairs: Pairs, places: int) -> tuple[list[int], int]:
    """Slopes and the constant, half a step added, in units of 2^-places."""
    return [round(s * 2.0**places) for s in pairs.slopes], round((pairs.constant + 0.5) * 2.0**places)


def _line(pairs: Pairs, shift: int, fine: int) -> PairLine | None:
    """A line without a window: on the right side of every step; None if the search finds none."""
    places = shift + fine
    slopes, offset = _nominal(pairs, places)
    value = sum((t * m for t, m in zip(pairs.terms, slopes, strict=True)), np.int64(0))
    # The offset must be at least ``lower`` and at most ``upper`` at every pair that is not clamped there.
    lower = np.where(pairs.codes > pairs.low, (pairs.codes << places) - value, -(2**62))
    upper = np.where(pairs.codes < pairs.high, ((pairs.codes + 1) << places) - 1 - value, 2**62)
    radii = [max(2, ceil(2.0 ** (places - FLOAT_BITS) / max(1, _largest(t)))) for t in pairs.terms]
    margin = 2 * sum(r * _largest(t) for r, t in zip(radii, pairs.terms, strict=True)) + 2 ** max(
        places - FLOAT_BITS, 0
    )
    near = np.flatnonzero((lower > offset - margin) | (upper < offset + margin))
    if near.size:
        width, moves = _widest(lower[near], upper[near], [t[near] for t in pairs.terms], radii)
        if width < 0:
            return None
        slopes = [m + d for m, d in zip(slopes, moves, strict=True)]
        shifted = sum((t[near] * d for t, d in zip(pairs.terms, moves, strict=True)), np.int64(0))
        offset = min(max(offset, int((lower[near] - shifted).max())), int((upper[near] - shifted).min()))
    return _checked(_split("line" if not fine else "split line", slopes, offset, shift, fine, None), pairs)


def _widest(lower: Int64s, upper: Int64s, terms: Sequence[Int64s], radii: Sequence[int]) -> tuple[int, list[int]]:
    """How wide the band of offsets can get, and the moves of the slopes that make it so.

    The width is concave in every slope, so a ternary search finds its maximum.
    """
    if not terms:
        return int(upper.min() - lower.max()), []

    def at(move: int) -> tuple[int, list[int]]:
        width, moves = _widest(lower - terms[0] * move, upper - terms[0] * move, terms[1:], radii[1:])
        return width, [move, *moves]

    left, right = -radii[0], radii[0]
    while right - left > 2:
        third = (right - left) // 3
        if at(left + third)[0] < at(right - third)[0]:
            left += third
        else:
            right -= third
    return max((at(move) for move in range(left, right + 1)), key=lambda found: found[0])


def _even(pairs: Pairs, shift: int, fine: int) -> PairLine | None:
    """The nominal line with the narrowest window that makes it exact; None if there is none."""
    line = _windowed(pairs, shift, fine)
    return None if line is None else _checked(line, pairs)


def _windowed(pairs: Pairs, shift: int, fine: int) -> PairLine | None:
    slopes, offset = _nominal(pairs, shift + fine)
    bare = _split("even window" if not fine else "split even window", slopes, offset, shift, fine, None)
    wrong = evaluate(bare, pairs) != pairs.codes
    window = int(_distance(bare, pairs)[wrong].max(initial=0))
    return replace(bare, window=window) if 2 * window < (1 << shift) - 1 else None


def _distance(line: PairLine, pairs: Pairs) -> Int64s:
    """How far h is from the nearest step, in units of 2^-shift."""
    half = 1 << (line.shift - 1)
    h = _scaled(line, pairs.terms)
    apart: Int64s = np.abs(((h + half) & ((1 << line.shift) - 1)) - half)
    return apart


def _excepted(pairs: Pairs, shift: int, fine: int) -> PairLine | None:
    """The line, with or without a window, that leaves the fewest exceptions; None if there are too many."""
    slopes, offset = _nominal(pairs, shift + fine)
    plain = _split("exceptions", slopes, offset, shift, fine, None)
    candidates = [plain, replace(plain, window=0)]
    windowed = _windowed(pairs, shift, fine)
    if windowed is not None:
        candidates.append(replace(windowed, form="exceptions"))
    wrong = [evaluate(line, pairs) != pairs.codes for line in candidates]
    best = min(range(len(candidates)), key=lambda index: int(wrong[index].sum()))
    line, misfits = candidates[best], wrong[best]
    if misfits.sum() > MAX_EXCEPTIONS or not _fits(line, pairs):
        return None
    # The window is that of h as the C has it: moved by the window for even codes.
    apart = int(_distance(replace(line, offset=line.offset + (line.window or 0)), pairs)[misfits].max(initial=0))
    if 2 * apart >= (1 << shift) - 1:
        return None
    return replace(line, exceptions=np.flatnonzero(misfits), exception_window=apart)


def _split(form: PairForm, slopes: Sequence[int], offset: int, shift: int, fine: int, window: int | None) -> PairLine:
    mask = (1 << fine) - 1
    coarse, low_parts = tuple(m >> fine for m in slopes), tuple(m & mask for m in slopes)
    none = np.zeros(0, np.int64)
    return PairLine(form, coarse, offset >> fine, low_parts, offset & mask, fine, shift, window, none, 0, 0)


def _checked(line: PairLine, pairs: Pairs) -> PairLine | None:
    exact: Bools = evaluate(line, pairs) == pairs.codes
    return line if exact.all() and _fits(line, pairs) else None


def _fits(line: PairLine, pairs: Pairs) -> bool:
    """Whether no sum leaves int32, in whatever order it is taken."""
    sizes = [_largest(t) for t in pairs.terms]
    fine = sum(abs(m) * size for m, size in zip(line.fine_slopes, sizes, strict=True)) + abs(line.fine_offset)
    coarse = sum(abs(m) * size for m, size in zip(line.slopes, sizes, strict=True)) + abs(line.offset)
    # What is added to h: its fine part, the window, the window of exceptions.
    coarse += (fine >> line.fine_shift) + 1 + 2 * (line.window or 0) + (1 << line.shift)
    return fine < 2**31 and coarse < 2**31


# Integer lines in place of a table of codes for each channel, equal to it at every code.

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
            found = [_channel_lines(tables[:, part], codes[part], low, high, shift) for part in parts]
            lines = [line for line in found if line is not None]
            if len(lines) == len(parts):
                slope, offset = (np.stack(numbers) for numbers in zip(*lines, strict=True))
                return ChannelLines(slope, offset, shift, low, high, split)
    return None


def _channel_lines(tables: Int64s, codes: Int64s, low: int, high: int, shift: int) -> tuple[Int64s, Int64s] | None:
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
