"""Fixed-point requantization, proved equal to onnxruntime's arithmetic: the cheapest that serves a layer's channels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from qcgen.intervals import INT32_MAX, INT32_MIN
from qcgen.ir.program import DivideAway, Int64s, RoundInSteps, RoundTwice
from qcgen.ir.types import Bools
from qcgen.requantize import lines
from qcgen.requantize.fixed_point import (
    FORMS,
    Arithmetic,
    FixedPoint,
    certify,
    fits,
    window_needed,
    windows_that_never_close,
)
from qcgen.requantize.lines import Staircase

WINDOW_BITS = (0, 6, 12)  # fraction bits that a wide line may keep: more make guard bands smaller and h larger
SPLIT_MAX_WORD = 16  # both parts of a multiplier lie in one word of the table
MAX_ADDEND = 256  # of *split*: what is searched lies far below
NARROW_MAX_SHIFT = 22  # 256 codes * 2^22 stay within int32

LINE_COST: dict[Arithmetic, int] = {"narrow": 3, "split": 6, "multiply-high": 4, "wide": 8, "soft-float": 60}
"""Instructions for one output code, roughly, of a 32-bit core: only their proportions matter."""
NARROW_LINE_COST: dict[Arithmetic, int] = {"narrow": 8, "split": 6, "multiply-high": 20, "wide": 50, "soft-float": 200}
"""The same where a product of 64 bits is a function call."""
WINDOW_COST = 20  # of requantizing a channel once more, with the compare, after the loop over all channels


def choose(
    stairs: Staircase,
    *,
    narrow: bool = False,
    bits: int = 0,
    most_shift: int = lines.MAX_SHIFT,
    form: str = "",
    prescale: int = 0,
    same_steps: bool = False,
) -> FixedPoint:
    """The requantization of a layer, certified.

    With ``narrow``, for cores without a wide multiplication, *narrow* if it serves every channel; else the cheapest of
    *split* (with ``narrow``), *multiply-high*, *wide* and *soft-float*. Channels without an exact line get a guard
    band, or take the soft-float fallback where no band of less than a step would do. As few as possible do; a few bands
    do not move a layer to slower lines. ``bits``: *multiply-high* is wanted of accumulators times 2^bits, 0 to 8, which
    kernels sum at no cost: its line is that much finer, its guard bands that much narrower, and mostly it needs no
    offset. ``most_shift`` bounds the shift of *narrow*, *split* and *multiply-high*, which layers may have in common.
    ``form`` "multiply-high", or "wide" with these shifts, is taken before all others, whatever it takes.
    ``same_steps``: a channel with a guard band emulates every accumulator, so that all take as long.
    """
    fixed = None
    if form == "multiply-high":
        fixed = _multiply_high(stairs, most_shift, bits)
    elif form == "wide":
        fixed = _wide(stairs, most_shift, prescale)
    if fixed is None or not fits(fixed, stairs).all():
        fixed = _narrow(stairs, most_shift) if narrow else None
    if fixed is None:
        fixed = _cheapest_narrow(stairs, most_shift) if narrow else _cheapest(stairs, most_shift, bits)
    if fixed.guard.any() and isinstance(stairs.requantize, RoundInSteps):
        fixed = line_in_64_bits(stairs) or fixed
    if fixed.bits:
        fixed = _without_offset(fixed, stairs, most_shift)
    if same_steps:
        fixed = replace(fixed, guard=np.where(fixed.guard == 0, 0, windows_that_never_close(fixed.shift)))
    return replace(fixed, forms=_count_forms(fixed, stairs), comparisons=certify(fixed, stairs))


def line_in_64_bits(stairs: Staircase) -> FixedPoint | None:
    """The *wide* line if it is exact in every channel, so that nothing is emulated; otherwise None."""
    fixed = _wide(stairs)
    return None if fixed is None or fixed.guard.any() or not fits(fixed, stairs).all() else fixed


def _cheapest(stairs: Staircase, most_shift: int, bits: int = 0) -> FixedPoint:
    fixed = _multiply_high(stairs, most_shift, bits)
    if bits and fixed is not None and not fits(fixed, stairs).all():
        fixed = _multiply_high(stairs, most_shift)
    if fixed is not None and _rank(fixed) <= (0, LINE_COST["wide"] * stairs.lo.size):
        return fixed
    candidates = (fixed, _wide(stairs), _soft_float(stairs))
    return min((candidate for candidate in candidates if candidate is not None), key=_rank)


def _without_offset(fixed: FixedPoint, stairs: Staircase, most_shift: int) -> FixedPoint:
    """The same *multiply-high* with addends that make up for its offset; as it is if that takes a guard band more."""
    found = _multiply_high(stairs, most_shift, fixed.bits, absorbs=True)
    if found is None or not fits(found, stairs).all():
        return fixed
    counts = [((f.guard != 0).sum(), (f.guard >= windows_that_never_close(f.shift)).sum()) for f in (found, fixed)]
    return found if all(own <= other for own, other in zip(*counts, strict=True)) else fixed


def _cheapest_narrow(stairs: Staircase, most_shift: int) -> FixedPoint:
    candidates = (_split(stairs, most_shift), _cheapest(stairs, most_shift))
    return min(
        (candidate for candidate in candidates if candidate is not None),
        key=lambda fixed: _rank(fixed, NARROW_LINE_COST),
    )


def _rank(fixed: FixedPoint, line_cost: Mapping[Arithmetic, int] = LINE_COST) -> tuple[int, float]:
    """Channels that always take the soft-float fallback; then instructions for one code of each channel.

    Accumulators are taken as spread evenly.
    """
    size, always = fixed.guard.size, fixed.guard >= windows_that_never_close(fixed.shift)
    soft_float = np.minimum(1.0, 2 * fixed.guard / 2**fixed.shift).sum()
    windows = WINDOW_COST * (fixed.guard != 0).sum() + line_cost["soft-float"] * soft_float
    count = size if fixed.arithmetic == "soft-float" else int(always.sum())
    return count, float(line_cost[fixed.arithmetic] * size + windows)


def _count_forms(fixed: FixedPoint, stairs: Staircase) -> dict[str, int]:
    always = fixed.guard >= windows_that_never_close(fixed.shift)
    exact = "integers" if isinstance(stairs.requantize, RoundTwice | DivideAway) else "soft-float"
    line = exact if fixed.arithmetic == "soft-float" else fixed.arithmetic
    form = np.where(fixed.guard == 0, line, np.where(always, exact, "guard band"))
    form = np.where(stairs.constant & (fixed.guard == 0), "constant", form)
    return {name: count for name in FORMS if (count := int((form == name).sum()))}


def _multiply_high(stairs: Staircase, most_shift: int, bits: int = 0, *, absorbs: bool = False) -> FixedPoint | None:
    """h = ((acc * 2^bits + d) * m >> 32) + C at the layer's S, without C if it ``absorbs``.

    None if a scale is too large.
    """
    word = 32 - bits
    shift = min(min(_layer_shift(stairs), lines.MAX_SHIFT) - word, most_shift)
    if shift < 0:
        return None
    zero_point = stairs.requantize.zero_point << shift
    found = lines.upper_lines(stairs, shift, word, bits, offset=-zero_point if absorbs else None)
    offset = found.offset + zero_point
    fixed = _fixed("multiply-high", found.multiplier, offset, shift, 0)
    return _guarded(replace(fixed, addend=found.addend, word=word), stairs, found.exact)


def _split(stairs: Staircase, most_shift: int) -> FixedPoint | None:
    """The same with a word so short that int32 holds the products with both parts of m; None if there is none."""
    largest = int(max(np.abs(stairs.lo).max(), np.abs(stairs.hi).max())) + MAX_ADDEND
    word = min(31 - largest.bit_length(), SPLIT_MAX_WORD)
    most_shift = min(min(_layer_shift(stairs), lines.MAX_SHIFT) - word, most_shift)
    for shift in range(most_shift, -1, -1) if word > 0 else ():
        nearest = float(stairs.requantize.scale.max()) * 2.0 ** (shift + word)
        if nearest * largest >= 2.0 ** (31 + word) or nearest >= 2.0 ** (15 + word):
            continue
        found = lines.upper_lines(stairs, shift, word)
        offset = found.offset + (stairs.requantize.zero_point << shift)
        fixed = replace(_fixed("split", found.multiplier, offset, shift, 0), addend=found.addend, word=word)
        fixed = _guarded(fixed, stairs, found.exact)
        if fits(fixed, stairs).all():
            return fixed
    return None


def _wide(stairs: Staircase, kept: int | None = None, prescale: int = 0) -> FixedPoint | None:
    """h = (acc * m + b) >> s in 64 bits, with any b, at the layer's s, or at ``prescale`` + ``kept`` if it fits."""
    shift = min(_layer_shift(stairs), lines.MAX_SHIFT)
    if kept is not None:
        shift = prescale + kept if prescale + kept <= shift else -1
    if shift < 0:
        return None
    task = lines.problem(stairs, shift)
    best = lines.best_multiplier(task)
    band = lines.band(task, best)
    half = np.full_like(best, 1 << max(shift - 1, 0))
    constant = np.where(band.admits, np.clip(half, band.lowest, band.highest), half)
    offset = constant + (stairs.requantize.zero_point << shift)
    bits = WINDOW_BITS if kept is None else (kept,)
    splits = (_fixed("wide", best, offset, kept, shift - kept) for kept in bits if kept <= shift)
    return min((_guarded(_without_misfits(fixed, stairs), stairs, band.admits) for fixed in splits), key=_rank)


