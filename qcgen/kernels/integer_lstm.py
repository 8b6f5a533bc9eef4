"""What kernels of LSTMs in integers share: sizes, scales, tables. How sums are taken is theirs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qcgen.arithmetic import LOGISTIC_TABLE, tangent_of
from qcgen.errors import prove
from qcgen.ir.context import Struct
from qcgen.ir.plan import Certificate
from qcgen.ir.program import Int64s, IntegerLstm, Operator
from qcgen.kernels.kernel import Constants, Prepared
from qcgen.kernels.text import library_call, sequence_text


def why_no_integer_lstm(op: Operator) -> str | None:
    """The operator is not an LSTM in integers."""
    return None if isinstance(op, IntegerLstm) else f"{op.op_type} is not an LSTM in integers"


def logistic_table() -> Constants:
    """The numbers that the functions integer_logistic and integer_tangent draw lines between."""
    meaning = "1 / (1 + exp(-i / 24)) in units of 2^-16, i = 0, ..., 255."
    return Constants("logistic", "uint16_t", LOGISTIC_TABLE, meaning)


def prepare_lstm(
    op: IntegerLstm, function: str, role: str, table: Callable[[Int64s], tuple[str, Int64s, str]]
) -> Prepared:
    """Everything of an LSTM by a function of the library, whose struct calls weights input_ROLE and state_ROLE.

    ``table`` lays out weights (H, n, 4), of a unit those of all gates of a term side by side: it gives the type in C,
    the table (H, ...), and how they lie.
    """
    batch, steps, inputs = op.x.shape
    tangent = tangent_of(op.power)
    scalings = {"forget": op.forget_by, "input": op.input_by, "output": op.output_by}
    exponents = [exponent for _, exponent in scalings.values()]
    prove(max(exponents) <= 0 and tangent.multiplier < 2**15, "no product of two numbers of 16 bits leaves int32")
    constants = []
    for of, given, what in (("input", op.weights, "the step's input"), ("state", op.state_weights, "the state")):
        c_type, values, how = table(given.codes.transpose(1, 2, 0).astype(np.int64))
        constants.append(Constants(f"{of}_{role}", c_type, values, f"by units, the weights of {what}, {how}."))
    starts = np.concatenate([op.weights.bias.T, op.state_weights.bias.T], axis=1)
    meaning = "by units, what the sums of the four gates begin with, over the input and over the state."
    constants += [Constants("bias", "int32_t", starts, meaning), logistic_table()]
    numbers = {"batch": batch, "steps": steps, "inputs": inputs, "units": op.units, "y_zero_point": op.zero_point}
    for name, (multiplier, exponent) in scalings.items():
        numbers |= {f"{name}_multiplier": multiplier, f"{name}_exponent": exponent}
    numbers |= {"tangent_multiplier": tangent.multiplier, "tangent_shift": tangent.shift}
    numbers["cell_most"] = min(op.clip, 2**15)
    by_gate = {"x": op.weights.scales, "h": op.state_weights.scales}
    arrays = {f"{of}_multiplier": tuple(multiplier for multiplier, _ in scales) for of, scales in by_gate.items()}
    arrays |= {f"{of}_exponent": tuple(exponent for _, exponent in scales) for of, scales in by_gate.items()}
    tables = tuple(constant.role for constant in constants)
    context = library_call(
        op,
        f"{sequence_text(steps, inputs, op.units)}.",
        "const int8_t *x, const int8_t *h, const int8_t *c, int8_t *y",
        function,
        *("x", "h", "c", "y"),
        layer=Struct("integer_lstm", tables, numbers, arrays=arrays),
    )
    return Prepared(tuple(constants), context, (), Certificate())
