"""Convolutions in all their spellings become the one convolution of the Program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from qcgen.geometry import ACTIVATIONS, CONVOLUTIONS, WindowAxis, layout_of, window_of
from qcgen.intervals.windows import window_numbers, window_sums
from qcgen.ir.graph import Graph, Node, fresh
from qcgen.ir.program import (
    AveragePool,
    Conv,
    ConvGeometry,
    FloatActivation,
    MaxPool,
    Operator,
    RawAccumulator,
    Slice,
    Tensor,
    ZeroPointCorrection,
)
from qcgen.ir.types import Layout
from qcgen.lower.codes import ends_of, per_channel, place_of, product_of_codes
from qcgen.lower.source import Source, tensor_of

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
    return corrected(cropped(conv, axes, source.graph), None if is_known else source.node.inputs[2], source.graph)


def corrected(operators: tuple[Operator, ...], zero_point: str | None, graph: Graph) -> tuple[Operator, ...]:
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
    return cropped((product_of_codes(source, conv, ends, axis=0) if ends else None) or conv, axes, source.graph)


def conv_geometry(source: Source) -> tuple[ConvGeometry, tuple[WindowAxis, ...]]:
    """The geometry of any convolution."""
    spelling = CONVOLUTIONS[source.node.domain, source.node.op_type]
    w = source.tensor(place_of(source, 1)).shape
    x = source.tensor(0, layout=layout_of(source.node, spelling))
    return geometry_of(source.node, x, w[2:], source.integer("group", 1), w[0])


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
