"""A network that grows operator by operator, in the spelling of its form and opset."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from models import MICROSOFT, graph_model
from onnx import NodeProto, helper

T = TypeVar("T")
HALF = 128
"""Half as many codes as there are."""


@dataclass(frozen=True)
class Value:
    """A tensor of 8-bit codes; ``spread`` is about the standard deviation of the numbers that they mean."""

    name: str
    shape: tuple[int, ...]
    scale: float
    zero: int
    dtype: str
    spread: float

    @property
    def low(self) -> int:
        return int(np.iinfo(self.dtype).min)

    @property
    def high(self) -> int:
        return int(np.iinfo(self.dtype).max)


class Network:
    """Nodes, constants and the tensors that operators may read.

    ``integer``: how likely an operator that com.microsoft or ai.onnx has for codes is written as such; the others stand
    between DequantizeLinear and QuantizeLinear. ``narrow``: int8 weights beside uint8 codes stay within -64 to 64.
    ``tolerance`` is "exact", "code" (outputs may be one code off) or "float".
    """

    def __init__(self, rng: random.Random, opset: int, integer: float, narrow: bool) -> None:
        self.rng, self.opset, self.integer, self.narrow = rng, opset, integer, narrow
        self.np = np.random.default_rng(rng.getrandbits(32))
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.inputs: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.outputs: list[str] = []
        self.values: list[Value] = []
        self.read: set[str] = set()
        self.tolerance = "exact"
        self._count = 0
        self._dequantized: dict[str, str] = {}

    # Chance.

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def pick(self, *choices: T) -> T:
        return self.rng.choice(choices)

    def size(self) -> int:
        """Of a tensor's axis: 1 to 9, odd ones more often."""
        return self.pick(1, 2, 3, 3, 4, 5, 5, 6, 7, 7, 8, 9, 9)

    def channels(self) -> int:
        return self.pick(1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9, 12, 16, 17, 20)

    # Parts.

    def fresh(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def constant(self, value: Any, stem: str = "c") -> str:
        name = self.fresh(stem)
        self.constants[name] = np.asarray(value)
        return name

    def numbers(self, *values: float) -> str:
        return self.constant(np.asarray(values, np.float32))

    def integers(self, *values: int) -> str:
        return self.constant(np.asarray(values, np.int64))

    def node(self, op_type: str, inputs: Sequence[str], outputs: int = 1, domain: str = "", **attributes: Any) -> str:
        """Adds a node and gives its only or first output; the others are called like it with .1, .2."""
        name = self.fresh(op_type.lower())
        names = [name, *(f"{name}.{index}" for index in range(1, outputs))]
        attributes = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(
            helper.make_node(op_type, list(inputs), names, name=f"node_{name}", domain=domain, **attributes)
        )
        return name

    def microsoft(self, op_type: str, inputs: Sequence[str], **attributes: Any) -> str:
        return self.node(op_type, inputs, domain=MICROSOFT, **attributes)

    def parameters(self, value: Value) -> list[str]:
        """The names of its scale and zero point."""
        return [self.constant(np.float32(value.scale)), self.constant(np.asarray(value.zero, value.dtype))]

    def triple(self, value: Value) -> list[str]:
        self.read.add(value.name)
        return [value.name, *self.parameters(value)]

    # Between floats and codes.

    def input(self, shape: tuple[int, ...]) -> Value:
        """A new input of the network: floats that are quantized, or codes."""
        name = self.fresh("input")
        spread = 10 ** self.rng.uniform(-1.5, 1.5)
        value = self.meaning(name, shape, spread)
        if self.chance(0.35 * self.integer):
            self.inputs[name] = (value.dtype, shape)
            return self.add(value)
        self.inputs[name] = ("float", shape)
        return self.quantize(name, value)

    def meaning(
        self, name: str, shape: tuple[int, ...], spread: float, dtype: str = "", zero: int | None = None
    ) -> Value:
        """Codes that numbers of this spread may get: mostly most of them, sometimes few, or only both ends."""
        dtype = dtype or self.dtype()
        spread = float(min(max(spread, 1e-12), 1e12))
        factor = self.pick(0.5, 1.0, 1.0, 1.5) * self.rng.uniform(0.7, 1.4)
        if self.chance(0.08):
            factor = 10 ** self.rng.uniform(-2.5, 2.5)
        scale = spread * factor / 40
        if self.chance(0.12):
            scale = 2.0 ** round(np.log2(scale))
        info = np.iinfo(dtype)
        middle = info.min + HALF
        ends = [int(info.min), int(info.max), middle, middle, middle - 1, self.rng.randint(info.min, info.max)]
        chosen = self.rng.choice([*ends, int(info.min), self.rng.randint(info.min, info.max)]) if zero is None else zero
        return Value(name, shape, float(np.float32(scale)), chosen, dtype, spread)

    def dtype(self) -> str:
        """Mostly that of the other tensors, as quantizers have it."""
        if self.values and self.chance(0.95):
            return self.values[0].dtype
        return self.pick("int8", "uint8")

    def add(self, value: Value) -> Value:
        self.values.append(value)
        return value

    def quantize(self, numbers: str, value: Value) -> Value:
        """QuantizeLinear of a float tensor to codes of this meaning."""
        inputs = [numbers, *self.parameters(value)]
        if value.zero == 0 and value.dtype == "uint8" and self.chance(0.3):
            inputs.pop()
        return self.add(replace(value, name=self.node("QuantizeLinear", inputs)))

    def dequantize(self, value: Value) -> str:
        """A DequantizeLinear of its own, or that which another operator reads."""
        self.read.add(value.name)
        if value.name not in self._dequantized or self.chance(0.5):
            self._dequantized[value.name] = self.node("DequantizeLinear", [value.name, *self.parameters(value)])
        return self._dequantized[value.name]

    def between(
        self,
        x: Value | Sequence[Value],
        make: Callable[[list[str]], str],
        shape: tuple[int, ...],
        spread: float,
        *,
        zero: int | None = None,
        like: Value | None = None,
    ) -> Value:
        """The codes of what ``make`` adds on floats; ``like``: another tensor whose meaning they get."""
        xs = [x] if isinstance(x, Value) else list(x)
        made = make([self.dequantize(each) for each in xs])
        dtype = "" if zero is None else xs[0].dtype
        meaning = self.meaning("", shape, spread, dtype, zero) if like is None else replace(like, name="", shape=shape)
        return self.quantize(made, meaning)

    # Weights.

    def weights(self, shape: tuple[int, ...], x: Value, axis: int | None) -> tuple[str, Any, Any, Any]:
        """The name of constant codes, their scales and zero points (vectors along ``axis``), and their numbers."""
        is_unsigned = x.dtype == "uint8" and self.chance(0.25)
        dtype = "uint8" if is_unsigned else "int8"
        count = 1 if axis is None else shape[axis]
        scales = 10 ** self.np.uniform(-2.5, -0.5) * self.np.uniform(0.3, 3, count)
        if self.chance(0.05):
            scales = scales * 10 ** self.np.uniform(-4, 4, count)
        if self.chance(0.1):
            scales = 2.0 ** np.round(np.log2(scales))
        if is_unsigned:
            low, high = 0, 255
            zeros = np.full(count, self.rng.choice([128, 128, 0, 255, self.rng.randint(0, 255)]))
        else:
            low, high = (-64, 64) if self.narrow and x.dtype == "uint8" else (-128, 127)
            zeros = np.full(count, self.rng.randint(low, high) if self.chance(0.06) else 0)
        codes = self.np.integers(low, high + 1, shape)
        match self.rng.randrange(12):
            case 0:
                codes = self.np.choice([low, high], shape)
            case 1:
                codes = np.where(self.np.random(shape) < 0.6, zeros[0], codes)
            case 2:
                codes = np.clip(codes // 16, low, high)
        axes = [1] * len(shape)
        axes[axis or 0] = count
        scales = scales.astype(np.float32)
        numbers = (codes - zeros.reshape(axes)) * scales.reshape(axes).astype(np.float64)
        name = self.constant(codes.astype(dtype), "w")
        squeeze = axis is None
        return name, scales[0] if squeeze else scales, (zeros[0] if squeeze else zeros).astype(dtype), numbers

    def dequantized_weights(self, name: str, scale: Any, zero: Any, axis: int | None) -> str:
        parameters = [self.constant(scale), self.constant(zero)]
        if not np.any(zero) and self.chance(0.1) and zero.dtype == np.uint8:
            parameters.pop()
        attributes = {} if axis is None else {"axis": axis}
        return self.node("DequantizeLinear", [name, *parameters], **attributes)

    def bias(self, count: int, x: Value, scale: Any, spread: float) -> tuple[str, Any]:
        """int32 codes in units of x's scale times that of the weights, and those units."""
        units = (np.float32(x.scale) * np.broadcast_to(np.asarray(scale, np.float32), (count,))).astype(np.float32)
        with np.errstate(all="ignore"):
            codes = np.nan_to_num(self.np.normal(0, spread * self.pick(0.3, 1.0, 3.0), count) / units)
        limit = 2**30 if self.chance(0.05) else 2**24
        return self.constant(np.clip(codes, -limit, limit).round().astype(np.int32), "b"), units

    # The model.

    def finish(self) -> None:
        """What nobody reads becomes an output, and some of the others."""
        for value in self.values:
            if value.name in self.read and not self.chance(0.08):
                continue
            if self.chance(0.12 + 0.3 * self.integer):
                if value.name not in self.inputs:
                    self.outputs.append(value.name)
            else:
                self.outputs.append(self.node("DequantizeLinear", [value.name, *self.parameters(value)]))

    def bytes(self) -> bytes:
        domains = {node.domain: 1 for node in self.nodes if node.domain}
        ir_version = 11 if self.opset >= 23 else 10 if self.opset >= 21 else 9 if self.opset >= 19 else 8
        model = graph_model(
            self.nodes, self.inputs, dict.fromkeys(self.outputs), self.constants,
            opset=self.opset, opsets=domains, ir_version=ir_version,
        )  # fmt: skip
        return model.SerializeToString(deterministic=True)
