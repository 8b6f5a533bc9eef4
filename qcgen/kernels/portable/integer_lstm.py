"""portable/integer_lstm: LSTM by the integers of TensorFlow Lite, one time step after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qcgen.arithmetic import tangent_of
from qcgen.errors import prove
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import IntegerLstm, Operator, Scaling, Sigmoid
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Setting
from qcgen.kernels.portable.integer_unary import logistic_table


@dataclass(frozen=True)
class IntegerLstmContext(Context):
    """An LSTM in integers."""

    template: ClassVar[str] = "kernels/portable/integer_lstm.c.jinja"

    batch: int  # sequences
    steps: int  # of time
    inputs: int  # elements of x in a step
    units: int  # elements of a state
    forget_by: Scaling  # of the forget gate times the cell
    input_by: Scaling  # of the input gate times the cell gate
    output_by: Scaling  # of the output gate times the cell's tangent
    zero_point: int  # of y
    tangent: Sigmoid  # of the cell
    half: int  # that is added before its shift
    clip: tuple[int, int] | None  # the bounds of the cell


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every one."""
    return None if isinstance(op, IntegerLstm) else f"{op.op_type} is not an LSTM in integers"


def prepare(op: Operator, _setting: Setting) -> Prepared:
    """Weights in the order in which a step reads them: for each unit, for each gate, those of its terms."""
    assert isinstance(op, IntegerLstm)
    batch, steps, inputs = op.x.shape
    tangent = tangent_of(op.power)
    exponents = (op.forget_by[1], op.input_by[1], op.output_by[1])
    prove(max(exponents) <= 0 and tangent.multiplier < 2**15, "no product of two numbers of 16 bits leaves int32")
    constants = [
        Constants(f"{role}_weights", "int8_t", rows.codes.transpose(1, 0, 2).reshape(op.units, -1), meaning)
        for role, rows, meaning in (
            ("input", op.weights, "by units, then by gates, the weights of the step's input."),
            ("state", op.state_weights, "by units, then by gates, the weights of the state."),
        )
    ]
    starts = np.stack([op.weights.bias, op.state_weights.bias], axis=-1)
    constants.append(
        Constants(
            "bias",
            "int32_t",
            starts.transpose(1, 0, 2).reshape(op.units, -1),
            "by units, then by gates, what the sums over the input and over the state begin with.",
        )
    )
    scales = [[*first, *second] for first, second in zip(op.weights.scales, op.state_weights.scales, strict=True)]
    meaning = "by gates, multipliers and exponents of the sums over the input and over the state."
    constants += [Constants("scales", "int32_t", np.array(scales), meaning), logistic_table()]
    context = IntegerLstmContext(
        batch=batch,
        steps=steps,
        inputs=inputs,
        units=op.units,
        forget_by=op.forget_by,
        input_by=op.input_by,
        output_by=op.output_by,
        zero_point=op.zero_point,
        tangent=tangent,
        half=1 << tangent.shift >> 1,
        clip=(-op.clip, op.clip) if op.clip < 2**15 else None,
    )
    support = ("right_shift", "round_twice", "integer_logistic", "integer_tangent")
    return Prepared(tuple(constants), context, (), support, Certificate(), headers=("string.h",))


INTEGER_LSTM = Kernel("portable/integer_lstm", IntegerLstmContext, frozenset(), why_not, prepare)
