"""Convolutions in all their spellings, and products with a constant matrix, which are convolutions of one tap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from qcgen.arithmetic import Quantization, requantization_scale
from qcgen.geometry import ACTIVATIONS, CONVOLUTIONS, WindowAxis, layout_of, window_of
from qcgen.intervals.accumulators import window_numbers, window_sums
from qcgen.ir.graph import Graph, Node, fresh
from qcgen.ir.program import (
    AveragePool,
    Conv,
    ConvGeometry,
    Dequantize,
    Epilogue,
    FloatActivation,
    FloatSums,
    MatMul,
    MaxPool,
    Operator,
    RawAccumulator,
    Requantize,
    Reshape,
    Slice,
    Tensor,
    Transpose,
    ZeroPointCorrection,
    products_at_once,
)
from qcgen.ir.types import Q8, Array, DType, Layout
from qcgen.lower.codes import (
    are_wide,
    codes_of,
    constants_of,
    ends_of,
    equal_rows,
    has_bias,
    is_qgemm,
    is_sum_of_numbers,
    may_wrap,
    narrow_ends,
    per_channel,
    place_of,
    product_of_codes,
    read_codes,
)
from qcgen.lower.source import Source, quantization_of, tensor_of

BLOCK = 16
"""The channels that onnxruntime keeps side by side with AVX512F."""

# The functions below are for nodes that check has accepted: assertions, not problems.


def lower_conv_integer(source: Source) -> tuple[Operator, ...]:
    """ConvInteger: (x, w, x_zero_point, w_zero_point), the accumulators themselves."""
    layout = _layout(source.node)
    geometry, axes = conv_geometry(source)
    is_known, channels = not source.has(2) or source.is_constant(2), geometry.out_channels
    zero = int(source.number(2, 0)) if is_known else 0
    x = replace(source.tensor(0, layout=layout), zero_point=zero if is_known else None)
    zeros = per_channel(source.array(3) if source.has(3) else np.zeros(1), channels).astype(np.int32)
    y, weights, bias = source.result(layout=layout), source.array(1), np.zeros(channels, np.int32)
    conv = Conv(*source.called, x, y, geometry, zero, weights, zeros, bias, RawAccumulator())
    return _corrected(cropped(conv, axes, source.graph), None if is_known else source.node.inputs[2], source.graph)


def _corrected(operators: tuple[Operator, ...], zero_point: str | None, graph: Graph) -> tuple[Operator, ...]:
    """The sums of the last operator, a Conv, without the share of a zero point that is computed; None: it is not."""
    *before, conv = operators
    assert isinstance(conv, Conv), "the sums are those of a Conv"
    if zero_point is None:
        return operators
    g, channels = conv.geometry, conv.geometry.out_channels
    weights = conv.weights.astype(np.int64) - conv.w_zero_point.reshape(-1, *(1,) * (conv.weights.ndim - 1))
    sums = window_sums(g, weights.sum(axis=1).reshape(channels, -1))
    images: tuple[tuple[int, ...], ...] = ((0,) * g.batch, tuple(range(channels)))
    images += tuple(window_numbers(g, axis) for axis in range(g.rank))
    kinds = tuple(max(numbers) + 1 for numbers in images)
    if conv.y.layout is None:  # rows of a matrix
        images = (*((0,) * size for size in conv.y.shape[:-1]), images[1])
        kinds = (*(1,) * (len(images) - 1), channels)
    x = replace(conv.y, name=fresh(f"{conv.y.name}.sums", graph.names))
    correction = ZeroPointCorrection(
        name=conv.name,
        op_type=conv.op_type,
        x=x,
        zero_point=tensor_of(graph, zero_point),
        y=conv.y,
        sums=sums.reshape(kinds),
        places=images,
        bound=int(np.abs(weights).reshape(channels, -1).sum(axis=1).max()) * 255,
    )
    return (*before, replace(conv, y=x), correction)


def lower_conv(source: Source) -> tuple[Operator, ...]:
    """Convolutions: Conv of float32 numbers, float64 or codes, FusedConv and NhwcFusedConv, (X, W, B); QLinearConv."""
    layout = _layout(source.node)
    geometry, axes = conv_geometry(source)
    x, y = source.tensor(0, layout=layout), source.result(layout=layout)
    none, weights = np.zeros(geometry.out_channels, np.int32), source.array(place_of(source, 1))
    bias = source.array(2) if source.has(2) and x.dtype.is_float else none.astype(x.dtype.numpy)
    conv = Conv(*source.called, x, y, geometry, 0, weights, none, bias, _activation(source.node))
    is_float = source.node.op_type != "QLinearConv" and (source.node.domain, source.node.op_type) != ("", "Conv")
    ends = None if is_float else ends_of(source, 0)
    of_codes = product_of_codes(source, conv, ends, axis=0) if ends else None
    return cropped(of_codes or replace(conv, sums=_sums(source, conv)), axes, source.graph)


MOST_ORDERED = 2**16
"""Of more taps the order does not matter: nothing that small has room for their weights."""


def _sums(source: Source, conv: Conv) -> FloatSums | None:
    """How onnxruntime adds the products of float32 numbers up; None where that is not known.

    Sources: NchwcTransformer and MLAS's kernels for blocks of 16 channels; MlasConv, one thread; ConvTranspose.
    """
    g = conv.geometry
    taps, places, pixels = g.taps, prod(g.kernel), prod(g.output)
    if source.node.domain or conv.x.dtype is not DType.FLOAT32 or taps > MOST_ORDERED:
        return None
    if source.node.written == "ConvTranspose":  # products with all channels, place by place
        pixels = prod(g.input)
        is_whole = pixels > 1 and g.group_in <= products_at_once(g.group_in, pixels)
        return FloatSums(g.group_in, g.group_in, is_backward=True) if is_whole else None
    if source.graph.convolves_blocks(source.node):
        if g.group_in < BLOCK:
            return FloatSums(1, places)
        is_pointwise = places == 1 and not g.is_padded
        return FloatSums(g.group_in, 128) if is_pointwise else FloatSums(BLOCK, BLOCK * places)
    if pixels == 1:
        return None
    return FloatSums(1, 4, is_fused=False) if g.group_out == 1 else FloatSums(1, products_at_once(taps, pixels))


def conv_geometry(source: Source) -> tuple[ConvGeometry, tuple[WindowAxis, ...]]:
    """The geometry of any convolution."""
    spelling = CONVOLUTIONS[source.node.domain, source.node.op_type]
    w = source.tensor(place_of(source, 1)).shape
    x = source.tensor(0, layout=layout_of(source.node, spelling))
    return geometry_of(source.node, x, w[2:], source.node.integer("group", 1), w[0])


def _layout(node: Node) -> Layout:
    return layout_of(node, CONVOLUTIONS[node.domain, node.op_type])


def _activation(node: Node) -> FloatActivation:
    """The activation of a fused convolution; a Relu with two parameters clips, as XNNPACK's pass writes it."""
    kind = node.attributes.get("activation", "")
    values = node.attributes.get("activation_params", ())
    assert isinstance(kind, str), "activation is not a string"
    assert isinstance(values, tuple), "activation_params is not a list"
    params = tuple(float(value) for value in values)
    if kind == "Relu" and len(params) == 2:
        return FloatActivation("Clip", params)
    return FloatActivation(kind, params if ACTIVATIONS.get(kind) else ())


