"""Convolutions in all their spellings become the one convolution of the Program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qcgen.arithmetic import requantization_scale
from qcgen.convolutions import ACTIVATIONS, CONVOLUTIONS, ConvSpelling, constant_operand, layout_of, operand
from qcgen.geometry import WindowAxis, window_of
from qcgen.intervals.windows import window_numbers, window_sums
from qcgen.ir.graph import Graph, Node, fresh
from qcgen.ir.program import (
    Conv,
    ConvGeometry,
    FloatActivation,
    Operator,
    RawAccumulator,
    Requantize,
    Tensor,
    ZeroPointCorrection,
)
from qcgen.ir.types import Array, DType, Layout
from qcgen.lower.codes import ends_of, product_of_codes
from qcgen.lower.crop import cropped
from qcgen.lower.source import Source, tensor_of

# The functions below are for nodes that check has accepted: assertions, not problems.


def lower_qlinear_conv(node: Node, graph: Graph) -> tuple[Operator, ...]:
    """QLinearConv of any domain."""
    source = _Source(node, graph)
    channels = source.geometry.out_channels
    x_scale, y_scale = (np.float32(source.constant(role).reshape(())) for role in ("x_scale", "y_scale"))
    w_scale = _per_channel(source.constant("w_scale"), channels)
    y_zero_point = source.constant("y_zero_point")
    y_type = DType.of(y_zero_point)
    conv = Conv(
        name=node.name,
        op_type=node.op_type,
        x=source.x(scale=float(x_scale), zero_point=source.scalar("x_zero_point")),
        y=source.y(y_type, scale=float(y_scale), zero_point=int(y_zero_point.reshape(()))),
        geometry=source.geometry,
        x_zero_point=source.scalar("x_zero_point"),
        weights=source.constant("w"),
        w_zero_point=source.w_zero_point(),
        bias=source.bias(np.dtype(np.int32)),
        epilogue=Requantize(
            scale=requantization_scale(np.asarray(x_scale), w_scale, np.asarray(y_scale)),
            zero_point=int(y_zero_point.reshape(())),
            low=y_type.low,
            high=y_type.high,
        ),
    )
    return cropped(conv, source.axes, graph)


def lower_conv_integer(node: Node, graph: Graph) -> tuple[Operator, ...]:
    """ConvInteger: the accumulators themselves."""
    source = _Source(node, graph)
    zero_point = operand(node, source.spelling, "x_zero_point")
    is_known = not zero_point or zero_point in graph.constants
    zero = source.scalar("x_zero_point") if is_known else 0
    conv = Conv(
        name=node.name,
        op_type=node.op_type,
        x=source.x(zero_point=zero if is_known else None),
        y=source.y(DType.INT32),
        geometry=source.geometry,
        x_zero_point=zero,
        weights=source.constant("w"),
        w_zero_point=source.w_zero_point(),
        bias=np.zeros(source.geometry.out_channels, np.int32),
        epilogue=RawAccumulator(),
    )
    return corrected(cropped(conv, source.axes, graph), None if is_known else zero_point, graph)


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
    """Float convolutions: Conv, FusedConv and NhwcFusedConv; Conv also of codes."""
    source, plain = _Source(node, graph), Source(node, graph)
    x = source.x()
    conv = Conv(
        name=node.name,
        op_type=node.op_type,
        x=x,
        y=source.y(x.dtype),
        geometry=source.geometry,
        x_zero_point=0,
        weights=source.constant("w"),
        w_zero_point=np.zeros(source.geometry.out_channels, np.int32),
        bias=source.bias(x.dtype.numpy),
        epilogue=_activation(node),
    )
    if (node.domain, node.op_type) == ("", "Conv"):
        ends = ends_of(plain, 0)
        conv = (product_of_codes(plain, conv, ends, axis=0) if ends else None) or conv
    return cropped(conv, source.axes, graph)


def conv_geometry(node: Node, graph: Graph) -> tuple[ConvGeometry, tuple[WindowAxis, ...]]:
    """The explicit geometry of any convolution: attributes resolved, channels and images separated; and its axes."""
    spelling = CONVOLUTIONS[node.domain, node.op_type]
    x = graph.value(operand(node, spelling, "x")).fixed_shape
    w = graph.value(operand(node, spelling, "w")).fixed_shape
    assert x is not None, f"the shape of x of {node.name!r} is not known"
    assert w is not None, f"the shape of w of {node.name!r} is not known"
    last = layout_of(node, spelling) is Layout.CHANNELS_LAST
    image = x[1:-1] if last else x[2:]
    window = window_of(node, w[2:])
    assert window.why_not() is None, window.why_not()
    axes = tuple(window.axis(index, size) for index, size in enumerate(image))
    group = node.attributes.get("group", 1)
    assert isinstance(group, int), "group is not an integer"
    geometry = ConvGeometry(
        batch=x[0],
        group=group,
        in_channels=x[-1] if last else x[1],
        out_channels=w[0],
        input=image,
        kernel=w[2:],
        strides=tuple(axis.stride for axis in axes),
        dilations=window.dilations,
        pads_begin=tuple(axis.pad_begin for axis in axes),
        pads_end=tuple(axis.pad_end for axis in axes),
        output=tuple(axis.output for axis in axes),
    )
    return geometry, axes


class _Source:
    """A convolution node with its operands by role; absent ones have become their defaults."""

    def __init__(self, node: Node, graph: Graph) -> None:
        self.node = node
        self.graph = graph
        self.spelling: ConvSpelling = CONVOLUTIONS[node.domain, node.op_type]
        self.geometry, self.axes = conv_geometry(node, graph)

    def constant(self, role: str) -> Array:
        """The elements of an operand that must be there."""
        array = constant_operand(self.graph, self.node, self.spelling, role)
        assert array is not None, f"{role} of {self.node.name!r} is not a constant"
        return array

    def scalar(self, role: str) -> int:
        """A zero point of one element, 0 if it is absent."""
        array = constant_operand(self.graph, self.node, self.spelling, role)
        return 0 if array is None else int(array.reshape(()))

    def w_zero_point(self) -> Array:
        """(M,) int32, one for each output channel."""
        array = constant_operand(self.graph, self.node, self.spelling, "w_zero_point")
        zero = np.zeros((), np.int32) if array is None else array.astype(np.int32)
        return _per_channel(zero, self.geometry.out_channels)

    def bias(self, dtype: np.dtype[np.generic]) -> Array:
        """(M,), zeros if it is absent."""
        array = constant_operand(self.graph, self.node, self.spelling, "B")
        return np.zeros(self.geometry.out_channels, dtype) if array is None else array

    def x(self, scale: float | None = None, zero_point: int | None = None) -> Tensor:
        """The image that comes in."""
        value = self.graph.value(operand(self.node, self.spelling, "x"))
        assert value.dtype is not None, f"the type of {value.name!r} is not known"
        assert value.fixed_shape is not None, f"the shape of {value.name!r} is not known"
        return Tensor(value.name, value.dtype, value.fixed_shape, self._layout, scale, zero_point)

    def y(self, dtype: DType, scale: float | None = None, zero_point: int | None = None) -> Tensor:
        """The image that goes out."""
        g = self.geometry
        last = self._layout is Layout.CHANNELS_LAST
        shape = (g.batch, *g.output, g.out_channels) if last else (g.batch, g.out_channels, *g.output)
        return Tensor(self.node.outputs[0], dtype, shape, self._layout, scale, zero_point)

    @property
    def _layout(self) -> Layout:
        return layout_of(self.node, self.spelling)


def _per_channel(array: Array, channels: int) -> Array:
    """A scalar, a vector of one element or one of each channel, as (M,)."""
    return np.array(np.broadcast_to(array.reshape(-1), (channels,)))


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
