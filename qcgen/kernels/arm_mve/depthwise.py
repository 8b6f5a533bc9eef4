"""arm_mve/depthwise: one filter per channel, on rows that are interleaved so that one product sums 4 x 4 taps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qcgen.ir.access import AccessOrder
from qcgen.ir.context import Context
from qcgen.ir.program import Conv, Int64s, Operator
from qcgen.ir.types import DType
from qcgen.kernels.access import bands, channel_by_channel, in_pixels, plane
from qcgen.kernels.arm_mve.columns import BLOCK, QUAD, Columns, Line, columns_of
from qcgen.kernels.arm_mve.output import MveOutput, certified, mve_output, parameters
from qcgen.kernels.fast_output import exact_constants
from qcgen.kernels.images import Images, images
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.packing import IntegerConv, Packed, integer_conv, pack, signed_shift
from qcgen.kernels.plane import PlaneAxis
from qcgen.kernels.reasons import why_corrected, why_no_depthwise

MAX_OFFSET = 508  # bytes that a load of words from a vector of addresses can move on
MAX_SCRATCH = 16384  # bytes that the interleaved rows may take


@dataclass(frozen=True)
class InterleavedImage(Context):
    """The image and how it is interleaved."""

    images: Images
    line: Line | None  # the copy of an image of one row
    height: PlaneAxis
    width: PlaneAxis
    columns: Columns
    four: range  # the rows of a word, the channels of a vector
    later_rows: tuple[int, ...]  # of a word, less those whose weights are always zero
    group_rows: int  # from one group of four rows to the next
    stride: int  # words from one window to the next
    stride_bytes: int  # the same in bytes
    moves_in_load: bool  # loads move vectors of addresses on by that
    outside: int  # the byte outside the image
    is_flipped: bool  # codes are made int8
    is_narrow: bool  # fewer channels than four
    lanes: int  # channels of a vector
    has_inside: bool  # some group of rows lies wholly on the image
    has_border: bool  # some group does not
    is_blocked: bool  # sixteen channels are interleaved at a time
    has_image_rest: bool  # vectors of sixteen bytes leave some of a row over
    has_odd_block: bool  # blocks of sixteen leave channels over: the last one ends with them
    has_odd_band: bool  # bands leave rows over
    has_odd_quad: bool  # fours leave channels over


@dataclass(frozen=True)
class InterleavedWeights(Context):
    """The weights, which are interleaved like the image unless they are so in flash."""

    is_packed: bool  # they are so in flash
    has_rest: bool  # the function that interleaves takes bytes that vectors leave over
    has_own_weights: bool  # weights and image have different functions
    needs_interleave: bool  # there is one that takes any four rows
    kernel_fours: int  # rows of the kernel, four at a time,
    kernel_rest: int  # and those left over
    kernel_scratch: int  # bytes of its interleaved rows


@dataclass(frozen=True)
class DepthwiseContext(Context):
    """A depthwise convolution on interleaved rows."""

    template: ClassVar[str] = "kernels/arm_mve/depthwise.c.jinja"

    conv: IntegerConv
    image: InterleavedImage
    weights: InterleavedWeights
    mve: MveOutput
    padding: int  # the tap outside the image
    parameter_words: int  # of four channels
    guarded_words: int  # where among them the bits of guard bands are


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves depthwise convolutions of channels-last images of one or two axes."""
    reason = why_no_depthwise(op, setting)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    columns = columns_of(op.geometry)
    scratch = columns.scratch + (columns.line.bytes if columns.line else 0)
    if scratch > MAX_SCRATCH:
        return f"its interleaved rows would take {scratch} bytes, more than {MAX_SCRATCH}"
    return why_corrected(_pack(op, setting))


def _pack(op: Conv, setting: Setting) -> Packed:
    """Taps are signed bytes: uint8 less 128."""
    return pack(op, setting, signed_shift(op))


