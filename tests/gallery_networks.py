"""The networks of the gallery: small ones that between them need every kernel of whole networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from models import MICROSOFT, graph_model
from onnx import ModelProto, TensorProto, helper
from qdq import Chain, Meaning
from tflite_models import Field, Step, Told, window, written

STATE = np.random.RandomState  # its numbers are the same in every version of numpy, which default_rng does not promise


class Network(Chain):
    """A chain whose weights are drawn like those of trained layers, and that may have operators of com.microsoft."""

    def node(self, op_type: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """A node that is called like its output."""
        output = super().node(op_type, inputs, output, **attributes)
        self.nodes[-1].name = output
        return output

    def codes(self, name: str, shape: Sequence[int], seed: int, spread: float = 25) -> str:
        values = np.clip(np.rint(STATE(seed).laplace(0, spread, shape)), -128, 127)
        return self.constant(name, values.astype(np.int8))

    def bias(self, name: str, channels: int, seed: int) -> str:
        return self.constant(name, STATE(seed).randint(-2000, 2001, channels).astype(np.int32))

    def qlinear_conv(
        self, x: str, by: Meaning, name: str, w: Sequence[int], y_by: Meaning, spread: float = 25, **attributes: Any
    ) -> str:
        """A QLinearConv that is called ``name``, with weights and bias drawn by it."""
        seed = len(self.nodes)
        scales = (0.006 * STATE(seed).uniform(0.7, 1.4, w[0])).astype(np.float32)
        operands = [x, *self.parameters(x, by), self.codes(f"{name}_w", w, seed, spread)]
        operands += self.parameters(f"{name}_w", (scales, np.zeros(w[0], np.int8)))
        operands += [*self.parameters(name, y_by), self.bias(f"{name}_b", w[0], seed)]
        return self.node("QLinearConv", operands, name, **attributes)

    def network(self, x: tuple[str, Sequence[int]]) -> ModelProto:
        """The model from x to y, of QOperator nodes."""
        return graph_model(self.nodes, {"x": x}, {"y": None}, self.constants, opsets={MICROSOFT: 1}, opset=13)


INPUT: Meaning = (0.02, np.int8(-5))
STEM: Meaning = (0.025, np.int8(-128))
BRANCH: Meaning = (0.03, np.int8(7))
SUM: Meaning = (0.033, np.int8(-20))
MEAN: Meaning = (0.021, np.int8(-31))
LOGIT: Meaning = (0.11, np.int8(4))
SHARE: Meaning = (1 / 256, np.int8(-128))


def network_qop() -> ModelProto:
    """A residual block and a classifier, as QOperator nodes."""
    n = Network()
    same = {"pads": [1, 1, 1, 1]}
    stem = n.qlinear_conv("x", INPUT, "stem", (3, 2, 3, 3), STEM, **same)
    branch = n.qlinear_conv(stem, STEM, "branch", (3, 3, 3, 3), BRANCH, **same)
    both = [stem, *n.parameters(stem, STEM), branch, *n.parameters(branch, BRANCH), *n.parameters("sum", SUM)]
    total = n.node("QLinearAdd", both, "sum", domain=MICROSOFT)
    pooled = n.node("MaxPool", [total], "pooled", kernel_shape=[2, 2], strides=[2, 2])
    means = [pooled, *n.parameters(pooled, SUM), *n.parameters("mean", MEAN)]
    mean = n.node("QLinearGlobalAveragePool", means, "mean", domain=MICROSOFT)
    flat = n.node("Flatten", [mean], "flat")
    dense = [
        flat,
        *n.parameters(flat, MEAN),
        n.codes("dense_w", (3, 3), 11),
        *n.parameters("dense_w", (0.008, np.int8(0))),
    ]
    dense += [n.bias("dense_b", 3, 11), *n.parameters("dense", LOGIT)]
    logits = n.node("QGemm", dense, "dense", domain=MICROSOFT, transB=1)
    shares = [logits, *n.parameters(logits, LOGIT), *n.parameters("y", SHARE)]
    n.node("QLinearSoftmax", shares, "y", domain=MICROSOFT, opset=13, axis=-1)
    return n.network(("int8", (1, 2, 8, 8)))


def in_rows() -> ModelProto:
    """A residual sum behind two convolutions, a third one with stride 2, and its mean, on an image of many rows."""
    n = Network()
    same = {"pads": [1, 1, 1, 1]}
    stem = n.qlinear_conv("x", INPUT, "stem", (3, 2, 3, 3), STEM, **same)
    branch = n.qlinear_conv(stem, STEM, "branch", (3, 3, 3, 3), BRANCH, **same)
    both = [stem, *n.parameters(stem, STEM), branch, *n.parameters(branch, BRANCH), *n.parameters("sum", SUM)]
    total = n.node("QLinearAdd", both, "sum", domain=MICROSOFT)
    last = n.qlinear_conv(total, SUM, "last", (4, 3, 3, 3), BRANCH, strides=[2, 2], **same)
    means = [last, *n.parameters(last, BRANCH), *n.parameters("y", MEAN)]
    n.node("QLinearGlobalAveragePool", means, "y", domain=MICROSOFT)
    return n.network(("int8", (1, 2, 24, 8)))


def within_flash() -> ModelProto:
    n = Network()
    stem = n.qlinear_conv("x", INPUT, "stem", (8, 8, 3, 3), STEM)
    n.qlinear_conv(stem, STEM, "y", (4, 8, 1, 1), BRANCH)
    return n.network(("int8", (1, 8, 10, 10)))


def of_several_sizes() -> ModelProto:
    """Two convolutions of 3x3 whose images, channels and strides differ."""
    n = Network()
    stem = n.qlinear_conv("x", INPUT, "stem", (24, 16, 3, 3), STEM, spread=12, pads=[1, 1, 1, 1])
    n.qlinear_conv(stem, STEM, "y", (12, 24, 3, 3), BRANCH, spread=12, strides=[2, 2], pads=[1, 1, 1, 1])
    return n.network(("int8", (1, 16, 3, 3)))


def of_windows_and_pixels() -> ModelProto:
    """A convolution of 3x3 with padding, then one of single pixels."""
    n = Network()
    stem = n.qlinear_conv("x", INPUT, "stem", (16, 4, 3, 3), STEM, spread=12, pads=[1, 1, 1, 1])
    n.qlinear_conv(stem, STEM, "y", (8, 16, 1, 1), BRANCH, spread=12)
    return n.network(("int8", (1, 4, 8, 8)))


def sum_and_mean() -> ModelProto:
    """What a residual network has besides its convolutions, as QOperator nodes."""
    n = Network()
    largest = n.node("MaxPool", ["x"], "largest", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    both = ["x", *n.parameters("x", INPUT), largest, *n.parameters(largest, BRANCH), *n.parameters("sum", SUM)]
    total = n.node("QLinearAdd", both, "sum", domain=MICROSOFT)
    means = [total, *n.parameters(total, SUM), *n.parameters("y", MEAN)]
    n.node("QLinearGlobalAveragePool", means, "y", domain=MICROSOFT)
    return n.network(("int8", (1, 6, 5, 7)))


PIXEL: Meaning = (0.0173, np.uint8(120))
CLIPPED: Meaning = (6 / 255, np.uint8(0))
GATE: Meaning = (1 / 256, np.uint8(0))
GATED: Meaning = (0.019, np.uint8(0))


def network_qdq() -> ModelProto:
    """A gated layer, two poolings side by side and a change of size, as QDQ nodes; float at both ends."""
    n = Network()
    scales = np.float32([0.006, 0.008, 0.005])
    conv = [n.through("x", PIXEL), n.dequantize(n.codes("w", (3, 2, 3, 3), 21), (scales, None), axis=0)]
    conv.append(n.dequantize(n.bias("b", 3, 22), (np.float32(PIXEL[0]) * scales, None), axis=0))
    bounds = [n.constant("low", np.float32(0)), n.constant("high", np.float32(6))]
    clip = n.node("Clip", [n.node("Conv", conv, "conv", pads=[1, 1, 1, 1]), *bounds], "clip")
    layer = n.through(clip, CLIPPED)
    gate = n.through(n.node("Sigmoid", [layer], "gate"), GATE)
    gated = n.through(n.node("Mul", [layer, gate], "gated"), GATED)
    average = n.node("AveragePool", [gated], "average", kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1])
    largest = n.node("MaxPool", [gated], "largest", kernel_shape=[2, 2], strides=[2, 2])
    both = n.node("Concat", [n.through(average, GATED), n.through(largest, GATED)], "both", axis=1)
    factors = n.constant("factors", np.float32([1, 1, 1, 2]))
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    resized = n.node("Resize", [n.through(both, GATED), "", factors], "resized", **how)
    pads = n.constant("pads", np.int64([0, 0, 1, 0, 0, 0, 1, 0]))
    padded = n.node("Pad", [n.through(resized, GATED), pads], "padded")
    by_pixel = n.node("Transpose", [n.through(padded, GATED)], "by_pixel", perm=[0, 2, 3, 1])
    return n.model((1, 2, 8, 8), (n.through(by_pixel, GATED),))


LONG: Meaning = (2e-4, np.uint16(33000))
LAYER: Meaning = (3e-4, np.int16(0))
SUMMED: Meaning = (5e-4, np.int16(-7))


def network_16_bits() -> ModelProto:
    """Activations of 16 bits and weights of 8: a convolution, a pooling, a product and a sum of codes, two matrices."""
    n = Network()
    scales = np.float32([0.006, 0.008, 0.005])
    x = n.through("x", LONG)
    conv = [x, n.dequantize(n.codes("w", (3, 2, 3, 3), 51), (scales, None), axis=0)]
    conv.append(n.dequantize(n.bias("b", 3, 52), (np.float32(LONG[0]) * scales, None), axis=0))
    layer = n.through(n.node("Relu", [n.node("Conv", conv, "conv", pads=[1, 1, 1, 1])], "relu"), LAYER)
    largest = n.through(n.node("MaxPool", [layer], "largest", kernel_shape=[2, 2], strides=[2, 2]), LAYER)
    gains = n.dequantize(
        n.constant("gain_codes", np.array([[[900]], [[-2000]], [[31000]]], np.int16)), (6e-5, np.int16(5))
    )
    gained = n.through(n.node("Mul", [largest, gains], "gained"), LAYER)
    total = n.through(n.node("Add", [largest, gained], "total"), SUMMED)
    positive = n.through(n.node("Relu", [total], "positive"), SUMMED)
    flat = n.node("Flatten", [positive], "flat")
    dense = [
        n.through(flat, SUMMED),
        n.dequantize(n.codes("matrix", (5, 12), 53), (np.float32(0.007), None)),
        "offsets",
    ]
    n.constant("offsets", np.float32([0.3, -0.2, 0.1, 0.5, -0.4]))
    dense_out = n.through(n.node("Gemm", dense, "dense", transB=1), LAYER)
    last = n.dequantize(n.codes("last_w", (5, 4), 54), (np.float32(0.009), None))
    n.quantize(n.node("MatMul", [dense_out, last], "last"), LONG, "y")
    return n.model((1, 2, 4, 4), opset=21)


TOKEN: Meaning = (0.03, np.int8(4))
HEAD: Meaning = (0.021, np.int8(-9))
SCORE: Meaning = (0.09, np.int8(11))
WEIGHT: Meaning = (1 / 255, np.int8(-128))


def attention() -> ModelProto:
    """Two heads of self-attention over five tokens, as QDQ nodes."""
    n = Network()
    heads, joined = n.constant("heads", np.int64([1, 5, 2, 4])), n.constant("joined", np.int64([1, 5, 8]))
    tokens = n.through("x", TOKEN)
    parts = {}
    for seed, (part, perm) in enumerate({"query": [0, 2, 1, 3], "key": [0, 2, 3, 1], "value": [0, 2, 1, 3]}.items()):
        weights = n.dequantize(n.codes(f"{part}_w", (8, 8), 31 + seed), (np.float32(0.007), np.int8(0)))
        dense = n.through(n.node("MatMul", [tokens, weights], f"{part}_dense"), HEAD)
        split = n.through(n.node("Reshape", [dense, heads], f"{part}_heads"), HEAD)
        parts[part] = n.through(n.node("Transpose", [split], part, perm=perm), HEAD)
    scores = n.through(n.node("MatMul", [parts["query"], parts["key"]], "scores"), SCORE)
    shares = n.through(n.node("Softmax", [scores], "shares", axis=-1), WEIGHT)
    mixed = n.through(n.node("MatMul", [shares, parts["value"]], "mixed"), HEAD)
    by_token = n.through(n.node("Transpose", [mixed], "by_token", perm=[0, 2, 1, 3]), HEAD)
    n.through(n.node("Reshape", [by_token, joined], "both"), HEAD, "y")
    return n.model((1, 5, 8))


STATE_WEIGHT: Meaning = (0.011, np.int8(0))
NORMAL: Meaning = (0.024, np.int8(3))


def batch_normalization() -> ModelProto:
    """A BatchNormalization that no convolution took in, then a PRelu with a slope for each channel, as QDQ nodes."""
    n = Network()
    numbers = {"scale": [0.9, 1.2, -0.7], "bias": [0.1, -0.2, 0.3], "mean": [0.4, 0, -0.1], "var": [1.1, 0.6, 0.9]}
    constants = [n.constant(name, np.array(values, np.float32)) for name, values in numbers.items()]
    normal = n.through(n.node("BatchNormalization", [n.through("x", TOKEN), *constants], "normal"), NORMAL)
    slope = n.constant("slope", np.array([[[0.25]], [[-0.1]], [[0.02]]], np.float32))
    n.quantize(n.node("PRelu", [normal, slope], "rectified"), NORMAL, "y")
    return n.model((1, 3, 4, 4))


def layer_norm() -> ModelProto:
    """Rows of codes, normalized, as QDQ nodes."""
    n = Network()
    values = STATE(41).normal(1, 0.2, 12).astype(np.float32), STATE(42).normal(0, 0.3, 12).astype(np.float32)
    constants = [n.constant(name, value.round(3)) for name, value in zip(("gamma", "beta"), values, strict=True)]
    n.quantize(n.node("LayerNormalization", [n.through("x", TOKEN), *constants], "normal"), NORMAL, "y")
    return n.model((1, 5, 12), opset=17)


def instance_norm() -> ModelProto:
    """An image of one channel, normalized, as QDQ nodes."""
    n = Network()
    constants = [n.constant("gamma", np.float32([0.9])), n.constant("beta", np.float32([0.1]))]
    n.quantize(n.node("InstanceNormalization", [n.through("x", TOKEN), *constants], "normal"), NORMAL, "y")
    return n.model((1, 1, 16, 17))


def float_norms() -> ModelProto:
    """Channels of an image, then its rows, normalized between float32 numbers."""
    n = Network()
    values = STATE(43).normal(1, 0.2, 6).astype(np.float32), STATE(44).normal(0, 0.3, 6).astype(np.float32)
    gamma, beta = (n.constant(name, value.round(3)) for name, value in zip(("gamma", "beta"), values, strict=True))
    channels = n.node("InstanceNormalization", ["x", gamma, beta], "channels")
    rows = [
        n.constant(name, np.resize(value.round(3), 12)) for name, value in zip(("scale", "bias"), values, strict=True)
    ]
    n.node("LayerNormalization", [channels, *rows], "y")
    return n.model((1, 6, 2, 12), opset=17)


def float_sums() -> ModelProto:
    """Means of rows of float32 numbers whose length four does not divide, then sums over an axis in the middle."""
    n = Network()
    n.node("ReduceMean", ["x"], "means", axes=[3], keepdims=0)
    n.node("ReduceSum", ["means", n.constant("axes", np.int64([1]))], "y", keepdims=0)
    return n.model((2, 7, 3, 11), opset=17)


def lstm() -> ModelProto:
    """One frame of an LSTM whose weights are codes, its states given and given back, as QDQ nodes."""
    n = Network()
    weights = [n.dequantize(n.codes(name, (1, 12, length), 71), STATE_WEIGHT) for name, length in (("w", 4), ("r", 3))]
    bias = n.constant("bias", STATE(72).normal(0, 0.3, (1, 24)).astype(np.float32).round(3))
    n.node("LSTM", [n.through("x", TOKEN), *weights, bias, "", "h", "c"], "states", hidden_size=3)
    n.nodes[-1].output.extend(["h_out", "c_out"])
    n.through(n.node("Squeeze", ["states", n.constant("axes", np.int64([0, 1]))], "state"), HEAD, "y")
    inputs = {"x": ("float", (1, 1, 4)), "h": ("float", (1, 1, 3)), "c": ("float", (1, 1, 3))}
    return graph_model(n.nodes, inputs, dict.fromkeys(("y", "h_out", "c_out")), n.constants)


def gru() -> ModelProto:
    """A sequence that a GRU with float weights reads there and back."""
    n = Network()
    sizes = {"w": (2, 9, 4), "r": (2, 9, 3), "bias": (2, 18)}
    weights = [
        n.constant(name, STATE(73).normal(0, 0.5, size).astype(np.float32).round(3)) for name, size in sizes.items()
    ]
    n.node("GRU", ["x", *weights], "y", hidden_size=3, direction="bidirectional", linear_before_reset=1)
    return n.model((5, 1, 4))


def reductions() -> ModelProto:
    """The mean and the largest of the channels of each pixel, as attention over pixels takes them, and sums of rows."""
    n = Network()
    x = n.through("x", TOKEN)
    mean = n.through(n.node("ReduceMean", [x], "mean", axes=[1]), HEAD)
    largest = n.through(n.node("ReduceMax", [x], "largest", axes=[1]), HEAD)
    both = n.through(n.node("Concat", [mean, largest], "both", axis=1), HEAD)
    rows = n.constant("rows", np.int64([2]))
    n.quantize(n.node("ReduceSum", [both, rows], "total", keepdims=0), SCORE, "y")
    return n.model((1, 6, 4, 5))


def peaks() -> ModelProto:
    """The highest scores of an image's pixels, in their order, and the numbers of these pixels, as QDQ nodes."""
    n = Network()
    conv = [n.through("x", PIXEL), n.dequantize(n.codes("w", (1, 3, 1, 1), 52), (np.float32(0.007), np.int8(0)))]
    scores = n.through(n.node("Conv", conv, "conv"), BRANCH)
    flat = n.node("Flatten", [scores], "flat")
    n.nodes.append(helper.make_node("TopK", [flat, n.constant("k", np.int64([5]))], ["y", "places"], "highest"))
    return n.model((1, 3, 4, 5), ("y", "places"))


