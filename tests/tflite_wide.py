"""Small .tflite files whose codes have 16 bits, beside those of tflite_models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tflite_models
from tflite_models import IMAGE, Field, Step, Told, depthwise, moved, scales, weights, window, written

SMALL = 1 / 5000


def short(name: str, shape: Sequence[int], scale: float = SMALL, data: np.ndarray | None = None) -> Told:
    return Told(name, shape, scale, 0, data, "int16")


def long_bias(seed: int, count: int, dtype: str) -> Told:
    return Told(f"b{seed}", (count,), 1e-6, 0, np.random.default_rng(seed).integers(-900_000, 900_000, count), dtype)


def wide_network(dtype: str = "int64", has_bias: bool = True) -> bytes:
    """A convolution, a depthwise one with Relu, a sum with Relu6, a Reshape, a dense layer; biases of a type."""
    at = (lambda number: number) if has_bias else (lambda _: -1)
    tensors = [
        short("image", (1, 7, 6, 3)),
        Told("w0", (5, 3, 3, 3), scales(1, 5), 0, weights(2, 5, 3, 3, 3)),
        long_bias(1, 5, dtype),
        short("first", (1, 7, 6, 5), 1 / 2000),
        Told("w1", (1, 3, 3, 5), scales(4, 5), 0, weights(5, 1, 3, 3, 5), axis=3),
        long_bias(2, 5, "int64"),
        short("second", (1, 7, 6, 5), 1 / 1500),
        short("sum", (1, 7, 6, 5), 1 / 1300),
        Told("shape", (2,), None, 0, np.array([1, 210]), "int32"),
        short("row", (1, 210), 1 / 1300),
        Told("w2", (4, 210), scales(6, 4), 0, weights(7, 4, 210)),
        long_bias(3, 4, "int64"),
        short("scores", (1, 4), 1 / 300),
    ]
    steps = [
        Step("CONV_2D", (0, 1, at(2)), (3,), window()),
        Step("DEPTHWISE_CONV_2D", (3, 4, 5), (6,), depthwise(1, 1, activation=1)),
        Step("ADD", (3, 6), (7,), {0: Field("b", 3)}),
        Step("RESHAPE", (7, 8), (9,), {}),
        Step("FULLY_CONNECTED", (9, 10, at(11)), (12,), {0: Field("b", 0)}),
    ]
    return written(tensors, steps, (0,), (12,))


def wide_binary(kind: str, y_scale: float, activation: int = 0, shape: Sequence[int] = (1, 256)) -> bytes:
    constant = np.random.default_rng(12).integers(-(2**15), 2**15, shape)
    tensors = [short("x", (1, 256)), short("c", shape, 1 / 7300, constant), short("y", (1, 256), y_scale)]
    return written(tensors, [Step(kind, (0, 1), (2,), {0: Field("b", activation)})], (0,), (2,))


def wide_pool(kind: str, y_shape: Sequence[int], stride: int, padding: int, activation: int = 0) -> bytes:
    options = {0: Field("b", padding), 1: Field("i", stride), 2: Field("i", stride), 5: Field("b", activation)}
    options |= {3: Field("i", 2), 4: Field("i", 3)}
    return written([short("x", IMAGE), short("y", y_shape)], [Step(kind, (0,), (1,), options)], (0,), (1,))


def wide_mean() -> bytes:
    axes = Told("axes", (2,), None, 0, np.array([1, 2]), "int32")
    tensors = [short("x", IMAGE), axes, short("y", (1, 4), 1 / 21000)]
    return written(tensors, [Step("MEAN", (0, 1), (2,), {})], (0,), (2,))


def wide_function(kind: str, scale: float, y_scale: float, options: dict[int, Field] | None = None) -> bytes:
    tensors = [short("x", (8, 256), scale), short("y", (8, 256), y_scale)]
    return written(tensors, [Step(kind, (0,), (1,), options)], (0,), (1,))


def widened(make: Callable[..., bytes], *arguments: object, **options: object) -> bytes:
    """A model of int8 codes with int16 codes instead: weights stay, biases get 64 bits, zero points are 0."""

    def wide(told: Told) -> Told:
        if told.name == "b":
            return replace(told, dtype="int64")
        if told.dtype != "int8" or told.name == "w":
            return told
        scale = None if told.scale is None else float(told.scale) / 200
        data = None if told.data is None else told.data * 200
        return replace(told, dtype="int16", scale=scale, zero_point=0, data=data)

    def with_wide_tensors(tensors: Sequence[Told], *rest: Any) -> bytes:
        return written([wide(told) for told in tensors], *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tflite_models, "written", with_wide_tensors)
        return make(*arguments, **options)


PLACES = ([0, 5, 1, 0], [1, -7, -1, 4], [1, -2, 1, 1])
OTHERS = {
    "absolute": widened(tflite_models.function, "ABS", (0.047, 20), options={}),
    "average_with_padding": widened(tflite_models.pool, "AVERAGE_POOL_2D", (3, 2), (1, 6, 5, 4), 1, 0, 0),
    "broadcast": widened(moved, "BROADCAST_TO", (3, 6, 5, 4), np.array([3, 6, 5, 4]), {}),
    "concatenation": widened(moved, "CONCATENATION", (1, 6, 5, 7), weights(13, 1, 6, 5, 3), {0: Field("i", -1)}),
    "dequantize": widened(tflite_models.dequantize),
    "maximum": widened(tflite_models.extreme, "MAXIMUM", ()),
    "maximum_of_a_number": widened(tflite_models.extreme, "MAXIMUM", (1,), is_first=True),
    "nearest": widened(moved, "RESIZE_NEAREST_NEIGHBOR", (1, 9, 13, 4), np.array([9, 13]), {0: Field("b", 0)}),
    "pack": widened(tflite_models.packed, 3, 0),
    "pad": widened(moved, "PAD", (1, 9, 6, 4), np.array([[0, 0], [1, 2], [1, 0], [0, 0]]), {}),
    "quantize": widened(tflite_models.quantize),
    "relu6": widened(tflite_models.function, "RELU6", (0.047, -20), (0.047, -20)),
    "slice": widened(tflite_models.sliced, (1, 3, 3, 4), PLACES, {}),
    "split": widened(tflite_models.divided, "SPLIT", (3, 3), 1),
    "split_v": widened(tflite_models.divided, "SPLIT_V", (1, 3, 1), 2),
    "squeeze": widened(moved, "SQUEEZE", (6, 5, 4), None, {}),
    "sum_of_image": widened(tflite_models.reduction, "SUM", (1, 2), (0.31, -11)),
    "transpose": widened(moved, "TRANSPOSE", (1, 4, 6, 5), np.array([0, 3, 1, 2]), {}),
    "transposed_convolution": widened(
        tflite_models.transposed_convolution, (3, 2), (1, 2), (1, 18, 9, 2), 0, activation=3
    ),
    "transposed_convolution_without_bias": widened(
        tflite_models.transposed_convolution, (2, 2), (3, 3), (1, 12, 10, 3), 0
    ),
}
"""Models of tflite_models with codes of 16 bits."""

WIDE_MODELS = {
    **{f"wide_{name}": model for name, model in OTHERS.items()},
    "wide_network": wide_network(),
    "wide_network_without_biases": wide_network(has_bias=False),
    "wide_network_with_short_bias": wide_network("int32"),
    "wide_sum": wide_binary("ADD", 1 / 2900),
    "wide_sum_of_a_scalar": wide_binary("ADD", 1 / 4300, 1, (1, 1)),
    "wide_difference": wide_binary("SUB", 1 / 2900),
    "wide_product": wide_binary("MUL", 1 / 1900, 3),
    "wide_average": wide_pool("AVERAGE_POOL_2D", (1, 3, 3, 4), 2, 0),
    "wide_average_inside": wide_pool("AVERAGE_POOL_2D", (1, 4, 4, 4), 1, 1, 1),
    "wide_largest": wide_pool("MAX_POOL_2D", (1, 3, 3, 4), 2, 0),
    "wide_mean": wide_mean(),
    "wide_relu": wide_function("RELU", 1 / 5000, 1 / 7000),
    "wide_leaky_relu": wide_function("LEAKY_RELU", 1 / 5000, 1 / 4100, {0: Field("f", 0.3)}),
    "wide_leaky_relu_in_double": wide_function(
        "LEAKY_RELU", 0.00016081718786153942, 6.168677646201104e-05, {0: Field("f", 0.23290087282657623)}
    ),
    "wide_logistic": wide_function("LOGISTIC", 1 / 5000, 2.0**-15),
    "wide_logistic_of_a_power": wide_function("LOGISTIC", 2.0**-12, 2.0**-15),
    "wide_logistic_of_small_codes": wide_function("LOGISTIC", 1 / 70000, 2.0**-15),
    "wide_tanh": wide_function("TANH", 1 / 5000, 2.0**-15),
    "wide_tanh_of_a_power": wide_function("TANH", 2.0**-12, 2.0**-15),
    "wide_tanh_of_another_power": wide_function("TANH", 2.0**-11, 2.0**-15),
    "wide_tanh_of_a_third_power": wide_function("TANH", 2.0**-13, 2.0**-15),
    "wide_softmax": wide_function("SOFTMAX", 1 / 5000, 2.0**-15, {0: Field("f", 1.0)}),
    "wide_softmax_of_distant_codes": wide_function("SOFTMAX", 1 / 300, 2.0**-15, {0: Field("f", 0.7)}),
}
"""Models by name."""
