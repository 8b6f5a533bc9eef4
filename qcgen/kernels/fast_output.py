"""The output step of kernels for one machine: one multiplication and one saturation where *multiply-high* serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np

from qcgen.intervals import INT32_MAX, INT32_MIN, accumulator_interval
from qcgen.ir.plan import Certificate
from qcgen.ir.program import Conv, Int64s
from qcgen.ir.types import Bools, DType
from qcgen.kernels.epilogue import LINE_PARAMETERS
from qcgen.kernels.kernel import Constants
from qcgen.kernels.packing import Packed
from qcgen.requantize.fixed_point import FastStep, certify_fast

Scale = Mapping[str, str]
"""The primitive that scales, by the arithmetic (``Output.kind``) that it serves; other arithmetics are a function's."""

FAST = ("multiply-high", "split")
"""The arithmetics that a primitive may serve: their parameters may stand elsewhere than in tables."""

RARE = 4  # a guard band of this or more bits less than a step is tested; wider ones take the exact function always
TESTED_BITS = 8  # that one TST instruction compares


@dataclass(frozen=True)
class FastOutput:
    """How sums become output codes.

    ``is_fast``: by the primitives ``scale``, (acc * multiplier >> word) + offset, and ``saturate``, to the output type.
    ``bare``: the primitive for (acc * multiplier >> 32) where no offset is left, else "".
    ``is_split``: ``scale`` takes the word, which is not 32 bits, and the multiplier in two halves.
    ``has_windows``: some channels have a guard band; then blocks that hold one test whether the line comes within
    ``guard`` units of a step. ``guard`` is 0 if such blocks always take the exact function. ``is_exact_alone``: that
    function stands alone, behind a test for ties: loops that need all registers have them; short ones take fewer
    instructions with it.
    ``clamps_low`` and ``clamps_high`` say whether the activation's bounds are tighter than the type's.
    """

    is_fast: bool
    is_split: bool
    has_windows: bool
    is_exact_used: bool
    is_exact_alone: bool
    guard: int
    scale: str
    bare: str
    saturate: str
    clamps_low: bool
    clamps_high: bool


def fast_output(op: Conv, packed: Packed, scale: Scale, saturate: str, bare: str = "", rare: int = RARE) -> FastOutput:
    """What the templates need to know of the output step, besides ``Epilogue.output``.

    ``scale`` names the primitive for each arithmetic, ``bare`` the one for *multiply-high* without an offset if there
    is one; ``saturate``, the last one, goes on with the output's type. ``rare``: by how many bits the guard bands that
    are tested are less than a step.
    """
    output = packed.epilogue.output
    is_fast = output.kind in scale
    has_windows = is_fast and output.is_guarded
    guard = _guard(op, packed, rare) if has_windows else 0
    adds = packed.epilogue.common is not None and packed.epilogue.common.has_offset
    return FastOutput(
        is_fast=is_fast,
        is_split=output.kind == "split",
        has_windows=has_windows,
        is_exact_used=output.kind != "raw" and (not is_fast or output.is_guarded),
        is_exact_alone=guard > 0,
        guard=guard,
        scale=scale.get(output.kind, ""),
        bare=bare if output.kind == "multiply-high" and output.offset == 0 and not adds else "",
        saturate=f"{'within' if output.is_branchless else saturate}_{'u8' if op.y.dtype is DType.UINT8 else 's8'}",
        clamps_low=output.low != op.y.dtype.low,
        clamps_high=output.high != op.y.dtype.high,
    )


