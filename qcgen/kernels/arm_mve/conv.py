"""arm_mve/conv: convolutions of channels-last images, two windows at a time against blocks of four output channels."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.program import Conv, Operator
from qcgen.kernels.access import blocks as blocks_of
from qcgen.kernels.access import in_blocks_of_channels, in_pixels, parts_of_rows, plane
from qcgen.kernels.arm_mve.blocks import ONE, TWO, Blocks, Windows, blocks, blocks_support, has_last, stream
from qcgen.kernels.arm_mve.output import LANES, MveOutput, certified, mve_output, output_support
from qcgen.kernels.arm_mve.window import CopiedWindow, window
from qcgen.kernels.fast_output import exact_constants
from qcgen.kernels.images import Images, images
from qcgen.kernels.kernel import Kernel, Prepared, Scratch, Setting
from qcgen.kernels.packing import IntegerConv, Packed, integer_conv, pack, signed_shift
from qcgen.kernels.reasons import why_not_plain
from qcgen.kernels.text import x_kind


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
    windows: tuple[Windows, ...]  # how many of them are summed at a time
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
    size = planned.all_bytes if pixels > 1 else planned.bytes
    scratch = (Scratch(size, 4),) if planned.copies and not planned.on_stack else ()
    support = (*output_support(op, packed), *blocks_support(op, packed, windows), *_copy_support(op, planned))
    units = parts_of_rows(plane(op.geometry).reshape(1, -1), 2) if has_last(pixels) else blocks_of(pixels, 2)
    if planned.copies and not planned.is_in_place:
        access = in_pixels(op, setting, units, gathers=True)
    else:
        access = in_blocks_of_channels(
            op, setting, units, [*range(LANES, op.geometry.out_channels, LANES), op.geometry.out_channels]
        )
    headers = ("string.h",)
    return Prepared(constants, context, scratch, support, certified(op, packed), access=access, headers=headers)


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


def _copy_support(op: Conv, planned: CopiedWindow) -> tuple[str, ...]:
    """The C functions that copy runs."""
    names = [f"mve_copy_{x_kind(op)}"] if planned.has_border or planned.copies_inside else []
    return (*names, *(["mve_fill"] if planned.has_border else []))


CONV = Kernel("arm_mve/conv", ConvContext, frozenset({"mve"}), why_not, prepare)
