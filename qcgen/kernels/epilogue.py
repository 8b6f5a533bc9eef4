"""What follows the accumulator of an integer convolution: its tables, the names its template needs, its certificate."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import assert_never

import numpy as np

from qcgen import requantize
from qcgen.arithmetic import PRODUCT_BITS
from qcgen.cores import BRANCHLESS, CONSTANT_TIME
from qcgen.errors import prove
from qcgen.intervals import AccumulatorInterval
from qcgen.ir.context import LayerField
from qcgen.ir.plan import Certificate, SumWord
from qcgen.ir.program import (
    Conv,
    DivideAway,
    FloatActivation,
    Int64s,
    RawAccumulator,
    Requantize,
    RoundInSteps,
    RoundOnce,
    RoundTwice,
)
from qcgen.kernels.kernel import CommonOutput, Constants, number
from qcgen.requantize.fixed_point import FixedPoint, multipliers, split
from qcgen.requantize.lines import MAX_SHIFT, Staircase, staircase

CONV_SCALE = "x_scale * w_scale / y_scale"
STEPS_SCALE = "the codes for each unit of acc"
"""What sums of products are requantized by."""

LINE_PARAMETERS = ("multiplier", "offset")
"""The parameters that are numbers in the C where all channels share them."""

LINES = {
    "multiply-high": ("multiply_high_add", LINE_PARAMETERS),
    "split": ("scalar_scale_split", LINE_PARAMETERS),
    "wide": ("multiply_wide", LINE_PARAMETERS),
    "narrow": ("multiply_narrow", (*LINE_PARAMETERS, "limit_low", "limit_high")),
    "round-once": ("round_once", ("multiplier", "shift")),
}
"""The function of templates/library for each arithmetic, and the roles of its arguments."""

Y_ZERO_POINT = "y_zero_point"
"""The role of the zero point, where it is not a number in the C."""

Number = int | LayerField | None
"""A parameter that is the same for every channel, None where there is a table, a LayerField where layers differ."""


@dataclass(frozen=True)
class Output:
    """What the templates of ``templates/epilogue`` need to know.

    ``kind`` is "raw" or the arithmetic of FixedPoint, ``word`` and ``subtracts`` the latter's; ``meaning`` is
    the code as a function of the accumulator, in words. Parameters that all channels share are in ``numbers``, by their
    roles, and ``texts`` says what they are; of all others there are tables, and ``multiplier`` and ``offset`` are None.
    ``is_always``: a channel with a guard band emulates every accumulator.
    ``is_branchless``: the code's bounds are computed, not chosen.
    ``is_per_channel``: the C function reads a table and so needs the channel. ``acc_type``: that of accumulators in C.
    ``emulation``: the function of templates/library that computes both roundings. ``rounds_up``: halves, if it is
    rounded once. ``scale``: what the multiplier is, in words.
    """

    kind: str
    c_type: str
    low: int
    high: int
    zero_point: int | LayerField
    shift: int
    prescale: int
    is_per_channel: bool
    is_guarded: bool
    is_always: bool
    is_branchless: bool
    subtracts: bool
    multiplier: Number
    offset: Number
    word: int
    meaning: str = ""
    emulation: str = "soft_float_code"
    numbers: Mapping[str, int | LayerField] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    acc_type: str = "int32_t"
    rounds_up: bool = False
    scale: str = CONV_SCALE

    @property
    def bounding(self) -> tuple[str, str, str]:
        """The functions of templates/library that keep a code within both bounds, the lower and the upper one."""
        if self.kind == "round-once":
            return ("bounded_wide", "", "")
        return ("within", "at_least", "at_most") if self.is_branchless else ("bounded", "larger", "smaller")

    @property
    def shared_roles(self) -> tuple[str, ...]:
        """The parameters of the line that are numbers where its table would be an argument."""
        return tuple(role for role in LINE_PARAMETERS if isinstance(getattr(self, role), int))

    @property
    def plus_zero_point(self) -> str:
        """The zero point as C adds it."""
        number = self.zero_point
        return f" + {number}" if isinstance(number, str) or number > 0 else f" - {-number}" if number else ""

    @property
    def line(self) -> str:
        """The function of templates/library that scales."""
        return f"{LINES[self.kind][0]}{'_up' * self.rounds_up}"

    @property
    def line_roles(self) -> tuple[str, ...]:
        """The parameters of the line."""
        return LINES[self.kind][1]

    @property
    def is_line_per_channel(self) -> bool:
        """Whether the line alone, without guard bands, needs the channel."""
        return any(role not in self.numbers for role in self.line_roles)

    @property
    def form(self) -> Hashable:
        """What the text of the functions depends on, besides numbers that each layer may have for itself."""
        numbers = [value if value is None or value == 0 else "a number" for value in (self.multiplier, self.offset)]
        free = {"multiplier", "offset", "zero_point", "numbers", "texts"}
        fixed = [getattr(self, each.name) for each in fields(self) if each.name not in free]
        return (*numbers, *fixed, tuple(self.numbers), tuple(self.texts.items()))


@dataclass(frozen=True)
class OutputStep:
    """The output step of one operator.

    ``addend`` (M,) joins the value at which each accumulator starts, in the latter's unit; ``guarded`` are the channels
    with a guard band. ``stairs`` is what the step was proved to be; None for sums that are not requantized. ``common``:
    what the step has in common with those of other layers.
    """

    output: Output
    constants: tuple[Constants, ...]
    addend: Int64s
    guarded: Int64s
    certificate: Certificate
    stairs: Staircase | None = None
    common: CommonOutput | None = None


def guarded_channels(epilogue: OutputStep) -> tuple[Constants, ...]:
    """The table of the channels with a guard band, for kernels that requantize these after all others."""
    guarded, text = epilogue.guarded, "the channels that have a guard band."
    if epilogue.common is not None and epilogue.common.is_free:
        rest = np.zeros(epilogue.addend.size - guarded.size, np.int64)
        count = number("guarded_count", "int32_t", guarded.size, "how many channels have a guard band.")
        return (Constants("guarded", "uint16_t", np.append(guarded, rest), text), count)
    return (Constants("guarded", "uint16_t", guarded, text),) if guarded.size else ()


def prepare_epilogue(
    op: Conv, interval: AccumulatorInterval, features: frozenset[str], bits: int = 0, common: CommonOutput | None = None
) -> OutputStep:
    """Chooses and certifies the output step of an integer convolution whose accumulators reach ``interval``.

    ``bits``: if the arithmetic is *multiply-high*, the kernel has accumulators times 2^bits. ``common``: what the step
    has in common with those of other layers.
    """
    match op.epilogue:
        case RawAccumulator():
            return prepare_raw(op.y.dtype.c, interval)
        case Requantize():
            return prepare_requantize(op.epilogue, op.y.dtype.c, interval, features, bits, common)
        case RoundOnce():
            return prepare_round_once(op.epilogue, op.y.dtype.c, interval)
        case FloatActivation():
            raise AssertionError("a float convolution has no integer epilogue")
        case _:
            assert_never(op.epilogue)


def prepare_requantize(
    meaning: Requantize,
    c_type: str,
    interval: AccumulatorInterval,
    features: frozenset[str],
    bits: int = 0,
    common: CommonOutput | None = None,
    *,
    scale: str = CONV_SCALE,
    is_alone: bool = False,
) -> OutputStep:
    """The same for any operator whose accumulators, one per scale of ``meaning``, become codes of type ``c_type``.

    ``scale`` says in comments what that is. ``is_alone``: all channels have the same one, and no table is needed.
    """
    if isinstance(meaning, RoundTwice | DivideAway):
        bits = 0  # its roundings are those of whole sums
    if isinstance(meaning, RoundInSteps):
        scale = STEPS_SCALE
    if isinstance(meaning, RoundTwice):
        lifted = np.maximum(np.abs(interval.lo), np.abs(interval.hi)) << np.maximum(meaning.exponent, 0)
        prove(bool(((lifted < 2**31) | (meaning.exponent <= 0)).all()), "sums times 2^exponent fit int32")
    # The narrow lines of cores without a wide product follow from the accumulators: they are not for other weights.
    step, narrow = _Step(meaning, interval), "no-wide-product" in features and not (common and common.is_free)
    same_steps = CONSTANT_TIME in features
    form, prescale = ("", 0) if common is None else (common.form, common.prescale)
    most_shift = common.shift if common is not None and form else MAX_SHIFT
    stairs, fixed = _stairs(step), _searched(step, narrow, bits, most_shift, form, prescale, same_steps)
    if common is not None and fixed.shift > common.shift:
        fixed = _searched(step, narrow, bits, common.shift, form, prescale, same_steps)
    epilogue = _fixed(c_type, meaning, interval, fixed, scale, is_alone, common or CommonOutput(fixed.shift), features)
    certificate = replace(epilogue.certificate, numbers=_numbers(fixed, stairs))
    return replace(epilogue, stairs=stairs, certificate=certificate, common=common)


class _Step:
    """A requantization and the accumulators that reach it, as the key of a cache: equal if all numbers are."""

    def __init__(self, meaning: Requantize, interval: AccumulatorInterval) -> None:
        self.meaning, self.interval = meaning, interval
        bounds = (meaning.zero_point, meaning.low, meaning.high)
        arrays = (*meaning.numbers, interval.lo, interval.hi)
        self._key = (type(meaning), *bounds, *(array.tobytes() for array in arrays))
        self._hash = hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Step) and self._key == other._key


@lru_cache(maxsize=32)
def _stairs(step: _Step) -> Staircase:
    """What the line must be: as large as 256 numbers a channel, so only those of late are kept."""
    return staircase(step.meaning, step.interval.lo, step.interval.hi)


@lru_cache(maxsize=512)
def _searched(
    step: _Step, narrow: bool, bits: int, most_shift: int, form: str, prescale: int, same_steps: bool
) -> FixedPoint:
    """The line and its certificate: the search takes long, and whoever packs the layer once more asks for it again."""
    return requantize.choose(
        _stairs(step),
        narrow=narrow,
        bits=bits,
        most_shift=most_shift,
        form=form,
        prescale=prescale,
        same_steps=same_steps,
    )


def prepare_round_once(
    meaning: RoundOnce, c_type: str, interval: AccumulatorInterval, scale: str = CONV_SCALE
) -> OutputStep:
    """Equation (72) as it is. What is proved is that no product leaves int64.

    ``scale`` says in comments what the multiplier is.
    """
    ends = np.maximum(np.abs(interval.lo), np.abs(interval.hi))
    fits = all(int(end) * int(m) < 2**PRODUCT_BITS for end, m in zip(ends, meaning.multiplier, strict=True))
    prove(fits, "products with accumulators fit int64")
    parameters = (
        Constants("multiplier", "int32_t", meaning.multiplier, f"{scale} in units of 2^-shift."),
        Constants("shift", "uint8_t", meaning.shift, "the bits below the code."),
    )
    constants = tuple(each for each in parameters if _shared(each.values) is None)
    output = Output(
        kind="round-once",
        c_type=c_type,
        low=meaning.low,
        high=meaning.high,
        zero_point=meaning.zero_point,
        shift=0,
        prescale=0,
        is_per_channel=bool(constants),
        is_guarded=False,
        is_always=False,
        is_branchless=False,
        subtracts=False,
        multiplier=None,
        offset=None,
        word=0,
        meaning=f"acc * {scale} + y_zero_point, rounded once, {'halves up' if meaning.is_up else 'half to even'}.",
        rounds_up=meaning.is_up,
        numbers={each.role: int(each.values[0]) for each in parameters if each not in constants},
        texts={each.role: each.meaning.removesuffix(".") for each in parameters if each not in constants},
    )
    certificate = Certificate(interval.bounds, False, {"rounded once": len(meaning.multiplier)}, 0)
    addend = np.zeros_like(interval.lo)
    return OutputStep(output, constants, addend, np.zeros(0, np.int64), certificate)


def prepare_raw(c_type: str, interval: AccumulatorInterval) -> OutputStep:
    """The output step of operators that write the accumulators themselves."""
    output = Output("raw", c_type, 0, 0, 0, 0, 0, False, False, False, False, False, None, None, 0)
    addend = np.zeros_like(interval.lo)
    certificate = Certificate(interval.bounds, interval.wraps, {}, 0, SumWord(0, addend))
    return OutputStep(output, (), addend, np.zeros(0, np.int64), certificate)


def _fixed(
    c_type: str,
    meaning: Requantize,
    interval: AccumulatorInterval,
    fixed: FixedPoint,
    scale: str,
    is_alone: bool,
    common: CommonOutput,
    features: frozenset[str],
) -> OutputStep:
    is_guarded, subtracts = fixed.is_guarded or common.is_guarded, fixed.subtracts or common.subtracts
    emulates = is_guarded or fixed.arithmetic == "soft-float"
    parameters = _line_constants(fixed, scale) + (_emulation_constants(fixed, meaning, subtracts) if emulates else ())
    shared = {p.role for p in parameters if is_alone or (p.role in LINE_PARAMETERS and _shared(p.values) is not None)}
    if common.is_free:
        shared = set()
        parameters += (number(Y_ZERO_POINT, "int32_t", meaning.zero_point, "the code of 0."),) * emulates
    shared -= common.tables
    constants = tuple(p for p in parameters if p.role not in shared)
    output = Output(
        kind=fixed.arithmetic,
        c_type=c_type,
        low=meaning.low,
        high=meaning.high,
        zero_point=meaning.zero_point,
        shift=fixed.shift,
        prescale=fixed.prescale,
        is_per_channel=bool(constants),
        is_guarded=is_guarded,
        is_always=CONSTANT_TIME in features,
        is_branchless=BRANCHLESS in features,
        subtracts=subtracts,
        multiplier=None if "multiplier" in common.tables else _shared(_multiplier(fixed)),
        offset=None if "offset" in common.tables else _shared(fixed.offset),
        word=fixed.word,
        meaning=_meaning(fixed, meaning, scale),
        scale=scale,
        emulation=_emulation(meaning),
        numbers={p.role: int(p.values[0]) for p in parameters if p.role in shared},
        texts={p.role: p.meaning.removesuffix(".") for p in parameters if p.role in shared},
    )
    word = SumWord(fixed.bits, fixed.addend)
    certificate = Certificate(interval.bounds, interval.wraps, fixed.forms, fixed.comparisons, word)
    guarded = np.flatnonzero(fixed.guard)
    return OutputStep(output, constants, fixed.addend, guarded, certificate)


def _numbers(fixed: FixedPoint, stairs: Staircase) -> dict[str, object]:
    """What the certificate says of the output step, by the names of equations (4) and (5)."""
    numbers: dict[str, object] = {
        "kind": "requantize",
        "accumulator": (stairs.lo, stairs.hi),
        "y_range": (stairs.first, stairs.last),
        "form": fixed.arithmetic,
        "k": fixed.bits,
        "word": fixed.word,
        "prescale": fixed.prescale,
        "shift": fixed.shift,
        "low": stairs.requantize.low,
        "high": stairs.requantize.high,
        "addend": fixed.addend,
    }
    if fixed.arithmetic != "soft-float":
        numbers |= {"multiplier": fixed.multiplier, "offset": fixed.offset, "guard_band": fixed.guard}
    match stairs.requantize:
        case RoundTwice():
            numbers |= {"rounding": "twice"}
        case DivideAway(offset=of_sum, count=count):
            numbers |= {"rounding": "away", "of_sum": of_sum, "count": count}
        case RoundInSteps():
            numbers |= {"rounding": "steps"}
    if fixed.arithmetic == "narrow":
        numbers |= {"limit_low": fixed.clamp_low, "limit_high": fixed.clamp_high}
    if fixed.is_guarded or fixed.arithmetic == "soft-float":
        mantissa, exponent = multipliers(stairs.requantize)
        numbers |= {"mantissa": mantissa, "exponent": exponent - fixed.bits}
    return numbers


def _meaning(fixed: FixedPoint, meaning: Requantize, scale: str) -> str:
    """What the output step computes, for its comment."""
    acc = f"acc{f' / {2**fixed.bits}' if fixed.bits else ''}"
    if isinstance(meaning, RoundInSteps):
        return f"the code that the model's float32 operations make of {acc}."
    return f"{acc} * {scale} + y_zero_point, rounded."


def _emulation(meaning: Requantize) -> str:
    """The function of templates/library that computes the roundings themselves."""
    match meaning:
        case RoundTwice():
            return "round_twice"
        case DivideAway():
            return "divide_away"
        case _:
            return "soft_float_code"


def _multiplier(fixed: FixedPoint) -> Int64s:
    """The multipliers (M,) as the C has them: those of *split* in two halves."""
    if fixed.arithmetic != "split":
        return fixed.multiplier
    upper, lower = split(fixed)
    return upper << 16 | lower


def _shared(values: Int64s) -> Number:
    return int(values[0]) if (values == values[0]).all() else None


def _line_constants(fixed: FixedPoint, scale: str) -> tuple[Constants, ...]:
    """The parameters of the line, all as tables."""
    if fixed.arithmetic == "soft-float":
        return ()
    unit = fixed.shift + fixed.prescale + (fixed.word if fixed.arithmetic in ("multiply-high", "split") else 0)
    wide = fixed.arithmetic == "wide"
    is_split = fixed.arithmetic == "split"
    parts = f", from bit {fixed.word} on in the upper half, the rest in the lower one" if is_split else ""
    place = fixed.shift + (fixed.prescale if wide else 0)
    constants = [
        Constants("multiplier", "int32_t", _multiplier(fixed), f"{scale} in units of 2^-{unit}{parts}."),
        Constants(
            "offset",
            "int64_t" if wide else "int32_t",
            fixed.offset,
            f"y_zero_point and rounding, in units of 2^-{place}.",
        ),
    ]
    if fixed.arithmetic == "narrow":
        meaning = "below this accumulator the output no longer changes."
        constants.append(Constants("limit_low", "int32_t", fixed.clamp_low, meaning))
        constants.append(Constants("limit_high", "int32_t", fixed.clamp_high, meaning.replace("below", "above")))
    return tuple(constants)


def _emulation_constants(fixed: FixedPoint, meaning: Requantize, subtracts: bool) -> tuple[Constants, ...]:
    mantissa, exponent = multipliers(meaning)
    what = f"the scale in float32, of sums times {2**fixed.bits}," if fixed.bits else "the scale in float32"
    value = "scale_mantissa * 2^scale_exponent"
    if isinstance(meaning, RoundTwice):
        what, value = "the scale", "scale_mantissa * 2^(scale_exponent - 31)"
    power = "the power of two that belongs to scale_mantissa"
    first, second = f"{what} is {value}", power
    if isinstance(meaning, DivideAway):
        first, second = "what makes a sum that of codes", "what the sum of codes is divided by"
    constants = [
        Constants("scale_mantissa", "int32_t", mantissa, f"{first}."),
        Constants("scale_exponent", "int16_t", exponent - fixed.bits, f"{second}."),
    ]
    if fixed.arithmetic != "soft-float":
        whose = "the" if fixed.guard.size == 1 else "each channel's"
        exact = "" if fixed.guard.all() else "; 0: the line is exact"
        text = f"half width of {whose} guard band, in units of 2^-{fixed.shift}{exact}."
        c_type = "uint16_t" if fixed.guard.max() < 2**16 else "uint32_t"
        constants.append(Constants("guard_band", c_type, fixed.guard, text))
    if subtracts:
        text = "what each accumulator holds besides its sum, for the output step."
        constants.append(Constants("addend", "int32_t", fixed.addend, text))
    return tuple(constants)
