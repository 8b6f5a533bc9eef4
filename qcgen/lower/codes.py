"""Operators of float32 numbers between codes become operators of codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from qcgen.arithmetic import exact_multiplier, requantization_scale
from qcgen.intervals import accumulators
from qcgen.ir.graph import Graph, Node, fresh
from qcgen.ir.program import Conv, Float32s, Lookup, Requantize, RoundOnce, Tensor
from qcgen.ir.types import CODES, Q8, Array, DType
from qcgen.lower.source import Source, quantization_of

SPELT_WITH_CODES = {
    **dict.fromkeys(("QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearSoftmax"), 3),
    **dict.fromkeys(("QLinearAdd", "QLinearConv", "QLinearMatMul", "QLinearMul"), 6),
    "QGemm": 7,
}
"""Operators whose inputs are codes, each with its scale and its zero point, and where those of the output are."""

BIASES = {"Conv": 2, "Gemm": 2, "QGemm": 6, "QLinearConv": 8}
"""Where products have a bias."""


def place_of(source: Source, index: int) -> int:
    """The place of an input, three times as far where each input is followed by its scale and its zero point."""
    return 3 * index if source.node.op_type in SPELT_WITH_CODES else index


def has_bias(source: Source) -> bool:
    """Whether a product has a bias."""
    place = BIASES.get(source.node.op_type)
    return place is not None and source.has(place)


def read_codes(source: Source, index: int, *dtypes: DType) -> Tensor | None:
    """The codes, of one of these types, that an input holds or is dequantized from, per tensor."""
    if source.node.op_type not in SPELT_WITH_CODES:
        return source.codes(index, *dtypes)
    return source.tensor(3 * index, source.quantization(3 * index + 1, 3 * index + 2))


def written_codes(source: Source) -> Tensor | None:
    """The codes of 8 or 16 bits that the output holds or is quantized to."""
    place = SPELT_WITH_CODES.get(source.node.op_type)
    if place is None:
        return source.quantized(*CODES)
    return source.result(source.quantization(place, place + 1)) if source.has(place) else None


def ends_of(source: Source, *indices: int) -> tuple[Tensor, ...] | None:
    """The codes of these inputs and of the output, of 8 or 16 bits, per tensor; None unless all of them are such."""
    found = (*(read_codes(source, index, *CODES) for index in indices), written_codes(source))
    tensors = tuple(tensor for tensor in found if tensor is not None)
    return tensors if len(tensors) == len(found) else None


def are_wide(ends: tuple[Tensor, ...]) -> bool:
    """Whether some of the codes have 16 bits: then arithmetic is that of float32 numbers."""
    return any(tensor.dtype.is_16_bit for tensor in ends)


def narrow_ends(source: Source, *indices: int) -> tuple[Tensor, ...] | None:
    """The same, for codes of 8 bits only."""
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
    """What a constant input holds or is dequantized from; None if it is other codes, or has scales for blocks."""
    if source.node.op_type in SPELT_WITH_CODES:
        codes, scale, zero_point = (source.array(3 * index + offset) for offset in range(3))
        return ConstantCodes(codes, scale.reshape(-1), zero_point.reshape(-1), None)
    maker = source.dequantized(index)
    if maker is None or not maker.is_constant(0) or DType.of(maker.array(0)) not in Q8:
        return None
    codes, scale, zero_point = constants_of(maker)
    if scale.dtype != np.float32 or not (np.isfinite(scale) & (scale > 0)).all() or maker.node.integer("block_size", 0):
        return None
    axis = None if scale.size == 1 else maker.node.integer("axis", 1) % codes.ndim
    return ConstantCodes(codes, scale.reshape(-1), zero_point.reshape(-1), axis)


def constants_of(maker: Source) -> tuple[Array, Array, Array]:
    """What a DequantizeLinear of constants reads: codes, scale and zero point, 0 where it is absent."""
    codes = maker.array(0)
    return codes, maker.array(1), maker.array(2) if maker.has(2) else np.zeros((), codes.dtype)


def per_channel(array: Array, channels: int) -> Array:
    """A scalar, a vector of one element or one of each channel, as (channels,)."""
    return np.array(np.broadcast_to(array.reshape(-1), (channels,)))


def product_of_codes(
    source: Source, conv: Conv, ends: tuple[Tensor, ...], axis: int, alpha: float = 1.0
) -> Conv | None:
    """A convolution, or a product that is one, of codes instead of numbers: ``ends``, x and y, in place of its.

    ``axis`` is that of the output channels in the weights, the second input; ``alpha`` multiplies the scale. None
    unless the weights are codes of 8 bits, per tensor or channel, and the bias has a good form in int32.
    """
    by, channels = codes_of(source, 1), conv.geometry.out_channels
    if by is None or by.axis not in (None, axis):
        return None
    x, y = (replace(tensor, layout=like.layout) for tensor, like in zip(ends, (conv.x, conv.y), strict=True))
    y_scale = np.float32(quantization_of(y).scale)
    with np.errstate(over="ignore", under="ignore"):
        x_scale = np.float32(alpha) * np.float32(quantization_of(x).scale)
        unit = x_scale * by.scale
    scale = requantization_scale(np.asarray(x_scale), by.scale, np.asarray(y_scale))
    is_wide = are_wide(ends)
    bias = np.zeros(channels, np.int32)
    if has_bias(source):
        found = _nearest(source, np.float64(x_scale) * by.scale) if is_wide else _integers(source, unit, y_scale)
        row = None if found is None else _row(found, channels)
        if row is None:
            return None
        bias = row
    codes = np.moveaxis(by.codes, axis, 0).reshape(conv.weights.shape)
    zeros = per_channel(by.zero_point, channels).astype(np.int32)
    product = replace(conv, x=x, y=y, x_zero_point=quantization_of(x).zero_point, weights=np.ascontiguousarray(codes))
    product = replace(product, w_zero_point=zeros, bias=bias)
    if is_wide:
        return _rounded_once(product, x_scale, by.scale, y_scale)
    if is_in_float(source.node, source.graph) and not is_qgemm(source) and may_wrap(product):
        return None
    bounds = quantization_of(y).zero_point, y.dtype.low, y.dtype.high
    return replace(product, epilogue=Requantize(per_channel(scale, channels), *bounds))


def may_wrap(conv: Conv) -> bool:
    """Whether sums of codes may leave int32, as those of numbers do not."""
    channels = conv.geometry.in_channels
    return accumulators(conv, *(np.full(channels, end) for end in (conv.x.dtype.low, conv.x.dtype.high))).wraps


def _rounded_once(conv: Conv, x_scale: np.float32, w_scale: Float32s, y_scale: np.float32) -> Conv:
    """The convolution with its output step, (72)."""
    none, channels = np.zeros(0, np.int64), conv.geometry.in_channels
    bounds = quantization_of(conv.y).zero_point, conv.y.dtype.low, conv.y.dtype.high
    exact = replace(conv, epilogue=RoundOnce(none, none, *bounds))
    reached = accumulators(exact, *(np.full(channels, end) for end in (conv.x.dtype.low, conv.x.dtype.high)))
    largest = np.maximum(np.abs(reached.lo), np.abs(reached.hi))
    scales = np.broadcast_to(w_scale, (conv.geometry.out_channels,))
    return replace(exact, epilogue=RoundOnce(*exact_multiplier(x_scale, scales, y_scale, largest), *bounds))


# The bias in units of the accumulator.

SHIFT = 1 / 128
"""How far, in output codes, rounding may move a bias that was quantized with a scale of its own.

