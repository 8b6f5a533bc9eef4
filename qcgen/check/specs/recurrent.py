"""What is accepted of LSTM and GRU."""

from __future__ import annotations

from dataclasses import replace

from qcgen.check import recurrent
from qcgen.check.limits import finite_constants, flag, one_of
from qcgen.check.node import FLOAT, Q8, Spec
from qcgen.check.signature import INTEGER, NUMBER, NUMBERS, TEXT, TEXTS, Signature
from qcgen.infer.arithmetic import DIRECTIONS
from qcgen.ir.types import DType

FIXED = ("W", "R", "B", "sequence_lens")
RULES = (
    one_of("direction", *DIRECTIONS),
    recurrent.whole_sequences,
    recurrent.known_activations,
    finite_constants,
)

GRU = Spec((FLOAT,) * 4 + ((DType.INT32,), FLOAT), constant=FIXED, extra=RULES)
LSTM = Spec((*GRU.types, FLOAT, FLOAT), constant=(*FIXED, "P"), extra=(*RULES, recurrent.without_peepholes))

SCALES = ("W_scale", "W_zero_point", "R_scale", "R_zero_point")
DYNAMIC_LSTM = replace(
    LSTM,
    types=(FLOAT, Q8, Q8, *LSTM.types[3:], FLOAT, Q8, FLOAT, Q8),
    constant=(*LSTM.constant, *SCALES),
    scales=SCALES[::2],
    same=(("W_zero_point", "W"), ("R_zero_point", "R")),
    extra=(
        one_of("direction", *DIRECTIONS),
        flag("input_forget", 0),
        recurrent.one_sequence,
        recurrent.whole_sequences,
        recurrent.known_activations,
        recurrent.without_peepholes,
        finite_constants,
    ),
    signature=Signature(
        ("X", *FIXED, "initial_h", "initial_c", "P", *SCALES),
        3,
        {
            "activation_alpha": NUMBERS,
            "activation_beta": NUMBERS,
            "activations": TEXTS,
            "clip": NUMBER,
            "direction": TEXT,
            "hidden_size": INTEGER,
            "input_forget": INTEGER,
        },
    ),
)
