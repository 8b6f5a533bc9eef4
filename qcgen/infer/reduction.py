"""The operators of qcgen's own domain that sums and means of codes along axes become."""

from __future__ import annotations

from qcgen.infer.facts import Facts, TensorType
from qcgen.infer.shape import reduced

REDUCE_MEAN = ("qcgen", "ReduceMean")
REDUCE_SUM = ("qcgen", "ReduceSum")
"""(domain, op_type) of ai.onnx's ReduceMean and ReduceSum between DequantizeLinear and QuantizeLinear.

Inputs: x, x_scale, x_zero_point, y_scale, y_zero_point; all but x constant. Attributes: axes, keepdims; no axes: all.
"""


def quantized_reduction(facts: Facts) -> tuple[TensorType, ...]:
    """The first input without the axes, in the output's zero point's type."""
    return (TensorType(facts.dtype(4), reduced(facts.shape(0), facts.integers("axes"), facts.integer("keepdims", 1))),)
