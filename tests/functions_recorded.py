"""Functions of one number whose values onnxruntime computed: the nodes, and models with one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from models import graph_model
from onnx import helper
from qdq import Chain

FUNCTIONS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "Elu": ("Elu", {"alpha": 1.7}),
    "Exp": ("Exp", {}),
    "HardSigmoid": ("HardSigmoid", {"alpha": 0.37, "beta": 0.1}),
    "HardSwish": ("HardSwish", {}),
    "LeakyRelu": ("LeakyRelu", {"alpha": -0.3}),
    "Sigmoid": ("Sigmoid", {}),
    "Softplus": ("Softplus", {}),
    "Tanh": ("Tanh", {}),
}
"""Operators with attributes, by the name under which they are recorded."""

OPSET = 14


def alone(name: str, shape: Sequence[int]) -> bytes:
    """The function of float32 numbers."""
    op_type, attributes = FUNCTIONS[name]
    node = helper.make_node(op_type, ["x"], ["y"], name="function", **attributes)
    model = graph_model([node], {"x": ("float", shape)}, {"y": None}, {}, opset=OPSET)
    return bytes(model.SerializeToString())


def between_codes(
    name: str, x_scale: np.float32, x_zero_point: np.int8, y_scale: np.float32, y_zero_point: np.int8
) -> bytes:
    """DequantizeLinear, the function, QuantizeLinear, of 256 codes."""
    op_type, attributes = FUNCTIONS[name]
    chain = Chain()
    value = chain.node(op_type, [chain.dequantize("x", (x_scale, x_zero_point))], "value", **attributes)
    chain.quantize(value, (y_scale, y_zero_point), "y")
    return bytes(chain.model((256,), opset=OPSET, x_type="int8").SerializeToString())
