"""Four rows of an image interleaved: words that hold one channel of four pixels, one below the other."""

from __future__ import annotations

from dataclasses import dataclass, replace

from qcgen.ir.program import ConvGeometry
from qcgen.kernels.plane import PlaneAxis, plane_axes

QUAD = 4  # channels in a vector of sums; rows in a word; taps of a row in a vector
BLOCK = 16  # bytes in a vector; channels that are interleaved at a time


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
