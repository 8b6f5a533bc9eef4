"""What the reference expects, where float32 rounding leaves a choice: after the choice that the C has made."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from qcgen.arithmetic import meant_text
from qcgen.ir.program import (
    Conv,
    DynamicParameter,
    DynamicQuantize,
    GlobalAveragePool,
    Program,
    Quantize,
    RoundOnce,
    inputs_of,
)
from qcgen.ir.types import Array
from qcgen.reference import evaluate_all, evaluate_operator
from qcgen.reference.tolerance import exact, tolerances


def reference_text(program: Program, numerics: str) -> str:
    """The arithmetic of the reference, for people; where that is not onnxruntime's own, how it differs."""
    rounds_once = any(
        (isinstance(op, Conv) and isinstance(op.epilogue, RoundOnce) and not op.epilogue.is_up)
        or (isinstance(op, GlobalAveragePool) and isinstance(op.requantize, RoundOnce))
        for op in program.operators
    )
    own = "; sums that become codes of 16 bits are rounded once, not in float32" if rounds_once else ""
    return meant_text(numerics) + own


def leaves_a_choice(program: Program) -> bool:
    """Whether numbers that are computed in float32 are quantized: near the middle of two codes either one is right."""
    return bool(_choices(program))


def followed(program: Program, feeds: Mapping[str, Array], computed: Mapping[str, Array]) -> dict[str, Array]:
    """Every tensor by name, evaluated from the codes in ``computed`` wherever those are as right as the reference's.

    They are right if a number within the tolerance of the reference's has that code.
    """
    allowed = tolerances(program, evaluate_all(program, feeds))
    choices = _choices(program)
    values = {**program.constants, **feeds}
    for op in program.operators:
        xs = [values[x.name] for x in inputs_of(op)]
        y = evaluate_operator(op, *xs)
        got = computed.get(op.y.name)
        if op.y.name in choices and got is not None and got.shape == y.shape:
            error = allowed[inputs_of(op)[0].name].astype(xs[0].dtype)
            one, other = (evaluate_operator(op, x, *xs[1:]) for x in (xs[0] - error, xs[0] + error))
            is_right = (np.minimum(one, other) <= got) & (got <= np.maximum(one, other))
            y[is_right] = got[is_right]
        values[op.y.name] = y
    return values


def _choices(program: Program) -> frozenset[str]:
    """The names of quantized tensors that come from inexact ones."""
    known = exact(program)
    kinds = Quantize | DynamicQuantize | DynamicParameter
    codes = [op for op in program.operators if isinstance(op, kinds) and not op.y.dtype.is_float]
    return frozenset(op.y.name for op in codes if op.x.name not in known)
