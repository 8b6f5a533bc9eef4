"""The Program: what the model means, independent of any machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

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
    float32, zeros if the model has none. Padding contributes nothing to the sum.
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


Operator = Conv | OrionConv


@dataclass(frozen=True)
class Program:
    """Operators in execution order; ``inputs`` and ``outputs`` are the caller's tensors in the model's order."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    operators: Sequence[Operator]
    sha256: str
