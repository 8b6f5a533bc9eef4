"""portable/integer_lstm: LSTM by the integers of TensorFlow Lite; a term is read once for the four gates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.program import Int64s, IntegerLstm, Operator
from qcgen.kernels.integer_lstm import Lstm, prepare_lstm, why_no_integer_lstm
from qcgen.kernels.kernel import Kernel, Prepared, Setting


@dataclass(frozen=True)
class IntegerLstmContext(Context):
    """An LSTM in integers."""

    template: ClassVar[str] = "kernels/portable/integer_lstm.c.jinja"

    lstm: Lstm


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every one."""
    return why_no_integer_lstm(op)


def prepare(op: Operator, _setting: Setting) -> Prepared:
    """Weights in the order in which a step reads them: for each unit, for each term, those of its gates."""
    assert isinstance(op, IntegerLstm)
    return prepare_lstm(op, IntegerLstmContext, _by_term)


def _by_term(weights: Int64s) -> tuple[str, Int64s, str]:
    return "int8_t", weights.reshape(len(weights), -1), "of a term those of the four gates"


INTEGER_LSTM = Kernel("portable/integer_lstm", IntegerLstmContext, frozenset(), why_not, prepare)