def _by_quads(values: Int64s) -> Int64s:
    """(quads, 4, ...) of values (M, ...): the last four channels end with the pixel; zeros where there are none."""
    count = len(values)
    first = np.minimum(np.arange(0, count, QUAD), max(count - QUAD, 0))
    padded = np.concatenate([values, np.zeros((QUAD, *values.shape[1:]), np.int64)])
    quads: Int64s = padded[first[:, None] + np.arange(QUAD)]
    return quads


def _taps(packed: Packed, columns: Columns) -> Int64s:
    """(M, taps): the weights, on lines with zeros that fill up the last row of four taps."""
    taps = columns.height.kernel * columns.width.kernel
    filled: Int64s = np.pad(packed.weights, ((0, 0), (0, taps - packed.weights.shape[1])))
    return filled


def _vectors(packed: Packed, columns: Columns) -> Int64s:
    """(quads, bytes): sixteen taps of each of four channels, columns of four rows, in the order of the loops."""
    height, width = columns.height, columns.width
    taps = _taps(packed, columns).reshape(-1, height.kernel, width.kernel)
    padded = np.zeros((len(taps), QUAD * columns.groups, QUAD * columns.parts), np.int64)
    padded[:, : height.kernel, : width.kernel] = taps
    parts = padded.reshape(-1, columns.groups, QUAD, columns.parts, QUAD).transpose(0, 1, 3, 4, 2)
    quads = _by_quads(parts.reshape(-1, columns.groups * columns.parts, QUAD * QUAD))
    return quads.transpose(0, 2, 1, 3).reshape(len(quads), -1)


def _has_window(packed: Packed, mve: MveOutput) -> Int64s:
    """(M,): 1 for channels with a guard band, which the fast output step may miss."""
    has_window = np.zeros(packed.bias.size, np.int64)
    has_window[packed.epilogue.guarded if mve.has_windows else []] = 1
    return has_window


def _windows(packed: Packed) -> Int64s:
    """(M,): half the width of each channel's guard band, 0 for channels without."""
    found = [constants.values for constants in packed.epilogue.constants if constants.role == "guard_band"]
    return found[0].astype(np.int64) if found else np.zeros(packed.bias.size, np.int64)


def _parameters(op: Conv, packed: Packed, mve: MveOutput) -> Constants:
    """Where the sums of four channels start, and what the output step reads."""
    found, meaning = [packed.bias], "initial accumulators"
    if mve.is_fast:
        output = parameters(op, packed)
        found.append(output.multiplier)
        meaning += ", multiplier"
        if output.offset is not None:
            found.append(output.offset)
            meaning += ", offset"
        if mve.limit:
            found.append(-_has_window(packed, mve))
            meaning += ", -1 for those with a guard band"
    values = np.concatenate([_by_quads(each) for each in found], axis=1)
    return Constants("parameters", "int32_t", values, f"of each four channels: {meaning}.")