def _without_misfits(fixed: FixedPoint, stairs: Staircase) -> FixedPoint:
    """The same, with the line 0 for channels whose h would leave int32; a window that never closes will cover it.

    They have a scale near 1 or more, and an interval that reaches far beyond all codes.
    """
    holds = fits(fixed, stairs)
    return replace(fixed, multiplier=np.where(holds, fixed.multiplier, 0), offset=np.where(holds, fixed.offset, 0))


def _narrow(stairs: Staircase, most_shift: int) -> FixedPoint | None:
    """h = clamp(acc) * m + b, all of it in 32 bits, at the largest shift that serves every channel, if there is one.

    Clamping the accumulator to the staircase's own extent, [t_first - 1, t_last], leaves more bits to m. A constant
    channel's is clamped to 0.
    """
    inside = _extent(stairs)
    for shift in range(min(_narrow_shift(inside), most_shift), 0, -1):
        task = lines.problem(inside, shift)
        best = lines.best_multiplier(task)
        if not lines.band(task, best).admits.all():
            return None  # nor does any smaller shift: its lines are among those of this one
        m = lines.admitting(task, best)[0]
        band = lines.band(task, m)
        half = np.full_like(m, 1 << (shift - 1))
        offset = np.clip(half, band.lowest, band.highest) + (stairs.requantize.zero_point << shift)
        fixed = replace(_fixed("narrow", m, offset, shift, 0), clamp_low=inside.lo, clamp_high=inside.hi)
        if fits(fixed, stairs).all():
            return fixed
    return None


