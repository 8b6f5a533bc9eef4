"""What the networks are made of: nodes with random weights, added one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any

import numpy as np
from models import graph_model
from onnx import ModelProto
from transformers import Builder

CUT = "cut"
"""The metadata that names the tensors up to which a network can be compiled, where it cannot be as a whole."""


class Net(Builder):
    """A network: its inputs, and how many channels each tensor has in axis 1."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(seed)
        self.inputs: dict[str, tuple[str, Sequence[int]]] = {}
        self.channels: dict[str, int] = {}

    def input(self, *shape: int, name: str = "x", dtype: str = "float") -> str:
        """An input; numbers of type int64 are below 10, those of uint8 below 256."""
        self.inputs[name] = (dtype, shape)
        self.channels[name] = shape[1] if len(shape) > 1 else 1
        return name

    def node(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Adds a node whose outputs have as many channels as its first input."""
        name = super().node(op_type, *inputs, outputs=outputs, **attributes)
        known = [self.channels[x] for x in inputs if x in self.channels]
        self.channels[name] = known[0] if known else 1
        return name

    def number(self, value: float) -> str:
        return self.constant(np.float32(value))

    def integers(self, *values: int) -> str:
        return self.constant(np.int64(values))

    def having(self, x: str, channels: int) -> str:
        """The same tensor, of which we say how many channels it has."""
        self.channels[x] = channels
        return x

    def model(self, *outputs: str, opset: int = 17, cut: Sequence[str] = (), opsets: Any = None) -> ModelProto:  # type: ignore[override]
        """The network; ``cut``: the tensors up to which it can be compiled, where it cannot be as a whole."""
        made = graph_model(self.nodes, self.inputs, dict.fromkeys(outputs), self.constants, opset=opset, opsets=opsets)
        if cut:
            made.metadata_props.add(key=CUT, value="\n".join(cut))
        return made

    # Layers.

    def conv(
        self,
        x: str,
        out: int,
        kernel: int | tuple[int, ...] = 3,
        stride: int | tuple[int, ...] = 1,
        *,
        group: int = 1,
        dilation: int = 1,
        pads: Sequence[int] | None = None,
        bias: bool = True,
        **attributes: Any,
    ) -> str:
        """A convolution of images, or of as many axes as the kernel has; padded so that stride 1 keeps the size."""
        sizes = (kernel, kernel) if isinstance(kernel, int) else kernel
        strides = [stride] * len(sizes) if isinstance(stride, int) else list(stride)
        inside = self.channels[x] // group
        weights = [self.weights(out, inside, *sizes, size=sqrt(2 / (inside * prod(sizes))))]
        weights += [self.weights(out, size=0.1)] if bias else []
        same = [(size - 1) * dilation // 2 for size in sizes] * 2
        if "auto_pad" not in attributes:
            attributes["pads"] = list(same if pads is None else pads)
        attributes |= {"strides": strides, "group": group, "dilations": [dilation] * len(sizes)}
        return self.having(self.node("Conv", x, *weights, **attributes), out)

    def depthwise(
        self, x: str, kernel: int | tuple[int, ...] = 3, stride: int | tuple[int, ...] = 1, **more: Any
    ) -> str:
        return self.conv(x, self.channels[x], kernel, stride, group=self.channels[x], **more)

    def conv_transpose(self, x: str, out: int, kernel: tuple[int, ...] = (2, 2), stride: int = 2, **more: Any) -> str:
        inside = self.channels[x]
        weights = self.weights(inside, out, *kernel, size=sqrt(2 / inside))
        strides = [stride] * len(kernel)
        made = self.node("ConvTranspose", x, weights, self.weights(out, size=0.1), strides=strides, **more)
        return self.having(made, out)

    def normal(self, x: str) -> str:
        """BatchNormalization."""
        width = self.channels[x]
        draw = self._draw
        scale, bias = draw.uniform(0.5, 1.5, width), draw.normal(0, 0.3, width)
        mean, variance = draw.normal(0, 0.3, width), draw.uniform(0.5, 2, width)
        numbers = [self.constant(each.astype(np.float32)) for each in (scale, bias, mean, variance)]
        return self.node("BatchNormalization", x, *numbers, epsilon=1e-5)

    def relu(self, x: str) -> str:
        return self.node("Relu", x)

    def relu6(self, x: str) -> str:
        return self.node("Clip", x, self.number(0), self.number(6))

    def silu(self, x: str) -> str:
        return self.node("Mul", x, self.node("Sigmoid", x))

    def act(self, x: str, kind: str) -> str:
        """An activation by the name of its operator, or SiLU or ReLU6."""
        return {"SiLU": self.silu, "ReLU6": self.relu6}.get(kind, lambda x: self.node(kind, x))(x)

    def conv_act(self, x: str, out: int, kernel: Any = 3, stride: Any = 1, kind: str = "Relu", **more: Any) -> str:
        return self.act(self.conv(x, out, kernel, stride, **more), kind)

    def add(self, a: str, b: str) -> str:
        return self.node("Add", a, b)

    def concat(self, *parts: str, axis: int = 1) -> str:
        joined = self.node("Concat", *parts, axis=axis)
        return self.having(joined, sum(self.channels[x] for x in parts)) if axis == 1 else joined

    def split(self, x: str, parts: int, axis: int = 1) -> list[str]:
        """Equal parts of a tensor."""
        first = self.node("Split", x, axis=axis, outputs=parts)
        names = [first, *(f"{first}_{number}" for number in range(1, parts))]
        width = self.channels[x] // parts if axis == 1 else self.channels[x]
        return [self.having(name, width) for name in names]

    def max_pool(self, x: str, kernel: int = 2, stride: int = 2, rank: int = 2, **attributes: Any) -> str:
        return self.node("MaxPool", x, kernel_shape=[kernel] * rank, strides=[stride] * rank, **attributes)

    def mean(self, x: str) -> str:
        """GlobalAveragePool, flattened."""
        return self.node("Flatten", self.node("GlobalAveragePool", x))

    def gemm(self, x: str, outputs: int, inputs: int | None = None) -> str:
        """A product with a constant matrix and a bias; the inputs are the channels of a flattened tensor."""
        inputs = self.channels[x] if inputs is None else inputs
        weights = self.weights(outputs, inputs, size=sqrt(1.5 / inputs))
        return self.having(self.node("Gemm", x, weights, self.weights(outputs, size=0.1), transB=1), outputs)

    def shuffle(self, x: str, groups: int, size: int) -> str:
        """Channels of all groups by turns, as torch writes it."""
        width = self.channels[x]
        apart = self.reshape(x, 1, groups, width // groups, size, size)
        turned = self.node("Transpose", apart, perm=[0, 2, 1, 3, 4])
        return self.having(self.reshape(turned, 1, width, size, size), width)

    def squeeze_excite(self, x: str, inner: int, gate: str = "Sigmoid") -> str:
        width = self.channels[x]
        inside = self.conv_act(self.node("GlobalAveragePool", x), inner, 1)
        return self.node("Mul", x, self.node(gate, self.conv(inside, width, 1)))

    def upsample(self, x: str, factor: int = 2, **attributes: Any) -> str:
        """Resize, nearest unless told otherwise."""
        scales = self.constant(np.float32([1, 1, factor, factor]))
        attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", **attributes}
        attributes |= {"nearest_mode": "floor"} if attributes["mode"] == "nearest" else {}
        return self.node("Resize", x, "", scales, **attributes)

    def inverted_residual(
        self, x: str, out: int, *, stride: int = 1, expand: int = 4, kernel: int = 3, kind: str = "Relu", gate: str = ""
    ) -> str:
        """Expand, depthwise convolution, squeeze and excite if ``gate`` names its function, project, add."""
        width = self.channels[x]
        inside = self.conv_act(x, width * expand, 1, kind=kind) if expand > 1 else x
        inside = self.act(self.depthwise(inside, kernel, stride), kind)
        inside = self.squeeze_excite(inside, max(4, width // 2), gate) if gate else inside
        inside = self.conv(inside, out, 1)
        return self.add(x, inside) if stride == 1 and out == width else inside
