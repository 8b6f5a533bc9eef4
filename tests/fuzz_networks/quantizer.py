"""Random float networks that onnxruntime's own quantizer quantizes."""

from __future__ import annotations

import logging
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process

from fuzz_networks.network import Network
from fuzz_networks.operators import activated, windows

Shape = tuple[int, ...]


class Inputs(CalibrationDataReader):
    """A few normal inputs."""

    def __init__(self, net: Network) -> None:
        self._feeds = iter(
            [
                {name: net.np.normal(0, 1, shape).astype(np.float32) for name, (_, shape) in net.inputs.items()}
                for _ in range(3)
            ]
        )

    def get_next(self):
        return next(self._feeds, None)


def quantized(rng: random.Random, narrow: bool) -> tuple[bytes, str]:
    """A quantized model, and how it was quantized."""
    opset = rng.choice([11, 12, 13, 13, 15, 17, 17, 18, 19, 20, 21])
    net = Network(rng, opset, 0.0, narrow)
    model = onnx.ModelProto.FromString(float_network(net))
    form = rng.choice([QuantFormat.QDQ, QuantFormat.QDQ, QuantFormat.QOperator])
    activations = rng.choice([QuantType.QInt8, QuantType.QUInt8])
    weights = QuantType.QInt8 if activations is QuantType.QInt8 else rng.choice([QuantType.QInt8, QuantType.QUInt8])
    # Without VNNI products of uint8 and int8 codes saturate, unless weights have 7 bits; per channel they are int8.
    needs_range = narrow and activations is QuantType.QUInt8
    settings = {
        "quant_format": form,
        "per_channel": rng.random() < 0.6 and opset >= 13,
        "activation_type": activations,
        "weight_type": weights,
        "reduce_range": needs_range or rng.random() < 0.15,
        "calibrate_method": rng.choice([CalibrationMethod.MinMax] * 4 + [CalibrationMethod.Percentile]),
        "extra_options": {
            "ActivationSymmetric": rng.random() < 0.2 and not has_relu_of_means(model),
            "WeightSymmetric": not (weights is QuantType.QUInt8 and rng.random() < 0.5),
            "DedicatedQDQPair": rng.random() < 0.2,
            "ForceQuantizeNoInputCheck": rng.random() < 0.2,
            "AddQDQPairToWeight": False,
        },
    }
    is_prepared = rng.random() < 0.6
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("float.onnx", "prepared.onnx", "quantized.onnx")]
        onnx.save(model, paths[0])
        if is_prepared:
            quant_pre_process(paths[0], paths[1], skip_symbolic_shape=True)
        quantize_static(paths[1] if is_prepared else paths[0], paths[2], Inputs(net), **settings)
        content = Path(paths[2]).read_bytes()
    told = {key: getattr(value, "name", value) for key, value in settings.items()}
    return content, f"quantize_static, opset {opset}, {told}"


def has_relu_of_means(model: onnx.ModelProto) -> bool:
    """Whether a Relu reads a mean: with a zero point above the lowest code onnxruntime computes both in float.

    qcgen names such means, whose codes may be one off, and what reads them may then be more off.
    """
    means = {y for node in model.graph.node if node.op_type.endswith("AveragePool") for y in node.output}
    return any(node.op_type == "Relu" and node.input[0] in means for node in model.graph.node)


def dynamically_quantized(rng: random.Random, narrow: bool) -> tuple[bytes, str]:
    """A model whose activations are quantized at run time, of layers that onnxruntime computes in one order alone."""
    while True:
        opset = rng.choice([11, 12, 13, 13, 15, 17, 18, 20, 21])
        model = onnx.ModelProto.FromString(float_network(Network(rng, opset, 0.0, narrow)))
        if {node.op_type for node in model.graph.node} <= ROUNDED_ONCE:
            break
    settings = {
        "weight_type": rng.choice([QuantType.QInt8, QuantType.QUInt8]),
        "per_channel": rng.random() < 0.4 and opset >= 13,
        "reduce_range": narrow,
    }
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("float.onnx", "quantized.onnx")]
        onnx.save(model, paths[0])
        quantize_dynamic(*paths, **settings)
        content = Path(paths[1]).read_bytes()
    told = {key: getattr(value, "name", value) for key, value in settings.items()}
    return content, f"quantize_dynamic, opset {opset}, {told}"


ROUNDED_ONCE = {
    "Add", "Clip", "Concat", "Conv", "Flatten", "Gemm", "LeakyRelu", "MatMul", "MaxPool", "Mul", "Relu", "Resize",
    "Transpose",
}  # fmt: skip
"""Operators whose floats, once quantized dynamically, do not depend on an order of sums."""


def float_network(net: Network) -> bytes:
    """A small float network of layers that quantizers know."""
    live: list[tuple[str, Shape]] = []
    read: set[str] = set()
    shape: Shape = (net.pick(1, 1, 1, 2), net.pick(1, 2, 3, 4, 8), net.size() + 2, net.size() + 2)
    for _ in range(net.pick(1, 1, 2)):
        name = net.fresh("input")
        net.inputs[name] = ("float", shape)
        live.append((name, shape))
    steps = net.pick(2, 3, 4, 5, 6, 7)
    tries = 0
    while steps and tries < 40:
        tries += 1
        name, at = live[-1] if net.chance(0.75) else net.rng.choice(live)
        [layer] = net.rng.choices(list(LAYERS), list(LAYERS.values()))
        made = layer(net, name, at, live)
        if made is None:
            continue
        read.update(input for node in net.nodes for input in node.input)
        live.append(made)
        steps -= 1
    net.outputs = [name for name, _ in live if name not in read and name not in net.inputs]
    return net.bytes()


