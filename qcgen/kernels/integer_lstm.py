"""What kernels of LSTMs in integers share: sizes, scales, tables. How sums are taken is theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from qcgen.arithmetic import LOGISTIC_TABLE, tangent_of
from qcgen.errors import prove
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import Int64s, IntegerLstm, Operator, Scaling, Sigmoid
from qcgen.kernels.kernel import Constants, Prepared


@dataclass(frozen=True)
class Lstm(Context):
    """An LSTM in integers."""

    batch: int  # sequences
    steps: int  # of time
    inputs: int  # elements of x in a step
    units: int  # elements of a state
    x_scales: tuple[Scaling, ...]  # of the sums of each gate over the input
    h_scales: tuple[Scaling, ...]  # the same over the state
    forget_by: Scaling  # of the forget gate times the cell
    input_by: Scaling  # of the input gate times the cell gate
    output_by: Scaling  # of the output gate times the cell's tangent
    zero_point: int  # of y
    tangent: Sigmoid  # of the cell
    half: int  # that is added before its shift
    clip: tuple[int, int] | None  # the bounds of the cell
    rows: tuple[int, int]  # elements of a unit's weights in the tables, of x and of the state


def why_no_integer_lstm(op: Operator) -> str | None:
    """The operator is not an LSTM in integers."""
    return None if isinstance(op, IntegerLstm) else f"{op.op_type} is not an LSTM in integers"


def logistic_table() -> Constants:
    """The numbers that the functions integer_logistic and integer_tangent draw lines between."""
    meaning = "1 / (1 + exp(-i / 24)) in units of 2^-16, i = 0, ..., 255."
    return Constants("logistic", "uint16_t", LOGISTIC_TABLE, meaning)


def prepare_lstm(
    op: IntegerLstm,
    context: Callable[[Lstm], Context],
    table: Callable[[Int64s], tuple[str, Int64s, str]],
) -> Prepared:
    """Everything of an LSTM; ``table`` lays out weights (H, n, 4), of a unit those of all gates of a term side by side.

    It gives the type in C, the table (H, ...), and how they lie.
    """
    batch, steps, inputs = op.x.shape
    tangent = tangent_of(op.power)
    exponents = (op.forget_by[1], op.input_by[1], op.output_by[1])
    prove(max(exponents) <= 0 and tangent.multiplier < 2**15, "no product of two numbers of 16 bits leaves int32")
    constants, rows = [], []
    for role, given, of in (("input", op.weights, "the step's input"), ("state", op.state_weights, "the state")):
        c_type, values, how = table(given.codes.transpose(1, 2, 0).astype(np.int64))
        constants.append(Constants(f"{role}_weights", c_type, values, f"by units, the weights of {of}, {how}."))
        rows.append(values.shape[1])
    starts = np.concatenate([op.weights.bias.T, op.state_weights.bias.T], axis=1)
    meaning = "by units, what the sums of the four gates begin with, over the input and over the state."
    constants.append(Constants("bias", "int32_t", starts, meaning))
    constants.append(logistic_table())
    lstm = Lstm(
        batch=batch,
        steps=steps,
        inputs=inputs,
        units=op.units,
        x_scales=op.weights.scales,
        h_scales=op.state_weights.scales,
        forget_by=op.forget_by,
        input_by=op.input_by,
        output_by=op.output_by,
        zero_point=op.zero_point,
        tangent=tangent,
        half=1 << tangent.shift >> 1,
        clip=(-op.clip, op.clip) if op.clip < 2**15 else None,
        rows=(rows[0], rows[1]),
    )
    return Prepared(tuple(constants), context(lstm), (), Certificate())
