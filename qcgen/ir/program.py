"""The Program: what the model means, independent of any machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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

    ``layout`` says where the channels are in an image tensor, None for tensors that are no images. ``scale`` and
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


@dataclass(frozen=True)
class ConvGeometry:
    """The geometry of a convolution of any spatial rank; tuples have one entry per spatial axis, outermost first.

    The window of output position o starts at ``o * stride - pads_begin`` and its taps are ``dilation`` apart.
    """

    batch: int
    group: int
    in_channels: int
    out_channels: int
    input: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    output: tuple[int, ...]

    @property
    def rank(self) -> int:
        """The number of spatial axes."""
        return len(self.input)

    @property
    def group_in(self) -> int:
        """Input channels of one group."""
        return self.in_channels // self.group

    @property
    def group_out(self) -> int:
        """Output channels of one group."""
        return self.out_channels // self.group

    @property
    def taps(self) -> int:
        """Products summed for one output: input channels of a group times positions of the kernel."""
        return self.group_in * prod(self.kernel)

    @property
    def macs(self) -> int:
        """Multiply-accumulates, those on padding included (the convention of the field)."""
        return self.batch * self.out_channels * prod(self.output) * self.taps

    @property
    def is_padded(self) -> bool:
        """Whether any window reaches beyond the image."""
        return any(self.pads_begin) or any(self.pads_end)


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


@dataclass(frozen=True)
class RawAccumulator:
    """y = acc modulo 2^32, as int32."""


@dataclass(frozen=True)
class FloatActivation:
    """y = activation(acc) in float32; ``kind`` as onnxruntime spells it, "" for none.

    ``params``: LeakyRelu (alpha,), Clip (min, max), HardSigmoid (alpha, beta); other kinds have none. A Relu with two
    parameters has become a Clip.
    """

    kind: str = ""
    params: tuple[float, ...] = ()


Epilogue = Requantize | RawAccumulator | FloatActivation


@dataclass(frozen=True)
class Conv:
    """acc[m] = bias[m] + sum of (x - x_zero_point) * (weights[m] - w_zero_point[m]); then the epilogue.

    Integer (x, weights int8 or uint8; int32 accumulator that wraps modulo 2^32) or float32 throughout, then all zero
    points are 0. ``weights`` (M, C/group, k...) in ONNX order; ``w_zero_point`` (M,) int32; ``bias`` (M,) int32 or
    float32, zeros if the model has none. Padding contributes nothing to the sum. ``accumulator_range`` (lo, hi), each
    (M,) int64, bounds the accumulators within the program where that has been proved; None: for every x of its type.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    geometry: ConvGeometry
    x_zero_point: int
    weights: Array
    w_zero_point: Int32s
    bias: Array
    epilogue: Epilogue
    accumulator_range: tuple[Int64s, Int64s] | None = None


@dataclass(frozen=True)
class OrionConv:
    """Orion's qlinear_conv: a convolution in sign-magnitude fixed point with truncated products.

    ``fraction_bits`` f is 16 (FP16x16) or 23 (FP8x23); every other number below is an integer in units of 2^-f.
    ``x_values`` (256,) int64 is the dequantized value of each int8 code -128..127; ``weights`` (M, C/group, k...) and
    ``bias`` (M,) int64 are dequantized; ``y_scale`` and ``y_zero_point`` are encoded. A product is truncated toward
    zero to f bits before it is accumulated; the sum is divided by y_scale, truncated, y_zero_point is added, the
    result is clamped to [-128, 127] and truncated toward zero. Magnitudes stay below 2^32 for every input (checked
    when the program was made).
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    geometry: ConvGeometry
    fraction_bits: int
    x_values: Int64s
    weights: Int64s
    bias: Int64s
    y_scale: int
    y_zero_point: int


@dataclass(frozen=True)
class Lookup:
    """y = table[x]: any function of a single quantized number.

    ``table`` (256,) int64 holds the output code of each input code, from the smallest of x's type to the largest.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    table: Int64s


@dataclass(frozen=True)
class QuantizedBinary:
    """y = a + b or a * b of quantized tensors, with numpy's broadcasting, by arithmetic.add or arithmetic.multiply.

    Scales and zero points are those of the tensors. An operand may be a constant of the program.
    """

    name: str
    op_type: str
    kind: Literal["add", "mul"]
    a: Tensor
    b: Tensor
    y: Tensor


@dataclass(frozen=True)
class MaxPool:
    """The largest code under each window; padding never wins. Channels in ``geometry`` are groups of one."""

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    geometry: ConvGeometry


