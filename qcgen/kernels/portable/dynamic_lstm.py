"""portable/dynamic_lstm: an LSTM of codes whose scales are found for each input, and for h before each step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import GateWeights, Operator, Recurrent
from qcgen.ir.types import DType
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.portable.recurrent import States, by_unit, initial_tables

LARGEST = 255
"""The most that codes of 8 bits differ from their zero point."""


@dataclass(frozen=True)
class DynamicLstmContext(Context):
    """A recurrent layer of one sequence."""

    template: ClassVar[str] = "kernels/portable/dynamic_lstm.c.jinja"

    steps: int  # of time
    inputs: int  # elements of x in a step
    units: int  # elements of a state
    directions: int  # 1 or 2
    has_backward: bool  # some direction begins with the last step
    states: States  # the first and the last ones
    input_type: str  # of a weight of the input
    state_type: str  # of a weight of the state


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every LSTM of codes."""
    return None if isinstance(op, Recurrent) and op.scale is not None else f"{op.op_type} quantizes no state"


def prepare(op: Operator, setting: Setting) -> Prepared:
    """A row of weights for each gate of each unit; zero points are subtracted from the codes of both factors."""
    assert isinstance(op, Recurrent)
    context = DynamicLstmContext(
        steps=op.x.shape[0],
        inputs=op.x.shape[2],
        units=op.units,
        directions=len(op.reverses),
        has_backward=any(op.reverses),
        states=States.of(op, setting),
        input_type=DType.of(op.weights.codes).c,
        state_type=DType.of(op.state_weights.codes).c,
    )
    bias = by_unit("bias", op.bias, "what is added to the sums")
    constants = (*_rows("input", op.weights), *_rows("state", op.state_weights), bias, *initial_tables(op, setting))
    reach = max(_reach(op.weights), _reach(op.state_weights))
    scratch = Scratch(2 * op.units * 4 + (op.x.shape[2] + op.units) * 2, 4)
    certificate = Certificate((-reach, reach))
    return Prepared(constants, context, (scratch,), certificate)


def _reach(weights: GateWeights) -> int:
    """The largest magnitude of a sum."""
    return LARGEST * int(np.abs(weights.codes.astype(np.int64)).sum(axis=-1).max())


def _rows(role: str, weights: GateWeights) -> tuple[Constants, Constants]:
    assert weights.scale is not None, "weights are codes"
    directions, gates, units, length = weights.codes.shape
    table = weights.codes.transpose(0, 2, 1, 3).reshape(directions * units * gates, length)
    meaning = f"for each gate of each unit, weights of the {role}."
    scale = by_unit(f"{role}_scale", weights.scale, "what sums are multiplied by")
    return Constants(f"{role}_weights", DType.of(weights.codes).c, table, meaning), scale


DYNAMIC_LSTM = Kernel("portable/dynamic_lstm", DynamicLstmContext, frozenset(), why_not, prepare)
