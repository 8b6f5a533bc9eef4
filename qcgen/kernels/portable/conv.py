"""portable/conv: any integer convolution; the windows of a block of outputs are copied, then summed."""

from __future__ import annotations

from math import prod

from qcgen.ir.program import Conv, ConvGeometry, Operator
from qcgen.ir.types import Layout
from qcgen.kernels.access import blocks, in_pixels
from qcgen.kernels.axes import INDENT, Axis, any_at_border, any_inside, axes, inside_numbers, output_numbers
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.packing import pack, unsigned_shift
from qcgen.kernels.portable.window_sums import (
    Loop,
    block_size,
    shift_text,
    sum_context,
    tap_remark,
    taps_scratch,
    weight_table,
)
from qcgen.kernels.reasons import why_no_integer_conv


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every integer convolution."""
    return why_no_integer_conv(op)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Weights [M][taps] in the order in which a window is copied, taps shifted to 0..255."""
    assert isinstance(op, Conv)
    g = op.geometry
    packed = pack(op, setting.features, unsigned_shift(op))
    context = {
        **sum_context(op, packed, setting),
        **copy_context(g, setting.x_layout),
        "shift_text": shift_text(packed),
        "tap_remark": tap_remark(packed),
        "padding": packed.padding,
        "wide_taps": setting.optimize == "speed",
        "has_scratch": True,
    }
    constants = (weight_table(op, packed, setting.x_layout), *packed.constants())
    scratch = taps_scratch(g, block_size(g), setting)
    g = op.geometry
    access = in_pixels(op, setting, blocks(prod(g.output), block_size(g)), gathers=True) if g.group == 1 else None
    return Prepared(constants, context, (scratch,), (*packed.support, "compiler"), packed.certificate, access=access)


def copy_context(g: ConvGeometry, layout: Layout) -> dict[str, object]:
    """The names that templates/kernels/portable/copy_window.c.jinja uses, besides g, in_pixels and x_type."""
    spatial = axes(g, layout)
    loops = _copy_loops(g, spatial, layout)
    return {
        "axes": spatial,
        "axes_indent": spatial[-1].indent + INDENT,
        "loops": loops,
        "loops_indent": INDENT * (len(loops) + 1),
        "run": _run(g, layout),
        "channels_last": layout is Layout.CHANNELS_LAST,
        "has_inside": any_inside(spatial),
        "has_border": any_at_border(spatial),
        "output_numbers": output_numbers(spatial),
        "inside_numbers": inside_numbers(spatial),
    }


def _row_is_contiguous(g: ConvGeometry, layout: Layout) -> bool:
    """Whether the taps of one row of a window lie side by side in memory."""
    return g.dilations[-1] == 1 and (layout is Layout.CHANNELS_FIRST or g.group == 1)


def _run(g: ConvGeometry, layout: Layout) -> int:
    """How many elements of a window are copied in one go."""
    pixel = g.group_in if layout is Layout.CHANNELS_LAST else 1
    return pixel * (g.kernel[-1] if _row_is_contiguous(g, layout) else 1)


def _copy_loops(g: ConvGeometry, spatial: tuple[Axis, ...], layout: Layout) -> tuple[Loop, ...]:
    """The loops around a run, outermost first."""
    loops = []
    if layout is Layout.CHANNELS_FIRST:
        plane = spatial[0].step * spatial[0].input
        count = "GROUP_IN" if g.group > 1 else "IN_CHANNELS"
        loops.append(Loop("c", count, g.group_in, "STEP_CHANNEL", plane, INDENT))
    walked = spatial[:-1] if _row_is_contiguous(g, layout) else spatial
    for axis in walked:
        variable, label, indent = f"k{axis.letter}", axis.label, INDENT * (len(loops) + 1)
        remark = "from tap to tap: dilation times the step of the image" if axis is walked[0] else ""
        loops.append(Loop(variable, f"KERNEL_{label}", axis.kernel, f"TAP_STEP_{label}", axis.tap_step, indent, remark))
    return tuple(loops)


CONV = Kernel("portable/conv", "kernels/portable/conv.c.jinja", frozenset(), why_not, prepare)
