"""portable/instance_norm: InstanceNormalization of codes, its float32 arithmetic in integers."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from qcgen.arithmetic import dequantize
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import InstanceNorm, Operator
from qcgen.ir.types import Layout
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.loop_nest import pixel_stride, strides
from qcgen.kernels.portable.words import word, words

MANY = 256  # codes: of more pixels than these the results of each code are kept


@dataclass(frozen=True)
class InstanceNormContext(Context):
    """The normalization of channels of codes. Words hold the bits of float32 numbers."""

    template: ClassVar[str] = "kernels/portable/instance_norm.c.jinja"

    x_type: str  # of C
    y_type: str  # of C
    batch: int  # images
    channels: int  # of an image
    pixels: int  # of a channel
    x_image: int  # from one image of x to the next, in elements
    x_channel: int  # from one channel of x to the next
    x_pixel: int  # from one pixel of a channel of x to the next
    y_image: int  # from one image of y to the next
    y_channel: int  # from one channel of y to the next
    y_pixel: int  # from one pixel of a channel of y to the next
    first: int  # plus a code of x: its place in tables
    epsilon: int  # a word
    count: int  # the pixels of a channel as a word
    one: int  # the number 1 as a word
    y_scale: int  # a word
    y_zero_point: int  # of y
    low: int  # the lowest code of y
    high: int  # the highest code of y
    has_tables: bool  # what becomes of each code is found once for each channel


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every instance normalization of codes."""
    if isinstance(op, InstanceNorm) and op.x.dtype.is_quantized:
        return None
    return f"{op.op_type} is not an instance normalization of codes"


def prepare(op: Operator, setting: Setting) -> Prepared:
    """A table of what codes stand for; for channels of many pixels one of squares, and of codes, in the arena."""
    assert isinstance(op, InstanceNorm)
    assert op.x.scale is not None, "x is quantized"
    assert op.y.scale is not None, "y is quantized"
    channel_axis = len(op.x.shape) - 1 if op.x.layout is Layout.CHANNELS_LAST else 1
    spatial = [axis for axis in range(1, len(op.x.shape)) if axis != channel_axis]
    pixels = prod(op.x.shape[axis] for axis in spatial)
    x, y = strides(op.x.shape, setting.xs[0]), strides(op.y.shape, setting.y)
    context = InstanceNormContext(
        x_type=op.x.dtype.c,
        y_type=op.y.dtype.c,
        batch=op.x.shape[0],
        channels=op.x.shape[channel_axis],
        pixels=pixels,
        x_image=x[0],
        x_channel=x[channel_axis],
        x_pixel=pixel_stride(op.x.shape, setting.xs[0], spatial),
        y_image=y[0],
        y_channel=y[channel_axis],
        y_pixel=pixel_stride(op.y.shape, setting.y, spatial),
        first=-op.x.dtype.low,
        epsilon=word(op.epsilon),
        count=word(pixels),
        one=word(1),
        y_scale=word(op.y.scale),
        y_zero_point=op.y.zero_point or 0,
        low=op.y.dtype.low,
        high=op.y.dtype.high,
        has_tables=pixels > MANY,
    )
    numbers = dequantize(np.arange(op.x.dtype.low, op.x.dtype.high + 1), op.x.scale, op.x.zero_point or 0)
    constants = (
        Constants("numbers", "uint32_t", words(numbers), "what each code stands for, as the word of a float32 number."),
        Constants("scale", "uint32_t", words(op.scale), "what each channel is multiplied by."),
        Constants("bias", "uint32_t", words(op.bias), "what is added to each channel."),
    )
    proved: dict[str, object] = {constant.role: constant.values for constant in constants}
    certificate = Certificate(numbers={"kind": "instance norm", "epsilon": context.epsilon, **proved})
    scratch = (Scratch(4 * MANY, 4),) if context.has_tables else ()
    return Prepared(constants, context, scratch, certificate, (0,) if x == y else ())


INSTANCE_NORM = Kernel("portable/instance_norm", InstanceNormContext, frozenset(), why_not, prepare)
