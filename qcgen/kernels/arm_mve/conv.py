"""arm_mve/conv: convolutions of channels-last images, two windows at a time against blocks of four output channels.

arm_mve/dense: convolutions with a single window, the whole image; a matrix times a vector.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from qcgen.ir.context import Context
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
from qcgen.kernels.windows import Axis, Images, Runs, any_at_border, any_inside, axes, images

# Where the Helium kernels read a window: in the image, or in a copy whose elements lie side by side.


@dataclass(frozen=True)
class CopiedWindow(Runs):
    """How a window is found.

    Where it is copied, ``run`` elements are at a time. ``is_flat``: it is a pixel. ``is_in_place``: windows inside the
    image are a single run, which is read where it lies; but those that begin beyond ``last_in_place`` are copied,
    because whole vectors would leave the image (None if none does). ``copies`` says whether any window is copied; then
    ``bytes`` hold one.

    ``step``: windows of an image of one row overlap, so two are found as one, and the second begins so many elements
    behind the first; 0 where each is found by itself.
    """

    run: int
    is_flat: bool
    is_in_place: bool
    last_in_place: int | None
    copies: bool
    bytes: int
    step: int

    @property
    def looped_axes(self) -> tuple[Axis, ...]:
        """The axes that a loop over the runs has: none if it is a pixel."""
        return () if self.is_flat else super().looped_axes

    @property
    def all_bytes(self) -> int:
        """What the copies of two windows take."""
        return self.bytes if self.step else 2 * self.bytes

    @property
    def on_stack(self) -> bool:
        """Whether the C function's stack holds the copies: of a vector each. Two windows found as one are longer."""
        return self.copies and self.bytes <= BYTES


def window(op: Conv) -> CopiedWindow:
    """The windows of a channels-last image."""
    g = op.geometry
    spatial = window_axes(g)
    step = spatial[-1].stride_step if _is_line(g) else 0
    is_rows = g.dilations[-1] == 1
    spill = -g.taps % BYTES
    last = g.in_channels * prod(g.input) - g.taps - step - spill
    is_one_run = is_rows and prod(g.kernel[:-1]) == 1
    is_flat = not g.is_padded and set(g.kernel) == {1} and set(g.strides) == {1}
    is_in_place = is_one_run and any_inside(spatial) and op.x.dtype is DType.INT8 and last >= 0
    last_in_place = last if is_in_place and spill else None
    copies = any_at_border(spatial) or not is_in_place or last_in_place is not None
    run = g.in_channels * g.kernel[-1] if is_rows else g.in_channels
    return CopiedWindow(
        axes=spatial,
        is_rows=is_rows,
        depth=0,
        run=run + step,
        is_flat=is_flat,
        is_in_place=is_in_place,
        last_in_place=last_in_place,
        copies=copies,
        bytes=g.taps + step + spill,
        step=step,
    )


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
class FoundWindow(Context):
    """Finding a window, a run of elements after the other."""

    planned: CopiedWindow
    takes_copies: bool  # copies of windows are in the arena
    spilled: str  # what is said of bytes of a copy behind its elements, "" if there are none
    is_called: bool  # a function finds it
    has_loop: bool  # there is a loop over the runs


@dataclass(frozen=True)
class PixelsByTwo(Context):
    """The loops over the pixels of the output, two at a time."""

    images: Images
    x_kind: str  # how the names of instructions end that read x
    pixels: int  # of an output image
    is_odd: bool  # the last two repeat one
    pair: str  # the first of two, in C
    has_last: bool  # the last pixel is computed alone
    is_split: bool  # there are several images


@dataclass(frozen=True)
class ConvContext(Context):
    """A convolution whose windows are vectors of bytes."""

    template: ClassVar[str] = "kernels/arm_mve/conv.c.jinja"

    conv: IntegerConv
    window: FoundWindow
    image: PixelsByTwo
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
    packed, planned = _pack(op, setting), window(op)
    pixels = prod(op.geometry.output)
    windows = ((TWO,) if pixels > 1 else ()) + ((ONE,) if has_last(pixels) else ())
    context = ConvContext(
        conv=integer_conv(op, packed),
        window=_found_window(op, planned),
        image=_pixels_by_two(op),
        mve=mve_output(op, packed),
        blocks=blocks(op, packed),
        windows=windows,
        padding=packed.padding,
    )
    constants = (stream(op, packed), *exact_constants(packed))
    if planned.copies and planned.has_border and setting.is_free:
        constants += (number("padding", "int8_t", packed.padding, "a tap outside."),)
    size = planned.all_bytes if pixels > 1 else planned.bytes
    scratch = (Scratch(size, 4),) if planned.copies and not planned.on_stack else ()
    units = parts_of_rows(plane(op.geometry).reshape(1, -1), 2) if has_last(pixels) else blocks_of(pixels, 2)
    if planned.copies and not planned.is_in_place:
        access = in_pixels(op, setting, units, gathers=True)
    else:
        access = in_blocks_of_channels(
            op, setting, units, [*range(LANES, op.geometry.out_channels, LANES), op.geometry.out_channels]
        )
    folded = {"mve_channels": context.blocks.operations_over(windows)}
    return Prepared(constants, context, scratch, certified(op, packed), access=access, folded=folded)


def _found_window(op: Conv, planned: CopiedWindow) -> FoundWindow:
    return FoundWindow(
        planned=planned,
        takes_copies=planned.copies and not planned.on_stack,
        spilled=_spilled(planned) if planned.bytes > op.geometry.taps + planned.step else "",
        is_called=planned.copies or not planned.is_flat,
        has_loop=planned.has_border or (not planned.is_in_place and bool(planned.looped_axes)),
    )


def _spilled(planned: CopiedWindow) -> str:
    """What is to be said of the bytes of a copy that fill up its last vector."""
    state = "stay 0" if planned.on_stack else "are never written"
    return f"Bytes of a copy behind its elements {state}; they meet weights of 0."


def _pixels_by_two(op: Conv) -> PixelsByTwo:
    pixels = prod(op.geometry.output)
    is_odd = pixels % 2 == 1 and not has_last(pixels)
    return PixelsByTwo(
        images=images(op.geometry),
        x_kind=x_kind(op),
        pixels=pixels,
        is_odd=is_odd,
        pair="first" if is_odd else "pixel",
        has_last=has_last(pixels),
        is_split=op.geometry.batch > 1,
    )


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
    one = (1,)
    row = ConvGeometry(1, 1, g.taps, g.out_channels, (g.batch,), one, one, one, (0,), (0,), (g.batch,))
    return replace(op, geometry=row, weights=weights)


DENSE = Kernel("arm_mve/dense", ConvContext, frozenset({"mve"}), why_not_dense, prepare_dense)
