"""Many numbers become one: poolings, means, sums, largest elements; softmax and normalizations over rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Literal

import numpy as np

from qcgen import arithmetic
from qcgen.arithmetic import exact_multiplier
from qcgen.geometry import NHWC_DOMAIN, WindowAxis, layout_of_pool
from qcgen.ir.graph import Graph, Node
from qcgen.ir.program import (
    ArgMax,
    AveragePool,
    ConvGeometry,
    Dequantize,
    Float32s,
    FloatSoftmax,
    GatherElements,
    GlobalAveragePool,
    InstanceNorm,
    LayerNorm,
    MaxPool,
    Operator,
    Pad,
    Reduce,
    ReduceKind,
    Requantize,
    Reshape,
    RoundOnce,
    Softmax,
    Tensor,
    TopK,
    Transpose,
)
from qcgen.ir.types import Q8, DType, Layout
from qcgen.lower.codes import are_wide, ends_of, narrow_ends, of_type
from qcgen.lower.linear import channels_of, cropped, geometry_of, spatial
from qcgen.lower.source import Source, quantization_of


def lower_max_pool(source: Source) -> tuple[Operator, ...]:
    """MaxPool of any domain, quantized or float."""
    x, y = _images(source)
    geometry, axes = pool_geometry(source, x)
    return cropped(MaxPool(*source.called, x, y, geometry), axes, source.graph)


def _images(source: Source) -> tuple[Tensor, Tensor]:
    layout = layout_of_pool(source.node)
    return source.tensor(0, layout=layout), source.result(layout=layout)


def lower_average_pool(source: Source) -> tuple[Operator, ...]:
    """AveragePool of codes of 8 bits, or in float32, in the order of onnxruntime's sums: another one since opset 19.

    QLinearAveragePool: (X, scale, zero point, y_scale, y_zero_point). Means of a window that is the whole image are
    computed as QLinearGlobalAveragePool does.
    """
    node, (x, y) = source.node, _images(source)
    is_dilated = set(node.integers("dilations") or ()) - {1}
    ends = None if node.domain == NHWC_DOMAIN or is_dilated else narrow_ends(source, 0)
    if ends is not None:
        x, y = (replace(tensor, layout=x.layout) for tensor in ends)
        x, before = of_type(source, x, y.dtype)
        g, _ = pool_geometry(source, x)
        is_whole = g.kernel == g.input and not g.is_padded
        return (*before, *((_mean_of_codes(source, x, y),) if is_whole else _average(source, x, y)))
    if node.integer("ceil_mode", 0) and node.integer("count_include_pad", 0):
        is_same = node.text("auto_pad", "NOTSET").startswith("SAME")  # whose windows stay within the padded image
        return _average(source, x, y) if is_same else _average_of_padded(source, x, y)
    if node.domain or node.version >= 19:
        return _average(source, x, y)
    g, _ = pool_geometry(source, x)
    in_blocks, strides = node.outputs[0] in source.graph.in_blocks, node.integers("strides") or (1,) * g.rank
    if g.kernel == g.input and not g.is_padded and set(strides) == {1}:
        return (_mean(source, x, y, None, is_in_order=in_blocks),)
    fits = strides[-1] <= 2 and g.input[-1] + g.pads_begin[-1] + g.pads_end[-1] <= MOST_BY_COLUMNS
    return _average(source, x, y, is_by_columns=g.rank > 1 and fits and not in_blocks)


def _average_of_padded(source: Source, x: Tensor, y: Tensor) -> tuple[Operator, ...]:
    """A Pad, then windows that count what lies within the padded image; onnxruntime adds up as in the newest opset.

    A window that would start in the padding behind the image is none; in the padded image it would be one. So there is
    no more padding than the last window reaches.
    """
    g, called = pool_geometry(source, x)[0], source.called
    numbers = zip(g.output, g.strides, g.kernel, g.dilations, strict=True)
    reach = [(windows - 1) * stride + (taps - 1) * step + 1 for windows, stride, taps, step in numbers]
    sizes = zip(g.pads_begin, g.input, g.pads_end, reach, strict=True)
    image = tuple(begin + size + min(end, max(0, far - begin - size)) for begin, size, end, far in sizes)
    is_last, none = x.layout is Layout.CHANNELS_LAST, (0,) * g.rank
    shape = (x.shape[0], *image, x.shape[-1]) if is_last else (*x.shape[:2], *image)
    before = (0, *g.pads_begin, 0) if is_last else (0, 0, *g.pads_begin)
    padded = replace(source.inner("padded", x.dtype, shape), layout=x.layout)
    geometry = replace(g, input=image, pads_begin=none, pads_end=none)
    return Pad(*called, x, padded, before, 0.0), AveragePool(*called, padded, y, geometry, False)


MOST_BY_COLUMNS = 2045
"""The elements of a padded row for which onnxruntime has room to add up columns. Source: MlasPool, tried."""


def _average(source: Source, x: Tensor, y: Tensor, *, is_by_columns: bool = False) -> tuple[Operator, ...]:
    geometry, axes = pool_geometry(source, x)
    counts_padding = source.node.integer("count_include_pad", 0) != 0
    return cropped(AveragePool(*source.called, x, y, geometry, counts_padding, is_by_columns), axes, source.graph)


def lower_global_average_pool(source: Source) -> tuple[Operator, ...]:
    """GlobalAveragePool in float32, or of codes.

    QLinearGlobalAveragePool: (X, scale, zero point, y_scale, y_zero_point).
    """
    x, y = _images(source)
    ends = None if source.node.domain == NHWC_DOMAIN else ends_of(source, 0)
    if ends is not None and not (are_wide(ends) and prod(spatial(x)) > MOST_PIXELS):
        x, y = (replace(tensor, layout=x.layout) for tensor in ends)
        if are_wide(ends):
            return (_mean(source, x, y, _rounded_once(x, y)),)
        x, before = of_type(source, x, y.dtype)
        return (*before, _mean_of_codes(source, x, y))
    return (_mean(source, x, y, None, is_in_order=source.node.outputs[0] in source.graph.in_blocks),)


def lower_global_max_pool(source: Source) -> Operator:
    """GlobalMaxPool of any domain, quantized or float: a MaxPool whose window is the image."""
    x, y = _images(source)
    image, channels = spatial(x), channels_of(x)
    one, none = (1,) * len(image), (0,) * len(image)
    sizes = (x.shape[0], channels, channels, channels, image, image)
    return MaxPool(*source.called, x, y, ConvGeometry(*sizes, one, one, none, none, one))


def _mean_of_codes(source: Source, x: Tensor, y: Tensor) -> GlobalAveragePool:
    x_by, y_by = quantization_of(x), quantization_of(y)
    scale = np.array([arithmetic.global_average_scale(x_by.scale, y_by.scale, prod(spatial(x)))], np.float32)
    return _mean(source, x, y, Requantize(scale, y_by.zero_point, y.dtype.low, y.dtype.high))


MOST_PIXELS = 2**14
"""Of an image whose mean is taken: sums of codes of 16 bits stay within int32, wherever they start."""


def _rounded_once(x: Tensor, y: Tensor) -> RoundOnce:
    """Means of codes of 16 bits: the sum of (x - x_zero_point) by (72), with x_scale / (pixels * y_scale) in (73)."""
    pixels, x_by, y_by = prod(spatial(x)), quantization_of(x), quantization_of(y)
    largest = np.array([pixels * max(x.dtype.high - x_by.zero_point, x_by.zero_point - x.dtype.low)])
    scales = np.float32(x_by.scale), np.ones(1, np.float32), np.float32(y_by.scale)
    return RoundOnce(*exact_multiplier(*scales, largest, pixels), y_by.zero_point, y.dtype.low, y.dtype.high)


def _mean(
    source: Source, x: Tensor, y: Tensor, requantize: Requantize | RoundOnce | None, *, is_in_order: bool = False
) -> GlobalAveragePool:
    axis = len(x.shape) - 1 if x.layout is Layout.CHANNELS_LAST else 1
    return GlobalAveragePool(*source.called, x, y, axis, prod(spatial(x)), requantize, is_in_order)


def pool_geometry(source: Source, x: Tensor) -> tuple[ConvGeometry, tuple[WindowAxis, ...]]:
    """The geometry of a pooling: every channel is a group of its own."""
    kernel, channels = source.node.integers("kernel_shape"), channels_of(x)
    assert kernel is not None, "a pooling has a kernel_shape"
    return geometry_of(source.node, x, kernel, channels, channels)


_KINDS: dict[str, ReduceKind] = {
    "ReduceL1": "l1",
    "ReduceL2": "l2",
    "ReduceMax": "max",
    "ReduceMean": "mean",
    "ReduceMin": "min",
    "ReduceProd": "product",
    "ReduceSum": "sum",
    "ReduceSumSquare": "squares",
}


MAX_CODES = 2**22
"""The most codes that are summed: 255 times as much, and what their output step adds, fit int32."""


def lower_reduce(source: Source) -> Operator:
    """ReduceMax, ReduceMin, ReduceSum and ReduceMean of codes or float32 numbers; the others of float32 numbers."""
    (name, op_type, x, y), kind = source.ends, _KINDS[source.node.op_type]
    named = source.integers(1, "axes")
    if not named and source.node.integer("noop_with_empty_axes", 0):
        return Reshape(name, op_type, x, y)
    axes = tuple(sorted(axis % len(x.shape) for axis in named)) if named else tuple(range(len(x.shape)))
    found = _sum_of_codes(source, kind, axes) if kind in ("sum", "mean") else None
    return found or Reduce(name, op_type, x, y, kind, axes, None)


def _sum_of_codes(source: Source, kind: ReduceKind, axes: tuple[int, ...]) -> Operator | None:
    """A sum or mean of codes, if sums and scale are in range; of whole images where it is one: that is faster."""
    x, y = source.codes(0, *Q8), source.quantized(*Q8)
    if x is None or y is None:
        return None
    x_by, y_by, count = quantization_of(x), quantization_of(y), prod(x.shape[axis] for axis in axes)
    scale = arithmetic.sum_scale(x_by.scale, y_by.scale, count if kind == "mean" else 1)
    if count > MAX_CODES or not np.isfinite(scale):
        return None
    requantize = Requantize(np.array([scale], np.float32), y_by.zero_point, y.dtype.low, y.dtype.high)
    rank = len(x.shape)
    images = {tuple(range(2, rank)): Layout.CHANNELS_FIRST, tuple(range(1, rank - 1)): Layout.CHANNELS_LAST}
    layout = images.get(axes) if kind == "mean" and rank > 2 else None
    if layout is None:
        return Reduce(*source.called, x, y, kind, axes, requantize)
    x, y = replace(x, layout=layout), replace(y, layout=layout if len(y.shape) == rank else None)
    channel_axis = 1 if layout is Layout.CHANNELS_FIRST else rank - 1
    return GlobalAveragePool(*source.called, x, y, channel_axis, count, requantize)


def lower_arg_max(source: Source) -> Operator:
    """ArgMax and ArgMin of codes or float32 numbers, int64."""
    kind: Literal["max", "min"] = "max" if source.node.op_type == "ArgMax" else "min"
    takes_last = source.node.integer("select_last_index", 0) != 0
    return ArgMax(*source.called, _compared(source), source.result(), kind, source.axis(0), takes_last)


def lower_top_k(source: Source) -> tuple[Operator, ...]:
    """TopK of codes or float32 numbers: where they are, int64, and what is there.

    Behind DequantizeLinear the codes are compared, and only those that are found become numbers.
    """
    x, [values, places] = _compared(source), (*source.node.outputs, "")[:2]
    axis, shape = source.axis(-1), list(x.shape)
    shape[axis] = int(source.number(1)) if source.has(1) else source.node.integer("k", 0)
    found = source.result(index=1) if places else source.inner("places", DType.INT64, tuple(shape))
    top = TopK(*source.called, x, found, axis, source.node.integer("largest", 1) != 0)
    if not values:
        return (top,)
    if x.name == source.node.inputs[0]:
        return top, GatherElements(*source.called, x, found, source.result(), axis)
    taken = replace(x, name=source.inner("codes", x.dtype, tuple(shape)).name, shape=tuple(shape))
    gather = GatherElements(*source.called, x, found, taken, axis)
    return top, gather, Dequantize(*source.called, taken, source.result())


def _compared(source: Source) -> Tensor:
    """The first input, or its codes where larger ones are larger numbers: they are not where both are infinite."""
    codes = source.codes(0, *Q8)
    if codes is None:
        return source.tensor(0)
    by = quantization_of(codes)
    with np.errstate(over="ignore"):
        numbers = arithmetic.dequantize(np.arange(codes.dtype.low, codes.dtype.high + 1), by.scale, by.zero_point)
    return codes if (numbers[1:] > numbers[:-1]).all() else source.tensor(0)


# Softmax over any axis becomes one over the last.


def lower_softmax(source: Source) -> tuple[Operator, ...]:
    """Softmax of codes or float32 numbers, LogSoftmax of float32; before opset 13 all axes from one on are one.

    QLinearSoftmax says in its attribute opset which Softmax is meant.
    """
    name, op_type = source.called
    is_flat, is_log = source.node.integer("opset", source.node.version) < 13, op_type == "LogSoftmax"
    axis = source.node.integer("axis", 1 if is_flat and op_type != "QLinearSoftmax" else -1)
    ends = None if is_log else narrow_ends(source, 0)
    if ends is None:
        x, y = source.tensor(0), source.result()
        return _over_rows(source, x, y, axis, is_flat, lambda x, y: FloatSoftmax(name, op_type, x, y, is_log))
    x, before = of_type(source, ends[0], ends[1].dtype)
    x_scale, factor = quantization_of(x).scale, arithmetic.softmax_factor(quantization_of(ends[1]).scale)

    def rows(x: Tensor, y: Tensor) -> Operator:
        return Softmax(name, op_type, x, y, arithmetic.softmax_table(x_scale, x.shape[-1]), factor)

    return (*before, *_over_rows(source, x, ends[1], axis, is_flat, rows))


def _over_rows(
    source: Source, x: Tensor, y: Tensor, axis: int, is_flat: bool, rows: Callable[[Tensor, Tensor], Operator]
) -> tuple[Operator, ...]:
    """The operator on the last axis between what brings the axis to the end and what takes it back.

    ``is_flat``: all axes from ``axis`` on are one.
    """
    rank, called = len(x.shape), source.called
    axis %= rank
    if axis == rank - 1:
        return (rows(x, y),)
    perm = tuple(rank - 1 if i == axis else axis if i == rank - 1 else i for i in range(rank))
    shape = (prod(x.shape[:axis]), prod(x.shape[axis:])) if is_flat else tuple(x.shape[i] for i in perm)
    inside, result = source.reshaped("rows", x, shape), source.reshaped("result", y, shape)
    if is_flat:
        return (Reshape(*called, x, inside), rows(inside, result), Reshape(*called, result, y))
    return (Transpose(*called, x, inside, perm), rows(inside, result), Transpose(*called, result, y, perm))


# Normalizations over the last axes become such over the last one.

FEWEST, MOST = 8, 2**20 - 1
"""How many elements rows of codes have: onnxruntime computes shorter ones in another order."""

LARGEST = 2.0**30
"""Of codes, scales and epsilon lie between this and its reciprocal: then nothing leaves the normal float32 numbers."""


def lower_layer_norm(source: Source) -> tuple[Operator, ...]:
    """LayerNormalization of float32 numbers or of codes: (X, Scale, B); RMSNormalization of float32 numbers."""
    x, y, axis = source.codes(0, *Q8), source.quantized(*Q8), source.node.integer("axis", -1)
    is_joined, is_centered = False, source.node.op_type != "RMSNormalization"
    if (
        x is None
        or not is_centered
        or prod(x.shape[axis:]) < FEWEST
        or not _are_emulated(source, (x, y), x.shape[axis:])
    ):
        x, y, is_joined = source.tensor(0), source.result(), _is_joined(source.node, source.graph)
    y, row = y or source.result(), x.shape[axis:]
    scale, bias = _spread(source, 1, row), _spread(source, 2, row) if source.has(2) else None
    norm = LayerNorm(*source.called, x, y, scale, bias, source.real("epsilon", 1e-5), is_joined, is_centered)
    return _over_rows(source, x, y, axis, True, lambda x, y: replace(norm, x=x, y=y))


def _are_emulated(source: Source, codes: tuple[Tensor | None, ...], row: tuple[int, ...]) -> bool:
    """Whether normalizations of codes keep to the float32 arithmetic whose emulation has been checked."""
    epsilon = source.real("epsilon", 1e-5)
    sizes = [epsilon, *(tensor.scale for tensor in codes if tensor is not None and tensor.scale is not None)]
    numbers = [source.array(index) for index in (1, 2) if source.has(index)]
    is_in_range = all(1 / LARGEST <= size <= LARGEST for size in sizes)
    return is_in_range and prod(row) <= MOST and all(np.abs(each).max(initial=0) <= LARGEST for each in numbers)


def _is_joined(node: Node, graph: Graph) -> bool:
    """Whether onnxruntime joins the normalization to the sum of two tensors (N, rows, length) that it alone reads.

    Source: SkipLayerNormFusion, tried with 1.32.0.
    """
    x = node.input(0)
    if "Skip" in node.operator:
        return True
    maker = graph.producers.get(x)
    if maker is None or not maker.is_a("Add") or node.op_type != "LayerNormalization":
        return False
    if len(graph.readers[x]) > 1 or x in graph.outputs:
        return False
    shape, axis = graph.value(x).fixed_shape, node.attributes.get("axis", -1)
    terms = [graph.value(name).fixed_shape for name in maker.inputs]
    return shape is not None and len(shape) == 3 and axis in (-1, 2) and terms == [shape, shape]


def lower_instance_norm(source: Source) -> Operator:
    """InstanceNormalization of float32 numbers or of codes: (input, scale, B)."""
    x, y = source.codes(0, *Q8), source.quantized(*Q8)
    if x is None or y is None or not _are_emulated(source, (x, y), x.shape[2:]):
        x, y = source.tensor(0), source.result()
    x, y = (replace(tensor, layout=Layout.CHANNELS_FIRST) for tensor in (x, y))
    scale, bias = (source.array(index).astype(np.float32).reshape(-1) for index in (1, 2))
    return InstanceNorm(*source.called, x, y, scale, bias, source.real("epsilon", 1e-5))


def _spread(source: Source, index: int, row: tuple[int, ...]) -> Float32s:
    """A constant with an element for each of a row."""
    return np.array(np.broadcast_to(source.array(index), row), np.float32).reshape(-1)
