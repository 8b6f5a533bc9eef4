"""arm_dsp/integer_lstm: LSTM by the integers of TensorFlow Lite, four terms of four gates at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context
from qcgen.ir.program import Int64s, IntegerLstm, Operator
from qcgen.kernels.integer_lstm import Lstm, prepare_lstm, why_no_integer_lstm
from qcgen.kernels.kernel import Kernel, Prepared, Setting


@dataclass(frozen=True)
class DspLstmContext(Context):
    """An LSTM in integers, two products in an instruction."""

    template: ClassVar[str] = "kernels/arm_dsp/integer_lstm.c.jinja"

    lstm: Lstm


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every one."""
    return why_no_integer_lstm(op)


def prepare(op: Operator, _setting: Setting) -> Prepared:
    """Weights in words: for each unit, for four terms, a word of each gate."""
    assert isinstance(op, IntegerLstm)
    return prepare_lstm(op, DspLstmContext, _in_words)


def _in_words(weights: Int64s) -> tuple[str, Int64s, str]:
    units, terms, gates = weights.shape
    padded = np.pad(weights, ((0, 0), (0, -terms % 4), (0, 0))).reshape(units, -1, 4, gates)
    words = ((padded & 255) << (8 * np.arange(4)).reshape(4, 1)).sum(axis=2)
    signed = np.where(words >= 2**31, words - 2**32, words)
    return "int32_t", signed.reshape(units, -1), "of four terms a word for each of the four gates"


INTEGER_LSTM = Kernel("arm_dsp/integer_lstm", DspLstmContext, frozenset({"dsp"}), why_not, prepare)
