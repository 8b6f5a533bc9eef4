"""Networks that read sound, movement, heartbeats and radar, without recurrence."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, TensorProto, helper

from architectures.builder import Net


def _signal(*shape: int) -> Net:
    net = Net()
    net.input(*shape)
    return net


def har_cnn_1d() -> ModelProto:
    b = _signal(1, 6, 128)
    x = b.max_pool(b.conv_act("x", 16, (5,)), rank=1)
    x = b.max_pool(b.conv_act(x, 24, (5,)), rank=1)
    return b.model(b.node("Softmax", b.gemm(b.mean(b.conv_act(x, 32, (3,))), 6), axis=1))


def ecg_resnet_se_1d() -> ModelProto:
    b = _signal(1, 1, 180)
    x = b.conv_act("x", 16, (7,), 2)
    for out, stride in ((16, 1), (24, 2)):
        inside = b.conv(b.conv_act(x, out, (5,), stride), out, (5,))
        gate = b.conv_act(b.node("GlobalAveragePool", inside), 8, (1,))
        inside = b.node("Mul", inside, b.node("Sigmoid", b.conv(gate, out, (1,))))
        x = b.relu(b.add(inside, x if stride == 1 else b.conv(x, out, (1,), stride)))
    return b.model(b.gemm(b.mean(x), 5))


def matchboxnet_1d() -> ModelProto:
    b = _signal(1, 40, 98)
    x = b.conv_act("x", 32, (11,), 2)
    for kernel in (13, 15):
        inside = x
        for _ in range(2):
            inside = b.conv(b.depthwise(inside, (kernel,)), 32, (1,))
        x = b.relu(b.add(inside, b.conv(x, 32, (1,))))
    return b.model(b.gemm(b.mean(b.conv_act(x, 48, (29,), dilation=2)), 12))


def tc_resnet8_1d() -> ModelProto:
    b = _signal(1, 40, 98)
    x = b.conv("x", 16, (3,))
    for out in (24, 32, 48):
        inside = b.conv(b.conv_act(x, out, (9,), 2), out, (9,))
        x = b.relu(b.add(inside, b.conv_act(x, out, (1,), 2)))
    return b.model(b.gemm(b.mean(x), 12))


def radar_conv3d() -> ModelProto:
    b = _signal(1, 1, 8, 16, 16)
    x = b.max_pool(b.conv_act("x", 8, (3, 3, 3)), rank=3)
    x = b.max_pool(b.conv_act(x, 16, (3, 3, 3)), rank=3)
    return b.model(b.gemm(b.mean(x), 4))


def wavenet_gated_1d() -> ModelProto:
    b = _signal(1, 1, 128)
    x, skips = b.conv("x", 16, (1,)), []
    for dilation in (1, 2, 4, 8):
        pads = [2 * dilation, 0]
        both = [b.conv(x, 16, (3,), dilation=dilation, pads=pads) for _ in range(2)]
        gated = b.node("Mul", b.node("Tanh", both[0]), b.node("Sigmoid", both[1]))
        skips.append(b.conv(gated, 16, (1,)))
        x = b.add(x, skips[-1])
    total = skips[0]
    for each in skips[1:]:
        total = b.add(total, each)
    return b.model(b.conv(b.conv_act(b.relu(total), 16, (1,)), 8, (1,)))


def streaming_tcn_states() -> ModelProto:
    """One frame at a time: what convolutions need of the past comes in and goes out."""
    b = _signal(1, 16, 1)
    x, states = "x", []
    for number, dilation in enumerate((1, 2, 4)):
        past = b.input(1, 16, 2 * dilation, name=f"state{number}")
        window = b.node("Concat", past, x, axis=2)
        states.append(b.node("Slice", window, b.integers(1), b.integers(2 * dilation + 1), b.integers(2)))
        x = b.conv_act(b.having(window, 16), 16, (3,), dilation=dilation, pads=[0, 0])
    return b.model(b.gemm(b.node("Flatten", x), 4), *states)


def unrolled_gru_cell() -> ModelProto:
    """A GRU's step written in products and gates, as exporters unroll it."""
    b = _signal(1, 16)
    state = b.input(1, 16, name="state")
    reset, update = (b.node("Sigmoid", b.add(b.gemm("x", 16), b.gemm(state, 16))) for _ in range(2))
    new = b.node("Tanh", b.add(b.gemm("x", 16), b.node("Mul", reset, b.gemm(state, 16))))
    kept = b.node("Mul", update, state)
    following = b.add(kept, b.node("Mul", b.node("Sub", b.number(1), update), new))
    return b.model(b.gemm(b.having(following, 16), 4), following)


