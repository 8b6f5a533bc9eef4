"""The estimate of a kernel's instructions: how often each kind of work is done, times what it takes on a core."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qcgen.ir.program import Operator
from qcgen.kernels.kernel import Prepared, Setting

Terms = defaultdict[str, float]
"""How often a kernel does each kind of work in one call, by the kind's name."""

Names = Mapping[str, Any]
"""The context of a prepared operator: the numbers that its C text shows."""

Figures = Mapping[str, Mapping[str, float]]
"""Instructions that each kind of work takes, by the core's name."""


@dataclass(frozen=True)
class Estimate:
    """A kernel's ``cost``: its ``terms``, read off what ``prepare`` gave, times the ``figures`` of the core.

    The figures are measured: ``python -m tests.bench.costs`` finds them.
    """

    prepare: Callable[[Operator, Setting], Prepared]
    terms: Callable[[Operator, Prepared], Terms]
    figures: Figures

    def __call__(self, op: Operator, setting: Setting) -> float | None:
        """Instructions of one call on ``setting.core``, compiled by gcc -O3; None without figures for the core."""
        figures = self.figures.get(setting.core)
        if not figures:
            return None
        counted = {kind: n for kind, n in self.terms(op, self.prepare(op, setting)).items() if n}
        if not counted.keys() <= figures.keys():
            return None
        return sum(count * figures[kind] for kind, count in counted.items())


def by_core(cores: Sequence[str], rows: Mapping[str, Sequence[float | None]]) -> Figures:
    """A table with a row for each kind of work and a column for each core; None where it has not been measured."""
    figures: dict[str, dict[str, float]] = {core: {} for core in cores}
    for kind, row in rows.items():
        for core, value in zip(cores, row, strict=True):
            if value is not None:
                figures[core][kind] = value
    return figures


def new_terms() -> Terms:
    """No work."""
    return defaultdict(float)


def near_ties(prepared: Prepared, guard_role: str = "tie_window") -> float:
    """How often an output of each channel, spread evenly, falls into its tie window: the mean over channels."""
    names: Names = prepared.context
    for table in prepared.constants:
        if table.role == guard_role:
            return float(np.minimum(1.0, 2 * table.values / 2.0 ** names["output"].shift).mean())
    return 0.0


def count_kinds(terms: Terms, names: Names, outputs: float) -> None:
    """Output steps by their arithmetic."""
    for kind in ("raw", "high word", "wide", "narrow", "emulated"):
        terms[f"{kind} output"] += outputs * (names["output"].kind == kind)
    terms["emulation"] += outputs * (names["output"].kind == "emulated")


def count_pair_lines(terms: Terms, names: Names, elements: float) -> None:
    """The codes of a sum or product by their line's form."""
    line = names["line"]
    terms[f"{names['kind']} by {'a table' if line.form == 'table' else 'a line'}"] = elements
    terms["signed code"] = elements * (names["low"] < 0)
    terms["fine slope"] = elements * bool(line.fine_shift)
    terms["tie window"] = elements * (line.window is not None)
    if names["exceptions"]:
        terms["exception test"] = elements
        near = (2 * line.exception_window + 1) / (names["fraction_mask"] + 1)
        terms["search step"] = elements * min(1.0, near) * names["exceptions"].bit_length()
