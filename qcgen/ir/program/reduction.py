"""Operators that gather many elements in one, and the quantization whose scale comes of what they gather."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from math import prod
from typing import Literal

import numpy as np

from qcgen.ir.program.elementwise import Convert, FloatBinary, FloatUnary, Scaling
from qcgen.ir.program.operands import (
    Epilogue,
    Float32s,
    FloatActivation,
    Int32s,
    Int64s,
    RawAccumulator,
    Requantize,
    RoundOnce,
    Tensor,
)
from qcgen.ir.types import Array

# Operators with windows: convolutions and poolings.


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

    def check(self, x: Tensor, y: Tensor) -> None:
        """Raises ValueError if the input or the output has not as many elements as this geometry."""
        for tensor, channels, axes in ((x, self.in_channels, self.input), (y, self.out_channels, self.output)):
            if tensor.size != self.batch * channels * prod(axes):
                raise ValueError(f"{tensor.name!r}, {tensor.shape}, is not what {self} describes")


def products_at_once(terms: int, columns: int) -> int:
    """How many products of float32 numbers onnxruntime sums by themselves. Source: MlasSgemmOperation, one thread."""
    width, block = 128, 128
    while columns < terms and width > 16 and width // 2 >= columns:
        width, block = width // 2, block * 2
    return block


@dataclass(frozen=True)
class FloatSums:
    """The order in which the products of a float32 convolution are added up, that of onnxruntime, by (98).

    Taps in blocks of ``channels`` input channels; in a block by their places in the kernel, from the last one on if
    ``is_backward``; at each place by channels. The sums of ``chunk`` products are added up, each product rounded
    once with its sum; or, if not ``is_fused``, twice, in sums of four, of two that are left, the last one.
    """

    channels: int
    chunk: int
    is_backward: bool = False
    is_fused: bool = True

    def taps(self, g: ConvGeometry) -> Int64s:
        """The numbers of the taps (C/group, k...) in this order."""
        places = np.arange(g.taps).reshape(g.group_in, -1)[:, :: -1 if self.is_backward else 1]
        blocks = (places[first : first + self.channels].T for first in range(0, g.group_in, self.channels))
        return np.concatenate([block.reshape(-1) for block in blocks])

    def parts(self, g: ConvGeometry) -> list[Int64s]:
        """The same, apart where a sum begins."""
        last = [g.taps - 1] if g.taps % 4 == 3 and not self.is_fused else []
        return np.split(self.taps(g), [*range(self.chunk, g.taps, self.chunk), *last])


@dataclass(frozen=True)
class Conv:
    """acc[m] = bias[m] + sum of (x - x_zero_point) * (weights[m] - w_zero_point[m]); then the epilogue.

    Integer (x, weights int8 or uint8, of int16 x also int16; int32 accumulator that wraps modulo 2^32), or float32 or
    float64 throughout, then all zero points are 0. ``weights`` (M, C/group, k...) in ONNX order; ``w_zero_point`` (M,)
    int32; ``bias`` (M,) int32 or x's type, zeros if the model has none. Padding contributes nothing to the sum.
    ``accumulator_range`` (lo, hi), each (M,) int64, bounds the accumulators within the program where that has been
    proved; None: for every x. ``sums``: how products of float32 are added up; None: in any order.
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
    sums: FloatSums | None = None


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


# Operators that gather along axes.


