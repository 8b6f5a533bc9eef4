"""Networks with recurrent layers, and with attention to all of a sequence."""

from __future__ import annotations

import numpy as np
import transformers
from onnx import ModelProto

from architectures.builder import Net

GATES = {"LSTM": 4, "GRU": 3}


def _recurrent(
    b: Net, op: str, x: str, width: int, inputs: int, *states: str, both: bool = False, **attributes: object
) -> list[str]:
    """A recurrent layer that reads (time, 1, inputs): its outputs (time, directions, 1, width), and final states."""
    ways, rows = (2 if both else 1), GATES[op] * width
    scale = 1 / np.sqrt(width)
    parts = [b.weights(ways, rows, inputs, size=scale), b.weights(ways, rows, width, size=scale)]
    parts.append(b.weights(ways, 2 * rows, size=0.1))
    count = 3 if op == "LSTM" else 2
    attributes |= {"direction": "bidirectional"} if both else {}
    first = b.node(op, x, *parts, *(["", *states] if states else []), outputs=count, hidden_size=width, **attributes)
    return [first, *(f"{first}_{number}" for number in range(1, count))]


def _by_time(b: Net, x: str) -> str:
    """(1, features, time) as (time, 1, features)."""
    return b.node("Transpose", x, perm=[2, 0, 1])


def bilstm_har() -> ModelProto:
    b = Net()
    x = b.input(32, 1, 6)
    outputs = _recurrent(b, "LSTM", x, 12, 6, both=True)[0]
    joined = b.reshape(b.node("Transpose", outputs, perm=[0, 2, 1, 3]), 32, 24)
    last = b.node("Gather", joined, b.constant(np.int64([-1])), axis=0)
    return b.model(b.gemm(b.having(last, 24), 6))


def lstm_kws() -> ModelProto:
    b = Net()
    x = b.conv_act(b.input(1, 20, 49), 16, (5,), 2)
    outputs = _recurrent(b, "LSTM", _by_time(b, x), 24, 16)[0]
    last = b.node("Gather", b.node("Squeeze", outputs, b.integers(1)), b.constant(np.int64(-1)), axis=0)
    return b.model(b.gemm(b.having(last, 24), 12))


def gru_kws() -> ModelProto:
    b = Net()
    x = b.conv_act(b.input(1, 20, 49), 16, (5,), 2)
    outputs = _recurrent(b, "GRU", _by_time(b, x), 24, 16, linear_before_reset=1)[0]
    last = b.node("Gather", b.node("Squeeze", outputs, b.integers(1)), b.constant(np.int64(-1)), axis=0)
    return b.model(b.gemm(b.having(last, 24), 12))


def gru_streaming_state() -> ModelProto:
    b = Net()
    x, state = b.input(1, 1, 20), b.input(1, 1, 24, name="state")
    _, final = _recurrent(b, "GRU", x, 24, 20, state, linear_before_reset=1)
    return b.model(b.gemm(b.reshape(final, 1, 24), 6, 24), final)


def lstm_streaming_state_vad() -> ModelProto:
    b = Net()
    b.input(1, 1, 64)
    h, c = b.input(1, 1, 16, name="h"), b.input(1, 1, 16, name="c")
    x = b.conv_act(b.conv_act("x", 16, (5,), 4), 16, (3,), 16)
    _, h, c = _recurrent(b, "LSTM", _by_time(b, x), 16, 16, h, c)
    return b.model(b.node("Sigmoid", b.gemm(b.relu(b.reshape(h, 1, 16)), 1, 16)), h, c)


def silero_vad() -> ModelProto:
    """The part of Silero's network for 16 kHz: a spectrum's size, convolutions, an LSTM with states."""
    b = Net()
    b.input(1, 1, 512)
    h, c = b.input(1, 1, 16, name="h"), b.input(1, 1, 16, name="c")
    spectrum = b.conv("x", 32, (128,), 64, pads=[0, 0], bias=False)
    real, imaginary = b.split(spectrum, 2)
    squares = b.add(b.node("Pow", real, b.number(2)), b.node("Pow", imaginary, b.number(2)))
    x = b.having(b.node("Sqrt", squares), 16)
    x = b.conv_act(b.conv_act(x, 16, (3,), 2), 16, (3,), 2)
    outputs, h, c = _recurrent(b, "LSTM", _by_time(b, x), 16, 16, h, c)
    by_channel = b.node("Transpose", b.node("Squeeze", outputs, b.integers(1)), perm=[1, 2, 0])
    y = b.node("Sigmoid", b.conv(b.relu(b.having(by_channel, 16)), 1, (1,)))
    return b.model(b.node("ReduceMean", y, axes=[1, 2], keepdims=0), h, c)


def crnn_conv_gru() -> ModelProto:
    """Text lines: convolutions, a bidirectional GRU, log-probabilities for every column."""
    b = Net()
    b.input(1, 1, 16, 64)
    x = b.max_pool(b.conv_act(b.conv_act("x", 8, 3, 2), 16))
    columns = b.node("Transpose", b.reshape(x, 1, 64, 16), perm=[2, 0, 1])
    outputs = _recurrent(b, "GRU", columns, 16, 64, both=True, linear_before_reset=1)[0]
    joined = b.reshape(b.node("Transpose", outputs, perm=[0, 2, 1, 3]), 16, 1, 32)
    return b.model(b.node("LogSoftmax", b.dense(joined, 32, 12), axis=2))


