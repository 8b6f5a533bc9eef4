"""portable/depthwise_nhwc and depthwise_nchw: one filter per channel, channel by channel or plane by plane."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from qcgen.ir.program import Conv, ConvGeometry, Operator
from qcgen.ir.types import Layout
from qcgen.kernels.axes import INDENT, Axis, axes
from qcgen.kernels.cost import Estimate
from qcgen.kernels.epilogue import guarded_channels
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.packing import Packed, pack
from qcgen.kernels.portable.cost import depthwise_nchw_terms, depthwise_nhwc_terms
from qcgen.kernels.portable.figures import FIGURES
from qcgen.kernels.portable.window_sums import describe, why_no_integer_conv

MAX_TAPS = 64  # written out one by one; larger kernels are rare and served by portable/conv


@dataclass(frozen=True)
class Tap:
    """Where a tap lies in a window, in rows and elements of the plane."""

    y: int
    x: int


@dataclass(frozen=True)
class PixelTap:
    """Where a tap lies in a window of a channels-last image: a C expression that a channel is added to."""

    offset: str


@dataclass(frozen=True)
class PlaneAxis:
    """One axis of a channel's plane, padded to ``plane`` elements; ``copied`` of the image's are reached."""

    input: int
    output: int
    stride: int
    pad: int
    plane: int
    copied: int


def _why_not(op: Operator, setting: Setting) -> str | None:
    reason = why_no_integer_conv(op)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    g = op.geometry
    if not g.group == g.in_channels == g.out_channels:
        return f"not depthwise: {g.group} groups, {g.in_channels} input and {g.out_channels} output channels"
    if prod(g.kernel) > MAX_TAPS:
        return f"{prod(g.kernel)} taps are more than the {MAX_TAPS} that are written out"
    if pack(op, setting.features, 0, whole_weights=True).wraps:
        return "its sums may leave int32"
    return None


def why_not_nhwc(op: Operator, setting: Setting) -> str | None:
    """Serves depthwise convolutions of channels-last images."""
    if setting.x_layout is not Layout.CHANNELS_LAST:
        return "the channels of a pixel do not lie side by side"
    return _why_not(op, setting)


def why_not_nchw(op: Operator, setting: Setting) -> str | None:
    """Serves depthwise convolutions of channels-first images of one or two axes."""
    if setting.x_layout is not Layout.CHANNELS_FIRST:
        return "the pixels of a channel do not lie side by side"
    if isinstance(op, Conv) and op.geometry.rank > 2:
        return f"the image has {op.geometry.rank} axes"
    return _why_not(op, setting)


def prepare_nhwc(op: Operator, setting: Setting) -> Prepared:
    """Weights [taps][channels]; padding is a pixel of zero points."""
    assert isinstance(op, Conv)
    g = op.geometry
    packed = pack(op, setting.features, 0, whole_weights=True)
    spatial = axes(g, setting.x_layout)
    has_border = any(axis.inside_begin > 0 or axis.inside_end < axis.output for axis in spatial)
    weights = packed.weights.T
    meaning = f"weights [{len(weights)} taps][{g.out_channels} channels]{packed.weights_remark}."
    constants = [Constants("weights", _weight_type(packed), weights, meaning)]
    if has_border:
        values = np.full(g.in_channels, op.x_zero_point)
        constants.append(Constants("padding", op.x.dtype.c, values, "a pixel outside the image."))
    context = _context(op, packed, setting) | {
        "taps": _pixel_taps(spatial),
        "guarded": packed.epilogue.guarded.size,
        "pixels": prod(g.output),
        "axes": spatial,
        "axes_indent": spatial[-1].indent + INDENT,
        "has_border": has_border,
        "has_inside": all(axis.inside_begin < axis.inside_end for axis in spatial),
        "x_image": g.in_channels * prod(g.input),
    }
    scratch = (Scratch(4 * g.out_channels, 4),) if packed.epilogue.output.is_guarded else ()
    constants += [*packed.constants(), *guarded_channels(packed.epilogue)]
    return Prepared(tuple(constants), context, scratch, packed.support, packed.certificate)


def _pixel_taps(spatial: tuple[Axis, ...]) -> tuple[PixelTap, ...]:
    """The taps of a window in the order of the weights."""
    taps = []
    for place in product(*(range(axis.kernel) for axis in spatial)):
        steps = [f"{k} * STEP_{axis.label} + " for k, axis in zip(place, spatial, strict=True) if k]
        taps.append(PixelTap("".join(steps)))
    return tuple(taps)


def prepare_nchw(op: Operator, setting: Setting) -> Prepared:
    """Weights [channels][taps]; the windows walk over one channel's plane."""
    assert isinstance(op, Conv)
    g = op.geometry
    packed = pack(op, setting.features, 0, whole_weights=True)
    height, width = _plane_axes(g)
    is_copied = (height.plane, width.plane) != (height.input, width.input) or g.is_padded
    dilations = (1, *g.dilations) if g.rank == 1 else g.dilations
    kernel = (1, *g.kernel) if g.rank == 1 else g.kernel
    taps = [Tap(y * dilations[0], x * dilations[1]) for y, x in product(range(kernel[0]), range(kernel[1]))]
    meaning = f"weights [{g.out_channels} channels][{len(taps)} taps]{packed.weights_remark}."
    context = _context(op, packed, setting) | {
        "taps": taps,
        "height": height,
        "width": width,
        "is_copied": is_copied,
        "padding": op.x_zero_point,
        "in_pixels": prod(g.input),
        "uses_string": is_copied,
    }
    scratch = [Scratch(height.plane * width.plane, 1)] if is_copied else []
    if packed.epilogue.output.is_guarded:
        scratch.append(Scratch(4 * width.output, 4))
    weights = Constants("weights", _weight_type(packed), packed.weights, meaning)
    return Prepared((weights, *packed.constants()), context, tuple(scratch), packed.support, packed.certificate)