def _extent(stairs: Staircase) -> Staircase:
    """The part of each staircase that has steps, from one below the first to the last."""
    moving = stairs.steps.any(axis=1)
    low = np.where(stairs.steps, stairs.thresholds, INT32_MAX).min(axis=1, initial=INT32_MAX) - 1
    high = np.where(stairs.steps, stairs.thresholds, INT32_MIN).max(axis=1, initial=INT32_MIN)
    return replace(stairs, lo=np.where(moving, low, 0), hi=np.where(moving, high, 0))


def _narrow_shift(inside: Staircase) -> int:
    """The largest shift at which products may fit int32: an exact line rises by more than its steps less one."""
    rise = np.maximum(inside.last - inside.first - 1, 0) / (inside.hi - inside.lo + 1)
    largest = float((np.maximum(np.abs(inside.lo), np.abs(inside.hi)) * rise).max(initial=1.0))
    return min(NARROW_MAX_SHIFT, 32 - int(np.frexp(largest)[1]))


def _soft_float(stairs: Staircase) -> FixedPoint:
    zeros = np.zeros(stairs.lo.size, np.int64)
    return _fixed("soft-float", zeros, zeros, 0, 0)


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
    """The same with guard bands on the channels that have no exact line, each just as wide as it must be.

    ``exact`` (M,) says which were found to have one; those whose line was taken away have none any more.
    """
    needed = window_needed(fixed, stairs)
    exact = exact & (needed == 0)
    return replace(fixed, guard=np.where(exact, 0, np.clip(needed, 1, windows_that_never_close(fixed.shift))))
