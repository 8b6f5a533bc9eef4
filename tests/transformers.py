"""Small transformers and a mixer with random weights, in float, as exporters write them: what quantizers begin with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np
from models import graph_model
from onnx import ModelProto, NodeProto, helper

OPSET = 17


class Builder:
    """Nodes and weights of a model, added one after the other; ``x`` is its input."""

    def __init__(self, seed: int) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self._draw = np.random.RandomState(seed)

    def node(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Adds a node; the name of its output, or of the first of them, which the others follow with a number."""
        name = f"{op_type.lower()}_{len(self.nodes)}"
        names = [name, *(f"{name}_{number}" for number in range(1, outputs))]
        self.nodes.append(helper.make_node(op_type, list(inputs), names, name=name, **attributes))
        return name

    def constant(self, value: Any) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def weights(self, *shape: int, size: float = 1.0) -> str:
        return self.constant(self._draw.normal(0, size, shape).astype(np.float32))

    def reshape(self, x: str, *shape: int) -> str:
        return self.node("Reshape", x, self.constant(np.int64(shape)))

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        """A product with a constant matrix, and a bias."""
        product = self.node("MatMul", x, self.weights(inputs, outputs, size=1.5 / sqrt(inputs)))
        return self.node("Add", self.weights(outputs, size=0.1), product)

    def layer_norm(self, x: str, width: int) -> str:
        scale = self.constant(self._draw.normal(1, 0.2, width).astype(np.float32))
        return self.node("LayerNormalization", x, scale, self.weights(width, size=0.1), axis=-1, epsilon=1e-5)

    def gelu(self, x: str) -> str:
        """x * (erf(x / sqrt(2)) + 1) / 2."""
        erf = self.node("Erf", self.node("Div", x, self.constant(np.float32(sqrt(2)))))
        product = self.node("Mul", x, self.node("Add", erf, self.constant(np.float32(1))))
        return self.node("Mul", product, self.constant(np.float32(0.5)))

    def mlp(self, x: str, width: int, hidden: int) -> str:
        return self.dense(self.gelu(self.dense(x, width, hidden)), hidden, width)

    def attention(self, x: str, tokens: int, width: int, heads: int, *, splits: bool) -> str:
        """Self-attention; queries, keys and values as one product, taken apart by Split or by Gather."""
        size = width // heads
        together = self.reshape(self.dense(x, width, 3 * width), 1, tokens, 3, heads, size)
        by_head = self.node("Transpose", together, perm=[2, 0, 3, 1, 4])
        if splits:
            first = self.node("Split", by_head, axis=0, outputs=3)
            axes = self.constant(np.int64([0]))
            parts = [self.node("Squeeze", name, axes) for name in (first, f"{first}_1", f"{first}_2")]
        else:
            parts = [self.node("Gather", by_head, self.constant(np.int64(i)), axis=0) for i in range(3)]
        query, key, value = parts
        scores = self.node("MatMul", query, self.node("Transpose", key, perm=[0, 1, 3, 2]))
        shares = self.node("Softmax", self.node("Mul", scores, self.constant(np.float32(1 / sqrt(size)))), axis=-1)
        by_token = self.node("Transpose", self.node("MatMul", shares, value), perm=[0, 2, 1, 3])
        return self.dense(self.reshape(by_token, 1, tokens, width), width, width)

    def block(self, x: str, tokens: int, width: int, heads: int, *, splits: bool) -> str:
        """Attention and a perceptron, each behind a normalization and added to what it reads."""
        attended = self.attention(self.layer_norm(x, width), tokens, width, heads, splits=splits)
        x = self.node("Add", x, attended)
        return self.node("Add", x, self.mlp(self.layer_norm(x, width), width, 2 * width))

    def patches(self, channels: int, width: int, patch: int, tokens: int) -> str:
        """An image in patches, (1, tokens, width)."""
        weights = self.weights(width, channels, patch, patch, size=0.3)
        image = self.node("Conv", "x", weights, self.weights(width, size=0.1), strides=[patch, patch])
        return self.node("Transpose", self.reshape(image, 1, width, tokens), perm=[0, 2, 1])

    def model(self, shape: Sequence[int], y: str) -> ModelProto:
        return graph_model(self.nodes, {"x": ("float", shape)}, {y: None}, self.constants, opset=OPSET)


def with_class(b: Builder, x: str, tokens: int, width: int) -> str:
    """The tokens behind one that stands for the class, and each place's own vector."""
    joined = b.node("Concat", b.weights(1, 1, width), x, axis=1)
    return b.node("Add", joined, b.weights(1, tokens + 1, width, size=0.3))


def keyword_transformer() -> ModelProto:
    """Frames of a spectrogram, two blocks, 12 words (KWT with narrow layers)."""
    b, frames, bands, width = Builder(1), 30, 40, 64
    x = with_class(b, b.dense("x", bands, width), frames, width)
    for _ in range(2):
        x = b.block(x, frames + 1, width, 2, splits=True)
    first = b.node("Gather", b.layer_norm(x, width), b.constant(np.int64(0)), axis=1)
    return b.model((1, frames, bands), b.dense(first, width, 12))


def vit_tiny() -> ModelProto:
    """An image of 32x32 in 16 patches, two blocks of three heads, 10 classes."""
    b, tokens, width = Builder(2), 16, 48
    x = with_class(b, b.patches(3, width, 8, tokens), tokens, width)
    for _ in range(2):
        x = b.block(x, tokens + 1, width, 3, splits=False)
    first = b.node("Gather", b.layer_norm(x, width), b.constant(np.int64(0)), axis=1)
    return b.model((1, 3, 32, 32), b.dense(first, width, 10))


def mlp_mixer() -> ModelProto:
    """An image of 32x32 in 16 patches, mixed across tokens and across channels twice, 10 classes."""
    b, tokens, width = Builder(3), 16, 32
    x = b.patches(3, width, 8, tokens)
    for _ in range(2):
        turned = b.node("Transpose", b.layer_norm(x, width), perm=[0, 2, 1])
        x = b.node("Add", x, b.node("Transpose", b.mlp(turned, tokens, 24), perm=[0, 2, 1]))
        x = b.node("Add", x, b.mlp(b.layer_norm(x, width), width, 48))
    mean = b.node("ReduceMean", b.layer_norm(x, width), axes=[1], keepdims=0)
    return b.model((1, 3, 32, 32), b.dense(mean, width, 10))


def tiny_transformer() -> ModelProto:
    """One block on six frames, as small as it makes sense: for recordings."""
    b, frames, bands, width = Builder(4), 6, 8, 16
    x = with_class(b, b.dense("x", bands, width), frames, width)
    x = b.block(x, frames + 1, width, 2, splits=True)
    first = b.node("Gather", b.layer_norm(x, width), b.constant(np.int64(0)), axis=1)
    return b.model((1, frames, bands), b.dense(first, width, 5))


NETWORKS: Mapping[str, Callable[[], ModelProto]] = {
    "keyword_transformer": keyword_transformer,
    "mlp_mixer": mlp_mixer,
    "tiny_transformer": tiny_transformer,
    "vit_tiny": vit_tiny,
}
"""By name."""