def denoise_mask_gru_multi_io() -> ModelProto:
    """A mask for each band of a spectrum, a flag whether somebody speaks, and the state."""
    b = Net()
    x, state = b.input(1, 1, 33), b.input(1, 1, 24, name="state")
    inside = b.node("Tanh", b.dense(x, 33, 24))
    outputs, final = _recurrent(b, "GRU", inside, 24, 24, state, linear_before_reset=1)
    rows = b.node("Squeeze", outputs, b.integers(1))
    mask = b.node("Sigmoid", b.dense(rows, 24, 33))
    speaks = b.node("Sigmoid", b.dense(rows, 24, 1))
    return b.model(b.node("Mul", x, mask), speaks, final)


def _states(b: Net, count: int, width: int) -> list[str]:
    return [b.input(1, 1, width, name=name) for name in ("h0", "c0", "h1", "c1")[:count]]


def dtln_1() -> ModelProto:
    """The first network of DTLN: two LSTMs and a mask."""
    b = Net()
    x, states, out = b.input(1, 1, 65), _states(b, 4, 32), []
    for number, inputs in enumerate((65, 32)):
        x, h, c = _recurrent(b, "LSTM", x, 32, inputs, *states[2 * number : 2 * number + 2])
        x = b.node("Squeeze", x, b.integers(1))
        out += [h, c]
    return b.model(b.node("Sigmoid", b.dense(x, 32, 65)), *out)


def dtln_2() -> ModelProto:
    """The second: learnt features, a normalization in steps, LSTM cells written as Gemm with a computed C, a mask."""
    b = Net()
    b.input(1, 64)
    h, c = b.input(1, 32, name="h0"), b.input(1, 32, name="c0")
    features = b.node("MatMul", "x", b.weights(64, 48, size=0.15))
    apart = b.node("Sub", features, b.node("ReduceMean", features, axes=[1], keepdims=1))
    variance = b.node("ReduceMean", b.node("Mul", apart, apart), axes=[1], keepdims=1)
    normal = b.node("Div", apart, b.node("Sqrt", b.add(variance, b.number(1e-5))))
    inputs = b.node("MatMul", normal, b.weights(48, 128, size=0.15))
    gates = b.node("Gemm", h, b.weights(32, 128, size=0.15), inputs)
    i, o, f, g = b.split(b.having(gates, 128), 4)
    i, o, f = (b.node("Sigmoid", each) for each in (i, o, f))
    c = b.add(b.node("Mul", f, c), b.node("Mul", i, b.node("Tanh", g)))
    h = b.node("Mul", o, b.node("Tanh", c))
    mask = b.node("Sigmoid", b.dense(h, 32, 48))
    return b.model(b.node("MatMul", b.node("Mul", features, mask), b.weights(48, 64, size=0.15)), h, c)


def embedding_text_intent() -> ModelProto:
    """Numbers of words, rows of a table, a convolution along them, the largest of each channel."""
    b = Net()
    b.input(1, 12, dtype="int64")
    rows = b.node("Gather", b.weights(10, 16), "x", axis=0)
    x = b.having(b.node("Transpose", rows, perm=[0, 2, 1]), 16)
    largest = b.node("ReduceMax", b.conv_act(x, 24, (3,)), axes=[2], keepdims=0)
    return b.model(b.gemm(b.having(largest, 24), 5))


def transformer_text_encoder() -> ModelProto:
    """Numbers of words and their places, one block of attention, the mean of all."""
    b, tokens, width = Net(), 12, 32
    b.input(1, tokens, dtype="int64")
    x = b.add(b.node("Gather", b.weights(10, width), "x", axis=0), b.weights(1, tokens, width, size=0.3))
    x = b.block(b.layer_norm(x, width), tokens, width, 2, splits=False)
    mean = b.node("ReduceMean", b.layer_norm(x, width), axes=[1], keepdims=0)
    return b.model(b.dense(mean, width, 4))


def magika() -> ModelProto:
    """What a file is, from its bytes: rows of a table, Gelu, normalizations, the largest of all places."""
    b, places, width = Net(), 32, 16
    b.input(1, places, dtype="int64")
    x = b.gelu(b.node("Gather", b.weights(10, width), "x", axis=0))
    x = b.having(b.node("Transpose", b.layer_norm(x, width), perm=[0, 2, 1]), width)
    x = b.having(b.gelu(b.conv(x, 32, (5,))), 32)
    mean = b.node("ReduceMean", x, axes=[1], keepdims=1)
    apart = b.node("Sub", x, mean)
    variance = b.node("ReduceMean", b.node("Mul", apart, apart), axes=[1], keepdims=1)
    x = b.node("Mul", apart, b.node("Reciprocal", b.node("Sqrt", b.node("Max", variance, b.number(1e-3)))))
    pooled = b.node("Flatten", b.node("GlobalMaxPool", b.having(x, 32)))
    logits = b.gemm(b.having(pooled, 32), 20)
    above = b.node("Exp", b.node("Sub", logits, b.node("ReduceMax", logits, axes=[1], keepdims=1)))
    total = b.node("ReduceSum", above, b.integers(1), keepdims=1)
    return b.model(b.node("Div", above, b.node("Expand", total, b.integers(1, 20))))


kwt_keyword_transformer = transformers.keyword_transformer
vit_tiny_32 = transformers.vit_tiny
mlp_mixer_32 = transformers.mlp_mixer
