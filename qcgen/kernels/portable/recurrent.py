"""portable/recurrent, dynamic_lstm, integer_lstm: LSTM and GRU, one time step after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context, Struct
from qcgen.ir.plan import Certificate
from qcgen.ir.program import BLOCK, Float32s, GateWeights, Int64s, IntegerLstm, Operator, Recurrent, Tensor
from qcgen.ir.types import Array, DType
from qcgen.kernels.integer_lstm import prepare_lstm, why_no_integer_lstm
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.text import LibraryCall, library_call, sequence_text

FLOAT_BYTES = 4


@dataclass(frozen=True)
class Rows(Context):
    """Weights of some gates of all units, and what they are multiplied by."""

    role: str  # of the table, and of the function that sums up
    of: str  # what is multiplied by weights, in words
    c_type: str  # of a weight
    zero_point: int  # of codes
    scales: str  # the table of those of each gate of each unit, "" if one scale is that of all
    gates: Struct


@dataclass(frozen=True)
class RecurrentContext(Context):
    """A recurrent layer."""

    template: ClassVar[str] = "kernels/portable/recurrent.c.jinja"

    size: str  # in words
    step: str  # the library's function for a step of time
    rows: tuple[Rows, ...]  # those of the input, those of the state, those of the state that the reset gate multiplies
    layer: Struct
    given: tuple[str, ...]  # initial states that are parameters: "h", "c"


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
    parts = [("input", op.weights, every, "the step's input")]
    parts.append(("state", op.state_weights, every if late else every[:2], "the state"))
    parts += [] if late else [("reset", op.state_weights, every[2:], "the state times the reset gate")]
    packed = [_packed(*part) for part in parts]
    starts = [by_unit("bias", op.bias, "what sums start with")]
    if op.state_bias is not None:
        meaning = "what the reset gate multiplies besides the sum over the state, by units."
        starts.append(Constants("state_bias", "float", op.state_bias, meaning))
    starts += initial_tables(op, setting)
    context = RecurrentContext(
        size=_size_in_words(op),
        step="recurrent_late_gru" if op.state_bias is not None else f"recurrent_{op.kind}",
        rows=tuple(rows for rows, _ in packed),
        layer=_layer(op, starts),
        given=_given(op, setting),
    )
    buffers = 3 if op.kind == "lstm" else 2 if late else 4
    scratch = (Scratch(buffers * op.units * FLOAT_BYTES, FLOAT_BYTES),)
    constants = (*(table for _, tables in packed for table in tables), *starts)
    return Prepared(constants, context, scratch, Certificate())


def _packed(role: str, weights: GateWeights, gates: tuple[int, ...], of: str) -> tuple[Rows, list[Constants]]:
    codes = weights.codes[:, list(gates)]
    directions, count, units, length = codes.shape
    table = codes.transpose(0, 2, 3, 1).reshape(directions * units, length * count)
    c_type = DType.of(codes).c
    meaning = f"by units, then by elements of {of}, the weights of {'a gate' if count == 1 else f'{count} gates'}."
    tables = [Constants(f"{role}_weights", c_type, table, meaning)]
    scale = np.ones(1, np.float32) if weights.scale is None else weights.scale[:, list(gates)]
    is_one = bool((scale == scale.flat[0]).all())
    if not is_one:
        tables.append(by_unit(f"{role}_scale", scale, "what sums of codes are multiplied by"))
    numbers = {"count": count, "terms": length, "adds": int(role != "input")}
    numbers["block"] = BLOCK if weights.scale is None else length
    summed = Struct("gates", (), numbers, floats={"scale": float(scale.flat[0]) if is_one else 1.0})
    return Rows(role, of, c_type, weights.zero_point, "" if is_one else f"{role}_scale", summed), tables


def _layer(op: Recurrent, tables: Sequence[Constants]) -> Struct:
    rows, (steps, batch, inputs) = op.x.shape[0] if op.keeps_states else 0, op.x.shape
    numbers = {
        "steps": steps,
        "batch": batch,
        "inputs": inputs,
        "units": op.units,
        "directions": len(op.reverses),
        "reverse": int(op.reverses[0]),
        "keeps_states": int(op.keeps_states),
        "last_row": rows if op.keeps_last else -1,
        "cell_row": rows + op.keeps_last if op.keeps_cell else -1,
        "has_cell": int(op.kind == "lstm"),
        "couples": int(op.couples),
    }
    return Struct("recurrent", tuple(table.role for table in tables), numbers, floats={"clip": op.clip or 0.0})


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


def _given(op: Recurrent, setting: Setting) -> tuple[str, ...]:
    """The initial states that are parameters of the C function."""
    return tuple(name for name, state in _initial_states(op).items() if state.name not in setting.constants)


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
    given = _given(op, setting)
    bias = by_unit("bias", op.bias, "what is added to the sums")
    constants = (*_rows("input", op.weights), *_rows("state", op.state_weights), bias, *initial_tables(op, setting))
    context = library_call(
        op,
        _size_in_words(op),
        ", ".join(
            (
                "const uint8_t *x, const float *x_scale, const uint8_t *zero_point",
                *(f"const float *{name}" for name in given),
                "float *y, float *states",
            )
        ),
        "run_dynamic_lstm",
        "x",
        "x_scale[0]",
        "zero_point[0]",
        *(name if name in given else "NULL" for name in ("h", "c")),
        "y",
        "states",
        layer=_layer(op, constants),
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
