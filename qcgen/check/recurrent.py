"""What is accepted of LSTM and GRU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from qcgen.check.limits import finite_constants, flag, one_of
from qcgen.check.node import FLOAT, Q8, NodeView, Spec
from qcgen.check.signature import INTEGER, NUMBER, NUMBERS, TEXT, TEXTS, Signature
from qcgen.errors import Problem
from qcgen.infer.arithmetic import DIRECTIONS
from qcgen.ir.types import DType

DEFAULTS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh")}
"""The activations where none are named."""


def one_sequence(view: NodeView) -> Iterator[Problem]:
    """DynamicQuantizeLSTM: of one batch, without a clip; a scale for each direction, or for each row."""
    x, r = view.fixed_shape(0), view.fixed_shape(2)
    if x is None or r is None or len(x) != 3 or len(r) != 3:
        return
    if x[1] != 1:
        hint = "give it one sequence at a time: with more, onnxruntime's own result depends on its threads"
        yield view.problem(f"its batch is {x[1]}, but must be 1", hint)
    if view.node.attributes.get("clip", 0.0):
        yield view.problem("it has a clip, which is not supported", "quantize the LSTM without it")
    directions, rows = r[0], r[0] * r[2]
    for role in ("W_scale", "W_zero_point", "R_scale", "R_zero_point"):
        array = view.array(role)
        if not view.has(role) and role.endswith("scale"):
            yield view.problem(f"input {role} is missing", "quantize the model again")
        if array is not None and array.size not in (1, directions, rows):
            what = f"{role} has {array.size} elements, but must have {directions}, or {rows}"
            yield view.problem(what, "give one for each direction, or for each row of the weights")


def whole_sequences(view: NodeView) -> Iterator[Problem]:
    """sequence_lens, if it is there, says that every sequence is as long as X."""
    x, lengths = view.fixed_shape(0), view.array("sequence_lens")
    if x is None or lengths is None or len(x) != 3:
        return
    steps = x[1] if view.integer("layout", 0) else x[0]
    if not np.all(lengths == steps):
        hint = "leave sequence_lens out, and give sequences of the model's length"
        yield view.problem(f"sequence_lens differs from the {steps} steps of X", hint)


def without_peepholes(view: NodeView) -> Iterator[Problem]:
    """P, weights from the cell to the gates, is absent or zero."""
    array = view.array("P")
    if array is not None and np.any(array != 0):
        yield view.problem("it has peephole weights (P), which are not supported", "train the LSTM without them")


def known_activations(view: NodeView) -> Iterator[Problem]:
    """The activations are those that ONNX takes where none are named, in every direction."""
    defaults, given = DEFAULTS.get(view.node.op_type, DEFAULTS["LSTM"]), view.node.attributes.get("activations")
    if not isinstance(given, tuple) or not given:
        return
    names = tuple(str(name) for name in given)
    if len(names) % len(defaults) or names != defaults * (len(names) // len(defaults)):
        what = f"its activations are {', '.join(names)}, but only {', '.join(defaults)} are supported"
        yield view.problem(what, "train the layer with the activations that ONNX takes where none are named")


FIXED = ("W", "R", "B", "sequence_lens")
RULES = (
    one_of("direction", *DIRECTIONS),
    whole_sequences,
    known_activations,
    finite_constants,
)

GRU = Spec((FLOAT,) * 4 + ((DType.INT32,), FLOAT), constant=FIXED, extra=RULES)
LSTM = Spec((*GRU.types, FLOAT, FLOAT), constant=(*FIXED, "P"), extra=(*RULES, without_peepholes))

SCALES = ("W_scale", "W_zero_point", "R_scale", "R_zero_point")
DYNAMIC = replace(
    LSTM,
    types=(FLOAT, Q8, Q8, *LSTM.types[3:], FLOAT, Q8, FLOAT, Q8),
    constant=(*LSTM.constant, *SCALES),
    scales=SCALES[::2],
    same=(("W_zero_point", "W"), ("R_zero_point", "R")),
    extra=(*LSTM.extra, flag("input_forget", 0), one_sequence),
    signature=Signature(
        ("X", *FIXED, "initial_h", "initial_c", "P", *SCALES),
        3,
        {"activations": TEXTS, "direction": TEXT, "clip": NUMBER}
        | dict.fromkeys(("activation_alpha", "activation_beta"), NUMBERS)
        | dict.fromkeys(("hidden_size", "input_forget"), INTEGER),
    ),
)
