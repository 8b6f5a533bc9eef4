"""Types and shapes of LSTM and GRU."""

from __future__ import annotations

from qcgen.infer.facts import Facts, TensorType

DYNAMIC_LSTM = ("com.microsoft", "DynamicQuantizeLSTM")
"""LSTM with W (D, I, 4 H) and R (D, H, 4 H) of 8-bit codes; behind P: W_scale, W_zero_point, R_scale, R_zero_point."""

RECURRENT = (("", "LSTM"), ("", "GRU"), DYNAMIC_LSTM)
"""All operators of which this is known, by (domain, op_type)."""


def recurrent(facts: Facts) -> tuple[TensorType, ...]:
    """Y (T, D, B, H), Y_h (D, B, H) and, of LSTM, Y_c like it; with layout 1 the batch comes first."""
    x, r = facts.shape(0), facts.shape(2)
    outputs = 2 if facts.node.op_type == "GRU" else 3
    if x is None or r is None:
        return (TensorType(facts.dtype(0), None),) * outputs
    directions, units = r[0], r[1 if (facts.node.domain, facts.node.op_type) == DYNAMIC_LSTM else 2]
    if facts.integer("layout", 0):
        batch, steps, _ = x
        shapes = ((batch, steps, directions, units), (batch, directions, units))
    else:
        steps, batch, _ = x
        shapes = ((steps, directions, batch, units), (directions, batch, units))
    return tuple(TensorType(facts.dtype(0), shapes[min(index, 1)]) for index in range(outputs))
