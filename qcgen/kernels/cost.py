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


def near_ties(prepared: Prepared) -> float:
    """How often an output of each channel, spread evenly, falls into its tie window: the mean over channels."""
    names: Names = prepared.context
    output = names["output"]
    tables = [table.values for table in prepared.constants if table.role == "tie_window"]
    windows = tables[0] if tables else np.array(output.numbers.get("tie_window", 0))
    return float(np.minimum(1.0, 2 * windows / 2.0**output.shift).mean())


def count_kinds(terms: Terms, names: Names, outputs: float) -> None:
    """Output steps by their arithmetic."""
    for kind in ("raw", "high word", "wide", "narrow", "emulated"):
        terms[f"{kind} output"] += outputs * (names["output"].kind == kind)
    terms["emulation"] += outputs * (names["output"].kind == "emulated")


def count_pair_lines(terms: Terms, names: Names, elements: float) -> None:
    """The codes of a sum or product by their line's form, before they are clamped."""
    line = names["line"]
    terms[f"{names['kind']} by {'a table' if line.form == 'table' else 'a line'}"] = elements
    zero_points = bool(names["a_zero_point"]) + bool(names["b_zero_point"])
    terms["zero point"] = elements * zero_points * (names["kind"] == "mul")
    terms["immediate of an offset"] = elements * immediates(line.offset)
    terms["fine slope"] = elements * bool(line.fine_shift)
    terms["tie window"] = elements * (line.window is not None)
    if names["exceptions"]:
        terms["exception test"] = elements
        near = (2 * line.exception_window + 1) / (names["fraction_mask"] + 1)
        terms["search step"] = elements * min(1.0, near) * names["exceptions"].bit_length()


def count_bounds(terms: Terms, names: Names, elements: float) -> None:
    """What clamps codes: two bounds of uint8 are one instruction on most cores, and so is the lower one alone."""
    low, high = names["clamps_low"], names["clamps_high"]
    for kind in ("bound", "lower bound of uint8", "both bounds of uint8"):
        terms[kind] = 0
    if names["low"] < 0:
        terms["bound"] = elements * (low + high)
    elif low:
        terms[f"{'both bounds' if high else 'lower bound'} of uint8"] = elements
    else:
        terms["bound"] = elements * high


def immediates(value: int) -> int:
    """The instructions in which gcc adds a number to a sum of products in Thumb-2: one for each immediate operand.

    More than two it does not take: the number is then in a register, where a product is added to it at no cost.

    >>> immediates(0x8200000), immediates(0x741AC0), immediates(0x2DFA941), immediates(0)
    (1, 2, 0, 0)
    """
    if value == 0:
        return 0
    if any(_is_immediate(each % 2**32) for each in (value, -value)):
        return 1
    parts = (each % 2**32 & 0xFF << shift for each in (value, -value) for shift in range(25))
    rests = ((each % 2**32) & ~(0xFF << shift) for each in (value, -value) for shift in range(25))
    return 2 if any(part and _is_immediate(rest) for part, rest in zip(parts, rests, strict=True)) else 0


def _is_immediate(word: int) -> bool:
    """Whether eight bits of the word, the highest one set, hold all that is not 0, or the same bytes are repeated."""
    low = word & 0xFF
    repeated = (low * 0x00010001, (word >> 8 & 0xFF) * 0x01000100, low * 0x01010101)
    return word >> max(word.bit_length() - 8, 0) << max(word.bit_length() - 8, 0) == word or word in repeated
