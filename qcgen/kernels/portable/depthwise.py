"""portable/depthwise_nhwc and depthwise_nchw: one filter per channel, channel by channel or plane by plane."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context
from qcgen.ir.program import Conv, Operator
from qcgen.ir.types import Layout
from qcgen.kernels.access import blocks, in_pixels
from qcgen.kernels.epilogue import guarded_channels
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.packing import IntegerConv, Packed, integer_conv, pack
from qcgen.kernels.reasons import (
    why_axes,
    why_channels_apart,
    why_not_depthwise,
    why_not_integer_conv,
    why_taps,
    why_wraps,
)
from qcgen.kernels.text import INDENT, counted
from qcgen.kernels.windows import (
    Axis,
    Images,
    OutputSteps,
    PlaneAxis,
    any_at_border,
    any_inside,
    axes,
    images,
    inside_numbers,
    output_numbers,
    output_steps,
    plane_axes,
)

MAX_TAPS = 64  # written out one by one; larger kernels are rare and served by portable/conv

MAX_PRODUCTS = 64  # of a block of windows, written out


@dataclass(frozen=True)
class Tap:
    """Where a tap lies in a window, in rows and elements of the plane; ``number`` is that of its weight."""

    number: int
    y: int
    x: int


@dataclass(frozen=True)
class PixelTap:
    """Where a tap lies in a window of a channels-last image: a C expression that a channel is added to."""

    offset: str


@dataclass(frozen=True)
class Filters(Context):
    """What the templates of both kernels use."""

    conv: IntegerConv
    steps: OutputSteps
    weight_type: str  # of C
    cast: str  # before a tap, for products that need more than 16 bits


@dataclass(frozen=True)
class DepthwiseNhwcContext(Context):
    """A depthwise convolution, all channels of a pixel in one loop."""

    template: ClassVar[str] = "kernels/portable/depthwise_nhwc.c.jinja"

    filters: Filters
    images: Images
    taps: tuple[PixelTap, ...]  # of a window, in the order of the weights
    guarded_count: int  # channels that have a guard band; of no meaning where it is a number of the block
    pixels: int  # of an output image
    tap_steps: str  # enumerators: the distances between taps
    output_numbers: tuple[str, ...]  # lines of enumerators: see axes.output_numbers
    inside_numbers: tuple[str, ...]  # and axes.inside_numbers
    axes: tuple[Axis, ...]  # the spatial ones, outermost first
    axes_indent: str  # within loops over all of them
    has_border: bool  # some window reaches beyond the image
    has_inside: bool  # some window does not


@dataclass(frozen=True)
class DepthwiseNchwContext(Context):
    """A depthwise convolution, plane by plane."""

    template: ClassVar[str] = "kernels/portable/depthwise_nchw.c.jinja"

    filters: Filters
    y_image: int  # from one image to the next, in elements
    taps: tuple[Tap, ...]  # of a window, in the order of the weights
    height: PlaneAxis
    width: PlaneAxis
    plane_height: int  # rows of the plane that windows reach
    plane_width: int  # columns of it
    is_copied: bool  # it is a copy of the channel with padding around
    padding: int  # the element that stands there
    in_pixels: int  # of a channel of x
    lanes: range  # windows of a row that share each weight that is read
    block_text: str  # the same in words
    is_blocked: bool  # they are summed by a function of their own
    has_overlap: bool  # they do not divide the row: the last ones end with it
    tests_each: bool  # channels with a guard band requantize each sum exactly
    keeps_sums: bool  # the same, after a whole row of sums


def _why_not(op: Operator, setting: Setting) -> str | None:
    reason = why_not_integer_conv(op)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    g = op.geometry
    too_wide = why_not_depthwise(g) or why_taps(prod(g.kernel), MAX_TAPS)
    return too_wide or why_wraps(pack(op, setting, 0, whole_weights=True))


def why_not_nhwc(op: Operator, setting: Setting) -> str | None:
    """Serves depthwise convolutions of channels-last images."""
    return why_channels_apart(setting.x_layout) or _why_not(op, setting)


def why_not_nchw(op: Operator, setting: Setting) -> str | None:
    """Serves depthwise convolutions of channels-first images of one or two axes."""
    if setting.x_layout is not Layout.CHANNELS_FIRST:
        return "the pixels of a channel do not lie side by side"
    return (why_axes(op.geometry) if isinstance(op, Conv) else None) or _why_not(op, setting)


def prepare_nhwc(op: Operator, setting: Setting) -> Prepared:
    """Weights [taps][channels]; padding is a pixel of zero points."""
    assert isinstance(op, Conv)
    g = op.geometry
    packed = pack(op, setting, 0, whole_weights=True)
    spatial = axes(g, setting.x_layout)
    has_border = any_at_border(spatial)
    weights = packed.weights.T
    meaning = f"weights {counted(len(weights), 'tap')}{counted(g.out_channels, 'channel')}{packed.weights_remark}."
    constants = [Constants("weights", packed.weights_type, weights, meaning)]
    if has_border:
        values = np.full(g.in_channels, op.x_zero_point)
        constants.append(Constants("padding", op.x.dtype.c, values, "a pixel outside the image."))
    context = DepthwiseNhwcContext(
        filters=_filters(op, packed, setting),
        images=images(g),
        taps=_pixel_taps(spatial),
        guarded_count=0 if setting.is_free else packed.epilogue.guarded.size,
        pixels=prod(g.output),
        tap_steps=", ".join(f"TAP_STEP_{axis.label} = {axis.tap_step}" for axis in spatial if axis.kernel > 1),
        output_numbers=output_numbers(spatial),
        inside_numbers=inside_numbers(spatial),
        axes=spatial,
        axes_indent=spatial[-1].indent + INDENT,
        has_border=has_border,
        has_inside=any_inside(spatial),
    )
    scratch = (Scratch(4 * g.out_channels, 4),) if packed.epilogue.output.is_guarded else ()
    constants += [*packed.constants(), *guarded_channels(packed.epilogue)]
    access = in_pixels(op, setting, blocks(prod(g.output), 1), gathers=False)
    return Prepared(tuple(constants), context, scratch, packed.certificate, access=access)


def _pixel_taps(spatial: tuple[Axis, ...]) -> tuple[PixelTap, ...]:
    """The taps of a window in the order of the weights."""
    taps = []
    for place in product(*(range(axis.kernel) for axis in spatial)):
        steps = [
            f"{'' if k == 1 else f'{k} * '}TAP_STEP_{axis.label} + "
            for k, axis in zip(place, spatial, strict=True)
            if k
        ]
        taps.append(PixelTap("".join(steps)))
    return tuple(taps)


def prepare_nchw(op: Operator, setting: Setting) -> Prepared:
    """Weights [channels][taps]; the windows lie in one channel's plane."""
    assert isinstance(op, Conv)
    g = op.geometry
    packed = pack(op, setting, 0, whole_weights=True)
    height, width = plane_axes(g)
    # Without padding the plane is the image itself, read where it is, so rows keep their length.
    rows, columns = (height.reached, width.reached) if g.is_padded else (height.input, width.input)
    places = product(range(height.kernel), range(width.kernel))
    taps = tuple(Tap(number, y * height.dilation, x * width.dilation) for number, (y, x) in enumerate(places))
    block, is_guarded = _row_block(width.output, len(taps), setting), packed.epilogue.output.is_guarded
    meaning = f"weights {counted(g.out_channels, 'channel')}{counted(len(taps), 'tap')}{packed.weights_remark}."
    context = DepthwiseNchwContext(
        filters=_filters(op, packed, setting),
        y_image=images(g).y_image,
        taps=taps,
        height=height,
        width=width,
        plane_height=rows,
        plane_width=columns,
        is_copied=g.is_padded,
        padding=op.x_zero_point,
        in_pixels=prod(g.input),
        lanes=range(block),
        block_text=f"{block} windows" if block > 1 else "one window",
        is_blocked=is_blocked(setting),
        has_overlap=width.output % block != 0,
        tests_each=is_guarded and is_blocked(setting),
        keeps_sums=is_guarded and not is_blocked(setting),
    )
    scratch = [Scratch(rows * columns, 1)] if g.is_padded else []
    if context.keeps_sums:
        scratch.append(Scratch(4 * width.output, 4))
    weights = Constants("weights", packed.weights_type, packed.weights, meaning)
    constants = (weights, *packed.constants())
    return Prepared(constants, context, tuple(scratch), packed.certificate)