def _constants(op: Conv, packed: Packed, mve: MveOutput, columns: Columns, is_packed: bool) -> tuple[Constants, ...]:
    if is_packed:
        text = "weights [four channels][channel][column][4 rows], with zeros behind the kernel's rows and columns."
        found = [Constants("weights", "int8_t", _vectors(packed, columns), text)]
    else:
        taps = _taps(packed, columns)
        text = f"weights [{taps.shape[1]} taps][{columns.channels} channels]{packed.weights_remark}."
        found = [Constants("weights", "int8_t", taps.T, text)]
    found.append(_parameters(op, packed, mve))
    if not all(columns.inside):
        padding = np.full(BLOCK, op.x_zero_point)
        found.append(Constants("padding", op.x.dtype.c, padding, "channels of a pixel outside the image."))
    if mve.has_windows:
        has_window = _by_quads(_has_window(packed, mve)).max(axis=1)
        found.append(Constants("has_window", "uint8_t", has_window, "1 where one of four channels has a guard band."))
    return (*found, *exact_constants(packed))


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Interleaved rows as scratch; weights in the order of the loops or, to save flash, [taps][channels]."""
    assert isinstance(op, Conv)
    columns, packed = columns_of(op.geometry), _pack(op, setting)
    mve = mve_output(op, packed)
    is_packed = setting.optimize == "speed" or setting.in_rows  # else each row packs them anew
    constants = _constants(op, packed, mve, columns, is_packed)
    scratch = [Scratch(columns.scratch, 4)]
    if columns.line:
        scratch.append(Scratch(columns.line.bytes, 1))
    if not is_packed:
        quads = -(-columns.column // QUAD)
        scratch += [Scratch(4 * columns.groups * columns.kernel_words, 4), Scratch(quads * columns.quad_bytes, 1)]
    context = DepthwiseContext(
        conv=integer_conv(op, packed),
        image=_interleaved_image(op, columns),
        weights=_interleaved_weights(op, columns, is_packed),
        mve=mve,
        padding=packed.padding,
        parameter_words=constants[1].values.shape[1],
        guarded_words=constants[1].values.shape[1] - QUAD,
    )
    access = _access(op, setting, columns)
    return Prepared(constants, context, tuple(scratch), certified(op, packed), access=access)


def _access(op: Conv, setting: Setting, columns: Columns) -> AccessOrder | None:
    """Bands of all channels, or, if there are many channels, bands of sixteen after those of the sixteen before.

    An odd last block begins anew with channels that are done, and reads the whole image of theirs again: None.
    """
    g = op.geometry
    units = plane(g).reshape(1, -1) if columns.line else bands(plane(g), columns.band)
    if g.in_channels <= BLOCK:
        return in_pixels(op, setting, units, gathers=True)
    return None if g.in_channels % BLOCK else channel_by_channel(op, setting, units, gathers=True)


def _interleaved_image(op: Conv, columns: Columns) -> InterleavedImage:
    g, stride = op.geometry, columns.width.stride * columns.column
    return InterleavedImage(
        images=images(g),
        line=columns.line,
        height=columns.height,
        width=columns.width,
        columns=columns,
        four=range(QUAD),
        later_rows=tuple(min(r, columns.rows_below) for r in range(1, QUAD)),
        group_rows=QUAD * columns.height.dilation,
        stride=stride,
        stride_bytes=4 * stride,
        moves_in_load=4 * stride <= MAX_OFFSET,
        outside=(op.x_zero_point + 128) % 256 - 128,
        is_flipped=op.x.dtype is DType.UINT8,
        is_narrow=g.in_channels < QUAD,
        lanes=min(QUAD, g.in_channels),
        has_inside=any(columns.inside),
        has_border=not all(columns.inside),
        is_blocked=g.in_channels > BLOCK,
        has_image_rest=columns.bytes % BLOCK > 0,
        has_odd_block=g.in_channels > BLOCK and g.in_channels % BLOCK > 0,
        has_odd_band=columns.height.output % columns.band > 0,
        has_odd_quad=g.in_channels > QUAD and g.in_channels % QUAD > 0,
    )


def _interleaved_weights(op: Conv, columns: Columns, is_packed: bool) -> InterleavedWeights:
    has_rest = not is_packed and columns.kernel_bytes % BLOCK > 0
    has_own_weights = not is_packed and op.x.dtype is DType.UINT8
    return InterleavedWeights(
        is_packed=is_packed,
        has_rest=has_rest or columns.bytes % BLOCK > 0,
        has_own_weights=has_own_weights,
        needs_interleave=not all(columns.inside) or not (is_packed or has_own_weights),
        kernel_fours=columns.height.kernel // QUAD,
        kernel_rest=columns.height.kernel % QUAD,
        kernel_scratch=4 * columns.groups * columns.kernel_words,
    )


DEPTHWISE = Kernel("arm_mve/depthwise", DepthwiseContext, frozenset({"mve"}), why_not, prepare)
