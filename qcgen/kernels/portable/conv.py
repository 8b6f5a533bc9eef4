"""portable/conv: any integer convolution; the windows of a block of outputs are copied, then summed."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.program import Conv, Operator
from qcgen.kernels.access import blocks, in_pixels
from qcgen.kernels.copied_windows import CopyWindow, copy_window
from qcgen.kernels.kernel import Kernel, Prepared, Setting, number
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
    if setting.is_free and context.copy.has_border:
        constants += (number("padding", "uint8_t", packed.padding, "a tap outside."),)
    scratch = taps_scratch(op, setting)
    access = in_pixels(op, setting, blocks(prod(g.output), block_size(g)), gathers=True) if g.group == 1 else None
    return Prepared(constants, context, (scratch,), packed.certificate, access=access)


CONV = Kernel("portable/conv", ConvContext, frozenset(), why_not, prepare)
