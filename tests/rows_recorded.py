"""Normalizations, products of computed matrices and softmaxes whose codes onnxruntime computed: models and inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from models import node_model
from onnx import ModelProto
from qdq import Chain

Codes = Mapping[str, np.ndarray]


def drawn(seed: int, shape: Sequence[int], dtype: str) -> np.ndarray:
    """Codes of the whole type; in the first row few of them, in the second one alone."""
    info = np.iinfo(dtype)
    values = np.random.RandomState(seed).randint(info.min, info.max + 1, shape)
    values[0], values[-1, ..., 0] = values[0] // 16 + 20, info.max
    return values.astype(dtype)


def normalized(op_type: str, shape: Sequence[int], count: int, *, has_bias: bool = True) -> ModelProto:
    """A normalization between DequantizeLinear and QuantizeLinear; ``count`` numbers of scale and bias."""
    draw, chain = np.random.RandomState(count), Chain()
    scale = chain.constant("scale", draw.normal(1, 0.3, count).astype(np.float32))
    bias = [chain.constant("bias", draw.normal(0, 0.3, count).astype(np.float32))] if has_bias else []
    real = chain.dequantize("x", (np.float32(0.0313), np.int8(11)))
    chain.quantize(chain.node(op_type, [real, scale, *bias], "normal", epsilon=1e-5), (0.0227, np.int8(-9)), "y")
    return chain.model(shape, opset=17, x_type="int8")


def product(a: tuple[str, Sequence[int]], b: tuple[str, Sequence[int]]) -> ModelProto:
    """QLinearMatMul of two inputs."""
    operands = {"a": a, "a_scale": np.array(0.021, np.float32), "a_zero": np.array(9, a[0]), "b": b}
    operands |= {"b_scale": np.array(0.017, np.float32), "b_zero": np.array(3, b[0])}
    operands |= {"y_scale": np.array(0.12, np.float32), "y_zero": np.array(5, a[0])}
    return node_model("QLinearMatMul", operands)


def softmax(op_type: str, shape: Sequence[int], axis: int, y: tuple[float, int]) -> ModelProto:
    """A softmax between DequantizeLinear and QuantizeLinear."""
    chain = Chain()
    shares = chain.node(op_type, [chain.dequantize("x", (np.float32(0.071), np.int8(-3)))], "shares", axis=axis)
    chain.quantize(shares, (y[0], np.int8(y[1])), "y")
    return chain.model(shape, opset=13, x_type="int8")


LAYER, INSTANCE = "LayerNormalization", "InstanceNormalization"
CASES: Mapping[str, tuple[Callable[[], ModelProto], Mapping[str, tuple[str, Sequence[int]]]]] = {
    **{
        f"{LAYER} {length}{'' if has_bias else ' without bias'}": (
            partial(normalized, LAYER, (20, length), length, has_bias=has_bias),
            {"x": ("int8", (20, length))},
        )
        for length in (8, 13, 31, 64)
        for has_bias in (True, False)
    },
    **{
        f"{INSTANCE} {'x'.join(map(str, shape))}": (
            partial(normalized, INSTANCE, shape, shape[1]),
            {"x": ("int8", shape)},
        )
        for shape in ((2, 3, 5, 7), (2, 4, 18, 17), (3, 5, 3))
    },
    **{
        f"QLinearMatMul {a[0]} {b[0]}": (partial(product, a, b), {"a": a, "b": b})
        for a, b in (
            (("int8", (2, 3, 9, 16)), ("int8", (2, 3, 16, 9))),
            (("uint8", (3, 1, 7)), ("int8", (7, 5))),
            (("uint8", (4, 17)), ("uint8", (2, 17, 6))),
        )
    },
    "Softmax": (partial(softmax, "Softmax", (2, 6, 3, 4), 1, (1 / 256, -128)), {"x": ("int8", (2, 6, 3, 4))}),
    "LogSoftmax": (partial(softmax, "LogSoftmax", (3, 40), -1, (0.08, 127)), {"x": ("int8", (3, 40))}),
}
"""The model of each case, and its inputs by name."""


def feeds(name: str) -> Codes:
    """The inputs of a case."""
    return {key: drawn(seed, shape, dtype) for seed, (key, (dtype, shape)) in enumerate(CASES[name][1].items())}
