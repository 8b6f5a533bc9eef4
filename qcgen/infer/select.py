"""The operator of qcgen's own domain: one of two numbers, as two others compare."""

from __future__ import annotations

SELECT = ("qcgen", "Select")
"""(domain, op_type) of X where A compares to B, else Y, with numpy's broadcasting.

Inputs: A, B, X, Y, float32. The attribute comparison is one of COMPARISONS; where negated is 1, X where A does not
compare so. As in onnxruntime's Where -0 of X becomes 0.
"""

COMPARISONS = {
    "Greater": "greater",
    "GreaterOrEqual": "greater or equal",
    "Less": "less",
    "LessOrEqual": "less or equal",
    "Equal": "equal",
}
"""The comparisons by the operators of ai.onnx that compute them."""
