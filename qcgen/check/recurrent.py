"""Rules for LSTM and GRU: shapes that agree, and what of them is not compiled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from qcgen.check.node import NodeView
from qcgen.errors import Problem
from qcgen.infer.facts import Shape, contradict, shape_text

GATES = {"LSTM": 4, "GRU": 3}
DEFAULTS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh")}
"""The activations where none are named."""

DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


def weights_fit(view: NodeView) -> Iterator[Problem]:
    """X (T, B, I), W (D, G H, I), R (D, G H, H), B (D, 2 G H), initial states (D, B, H); hidden_size is H."""
    x, r = view.shape(0), view.fixed_shape(2)
    if x is not None and len(x) != 3:
        yield view.problem(f"X has shape {shape_text(x)}, but must have 3 axes", "give it time, batch and features")
    elif x is not None and r is not None:
        directions, units = _directions(view), view.integer("hidden_size", r[-1] if r else 0)
        rows, batch_first = GATES[view.node.op_type] * units, view.integer("layout", 0)
        state = (x[0], directions, units) if batch_first else (directions, x[1], units)
        wanted = {"W": (directions, rows, x[2]), "R": (directions, rows, units), "B": (directions, 2 * rows)}
        yield from _shapes_fit(view, {**wanted, "initial_h": state, "initial_c": state})


def _directions(view: NodeView) -> int:
    return DIRECTIONS.get(str(view.node.attributes.get("direction", "forward")), 1)


def _shapes_fit(view: NodeView, wanted: Mapping[str, Shape]) -> Iterator[Problem]:
    for role, shape in wanted.items():
        given = view.shape(role)
        if given is not None and contradict(given, shape):
            what = f"{role} has shape {shape_text(given)}, but must have {shape_text(shape)}"
            yield view.problem(what, "correct the shapes, hidden_size and direction, or export the model again")


def dynamic_weights_fit(view: NodeView) -> Iterator[Problem]:
    """DynamicQuantizeLSTM: X (T, 1, I), W (D, I, 4 H), R (D, H, 4 H), B (D, 8 H), states (D, 1, H); scales fit."""
    x, r = view.fixed_shape(0), view.fixed_shape(2)
    if x is None or r is None:
        return
    if len(x) != 3 or len(r) != 3:
        yield view.problem(f"X has shape {shape_text(x)}, R {shape_text(r)}", "both must have 3 axes")
        return
    if x[1] != 1:
        hint = "give it one sequence at a time: with more, onnxruntime's own result depends on its threads"
        yield view.problem(f"its batch is {x[1]}, but must be 1", hint)
    directions, units = _directions(view), r[1]
    rows, state = 4 * units, (directions, x[1], units)
    wanted = {"W": (directions, x[2], rows), "R": (directions, units, rows), "B": (directions, 2 * rows)}
    yield from _shapes_fit(view, {**wanted, "initial_h": state, "initial_c": state})
    if view.node.attributes.get("clip", 0.0):
        yield view.problem("it has a clip, which is not supported", "quantize the LSTM without it")
    for role in ("W_scale", "W_zero_point", "R_scale", "R_zero_point"):
        array = view.array(role)
        if not view.has(role) and role.endswith("scale"):
            yield view.problem(f"input {role} is missing", "quantize the model again")
        if array is not None and array.size not in (1, directions, directions * rows):
            what = f"{role} has {array.size} elements, but must have {directions}, or {directions * rows}"
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
