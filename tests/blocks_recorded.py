"""Products with weights in blocks, and networks with weights of 4 bits, that onnxruntime computed."""

from __future__ import annotations

import numpy as np
from models import graph_model
from onnx import TensorProto, helper

ROWS, INNER, COLUMNS = 3, 40, 6
TYPES = {"int4": (TensorProto.INT4, -8, 8), "uint4": (TensorProto.UINT4, 0, 16), "int8": (TensorProto.INT8, -128, 128)}
CASES = [(dtype, block, between) for dtype in TYPES for block in (16, 20) for between in ("floats", "codes")]


def name(dtype: str, block: int, between: str) -> str:
    return f"{dtype}.{block}.{between}"


def model(dtype: str, block: int, between: str) -> bytes:
    """MatMul of x (3, 40) and blocked weights (40, 6), between floats, or between int8 codes; 16 do not divide 40."""
    element, low, high = TYPES[dtype]
    draw, blocks = np.random.RandomState(block), -(-INNER // block)
    scales = draw.uniform(0.01, 0.03, (blocks, COLUMNS)).astype(np.float32)
    constants = {
        "w": helper.make_tensor("w", element, (INNER, COLUMNS), draw.randint(low, high, INNER * COLUMNS)),
        "z": helper.make_tensor("z", element, (blocks, COLUMNS), draw.randint(low, high, blocks * COLUMNS)),
        "s": scales,
        "xs": np.float32(0.02),
        "xz": np.int8(3),
        "ys": np.float32(0.05),
    }
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["weights"], axis=0, block_size=block)]
    if between == "codes":
        nodes += [
            helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["values"]),
            helper.make_node("MatMul", ["values", "weights"], ["product"]),
            helper.make_node("QuantizeLinear", ["product", "ys", "xz"], ["y"]),
        ]
    else:
        nodes.append(helper.make_node("MatMul", ["x", "weights"], ["y"]))
    kind = "int8" if between == "codes" else "float"
    x, y = {"x": (kind, (ROWS, INNER))}, {"y": (kind, (ROWS, COLUMNS))}
    return bytes(graph_model(nodes, x, y, constants, opset=21, ir_version=10).SerializeToString())


def feed(between: str) -> np.ndarray:
    draw = np.random.RandomState(1)
    if between == "codes":
        return draw.randint(-128, 128, (ROWS, INNER)).astype(np.int8)
    return draw.normal(0, 1, (ROWS, INNER)).astype(np.float32)


NETWORKS = ("int4", "uint4")
"""Types of weights, with one scale for each output channel."""

IMAGE = (1, 8, 6, 6)
LAYERS = (
    ((12, 8, 3, 3), "Conv", {"pads": [1, 1, 1, 1]}),
    ((21, 12, 1, 1), "Conv", {}),
    ((10, 756), "Gemm", {"transB": 1}),
)


def network(dtype: str) -> bytes:
    """A convolution, a pointwise one and a dense layer between int8 codes."""
    element, low, high = TYPES[dtype]
    draw, zero = np.random.RandomState(5), 0 if dtype == "int4" else 7
    nodes, constants, value = [], {"zero": np.int8(3), "y_scale": np.float32(0.2)}, "x"
    for number, (shape, op_type, attributes) in enumerate(LAYERS):
        x, w, y = f"x{number}", f"w{number}", f"x{number + 1}"
        scales = draw.uniform(0.01, 0.02, shape[0]).astype(np.float32)
        constants |= {
            f"{x}_scale": np.float32((0.02, 0.03, 0.05)[number]),
            f"{w}_scale": scales,
            w: helper.make_tensor(w, element, shape, draw.randint(low, high, shape).reshape(-1)),
            f"{w}_zero": helper.make_tensor(f"{w}_zero", element, shape[:1], [zero] * shape[0]),
        }
        if number:
            nodes.append(helper.make_node("QuantizeLinear", [value, f"{x}_scale", "zero"], [f"{x}_codes"]))
        codes = f"{x}_codes" if number else "x"
        nodes.append(helper.make_node("DequantizeLinear", [codes, f"{x}_scale", "zero"], [f"{x}_values"]))
        nodes.append(helper.make_node("DequantizeLinear", [w, f"{w}_scale", f"{w}_zero"], [f"{w}_values"], axis=0))
        inputs = [f"{x}_values", f"{w}_values"]
        if op_type == "Gemm":
            nodes.append(helper.make_node("Flatten", inputs[:1], ["flat"]))
            inputs[0] = "flat"
        nodes.append(helper.make_node(op_type, inputs, [f"{y}_sums"], **attributes))
        value = f"{y}_sums"
    nodes.append(helper.make_node("QuantizeLinear", [value, "y_scale", "zero"], ["y"]))
    x, y = {"x": ("int8", IMAGE)}, {"y": ("int8", (1, 10))}
    return bytes(graph_model(nodes, x, y, constants, opset=21, ir_version=10).SerializeToString())


def images() -> list[np.ndarray]:
    draw = np.random.RandomState(2)
    ends = [np.full(IMAGE, end, np.int8) for end in (-128, 127)]
    return [*ends, *(draw.randint(-128, 128, IMAGE).astype(np.int8) for _ in range(6))]