@dataclass(frozen=True)
class GlobalAveragePool:
    """The mean of each channel over all pixels.

    Quantized: the sum of (x - x_zero_point), requantized as ``requantize`` says; None for float32: the mean in float32.
    ``channel_axis`` is x's; ``pixels`` is the product of the averaged axes' sizes. ``is_in_order``: float32 numbers are
    added up one by one, else in four sums side by side, by (96).
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    channel_axis: int
    pixels: int
    requantize: Requantize | RoundOnce | None
    is_in_order: bool = False

    @property
    def sums(self) -> int:
        """How many sums the numbers of a channel are added up in."""
        return 1 if self.is_in_order or self.requantize is not None else 4


ReduceKind = Literal["sum", "mean", "max", "min", "product", "l1", "squares", "l2"]


@dataclass(frozen=True)
class Reduce:
    """The sum, the mean, the largest, the smallest, the product of the elements along ``axes``, or a norm of theirs.

    ``axes`` are x's, ascending; y has them with one element each, or lacks them. Sums and means of codes: the sum of
    (x - x_zero_point), requantized as ``requantize`` says. None: the largest and the smallest code, whatever it means;
    float32 of float32 numbers. Products and norms are of float32 numbers only: the sum of magnitudes ("l1") or of
    "squares", and its root ("l2").
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    kind: ReduceKind
    axes: tuple[int, ...]
    requantize: Requantize | None

    @property
    def count(self) -> int:
        """The elements that become one."""
        return prod(self.x.shape[axis] for axis in self.axes)

    @property
    def is_in_order(self) -> bool:
        """Whether onnxruntime takes float32 numbers as (92) does: of products and norms not where no axis is left."""
        return self.kind in ("sum", "mean", "max", "min") or len(self.axes) < len(self.x.shape)

    @property
    def row(self) -> tuple[Literal["eights", "fours"], tuple[int, ...]] | None:
        """How sums of float32 numbers are added up, by (92), and the axes of a row; None: one by one, as they lie.

        Rows at the end of the memory are added in eights. Those between axes that stay are added in fours, if there are
        two or more. Sums of rows are added one by one. Source: OptimizeShapeForFastReduce, one thread.
        """
        if self.requantize is not None or self.kind not in ("sum", "mean"):
            return None
        runs = [(go, tuple(axes)) for go, axes in groupby(range(len(self.x.shape)), lambda axis: axis in self.axes)]
        pattern = "".join("R" if go else "K" for go, _ in runs)
        staying = prod(self.x.shape[axis] for go, axes in runs[:2] if not go for axis in axes)
        if pattern in ("R", "KR") or (pattern == "RKR" and staying > 1):
            return "eights", runs[-1][1]
        return ("fours", runs[1][1]) if pattern == "KRK" and staying > 1 else None


@dataclass(frozen=True)
class ArgMax:
    """Where along ``axis`` the largest element is, or the smallest: of equal ones the first, or the last.

    y, int64 or int32, has the axis with one element, or lacks it. NaN is neither the largest nor the smallest,
    unless it comes first.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    kind: Literal["max", "min"]
    axis: int
    takes_last: bool


@dataclass(frozen=True)
class TopK:
    """Where along ``axis`` the largest elements are, or the smallest, in their order: of equal ones the first is first.

    y, int64, has as many places along the axis as are looked for. NaN is larger than all numbers.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    axis: int
    is_largest: bool


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
class IntegerSoftmax:
    """TensorFlow Lite's softmax of codes over the last axis, in fixed point (arithmetic.softmax_in_integers).

    ``table`` (256,) int64 holds the exponential of each distance 255, 254, ... 0 below the largest code of a row, in
    units of 2^-31; 0 where it is too small to count. A row has fewer than 4096 elements.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    table: Int64s


@dataclass(frozen=True)
class IntegerLogSoftmax:
    """The logarithms of shares in TensorFlow Lite's fixed point (arithmetic.log_softmax_in_integers), from 127 down.

    ``table`` (256,) holds the exponentials of the distances 255, 254, ... 0 below the largest code of a row, in units
    of 2^-19, ``distances`` (256,) these themselves in units of 2^-26, none below -17.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    table: Int64s
    distances: Int64s


@dataclass(frozen=True)
class WideSoftmax:
    """TensorFlow Lite's softmax of int16 codes over the last axis, by lines (arithmetic.wide_softmax_in_integers).

    ``scale`` brings distances below the largest code to units of 10 / 65535. ``exponentials`` and ``reciprocals``
    (513,) are the numbers that lines are drawn between, in units of 2^-15, about: of distances from -10 to 0, and
    of 1 / (1 + v), v from 0 to 1. A row has fewer than 65,536 elements.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    scale: Scaling
    exponentials: Int64s
    reciprocals: Int64s


@dataclass(frozen=True)
class LayerNorm:
    """Rows, along the last axis, brought to mean 0 and variance 1, times ``scale`` plus ``bias``.

    In onnxruntime's float32 arithmetic (arithmetic.layer_norm). x are codes, y codes or numbers; or both are numbers.
    ``scale`` and ``bias`` have an element for each of a row; ``bias`` is None where the model has none. ``epsilon`` is
    above 0. ``is_one_by_one``: by (77) whatever the length, as behind a sum that onnxruntime joins to it. Numbers that
    are not ``is_centered`` keep their mean, and are divided by the root of the mean of their squares.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    scale: Float32s
    bias: Float32s | None
    epsilon: float
    is_one_by_one: bool = False
    is_centered: bool = True