def segmentation() -> ModelProto:
    """Scores of classes for blocks of four pixels, taken apart, and the best class of each pixel, as QDQ nodes."""
    n = Network()
    conv = [n.through("x", PIXEL), n.dequantize(n.codes("w", (12, 3, 1, 1), 51), (np.float32(0.007), np.int8(0)))]
    scores = n.through(n.node("Conv", conv, "conv"), BRANCH)
    pixels = n.through(n.node("DepthToSpace", [scores], "pixels", blocksize=2), BRANCH)
    n.node("ArgMax", [pixels], "y", axis=1, keepdims=0)
    return n.model((1, 3, 4, 5))


def embedding() -> ModelProto:
    """The rows of a table that stand for words, the largest number of each of their columns, as QDQ nodes."""
    n = Network()
    table = n.dequantize(n.codes("words", (20, 6), 61), TOKEN)
    rows = n.through(n.node("Gather", [table, "tokens"], "rows"), TOKEN)
    n.quantize(n.node("ReduceMax", [rows], "largest", axes=[1], keepdims=0), TOKEN, "y")
    return graph_model(n.nodes, {"tokens": ("int64", (1, 8))}, {"y": None}, n.constants)


def float16() -> ModelProto:
    """A network in float16, whose second output is a double."""
    n = Network()
    weights = n.constant("w", np.float16(STATE(61).laplace(0, 0.2, (4, 2, 3, 3))))
    conv = n.node("Conv", ["x", weights], "conv", pads=[1, 1, 1, 1])
    kept = n.node("Relu", [conv], "y")
    n.node("Cast", [n.node("GlobalAveragePool", [kept], "mean")], "z", to=TensorProto.DOUBLE)
    return n.model((1, 2, 5, 5), ("y", "z"), x_type="float16")


