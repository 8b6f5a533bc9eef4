"""portable/pointwise: 1x1 convolutions; channels-last images are read where they are."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.program import Conv, Operator
from qcgen.ir.types import Layout
from qcgen.kernels.access import blocks, in_blocks_of_channels
from qcgen.kernels.axes import Axis, axes
from qcgen.kernels.kernel import Kernel, Prepared, Setting
from qcgen.kernels.packing import pack, unsigned_shift
from qcgen.kernels.portable.window_sums import (
    CopiedTaps,
    WindowSums,
    block_size,
    copied_taps,
    taps_scratch,
    weight_table,
    window_sums,
)
from qcgen.kernels.reasons import why_no_conv_of_codes


@dataclass(frozen=True)
class PointwiseContext(Context):
    """A 1x1 convolution."""

    template: ClassVar[str] = "kernels/portable/pointwise.c.jinja"

    sums: WindowSums
    taps: CopiedTaps
    channels_last: bool  # pixels are read where they are
    is_strided: bool  # pixels of x are left out
    in_pixels: int  # of an image of x
    axes: tuple[Axis, ...]  # the spatial ones, outermost first


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves kernels of one tap without padding; with channels first, stride 1 only."""
    reason = why_no_conv_of_codes(op)
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
    packed = pack(op, setting, 0 if is_last else unsigned_shift(op), unpacks=True)
    context = PointwiseContext(
        sums=window_sums(op, packed, setting, has_scratch=not is_last),
        taps=copied_taps(op, packed, setting),
        channels_last=is_last,
        is_strided=set(g.strides) != {1},
        in_pixels=prod(g.input),
        axes=axes(g, setting.x_layout),
    )
    scratch = () if is_last else (taps_scratch(op, setting),)
    constants = (weight_table(op, packed, setting.x_layout), *packed.constants())
    units = blocks(prod(g.output), block_size(g))
    access = in_blocks_of_channels(op, setting, units, range(1, g.out_channels + 1)) if g.group == 1 else None
    return Prepared(constants, context, scratch, packed.certificate, access=access)


POINTWISE = Kernel("portable/pointwise", PointwiseContext, frozenset(), why_not, prepare)