def is_blocked(setting: Setting) -> bool:
    """Whether windows are summed two or three at a time, not as many as the compiler has vectors for."""
    return setting.target.is_small


def _row_block(width: int, taps: int, setting: Setting) -> int:
    """How many windows of a row share each weight that is read: what takes the fewest instructions, about."""
    if not is_blocked(setting):
        return 1
    fitting = [block for block in range(1, min(width, 8) + 1) if block == 1 or block * taps <= MAX_PRODUCTS]

    def rough_cost(block: int) -> int:
        spilled = max(0, block - 3) * taps
        return -(-width // block) * (block * (2 * taps + 8) + taps + 8 + spilled)

    return min(fitting, key=rough_cost)


def _filters(op: Conv, packed: Packed, setting: Setting) -> Filters:
    return Filters(
        conv=integer_conv(op, packed),
        steps=output_steps(op.geometry, setting.y_layout),
        weight_type=packed.weights_type,
        # Products of bytes fit an int of 16 bits, too.
        cast="(int32_t)" if packed.weights_type == "int16_t" else "",
    )


DEPTHWISE_NHWC = Kernel("portable/depthwise_nhwc", DepthwiseNhwcContext, frozenset(), why_not_nhwc, prepare_nhwc)
DEPTHWISE_NCHW = Kernel("portable/depthwise_nchw", DepthwiseNchwContext, frozenset(), why_not_nchw, prepare_nchw)
