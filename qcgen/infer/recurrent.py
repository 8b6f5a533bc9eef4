"""Types and shapes of LSTM and GRU."""

from __future__ import annotations

from qcgen.infer.facts import Facts, TensorType

DYNAMIC_LSTM = ("com.microsoft", "DynamicQuantizeLSTM")
"""LSTM with W (D, I, 4 H) and R (D, H, 4 H) of 8-bit codes; behind P: W_scale, W_zero_point, R_scale, R_zero_point."""


def recurrent(facts: Facts) -> tuple[TensorType, ...]:
    """Y (T, D, B, H), Y_h (D, B, H) and, of LSTM, Y_c like it; with layout 1 the batch comes first."""
    x, r, outputs = facts.shape(0), facts.shape(2), 2 if facts.node.op_type == "GRU" else 3
    if x is None or r is None:
        return (TensorType(facts.dtype(0), None),) * outputs
    a, b, _ = x
    d, h = r[0], r[1 if (facts.node.domain, facts.node.op_type) == DYNAMIC_LSTM else 2]
    y, last = ((a, b, d, h), (a, d, h)) if facts.integer("layout", 0) else ((a, d, b, h), (d, b, h))
    return tuple(TensorType(facts.dtype(0), shape) for shape in (y, last, last)[:outputs])