@dataclass(frozen=True)
class InstanceNorm:
    """Each channel of each image brought to mean 0 and variance 1, times ``scale`` plus ``bias``, both (C,).

    In onnxruntime's float32 arithmetic (arithmetic.instance_norm), channels first. x and y are both codes, or both
    numbers. ``epsilon`` is above 0.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    scale: Float32s
    bias: Float32s
    epsilon: float


@dataclass(frozen=True)
class FloatSoftmax:
    """Softmax of float32 numbers over the last axis, or with ``is_log`` its logarithm.

    ``by_library``: by expf and logf, added up one by one, as TensorFlow Lite has the logarithm.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    is_log: bool = False
    by_library: bool = False


# Products of two matrices neither of which need be constant.


@dataclass(frozen=True)
class MatMul:
    """acc[..., i, j] = sum over k of (a[..., i, k] - a_zero_point) * (b[..., k, j] - b_zero_point); then the epilogue.

    a (..., M, K) and b (..., K, N) are int8 or uint8; leading axes are broadcast as numpy does. Either may be
    a constant of the program. No sum leaves int32 (checked when the program was made). ``epilogue`` has one scale.
    ``accumulator_range`` bounds all partial sums within the program where that has been proved; None: for all codes.

    Where the epilogue is a FloatActivation, all three are float32, and zero points 0.
    """

    name: str
    op_type: str
    a: Tensor
    b: Tensor
    y: Tensor
    a_zero_point: int
    b_zero_point: int
    epilogue: Requantize | RawAccumulator | FloatActivation
    accumulator_range: tuple[int, int] | None = None

    @property
    def is_float(self) -> bool:
        """Whether it multiplies float32 numbers."""
        return isinstance(self.epilogue, FloatActivation)

    @property
    def terms(self) -> int:
        """K, the products summed for one output."""
        return self.a.shape[-1]

    @property
    def block(self) -> int:
        """The terms of float32 that are summed by themselves."""
        return products_at_once(self.terms, self.y.shape[-1])

    @property
    def is_in_order(self) -> bool:
        """Whether onnxruntime adds the products of float32 numbers by (93): not those of one row or one column."""
        rows = self.a.size // self.terms if len(self.b.shape) == 2 else self.a.shape[-2]
        return self.is_float and rows > 1 and self.y.shape[-1] > 1

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return prod(self.y.shape) * self.terms


# Quantization whose scale and zero point depend on the numbers of each call (DynamicQuantizeLinear).


@dataclass(frozen=True)
class Extremes:
    """y (2,) = the smallest and the largest of all numbers of x and 0, x float32 of any shape; NaN is neither."""

    name: str
    op_type: str
    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class DynamicParameter:
    """The scale () float32, or the zero point () uint8, for numbers between the extremes x (2,)."""

    name: str
    op_type: str
    kind: Literal["scale", "zero point"]
    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class DynamicQuantize:
    """y = clamp(round_half_even(x / scale) + zero_point), x float32, y uint8; both parameters () are computed."""

    name: str
    op_type: str
    x: Tensor
    scale: Tensor
    zero_point: Tensor
    y: Tensor


@dataclass(frozen=True)
class ZeroPointCorrection:
    """y = x - zero_point * sums[...]: the sums of a layer, as they are for codes that have the zero point.

    x are those for zero point 0, int32; ``zero_point`` is one computed code of 8 bits. ``sums`` of weights have the
    rank of y; ``places`` say for each axis of y which of them each position takes: windows differ at the border. No sum
    of products with codes is beyond ``bound`` in magnitude; where that is not int32, all is modulo 2^32.
    """

    name: str
    op_type: str
    x: Tensor
    zero_point: Tensor
    y: Tensor
    sums: Int64s
    places: tuple[tuple[int, ...], ...]
    bound: int


@dataclass(frozen=True)
class FloatOutput:
    """What becomes of the integer sums x in float32, element by element: ``steps``, each on what the one before gave.

    The planner makes it of operators of the program: a correction of the zero point, if there is one, the Cast, then
    sums, differences, products and quotients with other operands, at most one activation at the end. x, y and all
    tensors in between have one shape.
    """

    name: str
    op_type: str
    x: Tensor
    y: Tensor
    steps: tuple[ZeroPointCorrection | Convert | FloatBinary | FloatUnary, ...]

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """What the steps read besides, in their order."""
        found: list[Tensor] = []
        number = self.x.name
        for step in self.steps:
            match step:
                case ZeroPointCorrection():
                    found.append(step.zero_point)
                case FloatBinary():
                    found.append(step.b if step.a.name == number else step.a)
            number = step.y.name
        return tuple(found)

    @property
    def joined(self) -> tuple[str, ...]:
        """The names of the nodes between the sums and the last one, in execution order."""
        return tuple(step.name for step in self.steps[:-1] if not isinstance(step, ZeroPointCorrection))
