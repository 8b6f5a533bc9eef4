"""What operators are made of: tensors, the arrays that programs hold, and what becomes of an accumulator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Literal

import numpy as np
import numpy.typing as npt

from qcgen.ir.types import Array, DType, Layout

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Float32s = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Tensor:
    """A tensor with its shape as the model stores it.

    ``layout`` says where the channels are in an image tensor, None for tensors that are not images. ``scale`` and
    ``zero_point`` are given where the tensor is quantized per tensor: real value = (q - zero_point) * scale.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    layout: Layout | None = None
    scale: float | None = None
    zero_point: int | None = None

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)


# What becomes of an accumulator.


@dataclass(frozen=True)
class Requantize:
    """y = clamp(round_half_even(fl32(fl32(acc) * scale[m])) + zero_point, low, high) in float32 arithmetic.

    ``scale`` (M,) float32, positive and finite: fl32(fl32(x_scale * w_scale[m]) / y_scale). ``low`` and ``high`` are
    the bounds of the output's type, or tighter where an activation clips.
    """

    scale: Float32s
    zero_point: int
    low: int
    high: int

    def take(self, channels: Array) -> Requantize:
        """The same of some channels, given by their numbers or by a mask."""
        return replace(self, scale=self.scale[channels])

    @property
    def numbers(self) -> tuple[Array, ...]:
        """All that a channel's codes depend on besides the bounds."""
        return (self.scale,)


@dataclass(frozen=True)
class RoundTwice(Requantize):
    """The same with TensorFlow Lite's two roundings in integers: y = clamp(round(acc) + zero_point, low, high).

    With the ``multiplier`` (M,) in [2^29, 2^31), or 0, and the ``exponent`` (M,) in [-31, 30] of 2: acc * multiplier *
    2^(max(exponent, 0) - 31) is rounded half up, the result times 2^min(exponent, 0) half away from zero. ``scale`` is
    what both say, in float32, and at least 2^-126: for whoever searches a line; no output depends on it.
    """

    multiplier: Int64s
    exponent: Int64s

    def take(self, channels: Array) -> RoundTwice:
        """The same of some channels, given by their numbers or by a mask."""
        multiplier, exponent = (part[channels] for part in (self.multiplier, self.exponent))
        return replace(self, scale=self.scale[channels], multiplier=multiplier, exponent=exponent)

    @property
    def numbers(self) -> tuple[Array, ...]:
        """All that a channel's codes depend on besides the bounds."""
        return self.scale, self.multiplier, self.exponent


@dataclass(frozen=True)
class DivideAway(Requantize):
    """The same with an integer division: y = clamp((acc + offset) / count, low, high), rounded half away from zero.

    How TensorFlow Lite averages codes: ``offset`` makes the sum that of the codes themselves, and the zero point is 0.
    ``count`` is below 2^15; ``scale`` is 1 / count in float32, for whoever searches a line.
    """

    offset: int
    count: int

    @property
    def numbers(self) -> tuple[Array, ...]:
        """All that a channel's codes depend on besides the bounds."""
        return self.scale, np.array([self.offset, self.count])


@dataclass(frozen=True)
class RoundedStep:
    """One operation in float32 on a converted sum, whose right operand is the ``operand`` (M,) of its channel.

    Factors and divisors are positive: the result never decreases with the sum.
    """

    kind: Literal["add", "sub", "mul", "div"]
    operand: Float32s


@dataclass(frozen=True)
class RoundInSteps(Requantize):
    """The same in more steps, each rounded: y = clamp(round_half_even(fl32(v / y_scale)) + zero_point, low, high).

    v is fl32(acc) after all ``steps``. ``scale`` is about what they multiply it with in all, divided by ``y_scale``:
    for whoever searches a line; no output depends on it.
    """

    steps: tuple[RoundedStep, ...]
    y_scale: np.float32

    def take(self, channels: Array) -> RoundInSteps:
        """The same of some channels, given by their numbers or by a mask."""
        steps = tuple(replace(step, operand=step.operand[channels]) for step in self.steps)
        return replace(self, scale=self.scale[channels], steps=steps)

    @property
    def numbers(self) -> tuple[Array, ...]:
        """All that a channel's codes depend on besides the bounds."""
        kinds = np.array([step.kind for step in self.steps])
        return self.scale, np.array(self.y_scale), kinds, *(step.operand for step in self.steps)


@dataclass(frozen=True)
class RoundOnce:
    """y = clamp(round(acc * multiplier[m] / 2^shift[m]) + zero_point, low, high), the product exact.

    How activations of 16 bits are requantized: halves to even, or up, as TensorFlow Lite rounds them. ``multiplier`` in
    [0, 2^31) over 2 to the ``shift`` in [1, 62], both (M,) int64, is x_scale * w_scale[m] / y_scale. Accumulators do
    not wrap, and no product with the multiplier leaves 62 bits and the sign.
    """

    multiplier: Int64s
    shift: Int64s
    zero_point: int
    low: int
    high: int
    is_up: bool = False


@dataclass(frozen=True)
class RawAccumulator:
    """y = acc modulo 2^32, as int32."""


@dataclass(frozen=True)
class FloatActivation:
    """y = activation(acc) in float32; ``kind`` as onnxruntime spells it, "" for none.

    ``params``: LeakyRelu (alpha,), Clip (min, max), HardSigmoid (alpha, beta), Celu, Elu, ThresholdedRelu and QuickGelu
    (alpha,), Selu (alpha, gamma), Shrink (bias, lambd), Pow (exponent,); other kinds have none. A Relu with two
    parameters has become a Clip.
    """

    kind: str = ""
    params: tuple[float, ...] = ()


Epilogue = Requantize | RoundOnce | RawAccumulator | FloatActivation
