"""Operators with windows: convolutions and poolings."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from qcgen.ir.program.operands import Epilogue, Int32s, Int64s, Tensor
from qcgen.ir.types import Array


@dataclass(frozen=True)
class ConvGeometry:
    """The geometry of a convolution of any spatial rank; tuples have one entry per spatial axis, outermost first.

    The window of output position o starts at ``o * stride - pads_begin`` and its taps are ``dilation`` apart, which is
    1 on an axis with a single tap, whatever was given.
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

    def __post_init__(self) -> None:
        apart = tuple(1 if k == 1 else d for k, d in zip(self.kernel, self.dilations, strict=True))
        object.__setattr__(self, "dilations", apart)

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
class Conv:
    """acc[m] = bias[m] + sum of (x - x_zero_point) * (weights[m] - w_zero_point[m]); then the epilogue.

    Integer (x, weights int8 or uint8, of int16 x also int16; int32 accumulator that wraps modulo 2^32), or float32 or
    float64 throughout, then all zero points are 0. ``weights`` (M, C/group, k...) in ONNX order; ``w_zero_point`` (M,)
    int32; ``bias`` (M,) int32 or x's type, zeros if the model has none. Padding contributes nothing to the sum.
    ``accumulator_range`` (lo, hi), each (M,) int64, bounds the accumulators within the program where that has been
    proved; None: for every x.
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
    result is clamped to [-128, 127] and truncated toward zero. The magnitudes of weights and bias stay below 2^32
    (checked when the program was made); where another one does not, Orion panics: there is no output.
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
    ``is_by_columns``: of float32 numbers the columns of a window are added up first, by (96), else one tap after the
    other.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    geometry: ConvGeometry
    count_include_pad: bool
    is_by_columns: bool = False


Spatial = Conv | OrionConv | MaxPool | AveragePool
"""The operators with windows."""