def _guard(op: Conv, packed: Packed, rare: int) -> int:
    """A power of two that no guard band exceeds, 0 if it would cover too much of a step or leave int32."""
    shift = packed.epilogue.output.shift
    word = packed.epilogue.output.word if packed.epilogue.output.kind == "split" else 32
    widest = int(parameter(packed, "guard_band").max())
    guard = max(1 << max(widest - 1, 0).bit_length(), 1 << max(shift - TESTED_BITS - 1, 0))
    guard = max(guard, packed.epilogue.common.guard if packed.epilogue.common else 0)
    if 2 * guard << rare > 1 << shift:
        return 0
    bounds, addend = accumulator_interval(op), packed.epilogue.addend
    multiplier, offset = parameter(packed, "multiplier"), parameter(packed, "offset")
    if packed.epilogue.output.kind == "split":
        multiplier = (multiplier >> 16 << word) + (multiplier & 0xFFFF)
    ends = [(((end << packed.bits) + addend) * multiplier >> word) + offset + guard for end in (bounds.lo, bounds.hi)]
    return guard if min(e.min() for e in ends) >= INT32_MIN and max(e.max() for e in ends) <= INT32_MAX else 0


def certified(op: Conv, packed: Packed, fast: FastOutput) -> Certificate:
    """The certificate of a node with this output step: what the templates make of it is proved, too."""
    if not fast.is_fast:
        return packed.certificate
    output = packed.epilogue.output
    return with_fast_step(
        packed,
        FastStep(
            multiplier=parameter(packed, "multiplier"),
            addend=packed.epilogue.addend,
            offset=parameter(packed, "offset"),
            guarded=guarded(packed),
            bits=packed.bits,
            word=output.word,
            is_split=fast.is_split,
            shift=output.shift,
            half=0,
            least=INT32_MIN,
            most=INT32_MAX,
            low=max(op.y.dtype.low, output.low if fast.clamps_low else INT32_MIN),
            high=min(op.y.dtype.high, output.high if fast.clamps_high else INT32_MAX),
            guard=fast.guard,
            mask=(1 << output.shift) - 2 * fast.guard if fast.guard else 0,
            limit=0,
        ),
    )


def guarded(packed: Packed) -> Bools:
    """(M,): the channels that have a guard band."""
    return np.isin(np.arange(packed.bias.size), packed.epilogue.guarded)


def with_fast_step(packed: Packed, step: FastStep) -> Certificate:
    """The certificate of a node whose kernel has this output step, which is proved here; raises ProofFailed."""
    stairs = packed.epilogue.stairs
    assert stairs is not None
    certify_fast(step, stairs)
    return replace(packed.certificate, numbers={**packed.certificate.numbers, "fast": _own_numbers(step)})


def _own_numbers(step: FastStep) -> dict[str, object]:
    """What a certificate says of the fast step; its other numbers are those of the exact function."""
    shared = ("multiplier", "addend", "guarded", "bits", "word", "is_split", "shift")
    return {name: value for name, value in asdict(step).items() if name not in shared}


def parameter(packed: Packed, role: str) -> Int64s:
    """A parameter of every channel, (M,), whether it has a table or not."""
    for constants in packed.epilogue.constants:
        if constants.role == role:
            return constants.values.astype(np.int64)
    number = {"multiplier": packed.epilogue.output.multiplier, "offset": packed.epilogue.output.offset}[role]
    assert number is not None
    return np.full(packed.bias.size, number, np.int64)


def exact_constants(packed: Packed) -> tuple[Constants, ...]:
    """The tables of the exact function, for kernels whose streams hold what the fast one needs."""
    is_fast = packed.epilogue.output.kind in FAST
    return () if is_fast and not _needs_exact(packed) else packed.epilogue.constants


def _needs_exact(packed: Packed) -> bool:
    """Whether a channel may take the exact function."""
    common = packed.epilogue.common
    return bool(packed.epilogue.guarded.size) or (common is not None and common.is_free)


def output_constants(packed: Packed) -> tuple[Constants, ...]:
    """The tables of the output step for kernels that compute one channel after the other."""
    constants, output = packed.epilogue.constants, packed.epilogue.output
    if not output.is_guarded or output.kind not in FAST:
        return constants
    if not _needs_exact(packed):
        constants = tuple(each for each in constants if each.role in LINE_PARAMETERS)
    text = "1 where a channel has a guard band."
    return (*constants, Constants("has_window", "uint8_t", guarded(packed).astype(np.int64), text))
