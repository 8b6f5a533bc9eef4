"""arm_dsp/depthwise_rows: one filter per channel, one row of the kernel after the other, on the image where it lies."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.program import Conv, Operator
from qcgen.kernels.access import channel_by_channel, parts_of_rows, plane
from qcgen.kernels.arm_dsp.output import KeptOutput, certified, dsp_output, kept_output, output_support
from qcgen.kernels.arm_dsp.row_groups import LoadedGroups, group_size, groups
from qcgen.kernels.arm_dsp.scaled import bias_table
from qcgen.kernels.fast_output import output_constants
from qcgen.kernels.images import Images, images
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Setting
from qcgen.kernels.packing import Packed, pack
from qcgen.kernels.plane import PlaneAxis, beyond_taps, first_taps, plane_axes
from qcgen.kernels.reasons import why_all_outside, why_no_depthwise, why_taps, why_wraps
from qcgen.kernels.text import Described, described

MAX_TAPS = 64


@dataclass(frozen=True)
class DepthwiseRowsContext(Context):
    """A depthwise convolution, row by row of the kernel."""

    template: ClassVar[str] = "kernels/arm_dsp/depthwise_rows.c.jinja"

    conv: Described
    images: Images
    kept: KeptOutput
    y_type: str  # of C
    weight_type: str  # of C
    taps: int  # weights of a channel
    zero_point: int  # of x
    height: PlaneAxis
    is_cut_before: bool  # some window begins above the image
    is_cut_behind: bool  # some window ends below it
    has_empty: bool  # some window has no row on it
    width: PlaneAxis
    groups: tuple[LoadedGroups, ...]  # of the outputs of a row
    has_outside: bool  # sums hold products of taps outside the image


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves depthwise convolutions of images of one or two axes."""
    reason = why_no_depthwise(op, setting)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    return why_taps(prod(op.geometry.kernel), MAX_TAPS) or why_all_outside(op.geometry) or why_wraps(_pack(op, setting))


def _pack(op: Conv, setting: Setting) -> Packed:
    return pack(op, setting, 0, whole_weights=True)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """No scratch; weights [channels][taps]."""
    assert isinstance(op, Conv)
    g, packed = op.geometry, _pack(op, setting)
    height, width = plane_axes(g)
    dsp, row_groups = dsp_output(op, packed), groups(width, op.x_zero_point != 0)
    is_cut_before, is_cut_behind = max(first_taps(height)) > 0, min(beyond_taps(height)) < height.kernel
    context = DepthwiseRowsContext(
        conv=described(op),
        images=images(g),
        kept=kept_output(packed.epilogue.output, dsp),
        y_type=op.y.dtype.c,
        weight_type=packed.weights_type,
        taps=prod(g.kernel),
        zero_point=op.x_zero_point,
        height=height,
        is_cut_before=is_cut_before,
        is_cut_behind=is_cut_behind,
        has_empty=any(a >= b for a, b in zip(first_taps(height), beyond_taps(height), strict=True)),
        width=width,
        groups=row_groups,
        has_outside=is_cut_before or is_cut_behind or any(group.has_outside for group in row_groups),
    )
    meaning = f"weights [{g.out_channels} channels][{prod(g.kernel)} taps]{packed.weights_remark}."
    weights = Constants("weights", packed.weights_type, packed.weights, meaning)
    constants = (weights, bias_table(packed), *output_constants(packed))
    access = channel_by_channel(op, setting, parts_of_rows(plane(g), group_size(width)), gathers=True)
    support = ("dsp", *output_support(op, packed))
    return Prepared(constants, context, (), support, certified(op, packed), access=access)


DEPTHWISE_ROWS = Kernel("arm_dsp/depthwise_rows", DepthwiseRowsContext, frozenset({"dsp"}), why_not, prepare)