def wake_word_dense() -> ModelProto:
    """openWakeWord's networks: a flattened window of embeddings, dense layers, a sigmoid."""
    b = _signal(1, 16, 96)
    x = b.relu(b.gemm(b.node("Flatten", "x"), 32, 16 * 96))
    return b.model(b.node("Sigmoid", b.gemm(b.relu(b.gemm(x, 32)), 1)))


def esp_model() -> ModelProto:
    b = _signal(1, 1, 32, 32)
    x = b.max_pool(b.conv_act("x", 8))
    x = b.max_pool(b.conv_act(x, 16))
    return b.model(b.node("Softmax", b.gemm(b.relu(b.gemm(b.node("Flatten", x), 32, 1024)), 6), axis=1))


def streaming_model() -> ModelProto:
    """microWakeWord's kind: depthwise convolutions along time over a ring of frames, mixed to one probability."""
    b = _signal(1, 1, 30, 40)
    x = b.relu(b.conv("x", 24, (5, 40), (3, 1), pads=[0] * 4))
    for kernel in (5, 5):
        x = b.conv_act(b.depthwise(x, (kernel, 1), pads=[0] * 4) if kernel < 5 else b.depthwise(x, (kernel, 1)), 24, 1)
    return b.model(b.node("Sigmoid", b.gemm(b.node("Flatten", x), 1, 24 * 9)))


# Those that were refused once.


def attention_pool_kws() -> ModelProto:
    """Frames weighted by a softmax along time, and added."""
    b = _signal(1, 1, 40, 49)
    x = b.conv_act(b.conv_act("x", 16, 3, 2), 24, (3, 3), (2, 1))
    frames = b.node("Transpose", b.reshape(x, 1, 240, 25), perm=[0, 2, 1])
    frames = b.relu(b.dense(frames, 240, 24))
    shares = b.node("Softmax", b.dense(frames, 24, 1), axis=1)
    pooled = b.node("ReduceSum", b.node("Mul", frames, shares), b.integers(1), keepdims=0)
    return b.model(b.dense(pooled, 24, 12))


