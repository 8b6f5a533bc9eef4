"""arm_mve/depthwise: one filter per channel, on rows that are interleaved so that one product sums 4 x 4 taps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context, Struct
from qcgen.ir.plan import AccessOrder
from qcgen.ir.program import Conv, ConvGeometry, Int64s, Operator
from qcgen.ir.types import DType
from qcgen.kernels.access import bands, channel_by_channel, in_pixels, plane
from qcgen.kernels.arm_mve.output import MveOutput, certified, has_window, mve_output, parameters
from qcgen.kernels.fast_output import exact_constants
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.packing import IntegerConv, Packed, integer_conv, pack, signed_shift
from qcgen.kernels.reasons import why_corrected, why_no_depthwise
from qcgen.kernels.windows import Images, PlaneAxis, images, plane_axes

QUAD = 4  # channels in a vector of sums; rows in a word; taps of a row in a vector
BLOCK = 16  # bytes in a vector; channels that are interleaved at a time
QUAD_OPERATIONS = 60.0  # of a function of four channels, of which compilers keep what its layer needs
ROWS_OPERATIONS = 30.0  # of interleaving four rows, whose numbers compilers fold


@dataclass(frozen=True)
class Line:
    """A copy of an image of one row, with its padding: ``bytes`` in all, the image's behind ``left`` of them.

    The rows that are interleaved start four taps apart in it, so that a window of one row becomes one of several.
    """

    left: int
    pixels: int
    bytes: int


@dataclass(frozen=True)
class Columns:
    """How a depthwise convolution interleaves its image, for a ``band`` of rows of outputs at a time.

    Four rows are a group; kernels of more than four rows have several ``groups``, those of more than four columns
    several ``parts``. A pixel is ``column`` words, one for each channel of a block: sixteen, or all if there are fewer;
    then pixels of a row are interleaved as one run of bytes.

    A group takes ``words``; the image starts behind ``left`` of them. Of each row ``bytes`` bytes are read, sixteen at
    a time, ``step`` bytes apart. ``inside`` says of each group of each band whether all of its rows lie on the image;
    the last one that is used is ``rows_below`` the first. ``row`` is the distance of rows. Where there is a ``line``,
    the axes are those of the image that it is cut into.
    """

    height: PlaneAxis
    width: PlaneAxis
    channels: int
    column: int
    band: int
    words: int
    left: int
    bytes: int
    row: int
    step: int
    rows_below: int
    inside: tuple[bool, ...]
    line: Line | None

    @property
    def groups(self) -> int:
        """Groups of four rows that a window reaches."""
        return vectors(self.height)

    @property
    def parts(self) -> int:
        """Vectors of four columns that a window needs of a group."""
        return vectors(self.width)

    @property
    def is_large(self) -> bool:
        """Whether a window is more than one vector, so that the weights of four channels do not stay in registers."""
        return self.groups * self.parts > 1

    @property
    def scratch(self) -> int:
        """Bytes of all groups."""
        return 4 * self.groups * self.words

    @property
    def kernel_bytes(self) -> int:
        """Bytes of a row of the kernel that are interleaved at a time."""
        return self.column * self.width.kernel

    @property
    def kernel_step(self) -> int:
        """What ``step`` is for rows of the kernel."""
        return max(self.channels, BLOCK)

    @property
    def kernel_words(self) -> int:
        """Words of four interleaved rows of the kernel and of the zeros behind them."""
        return max(QUAD * self.parts * self.column + QUAD - 1, whole_vectors(self.kernel_bytes))

    @property
    def quad_bytes(self) -> int:
        """Bytes of the weights of four channels in the order of the loops."""
        return QUAD * BLOCK * self.groups * self.parts


def vectors(axis: PlaneAxis) -> int:
    """How many vectors the kernel needs on an axis."""
    return -(-axis.kernel // QUAD)


def columns_of(g: ConvGeometry) -> Columns:
    """How an image of one or two axes is interleaved."""
    image_height, image_width = plane_axes(g)
    is_line = image_height.input == image_height.output == 1 and image_height.kernel == 1 and vectors(image_width) > 1
    return _line(g, image_width) if is_line else _image(g, image_height, image_width)


def _line(g: ConvGeometry, width: PlaneAxis) -> Columns:
    """One row and more than four taps: an image whose rows are the line, each from four taps further on."""
    rows, shift = vectors(width), QUAD * width.dilation
    read = (width.output - 1) * width.stride + (QUAD - 1) * width.dilation + 1
    height = PlaneAxis(rows, 1, rows, 1, 1, 0)
    found = _image(g, height, PlaneAxis(read, width.output, QUAD, width.stride, width.dilation, 0))
    pixels = read + (QUAD * vectors(height) - 1) * shift
    line = Line(
        left=found.column * min(width.pad, pixels),
        pixels=max(0, min(width.input, pixels - width.pad)),
        bytes=found.column * pixels,
    )
    return replace(found, row=found.column * shift, step=BLOCK, inside=(True,) * vectors(height), line=line)


def _image(g: ConvGeometry, height: PlaneAxis, width: PlaneAxis) -> Columns:
    is_large = vectors(height) * vectors(width) > 1
    # The next row of windows is found in the same words if it is as many rows lower as there are left in them.
    band = 1 if is_large or height.dilation > 1 else (QUAD - height.kernel) // height.stride + 1
    band = min(band, height.output)
    rows_below = QUAD - 1 if is_large else height.kernel + (band - 1) * height.stride - 1
    column = min(g.in_channels, BLOCK)
    read = (width.output - 1) * width.stride + 1 + (QUAD * vectors(width) - 1) * width.dilation
    copied = column * width.copied
    left = column * min(width.pad, read)
    return Columns(
        height,
        width,
        channels=g.in_channels,
        column=column,
        band=band,
        words=max(column * read + QUAD - 1, left + whole_vectors(copied)),
        left=left,
        bytes=copied,
        row=width.input * g.in_channels,
        step=max(g.in_channels, BLOCK),
        rows_below=rows_below,
        inside=_inside(height, band, rows_below),
        line=None,
    )


def _inside(height: PlaneAxis, band: int, rows_below: int) -> tuple[bool, ...]:
    tops = [
        oy * height.stride - height.pad + QUAD * group * height.dilation
        for oy in range(0, height.output, band)
        for group in range(vectors(height))
    ]
    return tuple(top >= 0 and top + rows_below * height.dilation < height.input for top in tops)


def whole_vectors(size: int) -> int:
    """``size`` bytes and those that fill up the last vector."""
    return -(-size // BLOCK) * BLOCK


MAX_SCRATCH = 16384  # bytes that the interleaved rows may take


@dataclass(frozen=True)
class InterleavedImage(Context):
    """The image and how it is interleaved."""

    images: Images
    line: Line | None  # the copy of an image of one row
    height: PlaneAxis
    width: PlaneAxis
    columns: Columns
    group_rows: int  # from one group of four rows to the next
    outside: int  # the byte outside the image
    is_unsigned: bool  # codes are uint8
    has_border: bool  # some group of rows does not lie wholly on the image
    has_odd_block: bool  # blocks of sixteen leave channels over: the last one ends with them
    has_odd_band: bool  # bands leave rows over
    has_odd_quad: bool  # fours leave channels over


@dataclass(frozen=True)
class InterleavedWeights(Context):
    """The weights, which are interleaved like the image unless they are so in flash."""

    kernel: Struct | None  # how those in flash become so if they are not
    kernel_scratch: int  # bytes of its interleaved rows


@dataclass(frozen=True)
class DepthwiseContext(Context):
    """A depthwise convolution on interleaved rows."""

    template: ClassVar[str] = "kernels/arm_mve/depthwise.c.jinja"

    conv: IntegerConv
    image: InterleavedImage
    weights: InterleavedWeights
    mve: MveOutput
    quads: Struct  # how four channels are summed
    padding: int  # the tap outside the image
    parameter_words: int  # of four channels


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
            found.append(-has_window(packed, mve))
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
        of_quads = _by_quads(has_window(packed, mve)).max(axis=1)
        found.append(Constants("has_window", "uint8_t", of_quads, "1 where one of four channels has a guard band."))
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
    image = _interleaved_image(op, columns)
    context = DepthwiseContext(
        conv=integer_conv(op, packed),
        image=image,
        weights=_interleaved_weights(columns, is_packed),
        mve=mve,
        padding=packed.padding,
        quads=_quads(op, mve, columns, image.outside, constants[1].values.shape[1]),
        parameter_words=constants[1].values.shape[1],
    )
    access = _access(op, setting, columns)
    folded = {
        "mve_rows": ROWS_OPERATIONS,
        "mve_quad_codes": QUAD_OPERATIONS,
        "mve_quad_near_ties": QUAD_OPERATIONS,
    }
    return Prepared(constants, context, tuple(scratch), certified(op, packed), access=access, folded=folded)


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
    g = op.geometry
    outside = (op.x_zero_point + 128) % 256 - 128
    return InterleavedImage(
        images=images(g),
        line=columns.line,
        height=columns.height,
        width=columns.width,
        columns=columns,
        group_rows=QUAD * columns.height.dilation,
        outside=outside,
        is_unsigned=op.x.dtype is DType.UINT8,
        has_border=not all(columns.inside),
        has_odd_block=g.in_channels > BLOCK and g.in_channels % BLOCK > 0,
        has_odd_band=columns.height.output % columns.band > 0,
        has_odd_quad=g.in_channels > QUAD and g.in_channels % QUAD > 0,
    )


def _quads(op: Conv, mve: MveOutput, columns: Columns, outside: int, words: int) -> Struct:
    height = columns.height
    numbers = {
        "rows.bytes": columns.bytes,
        "rows.step": columns.step,
        "rows.row": columns.row,
        "rows.apart": height.dilation,
        "rows.left": columns.left,
        "rows.other": outside,
        "rows.count": QUAD * columns.groups if columns.line else height.input,
        "channels": columns.channels,
        "lanes": min(QUAD, columns.channels),
        "y_bytes": op.y.dtype.bytes,
        "out_rows": height.output,
        "out_columns": columns.width.output,
        "band": columns.band,
        "row_stride": height.stride,
        "stride": columns.width.stride * columns.column,
        "dilation": columns.width.dilation * columns.column,
        "groups": columns.groups,
        "words": columns.words,
        "parts": columns.parts,
        "has_offsets": int(mve.is_fast and mve.offset is None),
        "guarded": words - QUAD if mve.limit else 0,
        "limit": mve.limit,
    }
    return Struct("mve_quads", (), {name: number for name, number in numbers.items() if number})


def _interleaved_weights(columns: Columns, is_packed: bool) -> InterleavedWeights:
    rows = {
        "bytes": columns.kernel_bytes,
        "step": columns.kernel_step,
        "row": columns.width.kernel * columns.channels,
        "apart": 1,
        "count": columns.height.kernel,
    }
    numbers = {
        **{f"rows.{name}": number for name, number in rows.items()},
        "channels": columns.channels,
        "column": columns.column,
        "groups": columns.groups,
        "parts": columns.parts,
        "words": columns.kernel_words,
    }
    return InterleavedWeights(
        kernel=None if is_packed else Struct("mve_kernel", (), numbers),
        kernel_scratch=4 * columns.groups * columns.kernel_words,
    )


DEPTHWISE = Kernel("arm_mve/depthwise", DepthwiseContext, frozenset({"mve"}), why_not, prepare)
