"""portable/max_pool, average_pool: windows of images, quantized or float32, channels last or first.

portable/interpolate: images of codes that are resized bilinearly, in integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from qcgen.arithmetic import Quantization, dequantize
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import AveragePool, Between, Interpolate, Operator, Tensor
from qcgen.ir.types import DType, Layout
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting, word, words
from qcgen.kernels.loop_nest import strides
from qcgen.kernels.pooling import (
    MaxPoolContext,
    Nested,
    Pooling,
    is_written_out,
    pooling_of,
    prepare_max,
    why_not_max,
)
from qcgen.kernels.windows import PlaneAxis, any_at_border, axes, beyond_taps, first_taps
from qcgen.requantize.means import MeanLine, fit_mean_line


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
    groups: tuple[tuple[int, ...], ...] = ()  # of float32: the taps that are added up first, if taps are written out
    is_by_columns: bool = False  # of float32: those of a column are
    column_loops: tuple[Nested, ...] = ()  # over a column of a window


def why_not_average(op: Operator, _setting: Setting) -> str | None:
    """Serves every average pooling of int8, uint8 and float32."""
    return None if isinstance(op, AveragePool) else f"{op.op_type} is not an average pooling"


def prepare_average(op: Operator, setting: Setting) -> Prepared:
    """Quantized: sums in int32 against one line; where the order of float32 additions matters they are emulated."""
    assert isinstance(op, AveragePool)
    if op.x.dtype is not DType.FLOAT32:
        return _prepare_quantized(op, setting)
    pooling = pooling_of(op.geometry, op.x, setting)
    columns = op.geometry.kernel[-1] if op.is_by_columns else len(pooling.taps)
    context = AveragePoolContext(
        pooling=pooling,
        mean=MeanStep(),
        tap_count=prod(op.geometry.kernel),
        counts_padding=op.count_include_pad,
        may_be_empty=_may_be_empty(op),
        is_float=True,
        emulates=False,
        groups=tuple(pooling.taps[column::columns] for column in range(columns)) if pooling.taps else (),
        is_by_columns=op.is_by_columns,
        column_loops=pooling.tap_loops[:-1],
    )
    return Prepared((), context, (), Certificate())


def _prepare_quantized(op: AveragePool, setting: Setting) -> Prepared:
    g = op.geometry
    x_by, y_by = _quantization(op.x), _quantization(op.y)
    line = fit_mean_line(prod(g.kernel), x_by, y_by, (op.x.dtype.low, op.x.dtype.high), op.y.dtype.low, op.y.dtype.high)
    pooling = pooling_of(g, op.x, setting, has_line=not line.emulates_always, has_guard=line.guard is not None)
    spatial, has_inside = pooling.axes, pooling.has_inside
    counts_taps = (any_at_border(spatial) or not is_written_out(spatial)) and not op.count_include_pad
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
    form = "soft-float" if not has_inside else "line" if line.guard is None else "guard band"
    numbers: dict[str, object] = {"kind": "window mean", "form": form, "accumulator": line.sums}
    if has_inside:
        numbers |= {"slope": line.slope, "offset": line.offset, "shift": line.shift, "guard": line.guard}
    certificate = Certificate(line.sums, False, {form: 1}, line.comparisons, numbers=numbers)
    constants = _emulation_tables(op, x_by, counts_taps) if context.emulates else ()
    return Prepared(constants, context, scratch, certificate)


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


MAX_POOL = Kernel("portable/max_pool", MaxPoolContext, frozenset(), why_not_max, prepare_max)
AVERAGE_POOL = Kernel("portable/average_pool", AveragePoolContext, frozenset(), why_not_average, prepare_average)


IMAGE_AXES = ("image", "row", "column", "channel")


@dataclass(frozen=True)
class InterpolateContext(Context):
    """An image resized bilinearly."""

    template: ClassVar[str] = "kernels/portable/interpolate.c.jinja"

    type: str  # of C, of both images
    truncates: bool  # what is between two codes goes toward 0, not to the nearer one
    batch: int  # images
    rows: int  # of y
    columns: int  # of y
    channels: int  # of both
    x_steps: tuple[tuple[str, int], ...]  # by axis: from one place to the next, in elements; 1 for all others
    y_steps: tuple[tuple[str, int], ...]  # the same of y


def why_not_interpolate(op: Operator, _setting: Setting) -> str | None:
    """Serves every bilinear resizing of codes."""
    return None if isinstance(op, Interpolate) else f"{op.op_type} does not resize an image bilinearly"


def prepare_interpolate(op: Operator, setting: Setting) -> Prepared:
    """Tables of where rows and columns of y lie in x; images in any order."""
    assert isinstance(op, Interpolate)
    x, y = strides(op.x.shape, setting.xs[0]), strides(op.y.shape, setting.y)
    constants = (*_tables("row", op.down, x[1]), *_tables("column", op.across, x[2]))
    context = InterpolateContext(
        type=op.x.dtype.c,
        truncates=op.truncates,
        batch=op.y.shape[0],
        rows=op.y.shape[1],
        columns=op.y.shape[2],
        channels=op.y.shape[3],
        x_steps=tuple(zip(IMAGE_AXES, x, strict=True)),
        y_steps=tuple(zip(IMAGE_AXES, y, strict=True)),
    )
    return Prepared(constants, context, (), Certificate())


def _tables(axis: str, by: Between, step: int) -> tuple[Constants, ...]:
    first = np.array(by.first) * step
    return (
        Constants(f"{axis}s", "int32_t", first, f"where the {axis} before each {axis} of y begins in x."),
        Constants(f"{axis}_parts", "int16_t", np.array(by.part), f"how far behind it each {axis} lies, in 1024ths."),
    )


INTERPOLATE = Kernel("portable/interpolate", InterpolateContext, frozenset(), why_not_interpolate, prepare_interpolate)
