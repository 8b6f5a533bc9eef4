"""arm_mve/conv: convolutions of channels-last images, two windows at a time against blocks of four output channels.

arm_mve/dense: convolutions with a single window, the whole image; a matrix times a vector.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from qcgen.intervals import INT32_MAX
from qcgen.ir.context import Context, Struct
from qcgen.ir.program import Conv, ConvGeometry, Operator
from qcgen.ir.types import DType, Layout
from qcgen.kernels.access import blocks as blocks_of
from qcgen.kernels.access import in_blocks_of_channels, in_pixels, parts_of_rows, plane
from qcgen.kernels.arm_mve.output import (
    BYTES,
    LANES,
    ONE,
    TWO,
    Blocks,
    MveOutput,
    blocks,
    certified,
    has_last,
    mve_output,
    stream,
)
from qcgen.kernels.fast_output import exact_constants
from qcgen.kernels.kernel import Kernel, Prepared, Scratch, Setting, number
from qcgen.kernels.packing import IntegerConv, Packed, integer_conv, pack, signed_shift
from qcgen.kernels.reasons import why_channels_apart, why_no_dense, why_not_plain
from qcgen.kernels.text import describe, x_kind
from qcgen.kernels.windows import Axis, any_at_border, any_inside, axes, spatial_struct

# Where the Helium kernels read a window: in the image, or in a copy whose elements lie side by side.


@dataclass(frozen=True)
class CopiedWindow:
    """How a window is found.

    ``is_flat``: it is a pixel; otherwise it has rows of taps (``is_rows``) or single ones.

    Those inside the image that begin at ``last_in_place`` or before are read there: they are a single run, and vectors
    do not leave the image. It is -1 where none is, INT32_MAX where all are. ``copies`` says whether any window is
    copied; then ``bytes`` hold one.

    ``next``: windows of an image of one row overlap, so two are found as one, and the second begins so many elements
    behind the first; as do windows that are pixels, if none is copied. 0 where each is found by itself.
    """

    geometry: ConvGeometry
    axes: tuple[Axis, ...]
    is_flat: bool
    is_rows: bool
    last_in_place: int
    copies: bool
    bytes: int
    next: int
    y_pixel: int

    @property
    def pixels(self) -> int:
        """Those of an image of the output."""
        return prod(self.geometry.output)

    @property
    def is_last_alone(self) -> bool:
        """Whether the last of them is summed alone."""
        return has_last(self.pixels)

    @property
    def all_bytes(self) -> int:
        """What the copies of windows take that are summed together."""
        return self.bytes if self.next or self.pixels == 1 else 2 * self.bytes

    @property
    def on_stack(self) -> bool:
        """Whether the C function's stack holds the copies: of a vector each. Two windows found as one are longer."""
        return self.copies and self.bytes <= BYTES

    @property
    def is_short(self) -> bool:
        """Whether few instructions find a window."""
        return self.is_flat or not self.copies

    @property
    def operations(self) -> dict[str, float]:
        """What the library's functions become that find a window, about, and the one that goes through all."""
        places = (2 if self.pixels > 1 and not self.next else 1) + (self.is_last_alone and self.pixels > 1)
        short = (10.0 if self.copies else 0.0) if self.is_flat else 7.0
        found = 14.0 + (36 if any_at_border(self.axes) else 0)
        found += 12 if self.copies and self.last_in_place != INT32_MAX else 0
        pixels = (12.0 if self.pixels > 1 else 4.0) + (places * short if self.is_short else 0)
        return {"mve_find_window": found, "mve_pixels": pixels}

    @property
    def struct(self) -> Struct:
        """What the library's functions take."""
        g = self.geometry
        numbers = {
            "channels": g.in_channels,
            "are_rows": int(self.is_rows and not self.is_flat),
            "last_in_place": self.last_in_place,
            "bytes": self.bytes if self.copies else 0,
            "next": self.next,
            "pixels": self.pixels,
            "y_pixel": self.y_pixel,
            "images": g.batch,
            "x_image": g.in_channels * prod(g.input) if g.batch > 1 else 0,
        }
        numbers = {name: number for name, number in numbers.items() if number}
        sizes = {} if self.is_flat else spatial_struct(self.axes, {}).arrays
        return Struct("mve_image", (), numbers, arrays=sizes)


def window(op: Conv) -> CopiedWindow:
    """The windows of a channels-last image."""
    g = op.geometry
    is_flat = not g.is_padded and {*g.kernel, *g.strides} == {1}
    if is_flat:
        g = _of_pixels(g, g.batch, g.in_channels, prod(g.input))
    spatial = window_axes(g)
    step = spatial[-1].stride_step if _is_line(g) else 0
    is_rows = g.dilations[-1] == 1
    spill = -g.taps % BYTES
    last = g.in_channels * prod(g.input) - g.taps - step - spill
    is_one_run = is_rows and prod(g.kernel[:-1]) == 1
    is_in_place = is_one_run and any_inside(spatial) and op.x.dtype is DType.INT8 and last >= 0
    copies = any_at_border(spatial) or not is_in_place or spill > 0
    return CopiedWindow(
        geometry=g,
        axes=spatial,
        is_flat=is_flat,
        is_rows=is_rows,
        last_in_place=-1 if not is_in_place else last if spill else INT32_MAX,
        copies=copies,
        bytes=g.taps + step + spill,
        next=g.in_channels if is_flat and not copies else step,
        y_pixel=g.out_channels * op.y.dtype.bytes,
    )


