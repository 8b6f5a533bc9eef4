"""arm_dsp/short_window: convolutions of windows so short that the pairs of two of them stay in registers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context
from qcgen.ir.program import Conv, ConvGeometry, Int64s, Operator
from qcgen.kernels.access import blocks, in_pixels
from qcgen.kernels.arm_dsp.conv import passes_by_two
from qcgen.kernels.arm_dsp.output import (
    Outputs,
    bias_text,
    certified,
    dsp_output,
    output_tail,
    pack_finely,
    parameter_text,
    times,
)
from qcgen.kernels.arm_dsp.segment import Tail
from qcgen.kernels.arm_dsp.weights import pack_weights
from qcgen.kernels.arm_dsp.window import ZERO, window
from qcgen.kernels.epilogue import Output
from qcgen.kernels.fast_output import FastOutput, parameter
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Setting
from qcgen.kernels.packing import Packed, pack
from qcgen.kernels.reasons import why_not_plain
from qcgen.kernels.text import Described, Unrolled, described, unrolled, x_kind
from qcgen.kernels.windows import Axis, Images, any_at_border, axes, images

MAX_ELEMENTS = 8  # of a window: the pairs of two are then eight words, and six registers are left
KEPT_PAIRS = {"size": 2, "speed": 3}
"""Of a window, besides which there is a register for a number that all channels share; unpacked weights take one."""
APART_CHANNELS = 3
"""From which a function of its own pays where the pairs take all registers: the loop around it then has its own."""
MAX_UNROLL = {"size": 8, "speed": 16}  # channels written out one after the other, of 22 instructions each
CHANNEL_BYTES = 80  # those instructions


@dataclass(frozen=True)
class PixelLoops(Context):
    """The loops over the pixels, two at a time, and through the channels."""

    images: Images
    channel_loop: Unrolled  # the loop over the output channels
    axes: tuple[Axis, ...]  # the spatial ones, outermost first
    is_positioned: bool  # windows do not follow each other pixel by pixel
    pixels: int  # of an output image
    overlaps: bool  # they are odd in number: the last two compute one a second time
    is_split: bool  # there are several images


@dataclass(frozen=True)
class ShortWindowContext(Context):
    """A convolution of windows of up to eight elements."""

    template: ClassVar[str] = "kernels/arm_dsp/short_window.c.jinja"

    conv: Described
    loops: PixelLoops
    x_kind: str  # how the names of instructions end that read x
    y: Outputs
    output: Output
    dsp: FastOutput
    pairs: int  # of a window
    weight_bits: int  # 8 or 16
    words: int  # constants of a channel; of its own
    multiplier_at: int  # there is a multiplier,
    offset_at: int  # and an offset
    is_outlined: bool  # a function of its own computes two pixels
    copied_words: int  # constants that are copied to scratch memory first


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves windows of up to eight elements side by side, wholly on the image."""
    reason = why_not_plain(op, setting)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    g = op.geometry
    if g.taps > MAX_ELEMENTS:
        return f"a window has {g.taps} elements, more than the {MAX_ELEMENTS} that stay in registers"
    if prod(g.kernel[:-1]) > 1 or g.dilations[-1] > 1:
        return "the elements of a window do not lie side by side"
    if any_at_border(axes(g, setting.x_layout)):
        return "windows leave the image"
    if prod(g.output) == 1:
        return "there is one output pixel, and two are computed at a time"
    dsp = dsp_output(op, _pack(op, setting))
    if not dsp.is_fast or dsp.has_windows:
        return "some output step needs more than a multiplication and a saturation"
    return None


