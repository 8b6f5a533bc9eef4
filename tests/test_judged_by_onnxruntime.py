"""The reference against onnxruntime: every quantized operator, all codes or many, scales of all sizes and with ties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from judged import judge
from marks import share_at_first
from models import MICROSOFT, node_model
from onnx import ModelProto
from qdq import Chain

import qcgen
from qcgen.reference import evaluate

TYPES = ("uint8", "int8")
SCALES = ("drawn", "powers of two apart", "extreme")
ALL = (16, 16)
IMAGE = (2, 4, 6, 6)

QDQ = (
    *(
        "Abs",
        "Ceil",
        "Erf",
        "Exp",
        "Floor",
        "Gelu",
        "HardSigmoid",
        "HardSwish",
        "LeakyRelu",
        "Neg",
        "Reciprocal",
        "Relu",
    ),
    *("Round", "Shrink", "Sigmoid", "Sign", "Softmax", "Softsign", "Sqrt", "Tanh", "ThresholdedRelu"),
    *("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "Add", "Mul", "Sub", "Max", "Min"),
)
"""Operators between DequantizeLinear and QuantizeLinear."""
OF_TWO = frozenset(("Add", "Mul", "Sub", "Max", "Min", "QLinearAdd", "QLinearMul"))

QOPERATORS = (
    *("QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax"),
    *("QLinearGlobalAveragePool", "QLinearAveragePool"),
)
ATTRIBUTES: Mapping[str, Mapping[str, Any]] = {
    "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
    "LeakyRelu": {"alpha": 0.137},
    "Shrink": {"lambd": 0.3, "bias": 0.1},
    "ThresholdedRelu": {"alpha": 0.4},
    "Softmax": {"axis": -1},
    "AveragePool": {"kernel_shape": [3, 2], "pads": [1, 1, 0, 0], "count_include_pad": 1},
    "MaxPool": {"kernel_shape": [2, 3], "strides": [2, 1]},
    "QLinearLeakyRelu": {"alpha": 0.137},
    "QLinearSoftmax": {"axis": -1, "opset": 13},
    "QLinearGlobalAveragePool": {"channels_last": 0},
    "QLinearAveragePool": {"kernel_shape": [2, 3], "pads": [1, 1, 0, 0], "channels_last": 0},
}
PRODUCTS = ("QLinearConv", "QLinearMatMul", "QGemm", "Conv", "MatMul", "Gemm")


class Draw:
    """Scales, zero points and codes of a type; ``scales`` says of what size."""

    def __init__(self, name: str, dtype: str, scales: str) -> None:
        self.random = np.random.default_rng(sum(f"{name}{dtype}{scales}".encode()))
        self.dtype, self.scales = np.dtype(dtype).type, scales
        self.low, self.high = (int(end) for end in (np.iinfo(dtype).min, np.iinfo(dtype).max))

    def scale(self) -> np.float32:
        exponent = self.random.uniform(-8, 5) if self.scales == "extreme" else self.random.uniform(-3, -1)
        return np.float32(10.0**exponent)

    def of_output(self, wanted: float, unit: float) -> np.float32:
        """About ``wanted``; for ties a power of two times ``unit``."""
        if self.scales == "powers of two apart":
            return np.float32(np.float32(unit) * 2.0 ** np.round(np.log2(wanted / unit)))
        return np.float32(wanted * self.random.uniform(0.5, 2))

    def zero(self) -> Any:
        return self.dtype(self.random.choice([self.low, self.high, self.random.integers(self.low, self.high + 1)]))

    def codes(self, shape: Sequence[int]) -> np.ndarray:
        codes = self.random.integers(self.low, self.high + 1, shape).astype(self.dtype)
        if codes.size >= 256:
            codes.reshape(-1)[:256] = np.arange(self.low, self.high + 1)
        return codes


def shape_of(op_type: str) -> tuple[int, ...]:
    return (256, 256) if op_type in OF_TWO else IMAGE if "Pool" in op_type else ALL


def feeds_of(op_type: str, draw: Draw) -> dict[str, np.ndarray]:
    """All codes, of two operands all pairs."""
    x = draw.codes(shape_of(op_type))
    if op_type not in OF_TWO:
        return {"x": x}
    x[:] = np.arange(draw.low, draw.high + 1)[:, None]
    return {"x": x, "b": np.ascontiguousarray(x.T)}


def output_scale(op_type: str, a: np.float32, b: np.float32, draw: Draw) -> np.float32:
    if any(name in op_type for name in ("Softmax", "Sigmoid", "Tanh", "Softsign", "Erf")):
        return np.float32(1 / 256)
    unit = float(a) * float(b) if "Mul" in op_type else float(a)
    return draw.of_output(unit * 128 if "Mul" in op_type else 2 * float(a), unit)


def between_codes(op_type: str, dtype: str, scales: str) -> tuple[ModelProto, dict[str, np.ndarray]]:
    draw, chain = Draw(op_type, dtype, scales), Chain()
    feeds, a, b = feeds_of(op_type, draw), draw.scale(), draw.scale()
    values = [chain.dequantize(name, (by, draw.zero()), f"{name}_dq") for name, by in zip(feeds, (a, b), strict=False)]
    result = chain.node(op_type, values, "result", **ATTRIBUTES.get(op_type, {}))
    chain.quantize(result, (output_scale(op_type, a, b, draw), draw.zero()), "y")
    model = chain.model(feeds["x"].shape, opset=20, x_type=dtype)
    if "b" in feeds:
        model.graph.input.add().CopyFrom(model.graph.input[0])
        model.graph.input[1].name = "b"
    return model, feeds


def of_codes(op_type: str, dtype: str, scales: str) -> tuple[ModelProto, dict[str, np.ndarray]]:
    draw = Draw(op_type, dtype, scales)
    feeds, a, b = feeds_of(op_type, draw), draw.scale(), draw.scale()
    operands: dict[str, Any] = {"x": (dtype, feeds["x"].shape), "xs": np.array(a), "xz": np.array(draw.zero())}
    if "b" in feeds:
        operands |= {"b": (dtype, feeds["b"].shape), "bs": np.array(b), "bz": np.array(draw.zero())}
    operands |= {"ys": np.array(output_scale(op_type, a, b, draw)), "yz": np.array(draw.zero())}
    attributes = dict(ATTRIBUTES.get(op_type, {}))
    model = node_model(op_type, operands, domain=MICROSOFT, **{k: v for k, v in attributes.items() if k != "opset"})
    if "opset" in attributes:  # of the node, where node_model takes that of the model
        attribute = model.graph.node[0].attribute.add()
        attribute.name, attribute.type, attribute.i = "opset", 2, attributes["opset"]
    return model, feeds


def product(op_type: str, dtype: str, scales: str) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """Weights of up to 64, which no instruction set saturates; a scale for each channel, and one bias."""
    draw, is_conv = Draw(op_type, dtype, scales), "Conv" in op_type
    x = draw.codes((2, 8, 6, 6) if is_conv else (40, 24))
    w = draw.random.integers(-64, 65, (4, 8, 3, 3) if is_conv else (24, 4)).astype(np.int8)
    bias, a, b = draw.random.integers(-2000, 2000, 4).astype(np.int32), draw.scale(), np.float32(0.0123)
    many = (b * draw.random.uniform(0.5, 1, 4)).astype(np.float32) if scales == "drawn" else np.full(4, b)
    y_scale = draw.of_output(float(a) * float(b) * 300, float(a * b))
    attributes: dict[str, Any] = {"pads": [1, 1, 1, 1]} if is_conv else {}
    if op_type.startswith("Q"):
        of_x = {"x": (dtype, x.shape), "xs": np.array(a), "xz": np.array(draw.zero())}
        of_w = {"w": w, "ws": many, "wz": np.zeros(4, np.int8)}
        of_y = {"ys": np.array(y_scale), "yz": np.array(draw.zero())}
        operands = {
            "QLinearConv": {**of_x, **of_w, **of_y, "bias": bias},
            "QLinearMatMul": {**of_x, **of_w, **of_y},
            "QGemm": {**of_x, **of_w, "bias": bias, **of_y},
        }[op_type]
        domain = MICROSOFT if op_type == "QGemm" else ""
        return node_model(op_type, operands, domain=domain, **attributes), {"x": x}
    chain = Chain()
    values = [chain.dequantize("x", (a, draw.zero()), "x_dq")]
    values.append(chain.weights("w", w, (many, np.zeros(4, np.int8)), axis=0 if is_conv else 1))
    if op_type != "MatMul":
        values.append(chain.weights("bias", bias, (a * many, np.zeros(4, np.int32))))
    chain.quantize(chain.node(op_type, values, "result", **attributes), (y_scale, draw.zero()), "y")
    return chain.model(x.shape, x_type=dtype), {"x": x}


CASES = [
    (make, op_type, dtype, scales)
    for make, op_types in ((between_codes, QDQ), (of_codes, QOPERATORS), (product, PRODUCTS))
    for op_type in op_types
    for dtype in TYPES
    for scales in SCALES
]


@pytest.mark.parametrize("case", share_at_first(CASES, 4), ids=lambda case: " ".join(map(str, case[1:])))
def test_every_code_is_onnxruntimes(case):
    make, op_type, dtype, scales = case
    model, feeds = make(op_type, dtype, scales)
    [wanted] = judge(model, feeds)
    program = qcgen.compile(model, name="judged").program
    found = evaluate(program, feeds)[program.outputs[0].name].reshape(wanted.shape)
    assert not program.in_float, "what onnxruntime computes in float is judged elsewhere"
    assert np.array_equal(found, wanted), f"{(found != wanted).sum()} of {wanted.size} codes differ"
