"""Types and shapes of LSTM and GRU, and the operators of qcgen's own domain that keep their weights as codes."""

from __future__ import annotations

from qcgen.infer.facts import Facts, TensorType

LSTM, GRU = ("qcgen", "LSTM"), ("qcgen", "GRU")
"""(domain, op_type) of LSTM and GRU some of whose weights are dequantized constants.

Inputs: those of ai.onnx's LSTM or GRU, where W and R may be codes less their zero points or as they are; then W_scale,
R_scale, float32 (D, G * H), absent for float32 weights; then W_zero_point, R_zero_point, int32 scalars, absent for 0.
All of these are constant. Attributes as of LSTM and GRU.
"""

CODES = {"LSTM": 8, "GRU": 6}
"""The number of the first input that ai.onnx's operators do not have: W_scale."""

DYNAMIC_LSTM = ("com.microsoft", "DynamicQuantizeLSTM")
"""LSTM with W (D, I, 4 H) and R (D, H, 4 H) of 8-bit codes; behind P: W_scale, W_zero_point, R_scale, R_zero_point."""

RECURRENT = (("", "LSTM"), ("", "GRU"), LSTM, GRU, DYNAMIC_LSTM)
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
