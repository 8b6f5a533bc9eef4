"""Inputs of a network and the outputs that its C must give for them, as a header."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qcgen.ir.plan import Plan, Port, Table
from qcgen.ir.program import Program
from qcgen.ir.types import Array, DType
from qcgen.plan.arrange import boundary_layout, stored
from qcgen.reference import evaluate_frames
from qcgen.render import filled, header_id
from qcgen.render.filters import one_line
from qcgen.render.model import options_text
from qcgen.self_test import same_everywhere
from qcgen.version import __version__


@dataclass(frozen=True)
class _Vector:
    """The elements of an input or output in each case."""

    port: Port
    meaning: str
    cases: tuple[Table, ...]


def vectors(program: Program, plan: Plan, files: Mapping[str, str], feeds: Sequence[Mapping[str, Array]]) -> str:
    """The text of NAME_vectors.h for these inputs by name, in the model's own shapes; ``files`` are those of the plan.

    Of a network with states these are calls one after the other, from the initial states on. Raises OrionPanic if Orion
    panics on one.
    """
    states = {state.read for state in program.states}
    given = [{name: array for name, array in each.items() if name not in states} for each in feeds]
    cases = list(evaluate_frames(program, given))
    found = tuple(
        _Vector(port, _meaning(port), tuple(_table(plan, port, case) for case in cases))
        for port in (*plan.inputs, *plan.outputs)
    )
    exact = same_everywhere(program)
    context = {
        "plan": plan,
        "prefix": plan.prefix,
        "PREFIX": plan.prefix.upper(),
        "version": __version__,
        "options": options_text(plan),
        "header_id": f"0x{header_id(plan, files):08x}",
        "inexact": ", ".join(port.symbol for port in plan.outputs if port.tensor.name not in exact),
        "has_no_literal": any(not np.isfinite(case.values).all() for vector in found for case in vector.cases),
        "count": len(cases),
        "vectors": found,
    }
    return filled("vectors.h", context)


def _meaning(port: Port) -> str:
    return f"{port.direction.capitalize()} {one_line(port.tensor.name)}, one row for each case."


def _table(plan: Plan, port: Port, case: Mapping[str, Array]) -> Table:
    """The elements of a tensor as they lie in memory."""
    order = stored(port.tensor, boundary_layout(port.tensor, plan.options.layout))
    values = np.ascontiguousarray(case[port.tensor.name].transpose(order)).reshape(-1)
    if port.tensor.dtype is DType.FLOAT16:
        values = values.view(np.uint16)
    return Table("vector", port.symbol, port.tensor.dtype.c, values, "")
