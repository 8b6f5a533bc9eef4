"""Convolutions in all their spellings become the one convolution of the Program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qcgen.arithmetic import requantization_scale
from qcgen.convolutions import ACTIVATIONS, CONVOLUTIONS, layout_of
from qcgen.geometry import WindowAxis
from qcgen.intervals.windows import window_numbers, window_sums
from qcgen.ir.graph import Graph, Node, fresh
from qcgen.ir.program import (
    Conv,
    ConvGeometry,
    FloatActivation,
    Operator,
    RawAccumulator,
    Requantize,
    ZeroPointCorrection,
)
from qcgen.ir.types import Layout
from qcgen.lower.codes import ends_of, per_channel, product_of_codes
from qcgen.lower.source import Source, tensor_of
from qcgen.lower.windows import cropped, geometry_of

# The functions below are for nodes that check has accepted: assertions, not problems.


def lower_qlinear_conv(node: Node, graph: Graph) -> tuple[Operator, ...]:
    """QLinearConv of any domain: (x, scale, zero point, w, scale, zero point, y_scale, y_zero_point, B)."""
    source, layout = Source(node, graph), _layout(node)
    geometry, axes = conv_geometry(source)
    x_by, y_by, channels = source.quantization(1, 2), source.quantization(6, 7), geometry.out_channels
    x, y = source.tensor(0, x_by, layout), source.result(y_by, layout)
    scale = requantization_scale(np.asarray(x_by.scale), per_channel(source.array(4), channels), np.asarray(y_by.scale))
    bias = source.array(8) if source.has(8) else np.zeros(channels, np.int32)
    zeros = per_channel(source.array(5).astype(np.int32), channels)
    epilogue = Requantize(scale, y_by.zero_point, y.dtype.low, y.dtype.high)
    called = (node.name, node.op_type)
    conv = Conv(*called, x, y, geometry, x_by.zero_point, source.array(3), zeros, bias, epilogue)
    return cropped(conv, axes, graph)


def lower_conv_integer(node: Node, graph: Graph) -> tuple[Operator, ...]:
    """ConvInteger: (x, w, x_zero_point, w_zero_point), the accumulators themselves."""
    source, layout = Source(node, graph), _layout(node)
    geometry, axes = conv_geometry(source)
    is_known, channels = not source.has(2) or source.is_constant(2), geometry.out_channels
    zero = int(source.number(2, 0)) if is_known else 0
    x = replace(source.tensor(0, layout=layout), zero_point=zero if is_known else None)
    zeros = per_channel(source.array(3) if source.has(3) else np.zeros(1), channels).astype(np.int32)
    numbers = (geometry, zero, source.array(1), zeros, np.zeros(channels, np.int32))
    conv = Conv(node.name, node.op_type, x, source.result(layout=layout), *numbers, RawAccumulator())
    return corrected(cropped(conv, axes, graph), None if is_known else node.inputs[2], graph)


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


def lower_float_conv(node: Node, graph: Graph) -> tuple[Operator, ...]:
    """Float convolutions: Conv, FusedConv and NhwcFusedConv, (X, W, B); Conv also of codes."""
    source, layout = Source(node, graph), _layout(node)
    geometry, axes = conv_geometry(source)
    x, y = source.tensor(0, layout=layout), source.result(layout=layout)
    none = np.zeros(geometry.out_channels, np.int32)
    bias = source.array(2) if source.has(2) else none.astype(x.dtype.numpy)
    conv = Conv(node.name, node.op_type, x, y, geometry, 0, source.array(1), none, bias, _activation(node))
    ends = ends_of(source, 0) if (node.domain, node.op_type) == ("", "Conv") else None
    return cropped((product_of_codes(source, conv, ends, axis=0) if ends else None) or conv, axes, graph)


def conv_geometry(source: Source) -> tuple[ConvGeometry, tuple[WindowAxis, ...]]:
    """The geometry of any convolution."""
    spelling = CONVOLUTIONS[source.node.domain, source.node.op_type]
    w = source.tensor([role.lower() for role in spelling.inputs].index("w")).shape
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
