"""Outputs of generated code against what they must be, also where float32 rounding leaves the C a choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

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


@dataclass(frozen=True)
class Difference:
    """The first output that differs: ``index`` in the model's own shape of ``output``; ``case`` counts from 0."""

    group: str
    case: int
    output: str
    index: tuple[int, ...]
    expected: float
    got: float

    def __str__(self) -> str:
        where = f"{self.output}{list(self.index) or ''} of {self.group} case {self.case}"
        return f"{where}: expected {self.expected!r}, got {self.got!r}"


@dataclass(frozen=True)
class Outcome:
    """What the cases of one group gave: ``outputs`` compared, ``differing`` among them, the first of these.

    In ``panics`` of the cases Orion panics, and what the function returns counts as the only output.
    """

    group: str
    cases: int = 0
    outputs: int = 0
    differing: int = 0
    first: Difference | None = None
    panics: int = 0


class Compared:
    """What the outcomes of all groups add up to."""

    outcomes: tuple[Outcome, ...]

    @property
    def cases(self) -> int:
        """The number of inputs tried."""
        return sum(outcome.cases for outcome in self.outcomes)

    @property
    def outputs(self) -> int:
        """The number of outputs compared."""
        return sum(outcome.outputs for outcome in self.outcomes)

    @property
    def panics(self) -> int:
        """The number of inputs on which Orion panics, so that what the function returned was compared."""
        return sum(outcome.panics for outcome in self.outcomes)

    @property
    def differing(self) -> int:
        """The number of outputs that differ from what they must be."""
        return sum(outcome.differing for outcome in self.outcomes)

    @property
    def first(self) -> Difference | None:
        """The first output that differs, None if there is none."""
        return next((outcome.first for outcome in self.outcomes if outcome.first), None)


RETURNED = "the return value"
"""What is compared where there are no outputs: 1 where Orion panics, else 0."""


def add_returned(outcome: Outcome, expected: int, got: int) -> Outcome:
    """The outcome with one more case in which the function returned ``got``."""
    names = {RETURNED: expected}, {RETURNED: got}, {RETURNED: 0}
    added = add(outcome, *({name: np.array(value) for name, value in each.items()} for each in names))
    return replace(added, panics=outcome.panics + expected)


def differences(expected: Array, got: Array, tolerance: Array) -> Array:
    """Where |got - expected| > tolerance (same shapes); equal infinities are equal, NaN equals NaN and nothing else."""
    with np.errstate(invalid="ignore"):
        near = np.abs(got.astype(np.float64) - expected.astype(np.float64)) <= tolerance
    different: Array = ~(near | (got == expected) | (np.isnan(got) & np.isnan(expected)))
    return different


def add(
    outcome: Outcome, expected: Mapping[str, Array], got: Mapping[str, Array], tolerances: Mapping[str, Array]
) -> Outcome:
    """The outcome with one more case."""
    outputs, differing, first = outcome.outputs, outcome.differing, outcome.first
    for name, wanted in expected.items():
        different = differences(wanted, got[name], tolerances[name])
        outputs += different.size
        differing += int(different.sum())
        if first is None and different.any():
            index = tuple(int(i) for i in np.unravel_index(int(different.argmax()), different.shape))
            pair = wanted[index].item(), got[name][index].item()
            first = Difference(outcome.group, outcome.cases, name, index, *pair)
    return replace(outcome, cases=outcome.cases + 1, outputs=outputs, differing=differing, first=first)


# What the reference expects, where float32 rounding leaves a choice: after the choice that the C has made.


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
