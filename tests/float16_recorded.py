"""Networks with float16 numbers that onnxruntime computed: a model of each, and its input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from models import MICROSOFT, Spec, graph_model
from onnx import ModelProto, TensorProto, helper

HALF, SINGLE = TensorProto.FLOAT16, TensorProto.FLOAT
SHAPE = (1, 4, 6, 6)

Step = tuple[str, Sequence[str], str, Mapping[str, Any]]
"""Operator, inputs, output, attributes."""


def draw(shape: Sequence[int], seed: int, spread: float = 1.0) -> np.ndarray:
    return (np.random.RandomState(seed).standard_normal(shape) * spread).astype(np.float16)


CONSTANTS: Mapping[str, np.ndarray] = {
    "w": draw((4, 4, 3, 3), 1, 0.3),
    "b": draw((4,), 2),
    "small": draw((4, 1, 1, 1), 3) / np.float16(60000),  # subnormal numbers
    "columns": draw((4, 1, 1, 1), 4),
    "low": np.float16(-0.5),
    "high": np.float16(1),
    "flat": np.array([1, 4, 2, 8], np.int64),
    "dense": draw((16, 5), 5),
    "gain": draw((6,), 6),
}

CONV: Step = ("Conv", ["x", "w", "b"], "c", {"pads": [1, 1, 1, 1]})

NETWORKS: Mapping[str, Sequence[Step]] = {
    "conv": [("Conv", ["x", "w", "b"], "y", {"strides": [2, 1], "pads": [1, 0, 1, 1]})],
    "depthwise": [("Conv", ["x", "small"], "y", {"group": 4})],
    **{act: [CONV, (act, ["c"], "y", {})] for act in ("Relu", "Sigmoid", "Tanh", "HardSigmoid", "LeakyRelu")},
    "clip": [CONV, ("Clip", ["c", "low", "high"], "y", {})],
    "fused": [("FusedConv", ["x", "w", "b"], "y", {"domain": MICROSOFT, "activation": "Relu"})],
    "two": [CONV, ("Relu", ["c"], "r", {}), ("Conv", ["r", "w"], "y", {})],
    "moved": [CONV, ("Reshape", ["c", "shape"], "d", {}), ("Conv", ["d", "columns"], "y", {"group": 4})],
    "moved twice": [
        CONV,
        ("Reshape", ["c", "shape"], "d", {}),
        ("Transpose", ["d"], "t", {"perm": [0, 1, 3, 2]}),
        ("Conv", ["t", "columns"], "e", {"group": 4}),
        ("Cast", ["e"], "y", {"to": SINGLE}),
    ],
    "normalized": [
        CONV,
        ("LayerNormalization", ["c", "gain"], "n", {}),
        ("Flatten", ["n"], "y", {}),
    ],
    "converted": [
        ("Cast", ["x"], "h", {"to": HALF}),
        ("Conv", ["h", "w"], "c", {}),
        ("Cast", ["c"], "y", {"to": SINGLE}),
    ],
    "network": [
        CONV,
        ("Relu", ["c"], "r", {}),
        ("MaxPool", ["r"], "p", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Conv", ["p", "w"], "q", {"pads": [1, 1, 0, 0]}),
        ("Add", ["q", "q"], "s", {}),
        ("Flatten", ["s"], "f", {}),
        ("Gemm", ["f", "dense"], "o", {}),
        ("Softmax", ["o"], "y", {"axis": -1}),
    ],
}


def model(name: str) -> ModelProto:
    """From x to y, of float16, but where the model converts from float."""
    steps = NETWORKS[name]
    nodes = [helper.make_node(op, inputs, [y], name=f"{y}_node", **attributes) for op, inputs, y, attributes in steps]
    used = {each for _, inputs, _, _ in steps for each in inputs}
    constants = {each: values for each, values in {**CONSTANTS, "shape": CONSTANTS["flat"]}.items() if each in used}
    if name == "moved":
        constants["shape"] = np.array([1, 4, 4, 9], np.int64)
    if name == "moved twice":
        constants["shape"] = np.array([1, 4, 3, 12], np.int64)
    x: dict[str, Spec] = {"x": ("float" if name == "converted" else "float16", SHAPE)}
    y_type = "float" if steps[-1][3].get("to") == SINGLE else "float16"
    return graph_model(nodes, x, {"y": (y_type, None)}, constants, opset=17, opsets={MICROSOFT: 1})


def feed(name: str) -> np.ndarray:
    x = np.random.RandomState(9).standard_normal(SHAPE)
    return x.astype(np.float32 if name == "converted" else np.float16)
