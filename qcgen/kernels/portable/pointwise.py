"""portable/pointwise: 1x1 convolutions; channels-last images are read where they are."""

from __future__ import annotations

from math import prod

from qcgen.ir.program import Conv, Operator
from qcgen.ir.types import Layout
from qcgen.kernels.access import blocks, in_blocks_of_channels
from qcgen.kernels.axes import axes
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.packing import pack, unsigned_shift
from qcgen.kernels.portable.window_sums import (
    block_size,
    shift_text,
    sum_context,
    tap_remark,
    taps_scratch,
    weight_table,
)
from qcgen.kernels.reasons import why_no_integer_conv


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves kernels of one tap without padding; with channels first, stride 1 only."""
    reason = why_no_integer_conv(op)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    g = op.geometry
    if set(g.kernel) != {1}:
        return "the kernel has more than one tap"
    if g.is_padded:
        return "the image is padded"
    if setting.x_layout is Layout.CHANNELS_FIRST and set(g.strides) != {1}:
        return "the stride is not 1, so neighbouring outputs are not computed from neighbouring inputs"
    return None


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Weights [M][C/group]; with channels first, the pixels of a block are transposed into the arena."""
    assert isinstance(op, Conv)
    g = op.geometry
    is_last = setting.x_layout is Layout.CHANNELS_LAST
    packed = pack(op, setting.features, 0 if is_last else unsigned_shift(op))
    context = sum_context(op, packed, setting) | {
        "channels_last": is_last,
        "is_strided": set(g.strides) != {1},
        "has_scratch": not is_last,
        "axes": axes(g, setting.x_layout),
        "wide_taps": setting.optimize == "speed",
        "shift_text": shift_text(packed),
        "tap_remark": tap_remark(packed),
    }
    scratch = () if is_last else (taps_scratch(g, block_size(g), setting),)
    constants = (weight_table(op, packed, setting.x_layout), *packed.constants())
    units = blocks(prod(g.output), block_size(g))
    access = in_blocks_of_channels(op, setting, units, range(1, g.out_channels + 1)) if g.group == 1 else None
    return Prepared(constants, context, scratch, (*packed.support, "compiler"), packed.certificate, access=access)


POINTWISE = Kernel("portable/pointwise", "kernels/portable/pointwise.c.jinja", frozenset(), why_not, prepare)
