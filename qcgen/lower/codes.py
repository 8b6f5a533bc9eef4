"""Operators of float32 numbers between codes become operators of codes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from qcgen.arithmetic import exact_multiplier, requantization_scale
from qcgen.intervals import accumulators
from qcgen.ir.graph import Graph, Node, fresh
from qcgen.ir.program import Conv, Float32s, Lookup, RoundOnce, Tensor
from qcgen.ir.types import Array, DType
from qcgen.lower.source import Q8, Source, quantization_of

CODES = (*Q8, DType.INT16, DType.UINT16)
"""The types of activations that are quantized."""


def ends_of(source: Source, *indices: int) -> tuple[Tensor, ...] | None:
    """The codes of these inputs and of the output, of 8 or 16 bits, per tensor; None unless all of them are such."""
    found = (*(source.codes(index, *CODES) for index in indices), source.quantized(*CODES))
    tensors = tuple(tensor for tensor in found if tensor is not None)
    return tensors if len(tensors) == len(found) else None


def are_wide(ends: tuple[Tensor, ...]) -> bool:
    """Whether some of the codes have 16 bits: then arithmetic is that of float32 numbers."""
    return any(tensor.dtype.is_16_bit for tensor in ends)


def narrow_ends(source: Source, *indices: int) -> tuple[Tensor, ...] | None:
    """The same of 8 bits alone."""
    ends = ends_of(source, *indices)
    return None if ends is None or are_wide(ends) else ends


def of_type(source: Source, x: Tensor, dtype: DType) -> tuple[Tensor, tuple[Lookup, ...]]:
    """Codes of 8 bits in this type, and the table that shifts them and their zero point if theirs is the other one.

    The table of another reader of the codes has the same name.
    """
    if x.dtype is dtype:
        return x, ()
    by, shift = quantization_of(x), dtype.low - x.dtype.low
    name = fresh(f"{x.name} as {dtype.value}", source.graph.names)
    y = replace(x, name=name, dtype=dtype, zero_point=by.zero_point + shift)
    return y, (Lookup(source.node.name, source.node.op_type, x, y, np.arange(dtype.low, dtype.high + 1)),)


# Products with constant weights.


@dataclass(frozen=True)
class ConstantCodes:
    """Constant codes of 8 bits, with a scale float32 and a zero point for all, or for each place of ``axis``."""

    codes: Array
    scale: Float32s
    zero_point: Array
    axis: int | None


def codes_of(source: Source, index: int) -> ConstantCodes | None:
    """What a constant input is dequantized from; None if it is not, or from other codes, or with a scale for blocks."""
    maker = source.dequantized(index)
    if maker is None or not maker.is_constant(0) or DType.of(maker.array(0)) not in Q8:
        return None
    codes, scale = maker.array(0), maker.array(1)
    zero_point = maker.array(2) if maker.has(2) else np.zeros(scale.shape, codes.dtype)
    if scale.dtype != np.float32 or not (np.isfinite(scale) & (scale > 0)).all() or maker.integer("block_size", 0):
        return None
    axis = None if scale.size == 1 else maker.integer("axis", 1) % codes.ndim
    return ConstantCodes(codes, scale.reshape(-1), zero_point.reshape(-1), axis)


def wide_codes(source: Source, *indices: int) -> tuple[Tensor, ...] | None:
    """The codes of these inputs and of the output, per tensor, if all of them are such and some have 16 bits."""
    found = (*(source.codes(index, *CODES) for index in indices), source.quantized(*CODES))
    tensors = tuple(tensor for tensor in found if tensor is not None)
    is_wide = len(tensors) == len(found) and any(tensor.dtype.is_16_bit for tensor in tensors)
    return tensors if is_wide else None


def wide_product(source: Source, conv: Conv, ends: tuple[Tensor, ...] | None, axis: int) -> Conv | None:
    """A convolution, or a product that is one, of wide codes instead of numbers: ``ends``, x and y, in place of its.

    ``axis`` is that of the output channels in the weights, the second input; the third one is the bias. Requantized by
    (72). None unless the weights are codes of 8 bits, per tensor or channel, and the bias fits int32.
    """
    by, channels = codes_of(source, 1), conv.geometry.out_channels
    if ends is None or by is None or by.axis not in (None, axis):
        return None
    x, y = (replace(tensor, layout=like.layout) for tensor, like in zip(ends, (conv.x, conv.y), strict=True))
    x_scale, y_scale = np.float32(quantization_of(x).scale), np.float32(quantization_of(y).scale)
    scale = requantization_scale(np.asarray(x_scale), by.scale, np.asarray(y_scale))
    bias = _nearest(source, channels, np.float64(x_scale) * by.scale) if source.has(2) else np.zeros(channels, np.int32)
    if bias is None or not (np.isfinite(scale) & (scale > 0)).all():
        return None
    codes = np.moveaxis(by.codes, axis, 0).reshape(conv.weights.shape)
    zeros = np.array(np.broadcast_to(by.zero_point.astype(np.int32), (channels,)))
    product = replace(conv, x=x, y=y, x_zero_point=quantization_of(x).zero_point, weights=np.ascontiguousarray(codes))
    return _rounded_once(replace(product, w_zero_point=zeros, bias=bias), x_scale, by.scale, y_scale)


def _rounded_once(conv: Conv, x_scale: np.float32, w_scale: Float32s, y_scale: np.float32) -> Conv:
    """The convolution with its output step."""
    none, channels = np.zeros(0, np.int64), conv.geometry.in_channels
    bounds = quantization_of(conv.y).zero_point, conv.y.dtype.low, conv.y.dtype.high
    exact = replace(conv, epilogue=RoundOnce(none, none, *bounds))
    reached = accumulators(exact, *(np.full(channels, end) for end in (conv.x.dtype.low, conv.x.dtype.high)))
    largest = np.maximum(np.abs(reached.lo), np.abs(reached.hi))
    scales = np.broadcast_to(w_scale, (conv.geometry.out_channels,))
    return replace(exact, epilogue=RoundOnce(*exact_multiplier(x_scale, scales, y_scale, largest), *bounds))


def _nearest(source: Source, channels: int, unit: Array) -> Array | None:
    """The bias (M,) int32 that is nearest to the model's in these units, (M,) or (1,) float64; None if it is too large.

    Of activations of 16 bits a unit is far less than a code. ConstantCodes stand for more digits than float32 holds.
    """
    real, maker = source.array(2).astype(np.float64), source.dequantized(2)
    if maker is not None and maker.array(1).size in (1, channels) and not maker.integer("block_size", 0):
        zero_point = maker.array(2) if maker.has(2) else np.zeros(1)
        real = (maker.array(0) - zero_point.astype(np.float64)) * maker.array(1).astype(np.float64)
    with np.errstate(all="ignore"):
        values = np.rint(real / unit)
    is_row = values.size == 1 or (values.size == channels and values.shape[-1] == channels)
    if not is_row or not (np.abs(values) < 2.0**31).all():
        return None
    return np.array(np.broadcast_to(values.reshape(-1), (channels,)).astype(np.int32))


# What onnxruntime computes in float although it becomes integers here.

OPERANDS = {
    **{("", op_type): (0,) for op_type in ("AveragePool", "GlobalAveragePool", "Softmax")},
    **{("", op_type): (0, 1) for op_type in ("Add", "Mul")},
}
"""The inputs that are codes, of operators that onnxruntime has for codes of 8 bits."""


def is_in_float(node: Node, graph: Graph) -> bool:
    """Whether onnxruntime computes a node in float although it becomes integers here, for the user to be told.

    It adds up codes in none of the reductions. Elsewhere all codes must be of one type of 8 bits.
    """
    if node.in_float or node.op_type in ("ReduceMean", "ReduceSum"):
        return True
    source, indices = Source(node, graph), OPERANDS.get((node.domain, node.op_type), ())
    y, codes = source.quantized(*Q8), [source.dequantized(index) for index in indices]
    xs = [maker.tensor(0) for maker in codes if maker is not None]
    if y is None or not xs or any(x.dtype not in Q8 for x in xs):
        return False
    is_narrow = any(x.name in graph.narrow for x in xs)
    quantize = graph.quantizer(node)
    return (quantize is not None and quantize.in_float) or is_narrow or {x.dtype for x in xs} != {y.dtype}
