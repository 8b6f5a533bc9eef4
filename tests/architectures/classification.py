"""Networks that tell what an image shows."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto

from architectures.builder import Net


def _image(size: int, channels: int = 3) -> Net:
    net = Net()
    net.input(1, channels, size, size)
    return net


def _inverted(size: int, stem: int, rows: list[tuple[int, int, int, int, str, str]], head: int) -> ModelProto:
    """A stem and rows of inverted residuals: (out, stride, expand, kernel, activation, gate)."""
    b = _image(size)
    x = b.conv_act("x", stem, 3, 2, rows[0][4])
    for out, stride, expand, kernel, kind, gate in rows:
        x = b.inverted_residual(x, out, stride=stride, expand=expand, kernel=kernel, kind=kind, gate=gate)
    x = b.mean(b.conv_act(x, head, 1, kind=rows[-1][4]))
    return b.model(b.gemm(x, 10))


def mobilenet_v2_035_96() -> ModelProto:
    rows = [
        (out, stride, 1 + 5 * (i > 0), 3, "ReLU6", "")
        for i, (out, stride) in enumerate(
            [(8, 1), (8, 2), (8, 1), (16, 2), (16, 1), (24, 2), (24, 1), (32, 1), (56, 2), (56, 1), (112, 1)]
        )
    ]
    return _inverted(96, 16, rows, 160)


def mobilenet_v3_small_050_64() -> ModelProto:
    rows = [(8, 2, 1, 3, "Relu", "HardSigmoid"), (16, 2, 4, 3, "Relu", ""), (16, 1, 4, 3, "Relu", "")]
    rows += [(24, 2, 4, 5, "HardSwish", "HardSigmoid"), (24, 1, 6, 5, "HardSwish", "HardSigmoid")]
    return _inverted(64, 8, [*rows, (48, 2, 6, 5, "HardSwish", "HardSigmoid")], 128)


def mnasnet_050_64() -> ModelProto:
    rows = [(8, 1, 1, 3, "Relu", ""), (16, 2, 3, 3, "Relu", ""), (16, 1, 3, 3, "Relu", ""), (24, 2, 3, 5, "Relu", "")]
    return _inverted(
        64, 16, [*rows, (24, 1, 3, 5, "Relu", ""), (48, 2, 6, 5, "Relu", ""), (48, 1, 6, 3, "Relu", "")], 96
    )


def efficientnet_nano_silu_se_64() -> ModelProto:
    rows = [(8, 1, 1, 3, "SiLU", "Sigmoid"), (12, 2, 6, 3, "SiLU", "Sigmoid"), (12, 1, 6, 3, "SiLU", "Sigmoid")]
    return _inverted(64, 16, [*rows, (20, 2, 6, 5, "SiLU", "Sigmoid"), (40, 2, 6, 3, "SiLU", "Sigmoid")], 128)


def efficientnet_lite_relu6_64() -> ModelProto:
    rows = [(8, 1, 1, 3, "ReLU6", ""), (12, 2, 6, 3, "ReLU6", ""), (12, 1, 6, 3, "ReLU6", "")]
    return _inverted(64, 16, [*rows, (20, 2, 6, 5, "ReLU6", ""), (40, 2, 6, 3, "ReLU6", "")], 128)


def mobilenet_v2_100_224() -> ModelProto:
    rows = [(16, 1, 1, 3, "ReLU6", "")]
    for out, count, stride in ((24, 2, 2), (32, 3, 2), (64, 4, 2), (96, 3, 1), (160, 3, 2), (320, 1, 1)):
        rows += [(out, stride if i == 0 else 1, 6, 3, "ReLU6", "") for i in range(count)]
    return _inverted(224, 32, rows, 1280)


def efficientnet_b0_224() -> ModelProto:
    rows = [(16, 1, 1, 3, "SiLU", "Sigmoid")]
    for out, count, stride, kernel in (
        (24, 2, 2, 3),
        (40, 2, 2, 5),
        (80, 3, 2, 3),
        (112, 3, 1, 5),
        (192, 4, 2, 5),
        (320, 1, 1, 3),
    ):
        rows += [(out, stride if i == 0 else 1, 6, kernel, "SiLU", "Sigmoid") for i in range(count)]
    return _inverted(224, 32, rows, 1280)


def batch4_cnn_28() -> ModelProto:
    b = Net()
    x = b.max_pool(b.conv_act(b.input(4, 1, 28, 28), 8))
    x = b.max_pool(b.conv_act(x, 16))
    return b.model(b.gemm(b.node("Flatten", x), 10, 16 * 49))


def dynamic_batch_cnn_28() -> ModelProto:
    """Its batch is fixed before it is quantized, as ``--dim`` would do it."""
    b = _image(28, 1)
    x = b.max_pool(b.conv_act(b.conv_act("x", 8), 16, 3, 2))
    return b.model(b.node("Softmax", b.gemm(b.node("Flatten", x), 10, 16 * 49), axis=-1))


def ds_cnn_stride_padsame() -> ModelProto:
    b = Net()
    x = b.conv_act(b.input(1, 1, 49, 10), 16, (10, 4), (2, 2), auto_pad="SAME_UPPER")
    for _ in range(3):
        x = b.conv_act(b.relu(b.depthwise(x)), 16, 1)
    return b.model(b.gemm(b.mean(x), 12))


def eca_cnn_48() -> ModelProto:
    """A gate for each channel from its neighbours: a convolution along the channels."""
    b = _image(48)
    x = b.conv_act(b.conv_act("x", 16, 3, 2), 24, 3, 2)
    along = b.having(
        b.node("Transpose", b.node("Squeeze", b.node("GlobalAveragePool", x), b.integers(3)), perm=[0, 2, 1]), 1
    )
    gate = b.node("Sigmoid", b.conv(along, 1, (3,), bias=False))
    gate = b.node("Unsqueeze", b.node("Transpose", gate, perm=[0, 2, 1]), b.integers(3))
    return b.model(b.gemm(b.mean(b.node("Mul", x, gate)), 10))


def ghostnet_tiny_64() -> ModelProto:
    b = _image(64)
    x = b.conv_act("x", 16, 3, 2)
    for out in (24, 32):
        few = b.conv_act(x, out, 1)
        x = b.concat(few, b.relu(b.depthwise(few)))
        x = b.depthwise(x, 3, 2)
        few = b.conv(b.squeeze_excite(x, 8, "HardSigmoid"), out, 1)
        x = b.concat(few, b.depthwise(few))
    return b.model(b.gemm(b.mean(x), 10))


def multi_output_age_gender_48() -> ModelProto:
    b = _image(48)
    x = b.mean(b.conv_act(b.conv_act(b.conv_act("x", 16, 3, 2), 24, 3, 2), 32, 3, 2))
    age = b.gemm(b.relu(b.gemm(x, 16)), 1)
    return b.model(age, b.node("Softmax", b.gemm(x, 2), axis=1))


def normalize_in_graph_48() -> ModelProto:
    """An image whose mean and deviation of every channel are taken out in the network."""
    b = _image(48)
    centred = b.node("Sub", "x", b.constant(np.float32([0.48, 0.45, 0.41]).reshape(1, 3, 1, 1)))
    x = b.node("Div", centred, b.constant(np.float32([0.23, 0.22, 0.23]).reshape(1, 3, 1, 1)))
    x = b.conv_act(b.conv_act(b.having(x, 3), 8, 3, 2), 16, 3, 2)
    return b.model(b.gemm(b.mean(x), 10))


def repvgg_plain_32() -> ModelProto:
    b = _image(32)
    x = "x"
    for out, stride in ((16, 1), (24, 2), (24, 1), (32, 2), (32, 1)):
        x = b.conv_act(x, out, 3, stride)
    return b.model(b.gemm(b.mean(x), 10))


def shufflenet_v2_x05_96() -> ModelProto:
    b = _image(96)
    x = b.max_pool(b.conv_act("x", 16, 3, 2), 3, 2, pads=[1, 1, 1, 1])
    left, right = b.split(x, 2)
    right = b.conv_act(b.depthwise(b.conv_act(right, 8, 1)), 8, 1)
    x = b.shuffle(b.concat(left, right), 2, 24)
    near = b.conv_act(b.depthwise(x, 3, 2), 16, 1)
    far = b.conv_act(b.depthwise(b.conv_act(x, 16, 1), 3, 2), 16, 1)
    return b.model(b.gemm(b.mean(b.shuffle(b.concat(near, far), 2, 12)), 10))


def squeezenet11_96() -> ModelProto:
    b = _image(96)
    x = b.max_pool(b.conv_act("x", 16, 3, 2), 3, 2)
    for few, out in ((8, 16), (8, 16), (12, 24)):
        x = b.conv_act(x, few, 1)
        x = b.concat(b.conv_act(x, out, 1), b.conv_act(x, out, 3))
    return b.model(b.mean(b.conv_act(x, 10, 1)))


# Those that were refused once.


def argmax_digit_28() -> ModelProto:
    b = _image(28, 1)
    x = b.max_pool(b.conv_act(b.conv_act("x", 8, 3, 2), 16))
    return b.model(b.node("ArgMax", b.gemm(b.node("Flatten", x), 10, 16 * 49), axis=1, keepdims=0))


def cbam_cnn_48() -> ModelProto:
    """Gates for channels and for places, from means and largest elements."""
    b = _image(48)
    x = b.conv_act(b.conv_act("x", 16, 3, 2), 24, 3, 2)
    few, back = b.weights(6, 24, 1, 1, size=0.3), b.weights(24, 6, 1, 1, size=0.5)
    both = [
        b.node("Conv", b.relu(b.node("Conv", b.node(kind, x), few)), back)
        for kind in ("GlobalAveragePool", "GlobalMaxPool")
    ]
    x = b.node("Mul", x, b.node("Sigmoid", b.add(*both)))
    mean = b.having(b.node("ReduceMean", x, axes=[1], keepdims=1), 1)
    largest = b.having(b.node("ReduceMax", x, axes=[1], keepdims=1), 1)
    x = b.node("Mul", x, b.node("Sigmoid", b.conv(b.concat(mean, largest), 1, 7)))
    return b.model(b.gemm(b.mean(x), 10))


def cnn_elu_avgpool_ceil_29() -> ModelProto:
    """AveragePool that rounds sizes up and counts padding; a choice by a threshold behind Softplus."""
    b = _image(29)
    x = b.conv_act("x", 12, 3, 2, "Elu")
    x = b.node(
        "AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1, count_include_pad=1
    )
    x = b.node("Softplus", b.conv(x, 16))
    chosen = b.node("Where", b.node("Greater", x, b.number(0.5)), x, b.number(0))
    largest = b.node("ReduceMax", chosen, axes=[2, 3], keepdims=0)
    return b.model(b.gemm(largest, 10))


def convnext_pico_48() -> ModelProto:
    b = _image(48)
    x, size = b.conv("x", 16, 4, 4, pads=[0] * 4), 12
    for _ in range(2):
        last = b.node("Transpose", b.depthwise(x, 7), perm=[0, 2, 3, 1])
        last = b.mlp(b.layer_norm(last, 16), 16, 64)
        scaled = b.node("Mul", last, b.weights(16, size=0.5))
        x = b.having(b.add(x, b.node("Transpose", scaled, perm=[0, 3, 1, 2])), 16)
    tokens = b.node("Transpose", b.reshape(x, 1, 16, size * size), perm=[0, 2, 1])
    mean = b.node("ReduceMean", tokens, axes=[1], keepdims=0)
    return b.model(b.dense(b.layer_norm(mean, 16), 16, 10))


def densenet_tiny_32() -> ModelProto:
    """BatchNormalization in front of convolutions, behind Concat: it cannot be fused."""
    b = _image(32)
    x = b.conv("x", 16)
    for _ in range(2):
        for _ in range(3):
            x = b.concat(x, b.conv(b.relu(b.normal(x)), 8, bias=False))
        x = b.conv(b.relu(b.normal(x)), 16, 1, bias=False)
        x = b.node("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    return b.model(b.gemm(b.mean(b.relu(b.normal(x))), 10))


def preact_resnet_32() -> ModelProto:
    b = _image(32)
    x = b.conv("x", 16)
    for out, stride in ((16, 1), (24, 2), (32, 2)):
        first = b.relu(b.normal(x))
        inside = b.conv(b.relu(b.normal(b.conv(first, out, 3, stride, bias=False))), out, 3, bias=False)
        x = b.add(inside, x if stride == 1 else b.conv(first, out, 1, stride, bias=False))
    return b.model(b.gemm(b.mean(b.relu(b.normal(x))), 10))


def groupnorm_cnn_32() -> ModelProto:
    """GroupNorm as torch exports it: a Reshape, InstanceNormalization, a Reshape, a scale and a bias."""
    b = _image(32)
    x = "x"
    for out, size in ((16, 16), (32, 8)):
        x = b.conv(x, out, 3, 2)
        flat = b.reshape(x, 1, 4, out * size * size // 4)
        ones, zeros = b.constant(np.ones(4, np.float32)), b.constant(np.zeros(4, np.float32))
        whole = b.reshape(b.node("InstanceNormalization", flat, ones, zeros), 1, out, size, size)
        x = b.add(b.node("Mul", whole, b.weights(out, 1, 1)), b.weights(out, 1, 1, size=0.1))
        x = b.having(b.relu(x), out)
    return b.model(b.gemm(b.mean(x), 10))


def lenet_tanh_logsoftmax() -> ModelProto:
    b = _image(28, 1)
    x = b.node("AveragePool", b.conv_act("x", 6, 5, kind="Tanh"), kernel_shape=[2, 2], strides=[2, 2])
    x = b.node("AveragePool", b.conv_act(x, 16, 5, kind="Tanh", pads=[0] * 4), kernel_shape=[2, 2], strides=[2, 2])
    x = b.node("Tanh", b.gemm(b.node("Flatten", x), 84, 400))
    return b.model(b.node("LogSoftmax", b.gemm(x, 10), axis=1))


def nin_globalmax_lrn_32() -> ModelProto:
    """Network in network; a local response normalization written out: squares, means of neighbours, Pow, Div."""
    b = _image(32)
    x = b.conv_act(b.conv_act("x", 16, 5, 2), 16, 1)
    squares = b.node("Unsqueeze", b.node("Pow", x, b.number(2)), b.integers(1))
    around = b.node("AveragePool", squares, kernel_shape=[5, 1, 1], pads=[2, 0, 0, 2, 0, 0], count_include_pad=1)
    scaled = b.node("Mul", b.node("Squeeze", around, b.integers(1)), b.number(1e-1))
    x = b.having(b.node("Div", x, b.node("Pow", b.add(scaled, b.number(1)), b.number(0.75))), 16)
    x = b.conv_act(b.conv_act(x, 24, 3, 2), 10, 1)
    return b.model(b.node("Flatten", b.node("GlobalMaxPool", x)), b.node("ReduceMax", x, axes=[2, 3], keepdims=0))


def maxpool_indices_gather_scatter() -> ModelProto:
    """Elements chosen by constant indices, one place each, and kept where they are large."""
    b = _image(16, 4)
    x = b.max_pool(b.conv_act("x", 8))
    some = b.node("GatherND", b.node("Flatten", x), b.constant(np.int64([[0, 3], [0, 17], [0, 200], [0, 401]])))
    few = b.node("Gather", x, b.integers(0, 3, 5), axis=1)
    kept = b.node("Where", b.node("Greater", few, b.number(0.3)), few, b.number(0))
    return b.model(b.node("ReduceSum", kept, b.integers(2, 3), keepdims=0), some)


def prelu_mobilefacenet_48() -> ModelProto:
    """A face's vector of length 1: divided by its norm, which Expand repeats."""
    b = _image(48)
    x = "x"
    for out, stride in ((16, 2), (24, 2), (24, 1)):
        x = b.conv(x, out, 3, stride)
        x = b.node("PRelu", x, b.weights(out, 1, 1, size=0.2))
    x = b.node("Flatten", b.depthwise(x, 12, pads=[0] * 4))
    x = b.gemm(b.having(x, 24), 32)
    norm = b.node("ReduceL2", x, axes=[1], keepdims=1)
    return b.model(b.node("Div", x, b.node("Expand", b.node("Clip", norm, b.number(1e-6)), b.integers(1, 32))))


