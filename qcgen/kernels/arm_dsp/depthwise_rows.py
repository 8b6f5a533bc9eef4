"""arm_dsp/depthwise_rows: one filter per channel, one row of the kernel after the other, on the image where it lies."""

from __future__ import annotations

from math import prod

from qcgen.ir.program import Conv, Operator
from qcgen.kernels.access import channel_by_channel, parts_of_rows, plane
from qcgen.kernels.arm_dsp.output import certified, dsp_output, output_context, output_support
from qcgen.kernels.arm_dsp.row_groups import group_size, groups
from qcgen.kernels.arm_dsp.scaled import start_table
from qcgen.kernels.fast_output import output_constants
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Setting
from qcgen.kernels.packing import Packed, names_of_conv, pack
from qcgen.kernels.plane import beyond_taps, first_taps, plane_axes
from qcgen.kernels.reasons import why_all_outside, why_no_depthwise, why_taps, why_wraps

MAX_TAPS = 64


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves depthwise convolutions of images of one or two axes."""
    reason = why_no_depthwise(op, setting)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    return why_taps(prod(op.geometry.kernel), MAX_TAPS) or why_all_outside(op.geometry) or why_wraps(_pack(op, setting))


def _pack(op: Conv, setting: Setting) -> Packed:
    return pack(op, setting.features, 0, whole_weights=True)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """No scratch; weights [channels][taps]."""
    assert isinstance(op, Conv)
    g, packed = op.geometry, _pack(op, setting)
    height, width = plane_axes(g)
    dsp = dsp_output(op, packed)
    context = {
        **names_of_conv(op, packed),
        **output_context(packed.epilogue.output, dsp),
        "weight_type": packed.weights_type,
        "taps": prod(g.kernel),
        "zero_point": op.x_zero_point,
        "height": height,
        "is_cut_before": max(first_taps(height)) > 0,
        "is_cut_behind": min(beyond_taps(height)) < height.kernel,
        "has_empty": any(a >= b for a, b in zip(first_taps(height), beyond_taps(height), strict=True)),
        "width": width,
        "groups": groups(width, op.x_zero_point != 0),
        "x_image": g.in_channels * prod(g.input),
        "y_image": g.out_channels * prod(g.output),
    }
    meaning = f"weights [{g.out_channels} channels][{prod(g.kernel)} taps]{packed.weights_remark}."
    weights = Constants("weights", packed.weights_type, packed.weights, meaning)
    constants = (weights, start_table(packed), *output_constants(packed))
    access = channel_by_channel(op, setting, parts_of_rows(plane(g), group_size(width)), gathers=True)
    support = ("dsp", *output_support(op, packed))
    return Prepared(constants, context, (), support, certified(op, packed), access=access)


DEPTHWISE_ROWS = Kernel(
    "arm_dsp/depthwise_rows", "kernels/arm_dsp/depthwise_rows.c.jinja", frozenset({"dsp"}), why_not, prepare
)