onnxruntime computes such a model in float; a smaller shift changes an output only where it lay this close to a tie.
"""

RELATIVE_SLACK, ABSOLUTE_SLACK = 1e-2, 1e-6
"""onnxruntime takes scales for equal that differ by no more than this (measured on its default session)."""


def _integers(source: Source, unit: Float32s, y_scale: np.float32) -> Array | None:
    """The bias as onnxruntime adds it to codes of 8 bits, None if it has no good form in int32.

    int32 codes are taken as they are where onnxruntime does so: in units of the accumulator, and always by QGemm, which
    does not compare scales. Floats are divided by the unit in float32 and rounded half to even. Others are rescaled.
    """
    if source.node.op_type in SPELT_WITH_CODES:
        return equal_rows(source.array(BIASES[source.node.op_type]))
    if not source.is_constant(2) or not (np.isfinite(unit) & (unit > 0)).all():
        return None
    maker = source.dequantized(2)
    if maker is None:
        with np.errstate(all="ignore"):
            return _int32(np.rint(source.array(2) / unit))
    codes, scale, zero_point = constants_of(maker)
    if not (np.isfinite(scale) & (scale > 0)).all() or maker.node.integer("block_size", 0):
        return None
    is_plain = DType.of(codes) is DType.INT32 and not zero_point.any()
    if is_plain and (is_qgemm(source) or not is_in_float(source.node, source.graph)):
        return codes
    exact = (codes.astype(np.float64) - zero_point) * scale.astype(np.float64) / unit.astype(np.float64)
    rounded = np.rint(exact)
    return _int32(rounded) if (np.abs(rounded - exact) * unit / y_scale <= SHIFT).all() else None


def is_qgemm(source: Source) -> bool:
    """Whether onnxruntime computes a Gemm in integers: with zero points, and no QuantizeLinear beside another reader.

    It has no kernel for int8 by uint8, nor for y of another type than x, but y are numbers where QuantizeLinear stands
    farther behind. Source: models as 1.32.0 optimizes them.
    """
    makers = [source.dequantized(index) for index in (0, 1)] if source.node.op_type == "Gemm" else []
    types = [maker.tensor(0).dtype for maker in makers if maker is not None and maker.has(2)]
    if len(types) < 2 or types == [DType.INT8, DType.UINT8] or _has_numbers(source):
        return False
    if has_bias(source) and not source.real("alpha", 1.0) == source.real("beta", 1.0) == 1:
        return False
    y, quantize = source.quantized(*CODES), source.graph.quantizer(source.node)
    readers = source.graph.readers.get(source.node.outputs[0], ())
    if y is None or quantize is None:
        return all(reader.op_type != "QuantizeLinear" for reader in readers)
    return quantize.in_float or y.dtype is types[0]


def _has_numbers(source: Source) -> bool:
    """Whether onnxruntime has numbers where a product reads codes here, or has codes of fewer than 8 bits there."""
    makers = [maker.node for index in (0, 1) if (maker := source.dequantized(index))]
    return source.node.in_float or any(each.in_float or each.inputs[0] in source.graph.narrow for each in makers)


def is_in_units(scale: Array, unit: Float32s) -> bool:
    """Whether the codes of a bias are in units (M,) or () of the accumulator, as nearly as onnxruntime demands it."""
    given, wanted = scale.astype(np.float64), unit.astype(np.float64)
    if given.size not in (1, wanted.size) and wanted.size != 1:
        return False
    return bool(np.all(np.abs(given - wanted) <= ABSOLUTE_SLACK + RELATIVE_SLACK * wanted))


def _nearest(source: Source, unit: Array) -> Array | None:
    """The bias in int32 that is nearest to the model's in these units, (M,) or (1,) float64; None if it is too large.

    Of activations of 16 bits a unit is far less than a code. ConstantCodes stand for more digits than float32 holds.
    """
    real, maker = source.array(2).astype(np.float64), source.dequantized(2)
    if maker is not None and not maker.node.integer("block_size", 0):
        codes, scale, zero_point = constants_of(maker)
        real = (codes - zero_point.astype(np.float64)) * scale.astype(np.float64)
    with np.errstate(all="ignore"):
        return _int32(np.rint(real / unit))


def _int32(values: Array) -> Array | None:
    """The values as int32, None if they are too large."""
    return np.asarray(values.astype(np.int32)) if (np.abs(values) < 2.0**31).all() else None


def equal_rows(c: Array) -> Array:
    """One row of what a Gemm adds: (), (1,), (N,), (1, N), or (M, N) with equal rows."""
    row: Array = c[0] if c.ndim == 2 else c
    return row


def _row(values: Array, channels: int) -> Array | None:
    """One value a channel from (), (1,), (M,) or (1, M); None for another shape."""
    if values.size != 1 and (values.size != channels or values.shape[-1] != channels):
        return None
    return per_channel(values, channels)


# What onnxruntime computes in float although it becomes integers here.

OPERANDS = {
    **{("", op_type): (0,) for op_type in ("AveragePool", "GlobalAveragePool", "Softmax")},
    **{("", op_type): (0, 1) for op_type in ("Add", "Conv", "Gemm", "MatMul", "Mul")},
}
"""The inputs that are codes, of operators that onnxruntime has for codes of 8 bits."""


def is_in_float(node: Node, graph: Graph) -> bool:
    """Whether onnxruntime computes a node in float although it becomes integers here, for the user to be told.

    It reduces float32 numbers. Elsewhere all codes must have one type of 8 bits. Products have kernels for int8 by int8
    and for uint8 by both types; their bias is in units of the accumulator.
    """
    if node.in_float or node.op_type in ("ReduceMean", "ReduceSum"):
        return True
    source, indices = Source(node, graph), OPERANDS.get((node.domain, node.op_type), ())
    y, quantize = source.quantized(*Q8), graph.quantizer(node)
    makers = [maker for index in indices if (maker := source.dequantized(index))]
    xs = [maker.tensor(0) for maker in makers]
    types = [x.dtype for x in xs]
    if y is None or quantize is None or not xs or any(dtype not in Q8 for dtype in types):
        return False
    if quantize.in_float or any(maker.node.in_float for maker in makers) or any(x.name in graph.narrow for x in xs):
        return True
    match node.op_type:
        case "Add" | "Mul":
            return set(types) != {y.dtype} or _has_lists(graph, [*(maker.node for maker in makers), quantize])
        case "Gemm":
            return not is_qgemm(source)
        case "Conv" | "MatMul":
            has_kernel = types[0] is y.dtype and types != [DType.INT8, DType.UINT8]
            return not has_kernel or _is_foreign(source)
    return types[0] is not y.dtype


def is_sum_of_numbers(source: Source) -> bool:
    """Whether onnxruntime sums up a product of codes that stays float in float, although it becomes integers here.

    Elsewhere it makes QGemm of it; MatMulIntegerToFloat has been written out.
    """
    return source.node.op_type not in SPELT_WITH_CODES and not is_qgemm(source)


def _has_lists(graph: Graph, nodes: Sequence[Node]) -> bool:
    """Whether a scale or a zero point is a list of one number, with which onnxruntime keeps Add and Mul in float."""
    return any(graph.constants[name].ndim > 0 for node in nodes for name in node.inputs[1:] if name in graph.constants)


def _is_foreign(source: Source) -> bool:
    """Whether the bias of a Conv is quantized in other units than those of the accumulator."""
    bias, w = source.dequantized(2) if source.node.op_type == "Conv" else None, codes_of(source, 1)
    x = source.codes(0, *Q8)
    if bias is None or w is None or x is None:
        return False
    codes, scale, zero_point = constants_of(bias)
    is_plain = DType.of(codes) is DType.INT32 and not zero_point.any()
    return not (is_plain and is_in_units(scale, np.float32(quantization_of(x).scale) * w.scale))