# Sliding windows; where they begin behind the first elements of an image, it is cropped before.

Windowed = Conv | MaxPool | AveragePool


def spatial(x: Tensor) -> tuple[int, ...]:
    """The sizes of the spatial axes of an image whose layout is known."""
    return x.shape[1:-1] if x.layout is Layout.CHANNELS_LAST else x.shape[2:]


def channels_of(x: Tensor) -> int:
    """The channels of such an image."""
    return x.shape[-1] if x.layout is Layout.CHANNELS_LAST else x.shape[1]


def geometry_of(
    node: Node, x: Tensor, kernel: tuple[int, ...], group: int, out_channels: int
) -> tuple[ConvGeometry, tuple[WindowAxis, ...]]:
    """The explicit geometry of a convolution or pooling of an image, and its axes."""
    window = window_of(node, kernel)
    assert window.why_not() is None, window.why_not()
    axes = tuple(window.axis(index, size) for index, size in enumerate(spatial(x)))
    geometry = ConvGeometry(
        batch=x.shape[0],
        group=group,
        in_channels=channels_of(x),
        out_channels=out_channels,
        input=spatial(x),
        kernel=kernel,
        strides=tuple(axis.stride for axis in axes),
        dilations=window.dilations,
        pads_begin=tuple(axis.pad_begin for axis in axes),
        pads_end=tuple(axis.pad_end for axis in axes),
        output=tuple(axis.output for axis in axes),
    )
    return geometry, axes


