"""The choice of a layer's requantization: the cheapest arithmetic that serves its channels, misfits repaired."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qcgen.intervals import INT32_MAX, INT32_MIN
from qcgen.ir.program import Int64s
from qcgen.requantize import high_word, lines
from qcgen.requantize.fixed_point import (
    FORMS,
    Arithmetic,
    FixedPoint,
    certify,
    window_needed,
    windows_that_never_close,
)
from qcgen.requantize.staircase import Bools, Staircase

WINDOW_BITS = 12  # fraction bits that a wide line keeps where it has tie windows
NARROW_MAX_SHIFT = 22  # 256 codes * 2^22 stay within int32


def choose(stairs: Staircase, *, narrow: bool = False) -> FixedPoint:
    """The requantization of a layer, certified.

    The first of *narrow* (only if asked for, for cores without a wide multiplication), *high word* and *wide* that
    serves every channel; else the one of the last two that leaves fewer channels over. Those get a tie window, or are
    emulated where no window of less than a step would do.
    """
    fixed = _narrow(stairs) if narrow else None
    if fixed is None:
        candidates = [candidate for candidate in (_high_word(stairs), _wide(stairs)) if candidate is not None]
        # min keeps the first, that is the cheaper, of those that leave equally few channels over.
        fixed = min(candidates, key=lambda candidate: int((candidate.guard != 0).sum()), default=_emulated(stairs))
    return replace(fixed, forms=_count_forms(fixed, stairs), comparisons=certify(fixed, stairs))


def _count_forms(fixed: FixedPoint, stairs: Staircase) -> dict[str, int]:
    always = fixed.guard >= windows_that_never_close(fixed.shift)
    form = np.where(fixed.guard == 0, fixed.arithmetic, np.where(always, "emulated", "tie window"))
    form = np.where(stairs.constant & (fixed.guard == 0), "constant", form)
    return {name: count for name in FORMS if (count := int((form == name).sum()))}


def _high_word(stairs: Staircase) -> FixedPoint | None:
    """h = ((acc + d) * m >> 32) + C at the layer's S; None if some scale is 1/2 or more."""
    shift = min(_layer_shift(stairs), lines.MAX_SHIFT) - 32
    if shift < 0:
        return None
    found = high_word.search(stairs, shift)
    offset = found.offset + (stairs.requantize.zero_point << shift)
    fixed = _fixed("high word", found.multiplier, offset, shift, 0)
    return _guarded(replace(fixed, addend=found.addend), stairs, found.exact)


def _wide(stairs: Staircase) -> FixedPoint | None:
    """h = (acc * m + b) >> s in 64 bits, with any b, at the layer's s."""
    shift = min(_layer_shift(stairs), lines.MAX_SHIFT)
    if shift < 0:
        return None
    task = lines.problem(stairs, shift)
    best = lines.best_multiplier(task)
    band = lines.band(task, best)
    exact = band.admits
    half = np.int64(1) << max(shift - 1, 0)
    constant = np.where(exact, np.clip(half, band.lowest, band.highest), half)
    kept = 0 if exact.all() else min(WINDOW_BITS, shift)
    offset = constant + (stairs.requantize.zero_point << shift)
    return _guarded(_fixed("wide", best, offset, kept, shift - kept), stairs, exact)


def _narrow(stairs: Staircase) -> FixedPoint | None:
    """h = clamp(acc) * m + b, all of it in 32 bits, at the largest shift that serves every channel, if there is one.

    Clamping the accumulator to the staircase's own extent, [t_first - 1, t_last], leaves more bits to m.
    """
    moving = stairs.steps.any(axis=1)
    low = np.where(moving, np.where(stairs.steps, stairs.thresholds, INT32_MAX).min(axis=1) - 1, stairs.lo)
    high = np.where(moving, np.where(stairs.steps, stairs.thresholds, INT32_MIN).max(axis=1), stairs.lo)
    inside = replace(stairs, lo=np.maximum(low, stairs.lo), hi=np.minimum(high, stairs.hi))
    extent = np.maximum(np.abs(inside.lo), np.abs(inside.hi))
    for shift in range(NARROW_MAX_SHIFT, 0, -1):
        task = lines.problem(inside, shift)
        best = lines.best_multiplier(task)
        if not lines.band(task, best).admits.all():
            continue
        m = lines.admitting(task, best)[0]
        offset = lines.band(task, m).lowest + (stairs.requantize.zero_point << shift)
        if (extent * m + np.abs(offset) <= INT32_MAX).all():
            return replace(_fixed("narrow", m, offset, shift, 0), clamp_low=inside.lo, clamp_high=inside.hi)
    return None


def _emulated(stairs: Staircase) -> FixedPoint:
    zeros = np.zeros(stairs.lo.size, np.int64)
    return _fixed("emulated", zeros, zeros, 0, 0)


def _layer_shift(stairs: Staircase) -> int:
    """The largest s with scale * 2^s < 2^31 for every channel whose output changes at all."""
    moving = stairs.steps.any(axis=1)
    largest = float(stairs.requantize.scale[moving].max(initial=2.0**-20))
    return lines.MULTIPLIER_BITS - int(np.frexp(largest)[1])


def _fixed(arithmetic: Arithmetic, multiplier: Int64s, offset: Int64s, shift: int, prescale: int) -> FixedPoint:
    zeros = np.zeros_like(offset)
    low, high = zeros + INT32_MIN, zeros + INT32_MAX
    return FixedPoint(arithmetic, multiplier, zeros, offset, shift, prescale, zeros, low, high, {}, 0)


def _guarded(fixed: FixedPoint, stairs: Staircase, exact: Bools) -> FixedPoint:
    """The same with tie windows on the channels that have no exact line, each just as wide as it must be."""
    if exact.all():
        return fixed
    needed = np.clip(window_needed(fixed, stairs), 1, windows_that_never_close(fixed.shift))
    return replace(fixed, guard=np.where(exact, 0, needed))