@dataclass(frozen=True)
class AveragePool:
    """The mean of each window in onnxruntime's float arithmetic (arithmetic.average), quantized or float32 throughout.

    ``count_include_pad`` divides by the size of the kernel also where the window reaches beyond the image.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    geometry: ConvGeometry
    count_include_pad: bool


@dataclass(frozen=True)
class GlobalAveragePool:
    """The mean of each channel over all pixels.

    Quantized: the sum of (x - x_zero_point), requantized as ``requantize`` says; None for float32: the mean in float32.
    ``channel_axis`` is x's; ``pixels`` is the product of the averaged axes' sizes.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    channel_axis: int
    pixels: int
    requantize: Requantize | None


@dataclass(frozen=True)
class Softmax:
    """Softmax of quantized numbers over the last axis (arithmetic.softmax): exponentials from a table, in float32.

    ``table`` (256,) float32 holds the exponential of each distance 255, 254, ... 0 below the largest number of a row;
    ``factor`` is what onnxruntime multiplies by instead of dividing by y_scale.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    table: Float32s
    factor: float


@dataclass(frozen=True)
class Quantize:
    """y = clamp(round_half_even(x / y_scale) + y_zero_point), x float32 (QuantizeLinear, per tensor)."""

    name: str
    op_type: str
    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class Dequantize:
    """y = (x - x_zero_point) * x_scale in float32 (DequantizeLinear, per tensor); x is int8, uint8 or int32."""

    name: str
    op_type: str
    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class Transpose:
    """Axis i of y is axis ``perm[i]`` of x."""

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    perm: tuple[int, ...]


@dataclass(frozen=True)
class Reshape:
    """The same elements in the same order under another shape (Reshape, Flatten, Squeeze, Unsqueeze, Identity)."""

    name: str
    op_type: str
    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class Concat:
    """The inputs one after the other along ``axis``; all of y's type, scale and zero point."""

    name: str
    op_type: str
    xs: tuple[Tensor, ...]
    y: Tensor
    axis: int


@dataclass(frozen=True)
class Slice:
    """y[i, j, ...] = x[starts[0] + i * steps[0], ...], one entry per axis; steps may be negative (Slice, Split)."""

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    starts: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True)
class Pad:
    """x with ``before[i]`` elements of ``value`` (a code, or a float) in front on axis i, the rest of y behind."""

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    before: tuple[int, ...]
    value: float


@dataclass(frozen=True)
class Resize:
    """y[i, j, ...] = x[places[0][i], places[1][j], ...]: nearest-neighbour resizing, one tuple of places per axis."""

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    places: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class FloatUnary:
    """An activation of float32 numbers, element by element."""

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    activation: FloatActivation


@dataclass(frozen=True)
class FloatBinary:
    """a + b, a - b, a * b or a / b in float32, with numpy's broadcasting; an operand may be a program's constant."""

    name: str
    op_type: str
    kind: Literal["add", "sub", "mul", "div"]
    a: Tensor
    b: Tensor
    y: Tensor


@dataclass(frozen=True)
class FloatSoftmax:
    """Softmax of float32 numbers over the last axis."""

    name: str
    op_type: str
    x: Tensor
    y: Tensor


Spatial = Conv | OrionConv | MaxPool | AveragePool
"""The operators with windows."""

Movement = Transpose | Reshape | Concat | Slice | Pad | Resize
"""The operators that only move elements."""

Operator = (
    Spatial
    | Movement
    | Lookup
    | QuantizedBinary
    | GlobalAveragePool
    | Softmax
    | Quantize
    | Dequantize
    | FloatUnary
    | FloatBinary
    | FloatSoftmax
)


def inputs_of(op: Operator) -> tuple[Tensor, ...]:
    """The tensors that an operator reads, constants of the program included, in order."""
    match op:
        case Concat():
            return op.xs
        case QuantizedBinary() | FloatBinary():
            return (op.a, op.b)
        case _:
            return (op.x,)


def macs_of(op: Operator) -> int:
    """Multiply-accumulates by the convention of the field: convolutions and products of matrices have them."""
    return op.geometry.macs if isinstance(op, Conv | OrionConv) else 0


@dataclass(frozen=True)
class Program:
    """Operators in execution order, every one with a single output, ``y``.

    ``inputs`` and ``outputs`` are the caller's tensors in the model's order; ``constants`` holds the elements of
    operands that are known, by the tensor's name, in the tensor's shape.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    operators: Sequence[Operator]
    sha256: str
    constants: Mapping[str, Array] = field(default_factory=dict)