def cropped(op: Windowed, axes: Sequence[WindowAxis], graph: Graph) -> tuple[Operator, ...]:
    """The operator, behind a Slice where ``axes`` leave out elements before the first window."""
    crops = tuple(axis.crop for axis in axes)
    if not any(crops):
        return (op,)
    is_last = op.x.layout is Layout.CHANNELS_LAST
    starts = (0, *crops, 0) if is_last else (0, 0, *crops)
    shape = tuple(size - start for size, start in zip(op.x.shape, starts, strict=True))
    x = replace(op.x, name=fresh(f"{op.y.name}.cropped", graph.names), shape=shape)
    geometry = replace(op.geometry, input=shape[1:-1] if is_last else shape[2:])
    crop = Slice(op.name, op.op_type, op.x, x, starts, (1,) * len(shape))
    return (crop, replace(op, x=x, geometry=geometry))


def row_geometry(x: Tensor, columns: int) -> ConvGeometry:
    """x (..., K) times a matrix (K, columns): an image of one axis, the rows, with K channels, channels last."""
    rows, channels = prod(x.shape[:-1]), x.shape[-1]
    one, none = (1,), (0,)
    return ConvGeometry(1, 1, channels, columns, (rows,), one, one, one, none, none, (rows,))


def _product(source: Source, x: Tensor, y: Tensor, x_zero_point: int, b: Matrix, epilogue: Epilogue) -> Conv:
    geometry = row_geometry(x, b.weights.shape[0])
    return Conv(*source.called, x, y, geometry, x_zero_point, b.weights, b.zero_point, b.bias, epilogue)


class Matrix:
    """The constant operand: ``weights`` (N, K, 1), ``zero_point`` (N,) int32, ``bias`` (N,)."""

    def __init__(self, matrix: Array, zero_point: Array | None = None, bias: Array | None = None) -> None:
        columns = matrix.shape[1]
        self.weights = np.ascontiguousarray(matrix.T)[:, :, None]
        zeros = np.zeros(1) if zero_point is None else zero_point
        self.zero_point = per_channel(zeros, columns).astype(np.int32)
        absent = np.zeros((), np.float32 if matrix.dtype == np.float32 else np.int32)
        self.bias = per_channel(absent if bias is None else bias, columns).astype(absent.dtype)


def _constant_matrix(source: Source, index: int) -> Array | None:
    """The second operand if it is one constant matrix, so that the product is a convolution."""
    return source.array(index) if source.is_constant(index) and source.array(index).ndim == 2 else None


def _computed(
    source: Source,
    a: Tensor,
    b: Tensor,
    y: Tensor,
    zero_points: tuple[int, int],
    epilogue: Requantize | RawAccumulator | FloatActivation,
) -> tuple[Operator, ...]:
    """The product of two operands; a that is a vector becomes a row, b a column."""
    called = source.called
    row, column = ((1, *a.shape) if len(a.shape) == 1 else a.shape), ((*b.shape, 1) if len(b.shape) == 1 else b.shape)
    first, a_views = _as_matrix(source, a, "row", row)
    second, b_views = _as_matrix(source, b, "column", column)
    if not a_views and not b_views:
        return (MatMul(*called, a, b, y, *zero_points, epilogue),)
    shape = (*np.broadcast_shapes(row[:-2], column[:-2]), row[-2], column[-1])
    product = source.reshaped("matrix", y, shape)
    matmul = MatMul(*called, first, second, product, *zero_points, epilogue)
    return (*a_views, *b_views, matmul, Reshape(*called, product, y))


