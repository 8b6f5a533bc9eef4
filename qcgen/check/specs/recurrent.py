"""What is accepted of LSTM and GRU."""

from __future__ import annotations

from qcgen.check import recurrent
from qcgen.check.limits import finite_constants, flag, one_of
from qcgen.check.node import FLOAT, INTEGER, NUMBER, NUMBERS, Q8, TEXT, TEXTS, Spec
from qcgen.ir.types import DType

NAMES = ("X", "W", "R", "B", "sequence_lens", "initial_h")
FIXED = NAMES[1:5]
ATTRIBUTES = {
    "activation_alpha": NUMBERS,
    "activation_beta": NUMBERS,
    "activations": TEXTS,
    "clip": NUMBER,
    "direction": TEXT,
    "hidden_size": INTEGER,
    "layout": INTEGER,
    "output_sequence": INTEGER,
}
RULES = (
    one_of("direction", *recurrent.DIRECTIONS),
    recurrent.weights_fit,
    recurrent.whole_sequences,
    recurrent.known_activations,
    finite_constants,
)

GRU = Spec(
    NAMES,
    3,
    {**dict.fromkeys(("X", "W", "R", "B", "initial_h"), FLOAT), "sequence_lens": (DType.INT32,)},
    constant=FIXED,
    attributes=ATTRIBUTES | {"linear_before_reset": INTEGER},
    since=7,
    extra=RULES,
)
LSTM = Spec(
    (*NAMES, "initial_c", "P"),
    3,
    {**GRU.types, "initial_c": FLOAT, "P": FLOAT},
    constant=(*FIXED, "P"),
    attributes=ATTRIBUTES | {"input_forget": INTEGER},
    since=7,
    extra=(*RULES, recurrent.without_peepholes),
)

SCALES = ("W_scale", "W_zero_point", "R_scale", "R_zero_point")
DYNAMIC_LSTM = Spec(
    (*LSTM.inputs, *SCALES),
    3,
    {**LSTM.types, **dict.fromkeys(("W", "R", *SCALES[1::2]), Q8), **dict.fromkeys(SCALES[::2], FLOAT)},
    constant=(*LSTM.constant, *SCALES),
    scales=SCALES[::2],
    same=(("W_zero_point", "W"), ("R_zero_point", "R")),
    attributes={name: kind for name, kind in LSTM.attributes.items() if name not in ("layout", "output_sequence")},
    extra=(
        one_of("direction", *recurrent.DIRECTIONS),
        flag("input_forget", 0),
        recurrent.dynamic_weights_fit,
        recurrent.whole_sequences,
        recurrent.known_activations,
        recurrent.without_peepholes,
        finite_constants,
    ),
)
