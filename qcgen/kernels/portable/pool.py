"""portable/max_pool and average_pool: windows of images, quantized or float32, channels last or first."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import ClassVar

import numpy as np

from qcgen.arithmetic import Quantization, dequantize
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import AveragePool, ConvGeometry, MaxPool, Operator, Tensor
from qcgen.ir.types import DType, Layout
from qcgen.kernels.axes import INDENT, Axis, any_at_border, any_inside, axes
from qcgen.kernels.images import Images, images
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.plane import PlaneAxis, beyond_taps, first_taps
from qcgen.kernels.portable.words import word, words
from qcgen.requantize.average import MeanLine, fit_mean_line

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
    lowest: str  # what maxima start with, in C
    replaces: str  # how an element that becomes the largest compares with the one before, in C


@dataclass(frozen=True)
class MeanStep(Context):
    """From the sum of a window's codes to the output's code; only float32 has none of it."""

    line: MeanLine | None = None  # None: float32
    counts_taps: bool = False  # divisors are the taps in the image
    lowest_code: int = 0  # of x
    start: int = 0  # of line.slope times a sum of codes
    low: int = 0  # the lowest code of y
    high: int = 0  # the highest code of y
    clamps_low: bool = False  # some sum is below the lowest code
    clamps_high: bool = False  # some sum is above the highest code
    fraction_mask: int = 0  # the bits of the line below its code
    y_scale: int = 0  # y's scale as the word of a float32 number
    y_zero: int = 0  # y's zero point as such a word
    divisor: int = 0  # the number of taps as such a word


@dataclass(frozen=True)
class AveragePoolContext(Context):
    """An average pooling."""

    template: ClassVar[str] = "kernels/portable/average_pool.c.jinja"

    pooling: Pooling
    mean: MeanStep
    tap_count: int  # of a window
    counts_padding: bool  # taps outside the image count
    may_be_empty: bool  # some window has no tap that counts
    is_float: bool  # float32 throughout
    emulates: bool  # some outputs are found by float32 arithmetic in integers


def why_not_max(op: Operator, _setting: Setting) -> str | None:
    """Serves every max pooling of int8, uint8 and float32."""
    return None if isinstance(op, MaxPool) else f"{op.op_type} is not a max pooling"


def why_not_average(op: Operator, _setting: Setting) -> str | None:
    """Serves every average pooling of int8, uint8 and float32."""
    return None if isinstance(op, AveragePool) else f"{op.op_type} is not an average pooling"


def prepare_max(op: Operator, setting: Setting) -> Prepared:
    """No constants; outputs are kept where they belong while the loop over its window runs."""
    assert isinstance(op, MaxPool)
    is_float = op.x.dtype is DType.FLOAT32
    # That of the type, which onnxruntime gives of a window without a tap on the image.
    lowest = f"{np.finfo(np.float32).min}f" if is_float else str(op.x.dtype.low)
    # Of a zero and its negative the last one stays, as in onnxruntime.
    context = MaxPoolContext(_pooling(op.geometry, op.x, setting), lowest, ">=" if is_float else ">")
    return Prepared((), context, (), (), Certificate())


def prepare_average(op: Operator, setting: Setting) -> Prepared:
    """Quantized: sums in int32 against one line; where the order of float32 additions matters they are emulated."""
    assert isinstance(op, AveragePool)
    if op.x.dtype is not DType.FLOAT32:
        return _prepare_quantized(op, setting)
    context = AveragePoolContext(
        pooling=_pooling(op.geometry, op.x, setting),
        mean=MeanStep(),
        tap_count=prod(op.geometry.kernel),
        counts_padding=op.count_include_pad,
        may_be_empty=_may_be_empty(op),
        is_float=True,
        emulates=False,
    )
    return Prepared((), context, (), (), Certificate())


def _prepare_quantized(op: AveragePool, setting: Setting) -> Prepared:
    g = op.geometry
    x_by, y_by = _quantization(op.x), _quantization(op.y)
    line = fit_mean_line(prod(g.kernel), x_by, y_by, (op.x.dtype.low, op.x.dtype.high), op.y.dtype.low, op.y.dtype.high)
    pooling = _pooling(g, op.x, setting, has_line=not line.emulates_always, has_guard=line.guard is not None)
    spatial, has_inside = pooling.axes, pooling.has_inside
    counts_taps = (any_at_border(spatial) or not _written_out(spatial)) and not op.count_include_pad
    context = AveragePoolContext(
        pooling=pooling,
        mean=_mean_step(op, line, has_inside=has_inside, counts_taps=counts_taps),
        tap_count=prod(g.kernel),
        counts_padding=op.count_include_pad,
        may_be_empty=_may_be_empty(op),
        is_float=False,
        emulates=pooling.is_guarded or pooling.has_border,
    )
    scratch = (Scratch(4 * pooling.run, 4),) if pooling.is_guarded else ()
    emulation = ("soft_float_add", "soft_float", "soft_float_round")
    support = ("right_shift",) * has_inside + emulation * context.emulates
    form = "soft-float" if not has_inside else "line" if line.guard is None else "guard band"
    numbers: dict[str, object] = {"kind": "window mean", "form": form, "accumulator": line.sums}
    if has_inside:
        numbers |= {"slope": line.slope, "offset": line.offset, "shift": line.shift, "guard": line.guard}
    certificate = Certificate(line.sums, False, {form: 1}, line.comparisons, numbers=numbers)
    constants = _emulation_tables(op, x_by, counts_taps) if context.emulates else ()
    return Prepared(constants, context, scratch, support, certificate)


def _mean_step(op: AveragePool, line: MeanLine, *, has_inside: bool, counts_taps: bool) -> MeanStep:
    x_by, y_by, taps = _quantization(op.x), _quantization(op.y), prod(op.geometry.kernel)
    low, high = op.y.dtype.low, op.y.dtype.high
    ends = tuple(end * line.slope + line.offset for end in line.sums)
    return MeanStep(
        line=line,
        counts_taps=counts_taps,
        lowest_code=op.x.dtype.low,
        # The share of the zero point is in every sum of codes.
        start=line.offset - line.slope * taps * x_by.zero_point,
        low=low,
        high=high,
        clamps_low=has_inside and ends[0] >> line.shift < low,
        clamps_high=has_inside and ends[1] >> line.shift > high,
        fraction_mask=(1 << line.shift) - 1,
        y_scale=word(y_by.scale),
        y_zero=word(y_by.zero_point),
        divisor=word(taps),
    )


def _emulation_tables(op: AveragePool, x_by: Quantization, counts_taps: bool) -> tuple[Constants, ...]:
    values = dequantize(np.arange(op.x.dtype.low, op.x.dtype.high + 1), x_by.scale, x_by.zero_point)
    text = "what each code stands for, as the word of a float32 number."
    constants = [Constants("values", "uint32_t", words(values), text)]
    if counts_taps:
        counts = np.maximum(np.arange(prod(op.geometry.kernel) + 1), 1)
        text = "divisors of windows with 0, 1, 2, ... taps in the image, as words of float32 numbers."
        constants.append(Constants("counts", "uint32_t", words(counts), text))
    return tuple(constants)


def _may_be_empty(op: AveragePool) -> bool:
    """Whether some window has no tap on the image, where padding does not count."""
    found = (
        PlaneAxis(a.input, a.output, a.kernel, a.stride, a.dilation, a.pad)
        for a in axes(op.geometry, Layout.CHANNELS_LAST)
    )
    return not op.count_include_pad and any(
        first >= beyond for axis in found for first, beyond in zip(first_taps(axis), beyond_taps(axis), strict=True)
    )


def _quantization(tensor: Tensor) -> Quantization:
    assert tensor.scale is not None, "the tensor is quantized"
    return Quantization(tensor.scale, tensor.zero_point or 0)


def _written_out(spatial: tuple[Axis, ...]) -> bool:
    """Whether there are windows wholly within the image, and few taps: then these are written out."""
    return prod(axis.kernel for axis in spatial) <= MAX_TAPS and any_inside(spatial)


def _pooling(
    g: ConvGeometry, x: Tensor, setting: Setting, *, has_line: bool = True, has_guard: bool = False
) -> Pooling:
    """``has_line``: windows in the image may be computed otherwise than at the border, ``has_guard``: not always."""
    x_last, y_last = (layout is Layout.CHANNELS_LAST for layout in (setting.x_layout, setting.y_layout))
    spatial = axes(g, setting.x_layout)
    *outer, across = spatial
    pixels = prod(g.output)
    y_pixel, y_channel = (g.out_channels, 1) if y_last else (1, pixels)
    has_inside = has_line and _written_out(spatial)
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


MAX_POOL = Kernel("portable/max_pool", MaxPoolContext, frozenset(), why_not_max, prepare_max)
AVERAGE_POOL = Kernel("portable/average_pool", AveragePoolContext, frozenset(), why_not_average, prepare_average)
