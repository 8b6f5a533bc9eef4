"""The geometry of sliding windows; where they begin behind the first elements of an image, it is cropped before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from qcgen.geometry import WindowAxis, window_of
from qcgen.ir.graph import Graph, Node, fresh
from qcgen.ir.program import AveragePool, Conv, ConvGeometry, MaxPool, Operator, Slice, Tensor
from qcgen.ir.types import Layout

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
