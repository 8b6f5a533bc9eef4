"""The same network with other weights: what a second training and quantization would make of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import ModelProto, numpy_helper

# By operator: the inputs that are weights or biases, scales, zero points of activations.
PLACES: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    "QuantizeLinear": ((), (1,), (2,)),
    "DequantizeLinear": ((0,), (1,), ()),
    "QLinearConv": ((3, 8), (1, 4, 6), (2, 7)),
    "QLinearMatMul": ((3,), (1, 4, 6), (2, 7)),
    "QGemm": ((3, 6), (1, 4, 7), (2, 8)),
    "QLinearAdd": ((), (1, 4, 6), (2, 5, 7)),
    "QLinearGlobalAveragePool": ((), (1, 3), (2, 4)),
}

OF_OUTPUT = {"QLinearConv": (6, 7), "QLinearMatMul": (6, 7), "QGemm": (7, 8), "QLinearAdd": (6, 7)}
OF_OUTPUT["QLinearGlobalAveragePool"] = (3, 4)
"""Where the quantization of an operator's output is."""


def retrained(model: ModelProto, seed: int, most: float = 1.25, times: float = 1.0) -> ModelProto:
    """Weights in another order, biases and scales up to ``most`` times as large, zero points within a type moved.

    What codes at the boundary mean stays. ``times``: what scales of weights are multiplied by besides.
    """
    rng = np.random.default_rng(seed)
    found = onnx.ModelProto()
    found.CopyFrom(model)
    constants = {each.name: each for each in found.graph.initializer}

    def change(name: str, values: np.ndarray) -> None:
        constants[name].CopyFrom(numpy_helper.from_array(values.astype(array(name).dtype), name))

    def array(name: str) -> np.ndarray:
        return numpy_helper.to_array(constants[name])

    def named(kind: int) -> Iterator[str]:
        names = (
            node.input[place]
            for node in found.graph.node
            for place in PLACES.get(node.op_type, ((), (), ()))[kind]
            if place < len(node.input)
        )
        yield from (name for name in dict.fromkeys(names) if name in constants and name not in kept)

    inside = [node for node in found.graph.node if node.op_type not in ("QuantizeLinear", "DequantizeLinear")]
    ends = {each.name for each in (*found.graph.input, *found.graph.output)} - constants.keys()
    kept = {
        name
        for node in inside
        for end, places in ((node.input[0], (1, 2)), (node.output[0], OF_OUTPUT.get(node.op_type, ())))
        for name in (node.input[place] for place in places if end in ends)
    }

    of_weights = {
        node.input[4] for node in found.graph.node if node.op_type in ("QLinearConv", "QLinearMatMul", "QGemm")
    }
    of_weights |= {
        node.input[1]
        for node in found.graph.node
        if node.op_type == "DequantizeLinear" and node.input[0] in constants and array(node.input[0]).itemsize == 1
    }
    biases = dict(_scales_of_biases(found))
    for name in named(0):
        values = array(name)
        if values.dtype.itemsize == 1:
            change(name, rng.permutation(values.reshape(-1)).reshape(values.shape))
        else:
            change(name, values * rng.uniform(1 / most, most, values.shape))
    for name in named(1):
        if name not in biases:
            change(name, array(name) * np.float32(rng.uniform(1 / most, most) * (times if name in of_weights else 1)))
    for name, (x, w) in biases.items():
        change(name, (array(x) * array(w)).reshape(array(name).shape))
    for name in named(2):
        values = array(name)
        info = np.iinfo(values.dtype)
        if values.shape == () and info.min < values < info.max:
            change(name, np.clip(values.astype(np.int64) + rng.integers(-9, 10), info.min, info.max))
    return found


def _scales_of_biases(model: ModelProto) -> Iterator[tuple[str, tuple[str, str]]]:
    """The scales of dequantized biases, and those of inputs and weights of which each is the product."""
    made = {node.output[0]: node for node in model.graph.node if node.op_type == "DequantizeLinear"}
    for node in model.graph.node:
        if node.op_type in ("Conv", "Gemm") and len(node.input) > 2 and all(each in made for each in node.input):
            x, w, bias = (made[each].input[1] for each in node.input)
            yield bias, (x, w)