def siamese_two_inputs_32() -> ModelProto:
    """How far two images are apart, with the same weights for both."""
    b = Net()
    inputs = [b.input(1, 1, 32, 32, name=name) for name in ("x", "other")]
    weights = [b.weights(out, inside, 3, 3, size=0.3) for inside, out in ((1, 8), (8, 16))]
    ends = []
    for x in inputs:
        for each in weights:
            x = b.relu(b.node("Conv", x, each, strides=[2, 2], pads=[1] * 4))
        ends.append(b.mean(b.having(x, 16)))
    apart = b.node("Abs", b.node("Sub", *ends))
    return b.model(b.node("Sigmoid", b.gemm(b.having(apart, 16), 1)))


def uint8_nhwc_input_48() -> ModelProto:
    """Bytes of an image, channels last, that are cast and scaled in the network; the first frame of it."""
    b = Net()
    b.input(1, 48, 48, 3, dtype="uint8")
    scaled = b.node("Div", b.node("Cast", "x", to=1), b.number(255))
    image = b.having(b.node("Transpose", scaled, perm=[0, 3, 1, 2]), 3)
    x = b.conv_act(b.conv_act(image, 8, 3, 2), 16, 3, 2)
    last = b.having(
        b.node("Gather", b.node("Flatten", b.node("GlobalAveragePool", x)), b.constant(np.int64(0)), axis=0), 16
    )
    return b.model(b.dense(last, 16, 10))


def mlp_batchnorm_tabular() -> ModelProto:
    b = Net()
    x = b.normal(b.input(1, 20))
    for width in (32, 16):
        x = b.node("Selu", b.normal(b.gemm(x, width)))
    return b.model(b.gemm(x, 3))