def _as_matrix(source: Source, x: Tensor, suffix: str, shape: tuple[int, ...]) -> tuple[Tensor, tuple[Operator, ...]]:
    """An operand under another shape, and the view that this takes if it is another one."""
    if x.shape == shape:
        return x, ()
    matrix = source.reshaped(suffix, x, shape)
    return matrix, (Reshape(*source.called, x, matrix),)


def lower_matmul_integer(source: Source) -> tuple[Operator, ...]:
    """MatMulInteger: (A, B, a_zero_point, b_zero_point), the sums; B or a_zero_point may be computed."""
    is_known = not source.has(2) or source.is_constant(2)
    zero_point = int(source.number(2, 0)) if is_known else 0
    matrix = _constant_matrix(source, 1)
    if matrix is None:
        zero_points = (zero_point, int(source.number(3, 0)))
        return _computed(source, source.tensor(0), source.tensor(1), source.result(), zero_points, RawAccumulator())
    b = Matrix(matrix, source.array(3) if source.has(3) else None)
    product = _product(source, source.tensor(0), source.result(), zero_point, b, RawAccumulator())
    return _corrected((product,), None if is_known else source.node.inputs[2], source.graph)


def _rows(source: Source, a: Tensor) -> tuple[Tensor, tuple[Operator, ...]]:
    """A with its rows outermost, and the transposition that this needs."""
    if not source.node.integer("transA", 0):
        return a, ()
    x = source.reshaped("transposed", a, a.shape[::-1])
    return x, (Transpose(*source.called, a, x, (1, 0)),)


def lower_gemm(source: Source) -> tuple[Operator, ...]:
    """Gemm: alpha * A * B + beta * C of codes, or in float32, alpha and beta multiplied into the constants.

    QGemm: (A, scale, zero point, B, scale, zero point, C, y_scale, y_zero_point); float without y_scale. It computes
    fl32(fl32(alpha * a_scale) * b_scale), divided by y_scale if there is one; C is int32 and is not multiplied.
    """
    is_spelt = source.node.op_type == "QGemm"
    weights, is_transposed = source.array(place_of(source, 1)), source.node.integer("transB", 0)
    matrix = weights.T if is_transposed else weights
    alpha, beta = np.float32(source.real("alpha", 1.0)), np.float32(source.real("beta", 1.0))
    x, before = _rows(source, source.tensor(0))
    has_floats = not is_spelt and source.has(2)
    bias = np.broadcast_to(equal_rows(_added(source)), matrix.shape[1:]) * beta if has_floats else None
    b = Matrix(matrix if is_spelt else matrix * alpha, bias=bias)
    product = _product(source, x, source.result(), 0, b, FloatActivation())
    if is_spelt or alpha == beta == 1 or (alpha > 0 and not has_floats):
        found = _of_codes(source, product, axis=0 if is_transposed else 1, alpha=float(alpha))
        if found is not None:
            return found
    return (*before, product)


def _added(source: Source) -> Array:
    """The numbers that a Gemm adds; those of a QGemm are codes in units of the sum, whatever the model says."""
    maker, x, by = source.dequantized(2), source.codes(0, *Q8), codes_of(source, 1)
    if maker is None or x is None or by is None or not is_qgemm(source):
        return source.array(2)
    codes, _, zero_point = constants_of(maker)
    is_plain = DType.of(codes) is DType.INT32 and not zero_point.any()
    unit = np.float32(quantization_of(x).scale) * by.scale
    return (codes * unit).astype(np.float32) if is_plain else source.array(2)


