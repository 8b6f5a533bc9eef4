"""The operator of qcgen's own domain that LayerNormalization of codes becomes."""

from __future__ import annotations

from qcgen.infer.facts import Facts, TensorType

LAYER_NORM = ("qcgen", "LayerNormalization")
"""(domain, op_type) of ai.onnx's LayerNormalization between DequantizeLinear and QuantizeLinear.

Inputs: x, x_scale, x_zero_point, y_scale, y_zero_point, Scale, B; all but x constant, B may be absent. Attributes as of
LayerNormalization: axis, epsilon, stash_type.
"""


def quantized_normalization(facts: Facts) -> tuple[TensorType, ...]:
    """The first input's shape in the output's zero point's type."""
    return (TensorType(facts.dtype(4), facts.shape(0)),)
