"""portable/conv: any integer convolution; the windows of a block of outputs are copied, then summed."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.program import Conv, ConvGeometry, Operator
from qcgen.ir.types import Layout
from qcgen.kernels.access import blocks, in_pixels
from qcgen.kernels.axes import INDENT, Axis, any_at_border, any_inside, axes, inside_numbers, output_numbers
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.packing import pack, unsigned_shift
from qcgen.kernels.portable.window_sums import (
    CopiedTaps,
    Loop,
    WindowSums,
    block_size,
    copied_taps,
    taps_scratch,
    weight_table,
    window_sums,
)
from qcgen.kernels.reasons import why_no_conv_of_codes


@dataclass(frozen=True)
class CopyWindow(Context):
    """The names that templates/kernels/portable/copy_window.c.jinja uses, besides those of the convolution itself."""

    in_pixels: int  # of an image of x
    axes: tuple[Axis, ...]  # the spatial ones, outermost first
    axes_indent: str  # within loops over all of them
    loops: tuple[Loop, ...]  # around a contiguous row
    loops_indent: str  # within them
    row: int  # contiguous elements of a window, copied in one loop
    channels_last: bool  # the channels of a pixel lie side by side
    has_inside: bool  # some window lies wholly within the image
    has_border: bool  # some window does not
    output_numbers: tuple[str, ...]  # lines of enumerators: see axes.output_numbers
    inside_numbers: tuple[str, ...]  # and axes.inside_numbers


@dataclass(frozen=True)
class ConvContext(Context):
    """An integer convolution whose windows are copied."""

    template: ClassVar[str] = "kernels/portable/conv.c.jinja"

    sums: WindowSums
    copy: CopyWindow
    taps: CopiedTaps
    padding: int  # the tap outside the image


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every integer convolution."""
    return why_no_conv_of_codes(op)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Weights [M][taps] in the order in which a window is copied, taps shifted to 0..255."""
    assert isinstance(op, Conv)
    g = op.geometry
    packed = pack(op, setting, unsigned_shift(op), unpacks=True)
    context = ConvContext(
        sums=window_sums(op, packed, setting, has_scratch=True),
        copy=copy_window(g, setting.x_layout),
        taps=copied_taps(op, packed, setting),
        padding=packed.padding,
    )
    constants = (weight_table(op, packed, setting.x_layout), *packed.constants())
    scratch = taps_scratch(op, setting)
    access = in_pixels(op, setting, blocks(prod(g.output), block_size(g)), gathers=True) if g.group == 1 else None
    return Prepared(constants, context, (scratch,), (*packed.support, "compiler"), packed.certificate, access=access)


def copy_window(g: ConvGeometry, layout: Layout) -> CopyWindow:
    """How windows of an image in ``layout`` are copied, in the order of their taps in memory."""
    spatial = axes(g, layout)
    loops = _copy_loops(g, spatial, layout)
    return CopyWindow(
        in_pixels=prod(g.input),
        axes=spatial,
        axes_indent=spatial[-1].indent + INDENT,
        loops=loops,
        loops_indent=INDENT * (len(loops) + 1),
        row=_row(g, layout),
        channels_last=layout is Layout.CHANNELS_LAST,
        has_inside=any_inside(spatial),
        has_border=any_at_border(spatial),
        output_numbers=output_numbers(spatial),
        inside_numbers=inside_numbers(spatial),
    )


def _row_is_contiguous(g: ConvGeometry, layout: Layout) -> bool:
    """Whether the taps of one row of a window lie side by side in memory."""
    return g.dilations[-1] == 1 and (layout is Layout.CHANNELS_FIRST or g.group == 1)


def _row(g: ConvGeometry, layout: Layout) -> int:
    """How many elements of a window are copied in one go."""
    pixel = g.group_in if layout is Layout.CHANNELS_LAST else 1
    return pixel * (g.kernel[-1] if _row_is_contiguous(g, layout) else 1)


def _copy_loops(g: ConvGeometry, spatial: tuple[Axis, ...], layout: Layout) -> tuple[Loop, ...]:
    """The loops around a contiguous row, outermost first."""
    loops = []
    if layout is Layout.CHANNELS_FIRST:
        plane = spatial[0].step * spatial[0].input
        count = "GROUP_IN" if g.group > 1 else "IN_CHANNELS"
        loops.append(Loop("c", count, g.group_in, "STEP_CHANNEL", plane, INDENT))
    looped = spatial[:-1] if _row_is_contiguous(g, layout) else spatial
    for axis in looped:
        variable, label, indent = f"k{axis.letter}", axis.label, INDENT * (len(loops) + 1)
        remark = "from tap to tap: dilation times the step of the image" if axis is looped[0] else ""
        loops.append(Loop(variable, f"KERNEL_{label}", axis.kernel, f"TAP_STEP_{label}", axis.tap_step, indent, remark))
    return tuple(loops)


CONV = Kernel("portable/conv", ConvContext, frozenset(), why_not, prepare)