def lower_matmul(source: Source) -> tuple[Operator, ...]:
    """MatMul of codes or in float32, b constant or computed.

    QLinearMatMul: (a, scale, zero point, b, scale, zero point, y_scale, y_zero_point).
    """
    matrix = _constant_matrix(source, place_of(source, 1))
    if matrix is not None:
        product = _product(source, source.tensor(0), source.result(), 0, Matrix(matrix), FloatActivation())
        return _of_codes(source, product, axis=1) or (product,)
    ends = narrow_ends(source, 0, 1)
    if ends is None:
        return _computed(source, source.tensor(0), source.tensor(1), source.result(), (0, 0), FloatActivation())
    (a, b, y), (a_by, b_by, y_by) = ends, (quantization_of(tensor) for tensor in ends)
    scale = requantization_scale(*(np.asarray([by.scale], np.float32) for by in (a_by, b_by, y_by)))
    epilogue = Requantize(scale, y_by.zero_point, y.dtype.low, y.dtype.high)
    return _computed(source, a, b, y, (a_by.zero_point, b_by.zero_point), epilogue)


def _of_codes(source: Source, product: Conv, axis: int, alpha: float = 1.0) -> tuple[Operator, ...] | None:
    """The product of codes by constant ones, whose columns lie along ``axis``; None if it has to be one of numbers.

    Codes of 8 bits give numbers where nothing quantizes them: the last layer of classifiers. QGemm has one type for x
    and y, and as in onnxruntime a float bias keeps a layer without QuantizeLinear in float.
    """
    ends, is_gemm = ends_of(source, 0), source.node.op_type == "Gemm"
    if ends is not None and (are_wide(ends) or not is_gemm or ends[0].dtype is ends[1].dtype):
        x, before = _rows(source, ends[0])
        found = None if are_wide(ends) and alpha != 1 else product_of_codes(source, product, (x, ends[1]), axis, alpha)
        if found is not None:
            return (*before, found)
    a, by = read_codes(source, 0, *Q8), codes_of(source, 1)
    if a is None or by is None or by.axis is not None or len(a.shape) != 2 or (ends and are_wide(ends)):
        return None
    bias = _int32_row(source, by.codes.shape[axis]) if has_bias(source) else None
    if has_bias(source) and bias is None:
        return None
    (x, before), y = _rows(source, a), source.result()
    b = Matrix(by.codes if axis else by.codes.T, by.zero_point, bias)
    # The accumulators and what they stand for: fl32(fl32(acc) * fl32(scale * b_scale)).
    with np.errstate(over="ignore", under="ignore"):
        scale = float(np.float32(alpha) * np.float32(quantization_of(a).scale) * by.scale.reshape(()))
    acc = source.inner("accumulators", DType.INT32, y.shape, Quantization(scale, 0))
    in_float, zero_point = is_sum_of_numbers(source), quantization_of(x).zero_point
    raw = _product(source, x, acc, zero_point, b, RawAccumulator())
    return None if in_float and may_wrap(raw) else (*before, raw, Dequantize(*source.called, acc, y, in_float))


ULPS = 2.0**-22
"""How far the scale of a bias may be off the accumulator's unit by rounding."""


def _int32_row(source: Source, columns: int) -> Array | None:
    """The codes of a bias that is dequantized from int32 constants, one a column or one in all, zero point 0."""
    if source.node.op_type == "QGemm":
        return equal_rows(source.array(6))
    maker, weights, x = source.dequantized(2), codes_of(source, 1), source.codes(0, *Q8)
    if maker is None or not maker.is_constant(0):
        return None
    codes, scale, zero_point = constants_of(maker)
    if scale.size > 1 or zero_point.any():
        return None
    assert weights is not None, "weights are codes"
    assert x is not None, "x is dequantized from codes"
    is_row = codes.size in (1, columns) and codes.shape[-1:] in ((), (1,), (columns,))
    unit = np.float32(quantization_of(x).scale) * weights.scale
    is_meant = is_qgemm(source) or np.allclose(scale, unit, rtol=ULPS, atol=0)
    return codes if is_row and is_meant and DType.of(codes) is DType.INT32 else None
