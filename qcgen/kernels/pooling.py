"""What poolings share: the loops of windows, MaxPool among them, and the sums and pixels of means of whole images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import ClassVar

import numpy as np

from qcgen.cores import BRANCHLESS
from qcgen.errors import prove
from qcgen.intervals import INT32_MAX, AccumulatorInterval
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import ConvGeometry, GlobalAveragePool, MaxPool, Operator, Requantize, RoundOnce, Tensor
from qcgen.ir.types import DType, Layout
from qcgen.kernels.epilogue import Output, OutputStep, prepare_requantize, prepare_round_once
from qcgen.kernels.kernel import Constants, Prepared, Setting, number
from qcgen.kernels.loop_nest import LoopNest, loop_nest_of_one, pixel_stride, strides
from qcgen.kernels.text import INDENT
from qcgen.kernels.windows import Axis, Images, any_at_border, any_inside, axes, images

MAX_TAPS = 64  # written out one by one; larger windows get a loop over their taps


@dataclass(frozen=True)
class Nested:
    """The loop over one axis, with its depth in C."""

    axis: Axis
    indent: str


@dataclass(frozen=True)
class Pooling(Context):
    """What templates/kernels/portable/pool.c.jinja and those that extend it use. A plane is a channel of an image."""

    window: str  # in words
    type: str  # of C, of both images
    images: Images
    batch: int  # images
    planes: int  # of a loop: 1 if channels lie side by side
    channels_last: bool  # the channels of a pixel lie side by side
    lanes: int  # outputs of a window: the channels if they lie side by side
    lane_step: int  # from one of them to the next, in elements of y
    run: int  # outputs that are computed together: the lanes, or what lies within the image of a row
    run_step: int  # from one window of a run to the next, in elements of x
    is_rolled: bool  # windows overlap: the compiler must not write out loops over them
    out_step: int  # from one output of a run to the next
    axes: tuple[Axis, ...]  # the spatial ones, outermost first
    rows: tuple[Axis, ...]  # all but the last
    across: Axis  # the last
    taps: tuple[int, ...]  # their distances from the first one of a window, if they are written out
    has_inside: bool  # some window is computed as one wholly within the image
    has_border: bool  # some window is not
    has_row_border: bool  # the windows of whole rows are not
    x_plane: int  # from one plane to the next, in elements
    y_channel: int  # the same of y
    y_row: int  # from one row to the next
    row_loops: tuple[Nested, ...]  # over the rows of the output
    row_indent: str  # within them
    row_bounds: tuple[str, ...]  # lines of enumerators of a row: what parts windows in the image from others,
    row_numbers: tuple[str, ...]  # and the rest
    tap_loops: tuple[Nested, ...]  # over a window
    tap_indent: str  # within them
    is_guarded: bool  # some sums are so near a step that they are taken as at the border


@dataclass(frozen=True)
class MaxPoolContext(Context):
    """A max pooling."""

    template: ClassVar[str] = "kernels/portable/max_pool.c.jinja"

    pooling: Pooling
    number: str  # of C: as what elements of windows within the image are compared
    lowest: str  # what maxima start with, in C
    replaces: str  # how an element that becomes the largest compares with the one before, in C
    is_branchless: bool  # the larger one is computed, not chosen


def why_not_max(op: Operator, _setting: Setting) -> str | None:
    """Serves every max pooling of int8, uint8 and float32."""
    return None if isinstance(op, MaxPool) else f"{op.op_type} is not a max pooling"


def prepare_max(op: Operator, setting: Setting) -> Prepared:
    """No constants; outputs are kept where they belong while the loop over its window runs."""
    assert isinstance(op, MaxPool)
    is_float = op.x.dtype is DType.FLOAT32
    # That of the type, which onnxruntime gives of a window without a tap on the image.
    lowest = f"{np.finfo(np.float32).min}f" if is_float else str(op.x.dtype.low)
    # Of a zero and its negative the last one stays, as in onnxruntime.
    is_branchless = BRANCHLESS in setting.features and not is_float
    pooling, c_type = pooling_of(op.geometry, op.x, setting), op.x.dtype.c
    number = c_type if is_float or not _compares_words(pooling, setting) else "int32_t"
    context = MaxPoolContext(pooling, number, lowest, ">=" if is_float else ">", is_branchless)
    return Prepared((), context, (), Certificate())


def _compares_words(pooling: Pooling, setting: Setting) -> bool:
    """Whether codes are compared as words: compilers extend bytes for each comparison where a choice is a branch.

    Cortex-M0 then takes up to two fifths fewer instructions, RV32IMC half; with gcc -O3 a third more if windows are
    neighbours in a row, which share what they find. Elsewhere bytes are compared as fast, or in vectors.
    """
    chooses = setting.target.chooses_without_branches or "mve" in setting.features
    return setting.target.is_small and not chooses and pooling.across.stride > 1


def is_written_out(spatial: tuple[Axis, ...]) -> bool:
    """Whether there are windows wholly within the image, and few taps: then these are written out."""
    return prod(axis.kernel for axis in spatial) <= MAX_TAPS and any_inside(spatial)


def pooling_of(
    g: ConvGeometry, x: Tensor, setting: Setting, *, has_line: bool = True, has_guard: bool = False
) -> Pooling:
    """``has_line``: windows in the image may be computed otherwise than at the border, ``has_guard``: not always."""
    x_last, y_last = (layout is Layout.CHANNELS_LAST for layout in (setting.x_layout, setting.y_layout))
    spatial = axes(g, setting.x_layout)
    *outer, across = spatial
    pixels = prod(g.output)
    y_pixel, y_channel = (g.out_channels, 1) if y_last else (1, pixels)
    has_inside = has_line and is_written_out(spatial)
    row = _Row(
        spatial,
        channels_last=x_last,
        has_inside=has_inside,
        has_border=not has_inside or any_at_border(spatial),
        is_guarded=has_inside and has_guard,
        run=g.in_channels if x_last else across.inside_end - across.inside_begin,
        out_step=y_channel if x_last else y_pixel,
        y_pixel=y_pixel,
    )
    return Pooling(
        window=_kind(g),
        type=x.dtype.c,
        images=images(g),
        batch=g.batch,
        planes=1 if x_last else g.in_channels,
        channels_last=x_last,
        lanes=g.in_channels if x_last else 1,
        lane_step=y_channel,
        run=row.run,
        run_step=1 if x_last else across.stride,
        is_rolled=not x_last and any(axis.stride < axis.span for axis in spatial),
        out_step=row.out_step,
        axes=spatial,
        rows=tuple(outer),
        across=across,
        taps=_taps(spatial) if has_inside else (),
        has_inside=has_inside,
        has_border=row.has_border,
        has_row_border=row.has_row_border,
        x_plane=prod(g.input),
        y_channel=y_channel,
        y_row=across.output * y_pixel,
        row_loops=tuple(Nested(axis, INDENT * (3 + depth)) for depth, axis in enumerate(outer)),
        row_indent=INDENT * (2 + len(spatial)),
        row_bounds=row.bounds,
        row_numbers=row.numbers,
        tap_loops=tuple(Nested(axis, INDENT * (1 + depth)) for depth, axis in enumerate(spatial)),
        tap_indent=INDENT * (1 + len(spatial)),
        is_guarded=row.is_guarded,
    )


@dataclass(frozen=True)
class _Row:
    """The enumerators that the function of a row uses, in lines; fields as in Pooling."""

    axes: tuple[Axis, ...]
    channels_last: bool
    has_inside: bool
    has_border: bool
    is_guarded: bool
    run: int
    out_step: int
    y_pixel: int

    @property
    def has_row_border(self) -> bool:
        return any_at_border(self.axes[:-1])

    @property
    def bounds(self) -> tuple[str, ...]:
        """What parts windows in the image from others."""
        *outer, across = self.axes
        if not (self.has_inside and self.has_border):
            return ()
        lines = []
        for axis in self.axes if self.has_row_border else (across,):
            ends = axis in outer or self.channels_last or axis.inside_end < axis.output
            beyond = f", BEYOND_{axis.label} = {axis.inside_end}" if ends else ""
            lines.append(f"INSIDE_{axis.label} = {axis.inside_begin}{beyond}")
        return tuple(lines)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The rest."""
        *outer, across = self.axes
        lines = []
        for axis in self.axes if self.has_inside else ():
            if self.channels_last or self.has_border or axis in outer:
                step = f", STEP_{axis.label} = {axis.step}" if self.channels_last or axis in outer else ""
                lines.append(f"STRIDE_{axis.label} = {axis.stride}, PAD_{axis.label} = {axis.pad}{step}")
        is_cut_behind = not self.has_inside or self.has_row_border or across.inside_end < across.output
        out = []
        if is_cut_behind or (self.channels_last and not self.has_border):
            out.append(f"OUT_{across.label} = {across.output}")
        if self.channels_last or self.has_border or self.is_guarded:
            out.append(f"Y_PIXEL = {self.y_pixel}")
        if self.is_guarded:
            out.append(f"RUN = {self.run}")
        if self.is_guarded and self.channels_last:
            out.append(f"OUT_STEP = {self.out_step}")
        return (*lines, ", ".join(out)) if out else tuple(lines)


def _kind(g: ConvGeometry) -> str:
    return "window " + "x".join(map(str, g.kernel)) + ", stride " + "x".join(map(str, g.strides))


def _taps(spatial: tuple[Axis, ...]) -> tuple[int, ...]:
    """The distance of each tap from the first element of the window, rows from top to bottom."""
    places = product(*(range(axis.kernel) for axis in spatial))
    return tuple(sum(k * axis.tap_step for k, axis in zip(place, spatial, strict=True)) for place in places)


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
    interval = _interval_of(op)
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


def _interval_of(op: GlobalAveragePool) -> AccumulatorInterval:
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
