"""The reference: a Program evaluated on numpy arrays, slow and plain, the judge of every target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from qcgen.ir.program import Conv, Operator, OrionConv, Program
from qcgen.ir.types import Array
from qcgen.reference.conv import evaluate_conv
from qcgen.reference.orion import evaluate_orion_conv

__all__ = ["evaluate", "evaluate_operator"]


def evaluate(program: Program, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs by name, for inputs by name; all of them in the shapes and layouts of the model."""
    values = dict(feeds)
    for op in program.operators:
        values[op.y.name] = evaluate_operator(op, values[op.x.name])
    return {tensor.name: values[tensor.name] for tensor in program.outputs}


def evaluate_operator(op: Operator, x: Array) -> Array:
    """One operator's output."""
    match op:
        case Conv():
            return evaluate_conv(op, x)
        case OrionConv():
            return evaluate_orion_conv(op, x)
        case _:
            assert_never(op)