Layer = Callable[[Network, str, Shape, "list[tuple[str, Shape]]"], "tuple[str, Shape] | None"]


def _numbers(net: Network, *shape: int, spread: float | None = None) -> str:
    spread = spread or 1 / np.sqrt(np.prod(shape[1:]) + 1)
    return net.constant((net.np.normal(0, spread, shape)).astype(np.float32), "w")


def _conv(net: Network, x: str, shape: Shape, _: object) -> tuple[str, Shape] | None:
    if len(shape) != 4:
        return None
    attributes, kernel, sizes = windows(net, shape[2:])
    channels = shape[1]
    group = net.pick(1, 1, channels)
    out = group * net.pick(1, 2) if group > 1 else net.channels()
    inputs = [x, _numbers(net, out, channels // group, *kernel)]
    if net.chance(0.7):
        inputs.append(_numbers(net, out, spread=0.3))
    numbers = net.node("Conv", inputs, group=group, **attributes)
    if net.chance(0.2):
        parts = [net.constant(np.abs(net.np.normal(1, 0.3, out)).astype(np.float32)) for _ in range(4)]
        numbers = net.node("BatchNormalization", [numbers, *parts])
    return activated(net, numbers)[0], (shape[0], out, *sizes)


def _pair(net: Network, x: str, shape: Shape, live: list[tuple[str, Shape]]) -> tuple[str, Shape]:
    fitting = [name for name, at in live if at == shape]
    return net.node(net.pick("Add", "Add", "Mul"), [x, net.rng.choice(fitting)]), shape


def _pool(net: Network, x: str, shape: Shape, _: object) -> tuple[str, Shape] | None:
    if len(shape) != 4:
        return None
    attributes, _, sizes = windows(net, shape[2:], is_pool=True)
    attributes.pop("dilations", None)
    if "auto_pad" not in attributes:
        pads = attributes.get("pads", [0] * 4)
        k, s = attributes["kernel_shape"], attributes.get("strides", [1, 1])
        sizes = [(shape[a + 2] + pads[a] + pads[a + 2] - k[a]) // s[a] + 1 for a in range(2)]
    else:
        return None
    if min(sizes) < 1:
        return None
    return net.node(net.pick("MaxPool", "AveragePool"), [x], **attributes), (*shape[:2], *sizes)


def _mean(net: Network, x: str, shape: Shape, _: object) -> tuple[str, Shape] | None:
    if len(shape) != 4:
        return None
    return net.node("GlobalAveragePool", [x]), (*shape[:2], 1, 1)


def _flat(net: Network, x: str, shape: Shape, _: object) -> tuple[str, Shape] | None:
    if len(shape) != 4:
        return None
    return net.node("Flatten", [x]), (shape[0], int(np.prod(shape[1:])))


def _dense(net: Network, x: str, shape: Shape, _: object) -> tuple[str, Shape] | None:
    if shape[-1] > 300:
        return None
    out = net.channels()
    if len(shape) == 2 and net.chance(0.7):
        inputs = [x, _numbers(net, out, shape[-1]), _numbers(net, out, spread=0.3)]
        made = net.node("Gemm", inputs, transB=1)
    else:
        made = net.node("MatMul", [x, _numbers(net, shape[-1], out, spread=float(1 / np.sqrt(shape[-1])))])
    return activated(net, made)[0], (*shape[:-1], out)


def _function(net: Network, x: str, shape: Shape, _: object) -> tuple[str, Shape]:
    return net.node(net.pick("Sigmoid", "Tanh", "Relu", "LeakyRelu"), [x]), shape


def _softmax(net: Network, x: str, shape: Shape, _: object) -> tuple[str, Shape] | None:
    return (net.node("Softmax", [x], axis=-1), shape) if net.opset >= 13 else None


def _concat(net: Network, x: str, shape: Shape, live: list[tuple[str, Shape]]) -> tuple[str, Shape]:
    fitting = [(name, at) for name, at in live if (*at[:1], *at[2:]) == (*shape[:1], *shape[2:])]
    other, at = net.rng.choice(fitting)
    return net.node("Concat", [x, other], axis=1), (shape[0], shape[1] + at[1], *shape[2:])


def _resize(net: Network, x: str, shape: Shape, _: object) -> tuple[str, Shape] | None:
    if len(shape) != 4 or max(shape[2:]) > 10 or net.opset < 13:
        return None
    by = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    made = net.node("Resize", [x, "", net.numbers(1, 1, 2, 2)], **by)
    return made, (*shape[:2], 2 * shape[2], 2 * shape[3])


def _transpose(net: Network, x: str, shape: Shape, _: object) -> tuple[str, Shape]:
    order = list(range(len(shape)))
    net.rng.shuffle(order)
    return net.node("Transpose", [x], perm=order), tuple(shape[a] for a in order)


LAYERS: dict[Layer, int] = {
    _conv: 12, _pair: 5, _pool: 3, _mean: 1, _flat: 2, _dense: 5, _function: 3, _softmax: 1, _concat: 2, _resize: 1,
    _transpose: 1,
}  # fmt: skip
