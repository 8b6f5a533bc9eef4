"""portable/recurrent, dynamic_lstm, integer_lstm: LSTM and GRU, one time step after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context, Struct
from qcgen.ir.plan import Certificate
from qcgen.ir.program import BLOCK, GATES, Float32s, GateWeights, Int64s, IntegerLstm, Operator, Recurrent, Tensor
from qcgen.ir.types import Array, DType
from qcgen.kernels.integer_lstm import prepare_lstm, why_no_integer_lstm
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.text import LibraryCall, library_call, sequence_text

FLOAT_BYTES = 4


@dataclass(frozen=True)
class Rows(Context):
    """Weights of some gates of all units, what they are multiplied by, and the numbers of these gates."""

    role: str  # of the table, and of the function that sums up
    gates: tuple[int, ...]  # by their number among all gates
    c_type: str  # of a weight
    zero_point: int  # of codes
    scale: float | None  # the one of all codes
    has_scales: bool  # one for each gate of each unit
    is_chunked: bool  # products are summed in blocks, of float weights
    is_added: bool  # their sums to numbers that are there
    terms: str  # what is multiplied by weights: INPUTS or UNITS numbers
    of: str  # the same in words


@dataclass(frozen=True)
class States(Context):
    """What states start with, and which of them y holds."""

    starts: tuple[str, ...]  # initial states: "h", "c"
    given: tuple[str, ...]  # those that are parameters
    constant: tuple[str, ...]  # those that are tables
    keeps_states: bool  # those after each step are y's first rows
    last_row: int | None  # of y: the last state
    cell_row: int | None  # of y: the last cell

    @classmethod
    def of(cls, op: Recurrent, setting: Setting) -> States:
        """Those of an operator."""
        found = _initial_states(op)
        is_constant = {name: state.name in setting.constants for name, state in found.items()}
        steps = op.x.shape[0] if op.keeps_states else 0
        return cls(
            starts=tuple(found),
            given=tuple(name for name in found if not is_constant[name]),
            constant=tuple(name for name in found if is_constant[name]),
            keeps_states=op.keeps_states,
            last_row=steps if op.keeps_last else None,
            cell_row=steps + op.keeps_last if op.keeps_cell else None,
        )


@dataclass(frozen=True)
class RecurrentContext(Context):
    """A recurrent layer."""

    template: ClassVar[str] = "kernels/portable/recurrent.c.jinja"

    kind: str  # "lstm" or "gru"
    letters: str  # the gates, in ONNX's words
    steps: int  # of time
    batch: int  # sequences
    directions: int  # 1 or 2
    inputs: int  # elements of x in a step
    units: int  # elements of a state
    rows: tuple[Rows, ...]  # those of the input, those of the state, those of the state that the reset gate multiplies
    is_late: bool  # the reset gate multiplies the sum over the state, not the state
    has_backward: bool  # some direction begins with the last step
    x_step: int  # elements of x from one step to the next
    y_row: int  # the same of y
    states: States  # the first and the last ones
    clip: tuple[float, float] | None  # bounds of what activations are given
    couples: bool  # the forget gate is 1 less the input gate
    block: int  # products that are summed by themselves


def why_not_recurrent(op: Operator, _setting: Setting) -> str | None:
    """Serves every LSTM and GRU of float32 inputs."""
    if not isinstance(op, Recurrent):
        return f"{op.op_type} carries no state from step to step"
    return None if op.scale is None else "its inputs are codes"


def prepare_recurrent(op: Operator, setting: Setting) -> Prepared:
    """Weights in the order in which a step reads them: for each unit, for each term, those of its gates."""
    assert isinstance(op, Recurrent)
    late = op.kind == "lstm" or op.state_bias is not None
    every = tuple(range(op.gates))
    parts = [("input", op.weights, every, "INPUTS", "the step's input")]
    parts.append(("state", op.state_weights, every if late else every[:2], "UNITS", "the state"))
    parts += [] if late else [("reset", op.state_weights, every[2:], "UNITS", "the state times the reset gate")]
    packed = [_packed(op.kind, *part) for part in parts]
    context = RecurrentContext(
        kind=op.kind,
        letters=GATES[op.kind],
        steps=op.x.shape[0],
        batch=op.x.shape[1],
        directions=len(op.reverses),
        inputs=op.x.shape[2],
        units=op.units,
        rows=tuple(rows for rows, _ in packed),
        is_late=op.state_bias is not None,
        has_backward=any(op.reverses),
        x_step=op.x.shape[1] * op.x.shape[2],
        y_row=len(op.reverses) * op.x.shape[1] * op.units,
        states=States.of(op, setting),
        clip=None if op.clip is None else (-op.clip, op.clip),
        couples=op.couples,
        block=BLOCK,
    )
    constants = [table for _, tables in packed for table in tables] + [by_unit("bias", op.bias, "what sums start with")]
    if op.state_bias is not None:
        meaning = "what the reset gate multiplies besides the sum over the state, by units."
        constants.append(Constants("state_bias", "float", op.state_bias, meaning))
    constants += initial_tables(op, setting)
    buffers = 3 if op.kind == "lstm" else 2 if late else 4
    scratch = (Scratch(buffers * op.units * FLOAT_BYTES, FLOAT_BYTES),)
    return Prepared(tuple(constants), context, scratch, Certificate())


def _packed(
    kind: str, role: str, weights: GateWeights, gates: tuple[int, ...], terms: str, of: str
) -> tuple[Rows, list[Constants]]:
    codes = weights.codes[:, list(gates)]
    directions, count, units, length = codes.shape
    table = codes.transpose(0, 2, 3, 1).reshape(directions * units, length * count)
    letters = "a gate" if count == 1 else f"{count} gates"
    meaning = f"by units, then by elements of {of}, the weights of {letters}."
    tables = [Constants(f"{role}_weights", DType.of(codes).c, table, meaning)]
    scale = None if weights.scale is None else weights.scale[:, list(gates)]
    is_one = scale is not None and bool((scale == scale.flat[0]).all())
    if scale is not None and not is_one:
        tables.append(by_unit(f"{role}_scale", scale, "what sums of codes are multiplied by"))
    one = float(scale.flat[0]) if scale is not None and is_one else None
    has_scales = scale is not None and not is_one
    c_type = DType.of(codes).c
    is_chunked = scale is None and length > BLOCK
    is_added = role != "input" and (is_chunked or kind == "gru")
    return Rows(role, gates, c_type, weights.zero_point, one, has_scales, is_chunked, is_added, terms, of), tables


def by_unit(role: str, values: Float32s, meaning: str) -> Constants:
    """Numbers (D, G, H) of gates and units, those of a unit side by side."""
    directions, gates, units = values.shape
    table = values.transpose(0, 2, 1).reshape(directions * units, gates)
    return Constants(role, "float", table, f"{meaning}, by units, then by gates.")


def initial_tables(op: Recurrent, setting: Setting) -> Iterator[Constants]:
    """The tables of initial states that are constants."""
    for name, state in _initial_states(op).items():
        values: Array | None = setting.constants.get(state.name)
        if values is not None:
            table = values.astype(np.float32).reshape(-1)
            yield Constants(f"initial_{name}", "float", table, f"what {name} starts with, by directions and sequences.")


def _initial_states(op: Recurrent) -> dict[str, Tensor]:
    return {name: state for name, state in (("h", op.initial_h), ("c", op.initial_c)) if state is not None}


RECURRENT = Kernel("portable/recurrent", RecurrentContext, frozenset(), why_not_recurrent, prepare_recurrent)


LARGEST = 255
"""The most that codes of 8 bits differ from their zero point."""


def why_not_dynamic_lstm(op: Operator, _setting: Setting) -> str | None:
    """Serves every LSTM of codes."""
    return None if isinstance(op, Recurrent) and op.scale is not None else f"{op.op_type} quantizes no state"


def prepare_dynamic_lstm(op: Operator, setting: Setting) -> Prepared:
    """A row of weights for each gate of each unit; zero points are subtracted from the codes of both factors."""
    assert isinstance(op, Recurrent)
    states = States.of(op, setting)
    bias = by_unit("bias", op.bias, "what is added to the sums")
    constants = (*_rows("input", op.weights), *_rows("state", op.state_weights), bias, *initial_tables(op, setting))
    layer = Struct(
        "dynamic_lstm",
        tuple(table.role for table in constants),
        {
            "steps": op.x.shape[0],
            "inputs": op.x.shape[2],
            "units": op.units,
            "directions": len(op.reverses),
            "reverse": int(op.reverses[0]),
            "keeps_states": int(op.keeps_states),
            "last_row": -1 if states.last_row is None else states.last_row,
            "cell_row": -1 if states.cell_row is None else states.cell_row,
        },
    )
    given = [f"initial_{name}" if name in states.given else "NULL" for name in ("h", "c")]
    context = library_call(
        op,
        _size_in_words(op),
        ", ".join(
            (
                "const uint8_t *x, const float *x_scale, const uint8_t *zero_point",
                *(f"const float *initial_{name}" for name in states.given),
                "float *y, float *states",
            )
        ),
        "run_dynamic_lstm",
        "x",
        "x_scale[0]",
        "zero_point[0]",
        *given,
        "y",
        "states",
        layer=layer,
    )
    reach = max(_reach(op.weights), _reach(op.state_weights))
    scratch = Scratch(2 * op.units * 4 + (op.x.shape[2] + op.units) * 2, 4)
    return Prepared(constants, context, (scratch,), Certificate((-reach, reach)))


def _size_in_words(op: Recurrent) -> str:
    """A sentence on the steps and the states."""
    steps, _, inputs = op.x.shape
    order = ", there and back" if len(op.reverses) > 1 else ", from the last step back" if op.reverses[0] else ""
    return f"{sequence_text(steps, inputs, op.units)}{order}."


def _reach(weights: GateWeights) -> int:
    """The largest magnitude of a sum."""
    return LARGEST * int(np.abs(weights.codes.astype(np.int64)).sum(axis=-1).max())


def _rows(role: str, weights: GateWeights) -> tuple[Constants, Constants]:
    assert weights.scale is not None, "weights are codes"
    directions, gates, units, length = weights.codes.shape
    table = weights.codes.transpose(0, 2, 1, 3).reshape(directions * units * gates, length)
    meaning = f"for each gate of each unit, weights of the {role}."
    scale = by_unit(f"{role}_scale", weights.scale, "what sums are multiplied by")
    kind = DType.of(weights.codes)
    return Constants(f"{role}_{'weights' if kind is DType.INT8 else 'words'}", kind.c, table, meaning), scale


DYNAMIC_LSTM = Kernel("portable/dynamic_lstm", LibraryCall, frozenset(), why_not_dynamic_lstm, prepare_dynamic_lstm)


def why_not_integer_lstm(op: Operator, _setting: Setting) -> str | None:
    """Serves every one."""
    return why_no_integer_lstm(op)


def prepare_integer_lstm(op: Operator, _setting: Setting) -> Prepared:
    """Weights in the order in which a step reads them: for each unit, for each term, those of its gates."""
    assert isinstance(op, IntegerLstm)
    return prepare_lstm(op, "integer_lstm_by_bytes", "weights", _by_term)


def _by_term(weights: Int64s) -> tuple[str, Int64s, str]:
    return "int8_t", weights.reshape(len(weights), -1), "of a term those of the four gates"


INTEGER_LSTM = Kernel("portable/integer_lstm", LibraryCall, frozenset(), why_not_integer_lstm, prepare_integer_lstm)
