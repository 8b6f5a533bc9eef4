"""Kernels for x86-64 and AArch64, whose instructions add four products of bytes to each of many sums.

host/conv: convolutions and products with constant matrices, sixteen output channels in the lanes of vectors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context, Struct
from qcgen.ir.program import Conv, ConvGeometry, Int64s, Operator
from qcgen.ir.types import Layout
from qcgen.kernels.access import blocks, in_pixels
from qcgen.kernels.epilogue import guarded_channels
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.packing import IntegerConv, Packed, integer_conv, pack, unsigned_shift
from qcgen.kernels.reasons import why_groups, why_not_integer_conv, why_wraps
from qcgen.kernels.text import counted, describe, window_shape
from qcgen.kernels.windows import copy_window, images, output_steps

LANES = 16  # output channels whose sums are taken together: the int32 in 512 bits
BLOCK = 8  # windows at a time: as many sums hide how long an instruction takes
MOST_IN_GROUPS = 8  # input channels: loops over so few are not vectorised by compilers
WORD = 4  # taps whose products one instruction adds
ORDER = "four taps of each of sixteen channels, then the next four"


@dataclass(frozen=True)
class ConvContext(Context):
    """A convolution whose windows are copied, with its weights in the order of vectors."""

    template: ClassVar[str] = "kernels/host/conv.c.jinja"

    conv: IntegerConv
    sums: Struct
    windows: Struct
    is_flat: bool  # the windows of a block lie side by side in the image
    padding: int  # the code outside the image
    is_corrected: bool  # taps are summed, too
    guarded_count: int  # channels that have a guard band; of no meaning where it is a number of the block


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves convolutions of codes of 8 bits, in groups if channels are few."""
    reason = why_not_integer_conv(op)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    if op.geometry.in_channels > MOST_IN_GROUPS and (reason := why_groups(op.geometry)):
        return reason
    return why_wraps(pack(op, setting, unsigned_shift(op)))


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Weights [M/16][taps/4][16][4]: sixteen channels' weights of four taps are one vector."""
    assert isinstance(op, Conv)
    description, has_groups = describe(op), op.geometry.group > 1
    op = _without_groups(op)
    g = op.geometry
    packed = pack(op, setting, unsigned_shift(op))
    pixels, window, sizes, steps = prod(g.output), _padded(g.taps, WORD), images(g), output_steps(g, setting.y_layout)
    block = BLOCK if pixels >= BLOCK else 1
    is_flat = _is_flat(g, setting) and window == g.taps
    numbers = {"batch": g.batch, "x_image": sizes.x_image, "y_image": sizes.y_image}
    numbers |= {"pixels": pixels, "channels": g.out_channels, "y_pixel": steps.y_pixel, "y_channel": steps.y_channel}
    numbers |= {
        "y_bytes": op.y.dtype.bytes,
        "taps": g.taps,
        "window": window,
        "block": block,
        "copied": block if is_flat else 1,
    }
    conv, copy = integer_conv(op, packed), copy_window(g, setting.x_layout, op.x.dtype.bytes)
    context = ConvContext(
        conv=replace(conv, conv=replace(conv.conv, description=description)),
        sums=Struct("dot_layer", (), numbers | {"is_corrected": int(packed.is_corrected)}),
        windows=copy.windows,
        is_flat=is_flat,
        padding=op.x_zero_point,
        is_corrected=packed.is_corrected,
        guarded_count=0 if setting.is_free else packed.epilogue.guarded.size,
    )
    constants = (
        *_sums_constants(op, packed, setting, has_groups=has_groups),
        *_others(packed),
        *guarded_channels(packed.epilogue),
    )
    access = in_pixels(op, setting, blocks(pixels, block), gathers=True)
    scratch = (Scratch(block * window, 1),)
    # What calls of the library's functions become, about: eight sums are eight vectors.
    outputs = 40.0 + (25.0 if context.guarded_count else 0.0) + (54.0 if block > 1 else 0.0)
    folded = {"dot_outputs": outputs, **({} if is_flat else copy.operations)}
    return Prepared(constants, context, scratch, packed.certificate, access=access, folded=folded)


def _without_groups(op: Conv) -> Conv:
    """The same convolution with weights for all input channels: zero for those of other groups."""
    g = op.geometry
    if g.group == 1:
        return op
    whole = np.repeat(op.w_zero_point[:, None, None], g.in_channels, axis=1).repeat(prod(g.kernel), axis=2)
    for m, own in enumerate(op.weights.reshape(g.out_channels, g.group_in, -1)):
        first = m // g.group_out * g.group_in
        whole[m, first : first + g.group_in] = own
    weights = whole.reshape(g.out_channels, -1).astype(op.weights.dtype)
    return replace(op, geometry=replace(g, group=1), weights=weights)


def _padded(count: int, unit: int) -> int:
    return -(-count // unit) * unit


def _is_flat(g: ConvGeometry, setting: Setting) -> bool:
    """Whether windows are pixels that follow each other, their channels side by side."""
    is_last = setting.x_layout is Layout.CHANNELS_LAST
    return is_last and set(g.kernel) == {1} and set(g.strides) == {1} and not g.is_padded


def _sums_constants(op: Conv, packed: Packed, setting: Setting, *, has_groups: bool) -> tuple[Constants, ...]:
    """The weights, and where sums start for unsigned and for signed taps; channels that are not there are zero.

    With signed taps t - 128 a sum of some products is bias + sum of their t*w + 128 * sum of all other w: at most
    |bias| + 255 * sum |w|, which ``pack`` found to fit int32.
    """
    g = op.geometry
    rows = packed.weights.reshape(g.out_channels, g.group_in, *g.kernel)
    if setting.x_layout is Layout.CHANNELS_LAST:
        rows = rows.transpose(0, *range(2, rows.ndim), 1)
    lanes = _in_lanes(rows.reshape(g.out_channels, g.taps))
    shape = f"{counted(g.out_channels, 'channel')}{window_shape(g, setting.x_layout)}"
    remark = packed.weights_remark + (", zero between groups" if has_groups else "")
    signed = packed.bias + 128 * packed.weights.sum(axis=1)
    return (
        Constants("weights", "int8_t", lanes, f"weights {shape}{remark}, {ORDER}."),
        Constants("bias", "int32_t", _whole(packed.bias), "initial accumulators for taps of 0 to 255."),
        Constants("signed_bias", "int32_t", _whole(signed), "initial accumulators for the same taps less 128."),
    )


def _others(packed: Packed) -> tuple[Constants, ...]:
    """The tables besides weights and biases; corrections for whole vectors."""
    _, *others = packed.constants()
    return tuple(replace(each, values=_whole(each.values)) if each.role == "correction" else each for each in others)


def _in_lanes(rows: Int64s) -> Int64s:
    """(M, taps) to (vectors, bytes): four taps of a channel, then those of the next."""
    channels, taps = rows.shape
    whole = np.zeros((_padded(channels, LANES), _padded(taps, WORD)), np.int64)
    whole[:channels, :taps] = rows
    blocks_of = whole.reshape(-1, LANES, whole.shape[1] // WORD, WORD)
    return blocks_of.transpose(0, 2, 1, 3).reshape(-1, LANES * WORD)


def _whole(values: Int64s) -> Int64s:
    """With zeros for channels that are not there."""
    return np.concatenate([values, np.zeros(-len(values) % LANES, np.int64)])


CONV = Kernel("host/conv", ConvContext, frozenset({"byte-dot"}), why_not, prepare)
