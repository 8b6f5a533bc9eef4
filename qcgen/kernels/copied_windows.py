"""How windows of an image are copied, tap by tap or in rows, so that their elements lie side by side."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from qcgen.ir.context import Context
from qcgen.ir.program import ConvGeometry
from qcgen.ir.types import Layout
from qcgen.kernels.axes import INDENT, Axis, any_at_border, any_inside, axes, inside_numbers, output_numbers


@dataclass(frozen=True)
class Loop:
    """A counting loop of the generated C: for ``variable`` < ``count_name``, ``step`` elements apart.

    ``remark`` is a comment on these steps.
    """

    variable: str
    count_name: str
    count: int
    step_name: str
    step: int
    indent: str
    remark: str = ""


@dataclass(frozen=True)
class CopyWindow(Context):
    """The names that templates/kernels/copy_window.c.jinja uses, besides those of the convolution itself."""

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
