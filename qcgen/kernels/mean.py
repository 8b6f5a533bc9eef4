"""Means of whole images: the sums, where they start, their requantization, and the loop nest over the pixels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from qcgen.errors import prove
from qcgen.intervals import INT32_MAX, AccumulatorInterval
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import GlobalAveragePool, Operator, Requantize, RoundOnce
from qcgen.kernels.epilogue import Output, OutputStep, prepare_requantize, prepare_round_once
from qcgen.kernels.kernel import Constants, Setting, number
from qcgen.kernels.loop_nest import LoopNest, loop_nest_of_one, pixel_stride, strides


@dataclass(frozen=True)
class MeanImage(Context):
    """The image and where means go, in elements."""

    types: Mapping[str, str]  # of C, by "x" and "y"
    batch: int  # images
    channels: int  # of an image
    pixels: int  # of an image
    x_image: int  # from one image to the next
    y_image: int  # the same of y
    y_channel: int  # from one mean to the next


@dataclass(frozen=True)
class Pixels:
    """How pixels lie: ``is_row`` if one after the other, channels last; ``nest`` through those of a channel."""

    is_row: bool
    channel_step: int
    nest: LoopNest


@dataclass(frozen=True)
class Mean:
    """The output step of means in integers, and where their sums ``start``, in codes."""

    start: int
    epilogue: OutputStep
    certificate: Certificate

    @property
    def output(self) -> Output:
        """What templates show of the output step."""
        return self.epilogue.output

    @property
    def constants(self) -> tuple[Constants, ...]:
        """The tables of the output step, and the start if it may become another."""
        if self.epilogue.common is None or not self.epilogue.common.is_free:
            return self.epilogue.constants
        return (*self.epilogue.constants, number("start", "int32_t", self.start, "where sums of codes start."))


ROW_BY_ROW = "its rows come one by one"


def why_no_mean(op: Operator) -> str | None:
    """The operator is not a global average pooling."""
    return None if isinstance(op, GlobalAveragePool) else f"{op.op_type} is not a mean of whole images"


def prepare_mean(op: GlobalAveragePool, requantize: Requantize | RoundOnce, setting: Setting) -> Mean:
    """The output step of means of codes, with its certificate."""
    interval = interval_of(op)
    scale = "x_scale / (pixels * y_scale)"
    if isinstance(requantize, RoundOnce):
        epilogue = prepare_round_once(requantize, op.y.dtype.c, interval, scale)
    else:
        prove(requantize.scale.size == 1, "all channels have one scale")
        epilogue = prepare_requantize(
            requantize,
            op.y.dtype.c,
            interval,
            setting.features,
            common=setting.common,
            scale=scale,
            is_alone=not setting.is_free,
        )
    start = epilogue.addend - op.pixels * (op.x.zero_point or 0)
    levels = op.x.dtype.high - op.x.dtype.low
    prove(bool(abs(start).max() + levels * op.pixels <= INT32_MAX), "no sum of an image that fits a memory overflows")
    numbers = epilogue.certificate.numbers
    certificate = replace(epilogue.certificate, numbers={**numbers, "kind": "mean"} if numbers else numbers)
    return Mean(int(start[0]), epilogue, certificate)


def interval_of(op: GlobalAveragePool) -> AccumulatorInterval:
    """The interval of the sums of (x - x_zero_point), (1,)."""
    zero_point = op.x.zero_point or 0
    lo, hi = (np.array([op.pixels * (end - zero_point)]) for end in (op.x.dtype.low, op.x.dtype.high))
    return AccumulatorInterval(lo, hi, False)


def pixels_of(op: GlobalAveragePool, setting: Setting) -> Pixels:
    """The loop nest over the pixels of a channel in the order of x's memory."""
    x = strides(op.x.shape, setting.xs[0])
    averaged = [axis for axis in range(1, len(op.x.shape)) if axis != op.channel_axis]
    found = loop_nest_of_one(((op.x.shape[axis], x[axis]) for axis in averaged), depth=2)
    channels, step = op.x.shape[op.channel_axis], x[op.channel_axis]
    # Behind a Transpose channels may lie side by side and pixels further apart, with those of other images between.
    is_row = channels > 1 and step == 1 and pixel_stride(op.x.shape, setting.xs[0], averaged) in (1, channels)
    return Pixels(is_row and not found.outer, step, found)


def image_of(op: GlobalAveragePool, setting: Setting) -> MeanImage:
    """The image and where means go."""
    x, y = strides(op.x.shape, setting.xs[0]), strides(op.y.shape, setting.y)
    y_channel_axis = op.channel_axis if len(op.y.shape) == len(op.x.shape) else 1
    return MeanImage(
        types={"x": op.x.dtype.c, "y": op.y.dtype.c},
        batch=op.x.shape[0],
        channels=op.x.shape[op.channel_axis],
        pixels=op.pixels,
        x_image=x[0],
        y_image=y[0],
        y_channel=y[y_channel_axis],
    )