def _pack(op: Conv, setting: Setting) -> Packed:
    """Weights as int8 or, as words of two, times 2^bits."""
    return pack_finely(op, setting, 0) if setting.optimize == "speed" else pack(op, setting, 0)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """The constants of all channels as one stream of words, in the order in which they are loaded two by two."""
    assert isinstance(op, Conv)
    g = op.geometry
    packed = _pack(op, setting)
    is_wide = setting.optimize == "speed"
    planned = window(g, setting.x_layout, has_border=False)
    order = planned.order[: -2 if planned.has_zero_pair else None]
    pairs = order.size // 2
    output, tail = packed.epilogue.output, output_tail(packed)
    if output.offset != 0 and pairs > KEPT_PAIRS[setting.optimize]:
        # No register is left for an offset that all channels share: it comes with each channel's constants.
        output, tail = replace(output, offset=None), replace(tail, offset=parameter(packed, "offset"))
    multiplier_at = 1 + (pairs if is_wide else -(-pairs // 2))
    offset_at = multiplier_at + tail.has_multipliers
    constants = _constants(packed, order if is_wide else planned.order, tail, is_wide=is_wide)
    context = ShortWindowContext(
        conv=described(op),
        loops=_pixel_loops(g, setting),
        x_kind=x_kind(op),
        y=Outputs(op.y.dtype.c, 1, g.out_channels),
        output=output,
        dsp=dsp_output(op, packed),
        pairs=pairs,
        weight_bits=16 if is_wide else 8,
        words=offset_at + tail.has_offsets,
        multiplier_at=multiplier_at,
        offset_at=offset_at,
        is_outlined=g.batch > 1 or (pairs > KEPT_PAIRS[setting.optimize] and g.out_channels >= APART_CHANNELS),
        copied_words=0,
    )
    access = in_pixels(op, setting, blocks(prod(g.output), 2), gathers=True)
    return Prepared(
        (constants,),
        context,
        (),
        certified(op, packed),
        access=access,
        passes=passes_by_two(g),
        copying=replace(context, copied_words=constants.values.size),
        folded=_operations(context),
    )


def _operations(context: ShortWindowContext) -> dict[str, float]:
    """Instructions, about, of what is written out: the channels of both places that have some, and a window's pairs."""
    loop = context.loops.channel_loop
    written, places = loop.unroll + loop.rest, 2 if loop.count > 1 and loop.rest else 1
    channel = 8 + 4.3 * context.pairs + (5 if context.weight_bits == 8 else 0)
    return {"channel": channel * written / places, "dsp_widen_short": 3.0 * context.pairs}


def _pixel_loops(g: ConvGeometry, setting: Setting) -> PixelLoops:
    most = min(MAX_UNROLL[setting.optimize], setting.target.loop_bytes // CHANNEL_BYTES)
    pixels = prod(g.output)
    return PixelLoops(
        images=images(g),
        channel_loop=unrolled(g.out_channels, most, most),
        axes=axes(g, setting.x_layout),
        is_positioned=set(g.strides) != {1} or g.kernel[-1] > 1,
        pixels=pixels,
        overlaps=pixels % 2 == 1,
        is_split=g.batch > 1,
    )


def _constants(packed: Packed, order: Int64s, tail: Tail, *, is_wide: bool) -> Constants:
    channels = packed.bias.size
    slots = np.where(order == ZERO, 0, packed.weights[:, order])
    weights = pack_weights(slots[:, None, :], "int16" if is_wide else "bytes")
    words = np.concatenate([packed.bias[:, None], weights, tail.words(0, channels, 1)], axis=1)
    parts = [f"its initial accumulator, {bias_text(packed)}"]
    parts.append("weights, two in a word" + times(packed.bits) if is_wide else "weights, four in a word")
    parts += [f"multiplier, {parameter_text(packed, 'multiplier')}"] if tail.has_multipliers else []
    parts += [f"offset, {parameter_text(packed, 'offset')}"] if tail.has_offsets else []
    return Constants("constants", "int32_t", words.reshape(-1), f"of each channel: {'; '.join(parts)}.")


SHORT_WINDOW = Kernel("arm_dsp/short_window", ShortWindowContext, frozenset({"dsp"}), why_not, prepare)
