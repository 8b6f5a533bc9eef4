"""A convolutional network for 8x8 images in plain numpy, with its gradients.

Images are (N, C, H, W) float32; weights and pads follow ONNX: (M, C/group, kH, kW) and (top, left, bottom, right).
Every layer remembers what its own backward pass needs, so `backward` belongs to the latest `forward`.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Array = NDArray[np.float32]


class Layer(Protocol):
    """One differentiable step; `gradients` are those of `parameters`, in the same order."""

    parameters: list[Array]
    gradients: list[Array]

    def forward(self, x: Array) -> Array:
        """Return the layer's output."""
        ...

    def backward(self, dy: Array) -> Array:
        """Return the gradient of the input, given that of the output; set `gradients`."""
        ...


class Conv:
    """Grouped 2-D convolution as one matrix product per group."""

    def __init__(
        self,
        rng: np.random.Generator,
        shape: tuple[int, int, int, int],
        *,
        group: int = 1,
        stride: int = 1,
        pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    ) -> None:
        deviation = np.sqrt(2 / np.prod(shape[1:]))  # He et al. 2015: keeps the variance through a Relu
        self.parameters = [rng.normal(0, deviation, shape).astype(np.float32), np.zeros(shape[0], np.float32)]
        self.gradients: list[Array] = []
        self.group, self.stride, self.pads = group, stride, pads

    def forward(self, x: Array) -> Array:
        weights, bias = self.parameters
        out_channels, group_channels, *kernel = weights.shape
        top, left, bottom, right = self.pads
        padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
        self.padded_shape = padded.shape
        windows = sliding_window_view(padded, tuple(kernel), axis=(2, 3))[:, :, :: self.stride, :: self.stride]
        n, _, height, width = windows.shape[:4]
        grouped = windows.reshape(n, self.group, group_channels, height, width, *kernel)
        self.columns = grouped.transpose(1, 0, 3, 4, 2, 5, 6).reshape(self.group, n * height * width, -1)
        product = self.columns @ self._matrix().transpose(0, 2, 1)
        y = product.reshape(self.group, n, height, width, -1).transpose(1, 0, 4, 2, 3)
        return y.reshape(n, out_channels, height, width) + bias[:, None, None]

    def backward(self, dy: Array) -> Array:
        weights, _ = self.parameters
        n, _, height, width = dy.shape
        rows = dy.reshape(n, self.group, -1, height, width).transpose(1, 0, 3, 4, 2)
        rows = rows.reshape(self.group, n * height * width, -1)
        self.gradients = [(rows.transpose(0, 2, 1) @ self.columns).reshape(weights.shape), dy.sum(axis=(0, 2, 3))]
        columns = (rows @ self._matrix()).reshape(self.group, n, height, width, *weights.shape[1:])
        taps = columns.transpose(5, 6, 1, 0, 4, 2, 3).reshape(*weights.shape[2:], n, -1, height, width)
        dx: Array = np.zeros(self.padded_shape, np.float32)
        down, across = height * self.stride, width * self.stride
        for i, j in np.ndindex(*weights.shape[2:]):
            dx[:, :, i : i + down : self.stride, j : j + across : self.stride] += taps[i, j]
        top, left, bottom, right = self.pads
        return dx[:, :, top : dx.shape[2] - bottom, left : dx.shape[3] - right]

    def _matrix(self) -> Array:
        return self.parameters[0].reshape(self.group, self.parameters[0].shape[0] // self.group, -1)


class Relu:
    """max(x, 0)."""

    def __init__(self) -> None:
        self.parameters: list[Array] = []
        self.gradients: list[Array] = []

    def forward(self, x: Array) -> Array:
        self.positive = x > 0
        return np.where(self.positive, x, np.float32(0))

    def backward(self, dy: Array) -> Array:
        return np.where(self.positive, dy, np.float32(0))


class MaxPool2x2:
    """The largest of each 2x2 block; H and W are even."""

    def __init__(self) -> None:
        self.parameters: list[Array] = []
        self.gradients: list[Array] = []

    def forward(self, x: Array) -> Array:
        n, c, height, width = x.shape
        blocks = x.reshape(n, c, height // 2, 2, width // 2, 2)
        largest: Array = blocks.max(axis=(3, 5), keepdims=True)
        self.is_largest = blocks == largest
        return largest.reshape(n, c, height // 2, width // 2)

    def backward(self, dy: Array) -> Array:
        n, c, height, width = dy.shape
        shared: Array = self.is_largest / self.is_largest.sum(axis=(3, 5), keepdims=True, dtype=np.float32)
        return (dy[:, :, :, None, :, None] * shared).reshape(n, c, 2 * height, 2 * width)


class GlobalAveragePool:
    """The mean over H and W: (N, C, H, W) to (N, C)."""

    def __init__(self) -> None:
        self.parameters: list[Array] = []
        self.gradients: list[Array] = []

    def forward(self, x: Array) -> Array:
        self.shape = x.shape
        means: Array = x.mean(axis=(2, 3))
        return means

    def backward(self, dy: Array) -> Array:
        return np.broadcast_to(dy[:, :, None, None] / np.float32(self.shape[2] * self.shape[3]), self.shape)


class Dense:
    """x @ weights.T + bias; weights are (out, in)."""

    def __init__(self, rng: np.random.Generator, shape: tuple[int, int]) -> None:
        weights = rng.normal(0, np.sqrt(1 / shape[1]), shape).astype(np.float32)
        self.parameters = [weights, np.zeros(shape[0], np.float32)]
        self.gradients: list[Array] = []

    def forward(self, x: Array) -> Array:
        self.x = x
        y: Array = x @ self.parameters[0].T + self.parameters[1]
        return y

    def backward(self, dy: Array) -> Array:
        self.gradients = [dy.T @ self.x, dy.sum(axis=0)]
        return dy @ self.parameters[0]


class DigitsNetwork:
    """Five convolutions, one of them beside a residual connection, two poolings, one dense layer: 19.6 k weights."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.conv1 = Conv(rng, (16, 1, 3, 3), pads=(1, 1, 1, 1))
        self.depthwise2 = Conv(rng, (16, 1, 3, 3), group=16, pads=(1, 1, 1, 1))
        self.pointwise3 = Conv(rng, (32, 16, 1, 1))
        self.conv4 = Conv(rng, (32, 32, 3, 3), stride=2, pads=(0, 0, 1, 1))
        self.conv5 = Conv(rng, (32, 32, 3, 3), pads=(1, 1, 1, 1))
        self.dense6 = Dense(rng, (10, 32))
        self.stem: list[Layer] = []
        for conv in (self.conv1, self.depthwise2, self.pointwise3, self.conv4):
            self.stem += [conv, Relu()]
        self.head: list[Layer] = [Relu(), MaxPool2x2(), GlobalAveragePool(), self.dense6]
        self.layers: list[Layer] = [*self.stem, self.conv5, *self.head]

    def forward(self, x: Array) -> Array:
        """Return the logits, (N, 10), of images (N, 1, 8, 8) in [0, 1]."""
        for layer in self.stem:
            x = layer.forward(x)
        x = x + self.conv5.forward(x)
        for layer in self.head:
            x = layer.forward(x)
        return x

    def backward(self, dy: Array) -> None:
        """Set every layer's gradients, given that of the logits."""
        for layer in reversed(self.head):
            dy = layer.backward(dy)
        dy = dy + self.conv5.backward(dy)
        for layer in reversed(self.stem):
            dy = layer.backward(dy)


class Adam:
    """Kingma and Ba 2015, with the weight decay of AdamW (Loshchilov and Hutter 2019)."""

    def __init__(self, layers: list[Layer], decay: float = 1e-2) -> None:
        self.layers, self.decay, self.steps = layers, decay, 0
        self.means = [[np.zeros_like(p) for p in layer.parameters] for layer in layers]
        self.squares = [[np.zeros_like(p) for p in layer.parameters] for layer in layers]

    def step(self, rate: float) -> None:
        """Move every parameter against its gradient."""
        self.steps += 1
        for layer, means, squares in zip(self.layers, self.means, self.squares, strict=True):
            for parameter, gradient, mean, square in zip(
                layer.parameters, layer.gradients, means, squares, strict=True
            ):
                mean += np.float32(0.1) * (gradient - mean)
                square += np.float32(0.001) * (gradient * gradient - square)
                direction = mean / (1 - 0.9**self.steps) / (np.sqrt(square / (1 - 0.999**self.steps)) + 1e-8)
                parameter -= (rate * (direction + self.decay * parameter)).astype(np.float32)


def train(network: DigitsNetwork, images: Array, labels: NDArray[np.int64], rng: np.random.Generator) -> None:
    """Minimise the cross entropy over images (N, 1, 8, 8), each shifted by up to one pixel anew in every epoch.

    The labels are smoothed: probabilities that stay off 0 and 1 show in their last bit what the layers before did.
    """
    epochs, batch, smoothing = 40, 32, 0.1
    adam = Adam(network.layers)
    targets = ((1 - smoothing) * np.eye(10) + smoothing / 10).astype(np.float32)
    for epoch in range(epochs):
        rate = 3e-3 * 0.5 * (1 + np.cos(np.pi * epoch / epochs))
        order = rng.permutation(len(images))
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            logits = network.forward(shifted(images[chosen], rng))
            gradient = softmax(logits) - targets[labels[chosen]]
            network.backward(gradient / np.float32(len(chosen)))
            adam.step(rate)


def shifted(images: Array, rng: np.random.Generator) -> Array:
    """Return the images, each moved by -1, 0 or 1 pixel down and to the right; zeros move in."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    offsets = rng.integers(0, 3, (len(images), 2))
    return np.stack([image[:, i : i + 8, j : j + 8] for image, (i, j) in zip(padded, offsets, strict=True)])


def softmax(logits: Array) -> Array:
    """Return probabilities along the last axis."""
    powers: Array = np.exp(logits - logits.max(axis=-1, keepdims=True))
    totals: Array = powers.sum(axis=-1, keepdims=True)
    return powers / totals
