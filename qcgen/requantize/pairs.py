"""Integer lines for functions of two codes, proved for every pair: sums and products of quantized tensors.

The code is that of a linear function of one or two integer terms (a and b, or their product) plus a constant, rounded
half to even after a few float32 roundings. Those matter only next to a tie; so the search is for a line that passes all
pairs on the right side of each step, or that knows where it is too close to a tie and takes the even code there.
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
from qcgen.ir.types import Bools

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


def fit(pairs: Pairs, most_shift: int = MAX_SHIFT, form: str = "") -> PairLine:
    """The cheapest exact form, certified at every pair; that of the name ``form`` comes first."""
    found = _search(pairs, most_shift, form)
    if found is None:
        return PairLine("table", (), 0, (), 0, 0, 0, None, np.zeros(0, np.int64), 0, pairs.codes.size)
    wrong = np.flatnonzero(evaluate(found, pairs) != pairs.codes)
    prove(np.array_equal(wrong, found.exceptions), "the exceptions are all the pairs that differ")
    return replace(found, comparisons=pairs.codes.size)


def scaled(line: PairLine, terms: Sequence[Int64s]) -> Int64s:
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
    h = scaled(line, pairs.terms)
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
    h = scaled(line, pairs.terms)
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
