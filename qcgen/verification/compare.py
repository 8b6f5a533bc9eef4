"""Outputs of generated code against what they must be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from qcgen.ir.types import Array


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