def bc_resnet_1() -> ModelProto:
    """Means along frequency, convolutions along time, broadcast back; normalization of bands of frequency."""
    b = _signal(1, 1, 40, 50)
    x = b.conv("x", 16, 5, (2, 1))
    for stride in (1, 2):
        bands = 20 // stride
        inside = b.depthwise(x, (3, 1), (stride, 1))
        apart = b.having(b.reshape(inside, 1, 16 * 5, bands // 5, 50), 80)
        inside = b.having(b.reshape(b.normal(apart), 1, 16, bands, 50), 16)
        along = b.having(b.node("ReduceMean", inside, axes=[2], keepdims=1), 16)
        along = b.conv(b.silu(b.normal(b.depthwise(along, (1, 3)))), 16, 1)
        x = b.relu(b.add(inside, along) if stride == 2 else b.add(b.add(inside, along), x))
    mean = b.node("ReduceMean", b.conv(x, 12, 1), axes=[2, 3], keepdims=1)
    return b.model(b.reshape(mean, 1, 12))


def conv_autoencoder_1d_mse() -> ModelProto:
    """An anomaly's score: the mean squared error of what is decoded."""
    b = _signal(1, 4, 64)
    x = b.conv_act(b.conv_act("x", 8, (5,), 2), 12, (5,), 2)
    x = b.relu(b.conv_transpose(x, 8, (4,), pads=[1, 1]))
    again = b.conv_transpose(x, 4, (4,), pads=[1, 1])
    error = b.node("Pow", b.node("Sub", "x", again), b.number(2))
    return b.model(again, b.node("ReduceMean", error, axes=[1, 2], keepdims=0))


def embedding_model() -> ModelProto:
    """openWakeWord's embeddings: convolutions with LeakyRelu written as Max(x, 0.2 x)."""
    b = _signal(1, 76, 32, 1)
    x = b.having(b.node("Transpose", "x", perm=[0, 3, 1, 2]), 1)
    for out, kernel, pooled in ((12, (3, 3), True), (24, (1, 3), False), (24, (3, 1), True), (48, (1, 3), False)):
        x = b.conv(x, out, kernel)
        x = b.node("Max", b.node("Mul", x, b.number(0.2)), x)
        x = b.max_pool(x) if pooled else x
    x = b.conv(x, 48, (19, 8), pads=[0] * 4)
    return b.model(b.node("Transpose", x, perm=[0, 2, 3, 1]))


def logmel_front_end_cnn() -> ModelProto:
    """A spectrum as two products, its power, bands, a logarithm, then convolutions."""
    b = _signal(1, 20, 64)
    parts = [b.node("Pow", b.node("MatMul", "x", b.weights(64, 33, size=0.15)), b.number(2)) for _ in range(2)]
    bands = b.constant(np.abs(np.random.RandomState(3).normal(0, 0.2, (33, 16))).astype(np.float32))
    energy = b.node("MatMul", b.add(*parts), bands)
    x = b.node("Log", b.add(energy, b.number(1e-2)))
    x = b.normal(b.having(b.reshape(x, 1, 1, 20, 16), 1))
    x = b.conv_act(b.conv_act(x, 8, 3, 2), 16, 3, 2)
    return b.model(b.gemm(b.mean(x), 6))


def tcn_causal_1d() -> ModelProto:
    """Convolutions that see only the past; the last frame is what counts."""
    b = _signal(1, 8, 64)
    x = b.conv("x", 16, (1,))
    for dilation in (1, 2, 4, 8):
        pads = [2 * dilation, 0]
        inside = b.conv_act(x, 16, (3,), dilation=dilation, pads=pads)
        x = b.relu(b.add(x, b.conv(inside, 16, (3,), dilation=dilation, pads=pads)))
    last = b.node("Gather", x, b.constant(np.int64(-1)), axis=2)
    return b.model(b.gemm(b.having(last, 16), 4))


def _handmade_norm(b: Net, x: str, width: int) -> str:
    """LayerNormalization in single steps: ReduceMean, Sub, Pow, ReduceMean, Sqrt, Div."""
    apart = b.node("Sub", x, b.node("ReduceMean", x, axes=[-1], keepdims=1))
    variance = b.node("ReduceMean", b.node("Pow", apart, b.number(2)), axes=[-1], keepdims=1)
    normal = b.node("Div", apart, b.node("Sqrt", b.add(variance, b.number(1e-5))))
    scaled = b.node("Mul", normal, b.constant(np.linspace(0.5, 1.5, width, dtype=np.float32)))
    return b.add(scaled, b.weights(width, size=0.1))


def _wake_word_normalized(gated: bool) -> ModelProto:
    """openWakeWord's larger networks: dense layers with normalizations between them."""
    b = _signal(1, 16, 96)
    x = b.gemm(b.node("Flatten", "x"), 32, 16 * 96)
    for _ in range(2):
        x = b.gemm(b.having(b.relu(_handmade_norm(b, x, 32)), 32), 32)
    y = b.node("Sigmoid", b.gemm(b.having(b.relu(_handmade_norm(b, x, 32)), 32), 1))
    if not gated:
        return b.model(y)
    # The second network runs only where the first one heard something.
    condition = b.node("Squeeze", b.node("GreaterOrEqual", y, b.number(0.5)))
    return _choosing(b, condition, y)


def _choosing(b: Net, condition: str, y: str) -> ModelProto:
    """If: the number itself, or its square."""
    value = helper.make_tensor_value_info
    same = helper.make_graph(
        [helper.make_node("Identity", [y], ["same"])], "same", [], [value("same", TensorProto.FLOAT, [1, 1])]
    )
    other = helper.make_graph(
        [helper.make_node("Mul", [y, y], ["other"])], "other", [], [value("other", TensorProto.FLOAT, [1, 1])]
    )
    chosen = b.node("If", condition, then_branch=same, else_branch=other)
    return b.model(chosen, cut=[y])


def hey_jarvis() -> ModelProto:
    return _wake_word_normalized(True)


def hey_rhasspy() -> ModelProto:
    return _wake_word_normalized(False)
