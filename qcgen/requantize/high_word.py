"""Lines that need only the upper part of a product: h = ((acc + d) * m >> word) + C, for a word of 32 bits or less.

Two floors in a row are one, so this is the line of equation (6) at shift word + S with the constant d * m + C * 2^word.
For given m and C at most one d fits, because a band is narrower than m; the search varies m and C. d costs nothing (it
joins the value at which the accumulator starts), and a C that is the same for the whole layer costs no table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qcgen.intervals import INT32_MAX, INT32_MIN
from qcgen.ir.program import Int64s
from qcgen.requantize import lines
from qcgen.requantize.lines import Band, Problem
from qcgen.requantize.staircase import Bools, Staircase

MULTIPLIERS = 64  # tried per channel, spread over the interval of those that admit a line
OFFSETS = 128  # tried on either side of the layer's own


@dataclass(frozen=True)
class Lines:
    """m, d and C of every channel, (M,) each; ``exact`` says for which channels they are."""

    multiplier: Int64s
    addend: Int64s
    offset: Int64s
    exact: Bools


def search(stairs: Staircase, shift: int, word: int = 32) -> Lines:
    """The lines of a layer at S = ``shift``, each channel by the cheapest attempt that succeeds.

    First the multiplier next to the scale, then the one with the widest band, both with the layer's offset; then many
    multipliers and offsets. A channel without any line keeps the widest band's multiplier and no addend.
    """
    task = lines.problem(stairs, word + shift)
    layer_offset = 1 << (shift - 1) if shift else 0
    nearest = np.rint(stairs.requantize.scale.astype(np.float64) * 2.0 ** (word + shift))
    nearest = np.clip(nearest, 1, 2**lines.MULTIPLIER_BITS - 1).astype(np.int64)
    offset = np.full(task.size, layer_offset, np.int64)
    addend, exact = _addend(stairs, lines.band(task, nearest), nearest, offset << word)
    found = Lines(nearest, addend, offset, exact)
    left = np.flatnonzero(~exact)
    if left.size:
        found = _search_best(stairs, task, found, left, word)
    left = np.flatnonzero(~found.exact)
    left = left[lines.band(task.take(left), found.multiplier[left]).admits]
    ends = lines.admitting(task.take(left), found.multiplier[left])
    for channel, smallest, largest in zip(left, *ends, strict=True):
        multipliers = np.linspace(smallest, largest, MULTIPLIERS)
        found = _search_channel(stairs, task, found, int(channel), multipliers, word)
    return found


def _search_best(stairs: Staircase, task: Problem, found: Lines, left: Int64s, word: int) -> Lines:
    part = task.take(left)
    best = lines.best_multiplier(part)
    addend, exact = _addend(stairs, lines.band(part, best), best, found.offset[left] << word, left)
    return _put(found, left, best, addend, found.offset[left], exact)


def _search_channel(
    stairs: Staircase, task: Problem, found: Lines, channel: int, multipliers: npt.NDArray[np.float64], word: int
) -> Lines:
    """Many multipliers that admit a line, each with many offsets; the nearest offset that succeeds wins."""
    m = np.unique(multipliers.astype(np.int64))
    row, rows = np.array([channel]), np.full(m.size, channel)
    band = lines.band(task.take(rows), m)
    away = np.array(sorted(range(-OFFSETS, OFFSETS + 1), key=abs))[:, None]
    offset = found.offset[row] + away
    addend, exact = _addend(stairs, band, m[None, :], offset << word, rows)
    hits = np.argwhere(exact)
    if not hits.size:
        return found
    i, j = hits[0]
    return _put(found, row, m[j : j + 1], addend[i, j : j + 1], offset[i], np.array([True]))


def _addend(
    stairs: Staircase, band: Band, m: Int64s, constant: Int64s, channels: Int64s | slice = slice(None)
) -> tuple[Int64s, Bools]:
    """The d nearest to 0 that brings d * m + ``constant`` into the band, and whether it does and stays in int32."""
    up = -((constant - band.lowest) // m)  # the smallest d that reaches the lowest b
    down = (band.highest - constant) // m  # the largest d that stays within the highest
    addend = np.where(band.lowest > constant, up, np.where(band.highest < constant, down, 0))
    line = addend * m + constant
    exact = (line >= band.lowest) & (line <= band.highest)
    exact &= (stairs.lo[channels] + addend >= INT32_MIN) & (stairs.hi[channels] + addend <= INT32_MAX)
    return addend, exact


def _put(found: Lines, channels: Int64s, m: Int64s, addend: Int64s, offset: Int64s, exact: Bools) -> Lines:
    """The same lines with those of some channels replaced; what is not exact gets no addend."""
    new = Lines(found.multiplier.copy(), found.addend.copy(), found.offset.copy(), found.exact.copy())
    new.multiplier[channels], new.addend[channels] = m, np.where(exact, addend, 0)
    new.offset[channels], new.exact[channels] = offset, exact
    return new
