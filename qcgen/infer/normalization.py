"""The operators of qcgen's own domain that normalizations of codes become."""

from __future__ import annotations

from qcgen.infer.facts import Facts, TensorType
from qcgen.ir.types import DType

LAYER_NORM = ("qcgen", "LayerNormalization")
"""(domain, op_type) of ai.onnx's LayerNormalization behind DequantizeLinear, and mostly before QuantizeLinear.

Inputs: x, x_scale, x_zero_point, y_scale, y_zero_point, Scale, B; all but x constant, B may be absent. Without y_scale
and y_zero_point the output is float32. Attributes as of
LayerNormalization: axis, epsilon, stash_type.
"""


INSTANCE_NORM = ("qcgen", "InstanceNormalization")
"""(domain, op_type) of ai.onnx's InstanceNormalization between DequantizeLinear and QuantizeLinear.

Inputs as of LAYER_NORM; all are there. Attribute: epsilon.
"""


def quantized_normalization(facts: Facts) -> tuple[TensorType, ...]:
    """The first input's shape in the output's zero point's type, or in float32."""
    return (TensorType(facts.dtype(4) if facts.has(4) else DType.FLOAT32, facts.shape(0)),)
