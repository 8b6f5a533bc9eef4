"""Products with weights that DequantizeLinear takes in blocks, of 4 and of 8 bits, that onnxruntime computed."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper, numpy_helper

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
    constants = [
        helper.make_tensor("w", element, (INNER, COLUMNS), draw.randint(low, high, INNER * COLUMNS)),
        helper.make_tensor("z", element, (blocks, COLUMNS), draw.randint(low, high, blocks * COLUMNS)),
        numpy_helper.from_array(scales, "s"),
        numpy_helper.from_array(np.float32(0.02), "xs"),
        numpy_helper.from_array(np.int8(3), "xz"),
        numpy_helper.from_array(np.float32(0.05), "ys"),
    ]
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["weights"], axis=0, block_size=block)]
    if between == "codes":
        nodes += [
            helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["values"]),
            helper.make_node("MatMul", ["values", "weights"], ["product"]),
            helper.make_node("QuantizeLinear", ["product", "ys", "xz"], ["y"]),
        ]
    else:
        nodes.append(helper.make_node("MatMul", ["x", "weights"], ["y"]))
    kind = TensorProto.INT8 if between == "codes" else TensorProto.FLOAT
    x, y = (helper.make_tensor_value_info(n, kind, (ROWS, size)) for n, size in (("x", INNER), ("y", COLUMNS)))
    graph = helper.make_graph(nodes, "blocks", [x], [y], constants)
    return bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
    )


def feed(between: str) -> np.ndarray:
    draw = np.random.RandomState(1)
    if between == "codes":
        return draw.randint(-128, 128, (ROWS, INNER)).astype(np.int8)
    return draw.normal(0, 1, (ROWS, INNER)).astype(np.float32)