def _of_pixels(g: ConvGeometry, batch: int, channels: int, pixels: int) -> ConvGeometry:
    """A convolution of one tap of an image of one row."""
    one = (1,)
    return ConvGeometry(batch, 1, channels, g.out_channels, (pixels,), one, one, one, (0,), (0,), (pixels,))


def window_axes(g: ConvGeometry) -> tuple[Axis, ...]:
    """The axes as windows are found; where two are found as one, the last axis counts it by its first output."""
    spatial = axes(g, Layout.CHANNELS_LAST)
    if not _is_line(g):
        return spatial
    row = spatial[-1]
    end = max(row.inside_begin, row.inside_end - 1)
    return (*spatial[:-1], replace(row, kernel=row.kernel + row.stride, inside_end=end))


def _is_line(g: ConvGeometry) -> bool:
    """Whether the image is a row at whose border two windows that overlap are copied."""
    is_row = prod(g.output[:-1]) == prod(g.kernel[:-1]) == g.dilations[-1] == 1 < g.output[-1]
    return is_row and g.strides[-1] <= g.kernel[-1] and any_at_border(axes(g, Layout.CHANNELS_LAST))


@dataclass(frozen=True)
class ConvContext(Context):
    """A convolution whose windows are vectors of bytes."""

    template: ClassVar[str] = "kernels/arm_mve/conv.c.jinja"

    conv: IntegerConv
    found: CopiedWindow
    x_kind: str  # how the names of instructions end that read x
    takes_copies: bool  # copies of windows are in the arena
    mve: MveOutput
    blocks: Blocks  # of output channels
    windows: tuple[str, ...]  # how many of them are summed at a time
    padding: int  # the tap outside the image


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves convolutions of channels-last images without groups."""
    return why_not_plain(op, setting)


def _pack(op: Conv, setting: Setting) -> Packed:
    """Taps are int8: VMLADAV multiplies signed numbers with signed ones only."""
    return pack(op, setting, signed_shift(op))


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Weights as words in steps of 16 elements; two windows as scratch, if they are copied."""
    assert isinstance(op, Conv)
    packed, found = _pack(op, setting), window(op)
    pixels = found.pixels
    windows = ((TWO,) if pixels > 1 else ()) + ((ONE,) if has_last(pixels) else ())
    context = ConvContext(
        conv=integer_conv(op, packed),
        found=found,
        x_kind=x_kind(op),
        takes_copies=found.copies and not found.on_stack,
        mve=mve_output(op, packed),
        blocks=blocks(op, packed),
        windows=windows,
        padding=packed.padding,
    )
    constants = (stream(op, packed), *exact_constants(packed))
    if any_at_border(found.axes) and setting.is_free:
        constants += (number("padding", "int8_t", packed.padding, "a tap outside."),)
    scratch = (Scratch(found.all_bytes, 4),) if context.takes_copies else ()
    units = parts_of_rows(plane(op.geometry).reshape(1, -1), 2) if found.is_last_alone else blocks_of(pixels, 2)
    if found.last_in_place < 0:
        access = in_pixels(op, setting, units, gathers=True)
    else:
        access = in_blocks_of_channels(
            op, setting, units, [*range(LANES, op.geometry.out_channels, LANES), op.geometry.out_channels]
        )
    folded = {"mve_channels": context.blocks.operations_over(windows), **found.operations}
    return Prepared(constants, context, scratch, certified(op, packed), access=access, folded=folded)


CONV = Kernel("arm_mve/conv", ConvContext, frozenset({"mve"}), why_not, prepare)


def why_not_dense(op: Operator, setting: Setting) -> str | None:
    """Serves kernels that are as large as the image, without padding."""
    return why_channels_apart(setting.x_layout, setting.y_layout) or why_no_dense(op, setting)


def prepare_dense(op: Operator, setting: Setting) -> Prepared:
    """As the 1x1 convolution of one row: each image of the batch is a pixel."""
    assert isinstance(op, Conv)
    prepared = prepare(_as_row(op), setting)
    context = prepared.context
    assert isinstance(context, ConvContext)
    described = replace(context.conv.conv, description=describe(op))
    return replace(prepared, context=replace(context, conv=replace(context.conv, conv=described)))


def _as_row(op: Conv) -> Conv:
    """The same operator, the elements of an image its channels; weights are in the order of channels-last images."""
    g = op.geometry
    weights = (
        op.weights.reshape(g.out_channels, g.in_channels, -1).transpose(0, 2, 1).reshape(g.out_channels, g.taps, 1)
    )
    row = _of_pixels(g, 1, g.taps, g.batch)
    return replace(op, geometry=row, weights=weights)


DENSE = Kernel("arm_mve/dense", ConvContext, frozenset({"mve"}), why_not_dense, prepare_dense)