def float_tail() -> ModelProto:
    """An integer layer whose result goes on in float32, as detectors do with their boxes."""
    n = Network()
    conv = n.qlinear_conv("x", INPUT, "conv", (4, 3, 1, 1), BRANCH)
    squashed = n.node("Tanh", [n.dequantize(conv, BRANCH, "real")], "squashed")
    sizes = n.constant("sizes", np.float32([0.5, 2.0, 1.5, 0.25]).reshape(4, 1, 1))
    scaled = n.node("Mul", [squashed, sizes], "scaled")
    total = n.node("Add", [scaled, squashed], "sum")
    is_large = n.node("Greater", [total, n.constant("limit", np.float32(0.1))], "is_large")
    kept = n.node("Where", [is_large, total, n.constant("zero", np.float32(0))], "kept")
    mixtures = np.float32(np.random.RandomState(51).randint(-8, 9, (4, 4, 2)) / 8)
    mixed = n.node("MatMul", [kept, n.constant("mixtures", mixtures)], "mixed")
    n.node("Softmax", [mixed], "y", axis=-1)
    return n.network(("int8", (1, 3, 4, 4)))


def dynamic() -> ModelProto:
    """A convolution with Relu as onnxruntime's quantize_dynamic writes it, and one whose sums are an output."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["codes", "step", "zero"], "quantize"),
        helper.make_node("ConvInteger", ["codes", "w", "zero"], ["sums"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Cast", ["sums"], ["numbers"], "cast", to=TensorProto.FLOAT),
        helper.make_node("Mul", ["step", "w_scale"], ["unit"], "scales"),
        helper.make_node("Mul", ["numbers", "unit"], ["scaled"], "scaled"),
        helper.make_node("Add", ["scaled", "bias"], ["biased"], "bias"),
        helper.make_node("Relu", ["biased"], ["y"], "relu"),
        helper.make_node("ConvInteger", ["codes", "v", "zero"], ["counts"], "pointwise"),
    ]
    constants = {
        "v": STATE(83).randint(-90, 91, (3, 2, 1, 1)).astype(np.int8),
        "w": np.clip(np.rint(STATE(81).laplace(0, 25, (4, 2, 3, 3))), -127, 127).astype(np.int8),
        "w_scale": np.float32(0.009),
        "bias": np.float32(STATE(82).randint(-32, 33, (1, 4, 1, 1)) / 16),
    }
    return graph_model(nodes, {"x": ("float", (1, 2, 6, 5))}, {"y": None, "counts": None}, constants)


def dynamic_in_rows(*, averages: bool = False) -> ModelProto:
    """A convolution as quantize_dynamic writes it, and the quantization or the mean of its floats."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["codes", "step", "zero"], "quantize"),
        helper.make_node("ConvInteger", ["codes", "w", "zero"], ["sums"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Cast", ["sums"], ["numbers"], "cast", to=TensorProto.FLOAT),
        helper.make_node("Mul", ["step", "w_scale"], ["unit"], "scales"),
        helper.make_node("Mul", ["numbers", "unit"], ["scaled"], "scaled"),
        helper.make_node("Relu", ["scaled"], ["floats"], "relu"),
        helper.make_node("GlobalAveragePool", ["floats"], ["y"], "mean")
        if averages
        else helper.make_node("DynamicQuantizeLinear", ["floats"], ["y", "y_step", "y_zero"], "quantize_floats"),
    ]
    w = np.clip(np.rint(STATE(87).laplace(0, 25, (8, 2, 3, 3))), -127, 127).astype(np.int8)
    constants = {"w": w, "w_scale": np.float32(0.009)}
    outputs = dict.fromkeys(("y",) if averages else ("y", "y_step", "y_zero"))
    return graph_model(nodes, {"x": ("float", (1, 2, 12, 5))}, outputs, constants)


def dynamic_lstm() -> ModelProto:
    """A recurrent layer as quantize_dynamic writes it, there and back, with a scale for each direction."""
    inputs, units, rows = 4, 6, 24
    codes = (STATE(seed).randint(-127, 128, (2, n, rows)).astype(np.int8) for seed, n in ((84, inputs), (85, units)))
    scales = [np.float32([0.008, 0.011]), np.zeros(2, np.int8), np.float32([0.007, 0.009]), np.zeros(2, np.int8)]
    constants = dict(zip(("w", "r"), codes, strict=True))
    constants |= {"b": np.float32(STATE(86).randint(-32, 33, (2, 2 * rows)) / 64)}
    constants |= dict(zip(("w_scale", "w_zero", "r_scale", "r_zero"), scales, strict=True))
    operands = ["x", "w", "r", "b", "", "", "", "", "w_scale", "w_zero", "r_scale", "r_zero"]
    own = {"domain": MICROSOFT, "direction": "bidirectional", "hidden_size": units}
    node = helper.make_node("DynamicQuantizeLSTM", operands, ["y"], "lstm", **own)
    return graph_model([node], {"x": ("float", (5, 1, inputs))}, {"y": None}, constants, opsets={MICROSOFT: 1})


def network_tflite() -> bytes:
    """A .tflite file: a convolution with Relu, the mean of the image, a dense layer, softmax."""

    def codes(shape: Sequence[int], seed: int) -> np.ndarray:
        return np.clip(np.rint(STATE(seed).laplace(0, 25, shape)), -127, 127).astype(np.int8)

    w_scales = np.float32([0.009, 0.012, 0.007, 0.010])
    tensors = [
        Told("image", (1, 6, 6, 2), 0.024, -12),
        Told("conv_weights", (4, 3, 3, 2), w_scales.tolist(), 0, codes((4, 3, 3, 2), 71)),
        Told("conv_bias", (4,), (w_scales * np.float32(0.024)).tolist(), 0, STATE(72).randint(-900, 901, 4), "int32"),
        Told("conv", (1, 4, 4, 4), 0.02, -128),
        Told("axes", (2,), None, 0, np.array([1, 2]), "int32"),
        Told("mean", (1, 4), 0.013, -128),
        Told("dense_weights", (3, 4), 0.011, 0, codes((3, 4), 73)),
        Told("dense", (1, 3), 0.03, 7),
        Told("shares", (1, 3), 1 / 256, -128),
    ]
    steps = [
        Step("CONV_2D", (0, 1, 2), (3,), window(padding=1, activation=1)),
        Step("MEAN", (3, 4), (5,), {0: Field("b", 0)}),
        Step("FULLY_CONNECTED", (5, 6, -1), (7,), {0: Field("b", 0)}),
        Step("SOFTMAX", (7,), (8,), {0: Field("f", 1.0)}),
    ]
    return written(tensors, steps, (0,), (8,))


def wide_tflite() -> bytes:
    """A .tflite file of int16 codes: a convolution, a sum with a constant, the hyperbolic tangent, softmax."""
    random = STATE(76)
    w_scales = [0.009, 0.012, 0.007]
    tensors = [
        Told("image", (1, 5, 5, 2), 1 / 5000, 0, dtype="int16"),
        Told("weights", (3, 3, 3, 2), w_scales, 0, random.randint(-127, 128, (3, 3, 3, 2))),
        Told("bias", (3,), [scale / 5000 for scale in w_scales], 0, random.randint(-90000, 90001, 3), "int64"),
        Told("conv", (1, 3, 3, 3), 1 / 3000, 0, dtype="int16"),
        Told("constant", (1, 1, 1, 3), 1 / 9000, 0, random.randint(-30000, 30001, (1, 1, 1, 3)), "int16"),
        Told("sum", (1, 3, 3, 3), 1 / 2600, 0, dtype="int16"),
        Told("tangent", (1, 3, 3, 3), 2.0**-15, 0, dtype="int16"),
        Told("shares", (1, 3, 3, 3), 2.0**-15, 0, dtype="int16"),
    ]
    steps = [
        Step("CONV_2D", (0, 1, 2), (3,), window(padding=1, activation=1)),
        Step("ADD", (3, 4), (5,), {0: Field("b", 0)}),
        Step("TANH", (5,), (6,)),
        Step("SOFTMAX", (6,), (7,), {0: Field("f", 4.0)}),
    ]
    return written(tensors, steps, (0,), (7,))


def recurrent_tflite() -> bytes:
    """A .tflite file: two frames a call through an LSTM of three units, shares in 16 bits, of these the codes in 8."""
    scales, count = (0.006, 0.009, 0.008, 0.007), 3
    random = STATE(75)
    matrices = [
        Told(f"{word}_{gate}", (count, n), scale, 0, random.randint(-127, 128, (count, n)))
        for word, n in (("input_weights", 4), ("state_weights", count))
        for gate, scale in zip(("input", "forget", "cell", "output"), scales, strict=True)
    ]
    biases = [
        Told(f"bias_{n}", (count,), 0.02 * scale, 0, random.randint(-3000, 3001, count), "int32")
        for n, scale in enumerate(scales)
    ]
    tensors = [
        Told("frames", (1, 2, 4), 0.02, -5),
        *matrices,
        *biases,
        Told("state", (1, count), 1 / 128, 0, is_variable=True),
        Told("cell", (1, count), 2.0**-11, 0, dtype="int16", is_variable=True),
        Told("states", (1, 2, count), 1 / 128, 0),
        Told("shares", (1, 2, count), 2.0**-16, -(2**15), dtype="int16"),
        Told("percent", (1, 2, count), 0.01, 0),
    ]
    inputs = (0, *range(1, 9), -1, -1, -1, *range(9, 13), -1, -1, 13, 14, -1, -1, -1, -1)
    steps = [
        Step("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, (15,), {0: Field("b", 4), 1: Field("f", 10.0)}),
        Step("SOFTMAX", (15,), (16,), {0: Field("f", 2.0)}),
        Step("QUANTIZE", (16,), (17,)),
    ]
    return written(tensors, steps, (0,), (17,))


def resized_tflite() -> bytes:
    """A .tflite file: an image made larger, the square of its distance from a color, logarithms of shares."""
    shape = (1, 7, 5, 3)
    tensors = [
        Told("image", (1, 4, 3, 3), 0.024, -12),
        Told("size", (2,), None, 0, np.array(shape[1:3]), "int32"),
        Told("larger", shape, 0.024, -12),
        Told("color", (1, 1, 1, 3), 0.017, 9, STATE(74).randint(-128, 128, (1, 1, 1, 3))),
        Told("distance", shape, 0.06, -128),
        Told("logarithms", shape, 1 / 16, 127),
    ]
    steps = [
        Step("RESIZE_BILINEAR", (0, 1), (2,), {3: Field("b", 1)}),
        Step("SQUARED_DIFFERENCE", (2, 3), (4,), {}),
        Step("LOG_SOFTMAX", (4,), (5,), {}),
    ]
    return written(tensors, steps, (0,), (5,))
