"""Poolings: windows, and means of whole images."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from qcgen import arithmetic
from qcgen.arithmetic import exact_multiplier
from qcgen.geometry import NHWC_DOMAIN, WindowAxis, layout_of_pool
from qcgen.ir.program import (
    AveragePool,
    ConvGeometry,
    GlobalAveragePool,
    MaxPool,
    Operator,
    Pad,
    Requantize,
    RoundOnce,
    Tensor,
)
from qcgen.ir.types import Layout
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
    is_dilated = set(source.attribute_integers("dilations") or ()) - {1}
    ends = None if node.domain == NHWC_DOMAIN or is_dilated else narrow_ends(source, 0)
    if ends is not None:
        x, y = (replace(tensor, layout=x.layout) for tensor in ends)
        x, before = of_type(source, x, y.dtype)
        g, _ = pool_geometry(source, x)
        is_whole = g.kernel == g.input and not g.is_padded
        return (*before, *((_mean_of_codes(source, x, y),) if is_whole else _average(source, x, y)))
    if source.integer("ceil_mode", 0) and source.integer("count_include_pad", 0):
        is_same = source.text("auto_pad", "NOTSET").startswith("SAME")  # whose windows stay within the padded image
        return _average(source, x, y) if is_same else _average_of_padded(source, x, y)
    if node.domain or node.version >= 19:
        return _average(source, x, y)
    g, _ = pool_geometry(source, x)
    in_blocks, strides = (
        node.outputs[0] in source.graph.in_blocks,
        source.attribute_integers("strides") or (1,) * g.rank,
    )
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
    counts_padding = source.integer("count_include_pad", 0) != 0
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
    kernel, channels = source.attribute_integers("kernel_shape"), channels_of(x)
    assert kernel is not None, "a pooling has a kernel_shape"
    return geometry_of(source.node, x, kernel, channels, channels)
