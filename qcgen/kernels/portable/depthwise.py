"""portable/depthwise_nhwc and depthwise_nchw: one filter per channel, channel by channel or plane by plane."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context, Struct
from qcgen.ir.plan import C_BYTES
from qcgen.ir.program import Conv, Operator
from qcgen.ir.types import DType, Layout
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
from qcgen.kernels.text import counted
from qcgen.kernels.windows import (
    Axis,
    Images,
    OutputSteps,
    PlaneAxis,
    any_at_border,
    any_inside,
    axes,
    images,
    output_steps,
    plane_axes,
    spatial_struct,
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
class DepthwiseNhwcContext(Context):
    """A depthwise convolution, all channels of a pixel in one loop."""

    template: ClassVar[str] = "kernels/portable/depthwise_nhwc.c.jinja"

    conv: IntegerConv
    steps: OutputSteps
    images: Images
    layer: Struct
    add: str  # the library's function for a product
    guarded_count: int  # channels that have a guard band
    pixels: int  # of an output image
    has_border: bool  # some window reaches beyond the image
    has_inside: bool  # some window does not


@dataclass(frozen=True)
class DepthwiseNchwContext(Context):
    """A depthwise convolution, plane by plane."""

    template: ClassVar[str] = "kernels/portable/depthwise_nchw.c.jinja"

    conv: IntegerConv
    steps: OutputSteps
    weight_type: str  # of C
    cast: str  # before a tap, for products that need more than 16 bits
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
        conv=integer_conv(op, packed),
        steps=output_steps(g, setting.y_layout),
        images=images(g),
        layer=_layer(op, packed, spatial),
        add="add_next" if setting.target.is_small else "add",
        guarded_count=0 if setting.is_free else packed.epilogue.guarded.size,
        pixels=prod(g.output),
        has_border=has_border,
        has_inside=any_inside(spatial),
    )
    scratch = (Scratch(4 * g.out_channels, 4),) if packed.epilogue.output.is_guarded else ()
    constants += [*packed.constants(), *guarded_channels(packed.epilogue)]
    access = in_pixels(op, setting, blocks(prod(g.output), 1), gathers=False)
    folded = {
        "spatial_find": 1.0 + g.rank,
        "spatial_first": 1.0,
        "channelwise_sum": (3.5 if has_border else 3.8) * len(weights),
    }
    folded["channelwise_find"] = 1.0 + 12 * g.rank
    return Prepared(tuple(constants), context, scratch, packed.certificate, access=access, folded=folded)


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
        conv=integer_conv(op, packed),
        steps=output_steps(g, setting.y_layout),
        weight_type=packed.weights_type,
        # Products of bytes fit an int of 16 bits, too.
        cast="(int32_t)" if packed.weights_type == "int16_t" else "",
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


def _layer(op: Conv, packed: Packed, spatial: tuple[Axis, ...]) -> Struct:
    """What the library knows of filters and of the image with these axes."""
    windows = spatial_struct(spatial, {"planes": 1, "pixel": 1, "row": 1, "x_bytes": 1})
    numbers = {f"windows.{name}": value for name, value in windows.numbers.items()}
    numbers |= {"channels": op.geometry.in_channels, "taps": prod(op.geometry.kernel)}
    numbers |= {"weight_bytes": C_BYTES[packed.weights_type], "is_unsigned": int(op.x.dtype is DType.UINT8)}
    arrays = {f"windows.{name}": values for name, values in windows.arrays.items()}
    return Struct("channelwise", (), numbers, arrays=arrays)


DEPTHWISE_NHWC = Kernel("portable/depthwise_nhwc", DepthwiseNhwcContext, frozenset(), why_not_nhwc, prepare_nhwc)
DEPTHWISE_NCHW = Kernel("portable/depthwise_nchw", DepthwiseNchwContext, frozenset(), why_not_nchw, prepare_nchw)