def _plane_axes(g: ConvGeometry) -> tuple[PlaneAxis, PlaneAxis]:
    found = []
    for size, out, k, s, d, pad in zip(g.input, g.output, g.kernel, g.strides, g.dilations, g.pads_begin, strict=True):
        plane = (out - 1) * s + (k - 1) * d + 1
        # Without padding the plane is the image itself, read where it is, so rows keep their length.
        plane = plane if g.is_padded else size
        found.append(PlaneAxis(size, out, s, pad, plane, min(size, max(plane - pad, 0))))
    return (PlaneAxis(1, 1, 1, 0, 1, 1), found[0]) if len(found) == 1 else (found[0], found[1])


def _weight_type(packed: Packed) -> str:
    """int16 where weights less their zero point need it: a depthwise kernel has few of them."""
    return "int8_t" if packed.weights.min() >= -128 and packed.weights.max() <= 127 else "int16_t"


def _context(op: Conv, packed: Packed, setting: Setting) -> dict[str, object]:
    g, output = op.geometry, packed.epilogue.output
    pixels = prod(g.output)
    is_last = setting.y_layout is Layout.CHANNELS_LAST
    return {
        "g": g,
        "description": describe(op),
        "x_type": op.x.dtype.c,
        "y_type": op.y.dtype.c,
        "weight_type": _weight_type(packed),
        # Products of bytes fit an int of 16 bits, too.
        "cast": "(int32_t)" if _weight_type(packed) == "int16_t" else "",
        "output": output,
        "y_image": g.out_channels * pixels,
        "y_pixel": g.out_channels if is_last else 1,
        "y_channel": 1 if is_last else pixels,
    }


_NHWC, _NCHW = "kernels/portable/depthwise_nhwc.c.jinja", "kernels/portable/depthwise_nchw.c.jinja"
DEPTHWISE_NHWC_COST = Estimate(prepare_nhwc, depthwise_nhwc_terms, FIGURES["portable/depthwise_nhwc"])
DEPTHWISE_NHWC = Kernel("portable/depthwise_nhwc", _NHWC, frozenset(), why_not_nhwc, prepare_nhwc, DEPTHWISE_NHWC_COST)
DEPTHWISE_NCHW_COST = Estimate(prepare_nchw, depthwise_nchw_terms, FIGURES["portable/depthwise_nchw"])
DEPTHWISE_NCHW = Kernel("portable/depthwise_nchw", _NCHW, frozenset(), why_not_nchw, prepare_nchw, DEPTHWISE_NCHW_COST)
