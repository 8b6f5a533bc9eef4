"""Operators on activations of 16 bits, between DequantizeLinear and QuantizeLinear, that onnxruntime computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from onnx import ModelProto
from qdq import Chain

IMAGE = (1, 4, 6, 5)
X, Y = np.float32(2.3e-4), np.float32(4.1e-4)
TYPES = ("int16", "uint16")


def zero_point(dtype: str) -> np.ndarray:
    return np.array(-321 if dtype == "int16" else 30000, dtype)


def weights(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.RandomState(7).randint(-127, 128, shape).astype(np.int8)


class Wide(Chain):
    """A chain that begins with codes ``x`` and ends with codes ``y``, of one type."""

    def __init__(self, dtype: str) -> None:
        super().__init__()
        self.dtype = dtype
        self.x = self.dequantize("x", (X, zero_point(dtype)))

    def matrix(self, shape: tuple[int, ...], axis: int) -> str:
        scales = np.float32(0.004) * (1 + np.arange(shape[axis], dtype=np.float32))
        return self.dequantize(self.constant("w", weights(shape)), (scales, np.zeros(shape[axis], np.int8)), axis=axis)

    def bias(self, channels: int) -> str:
        scales = np.float32(0.004) * (1 + np.arange(channels, dtype=np.float32)) * X
        return self.dequantize(self.constant("b", np.arange(channels).astype(np.int32) * 9999), (scales, None), axis=0)

    def finished(self, value: str, shape: tuple[int, ...], opset: int = 21) -> ModelProto:
        self.quantize(value, (Y, zero_point(self.dtype)), "y")
        return self.model(shape, opset=opset, x_type=self.dtype)


def conv(c: Wide) -> ModelProto:
    operands = [c.x, c.matrix((6, 4, 3, 3), 0), c.bias(6)]
    return c.finished(c.node("Conv", operands, pads=[1, 1, 1, 1], strides=[1, 2]), IMAGE)


def depthwise(c: Wide) -> ModelProto:
    return c.finished(c.node("Conv", [c.x, c.matrix((4, 1, 3, 3), 0), c.bias(4)], group=4), IMAGE)


def gemm(c: Wide) -> ModelProto:
    return c.finished(c.node("Gemm", [c.x, c.matrix((7, 120), 0), c.bias(7)], transB=1), (2, 120))


def matmul(c: Wide) -> ModelProto:
    return c.finished(c.node("MatMul", [c.x, c.matrix((30, 5), 1)]), (3, 4, 30))


def add(c: Wide) -> ModelProto:
    other = c.dequantize(c.constant("other", codes(c.dtype, IMAGE, 5)), (np.float32(7e-5), zero_point(c.dtype)))
    return c.finished(c.node("Add", [c.x, other]), IMAGE)


def mul(c: Wide) -> ModelProto:
    other = c.dequantize(c.constant("other", codes(c.dtype, (4, 1, 1), 5)), (np.float32(7e-5), zero_point(c.dtype)))
    return c.finished(c.node("Mul", [c.x, other]), IMAGE)


def sub(c: Wide) -> ModelProto:
    other = c.dequantize(c.constant("other", codes(c.dtype, IMAGE, 5)), (np.float32(7e-5), zero_point(c.dtype)))
    return c.finished(c.node("Sub", [c.x, other]), IMAGE)


def sub_from_constant(c: Wide) -> ModelProto:
    other = c.dequantize(c.constant("other", codes(c.dtype, (4, 1, 1), 5)), (np.float32(7e-5), zero_point(c.dtype)))
    return c.finished(c.node("Sub", [other, c.x]), IMAGE)


def global_average_pool(c: Wide) -> ModelProto:
    return c.finished(c.node("GlobalAveragePool", [c.x]), IMAGE)


def mean_of_image(c: Wide) -> ModelProto:
    return c.finished(c.node("ReduceMean", [c.x, c.constant("axes", np.array([2, 3]))], keepdims=0), (2, 9, 7, 7))


def relu(c: Wide) -> ModelProto:
    c.quantize(c.node("Relu", [c.x]), (X, zero_point(c.dtype)), "y")
    return c.model(IMAGE, opset=21, x_type=c.dtype)


def max_pool(c: Wide) -> ModelProto:
    c.quantize(c.node("MaxPool", [c.x], kernel_shape=[3, 2], pads=[1, 0, 0, 1]), (X, zero_point(c.dtype)), "y")
    return c.model(IMAGE, opset=21, x_type=c.dtype)


OPERATORS: Mapping[str, Callable[[Wide], ModelProto]] = {
    "conv": conv,
    "depthwise": depthwise,
    "gemm": gemm,
    "matmul": matmul,
    "add": add,
    "mul": mul,
    "sub": sub,
    "sub_from_constant": sub_from_constant,
    "global_average_pool": global_average_pool,
    "mean_of_image": mean_of_image,
    "relu": relu,
    "max_pool": max_pool,
}
IN_ORDER = ("conv", "depthwise", "gemm", "matmul", "global_average_pool", "mean_of_image")
"""Those whose float32 sums depend on the order of the additions, and so on the processor."""


def model(name: str, dtype: str) -> bytes:
    return bytes(OPERATORS[name](Wide(dtype)).SerializeToString())


def codes(dtype: str, shape: tuple[int, ...], seed: int = 3) -> np.ndarray:
    """Codes about the zero point, so that few outputs are at an end of the type; both ends besides."""
    spread = np.random.RandomState(seed).normal(int(zero_point(dtype)), 6000, shape)
    found = np.clip(np.rint(spread), np.iinfo(dtype).min, np.iinfo(dtype).max)
    found.reshape(-1)[:2] = np.iinfo(dtype).min, np.iinfo(dtype).max
    return found.astype(dtype)


def feed(name: str, dtype: str) -> np.ndarray:
    shape = OPERATORS[name](Wide(dtype)).graph.input[0].type.tensor_type.shape
    return codes(dtype, tuple(dim.dim_value for dim in shape.dim))
