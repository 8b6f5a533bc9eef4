"""Rules for LSTM and GRU: what of them is not compiled."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qcgen.check.node import NodeView
from qcgen.errors import Problem

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
