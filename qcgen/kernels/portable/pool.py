"""portable/max_pool, average_pool: windows of images, quantized or float32, channels last or first.

portable/interpolate: images of codes that are resized bilinearly, in integers.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from qcgen.arithmetic import Quantization, dequantize
from qcgen.ir.context import Struct
from qcgen.ir.plan import Certificate
from qcgen.ir.program import AveragePool, Between, Interpolate, Operator, Tensor
from qcgen.ir.types import DType
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Setting, word, words
from qcgen.kernels.loop_nest import strides
from qcgen.kernels.pooling import PoolContext, is_written_out, operations, pooling_of, prepare_max, why_not_max
from qcgen.kernels.text import KINDS, LibraryCall, library_call
from qcgen.kernels.windows import any_at_border, axes
from qcgen.requantize.means import MeanLine, fit_mean_line


def why_not_average(op: Operator, _setting: Setting) -> str | None:
    """Serves every average pooling of int8, uint8 and float32."""
    return None if isinstance(op, AveragePool) else f"{op.op_type} is not an average pooling"


def prepare_average(op: Operator, setting: Setting) -> Prepared:
    """Quantized: sums in int32 against one line; where the order of float32 additions matters they are emulated."""
    assert isinstance(op, AveragePool)
    if op.x.dtype is not DType.FLOAT32:
        return _prepare_quantized(op, setting)
    numbers = {"counts_all": int(op.count_include_pad), "is_by_columns": int(op.is_by_columns)}
    context = pooling_of(op.geometry, op.x, setting, "mean", numbers)
    return Prepared((), context, (), Certificate(), operations=operations(context))


def _prepare_quantized(op: AveragePool, setting: Setting) -> Prepared:
    g = op.geometry
    x_by, y_by = _quantization(op.x), _quantization(op.y)
    line = fit_mean_line(prod(g.kernel), x_by, y_by, (op.x.dtype.low, op.x.dtype.high), op.y.dtype.low, op.y.dtype.high)
    spatial = axes(g, setting.x_layout)
    has_inside = is_written_out(spatial) and not line.emulates_always
    is_guarded = has_inside and line.guard is not None
    counts_taps = (any_at_border(spatial) or not is_written_out(spatial)) and not op.count_include_pad
    emulates = is_guarded or not has_inside or any_at_border(spatial)
    constants = _emulation_tables(op, x_by, counts_taps) if emulates else ()
    mean = Struct("wpool_mean", (), _numbers(op, line, counts_taps), _words(op))
    context = pooling_of(g, op.x, setting, "mean", mean=mean, has_line=has_inside)
    zero = f" + {-op.x.dtype.low}" if op.x.dtype.low else ""
    run = "guarded_loop" if is_guarded else context.run
    context = replace(context, run=run, zero=zero, counts_taps=counts_taps, is_guarded=is_guarded)
    form = "soft-float" if not has_inside else "line" if line.guard is None else "guard band"
    numbers: dict[str, object] = {"kind": "window mean", "form": form, "accumulator": line.sums}
    if has_inside:
        numbers |= {"slope": line.slope, "offset": line.offset, "shift": line.shift, "guard": line.guard}
    certificate = Certificate(line.sums, False, {form: 1}, line.comparisons, numbers=numbers)
    return Prepared(constants, context, (), certificate, operations=operations(context))


def _numbers(op: AveragePool, line: MeanLine, counts_taps: bool) -> dict[str, int]:
    low, high = op.y.dtype.low, op.y.dtype.high
    ends = tuple(end * line.slope + line.offset for end in line.sums)
    return {
        "counts_all": int(not counts_taps),
        "clamps_low": int(ends[0] >> line.shift < low),
        "clamps_high": int(ends[1] >> line.shift > high),
        "slope": line.slope,
        # The share of the zero point is in every sum of codes.
        "start": line.offset - line.slope * prod(op.geometry.kernel) * _quantization(op.x).zero_point,
        "shift": line.shift,
        "guard": line.guard or 0,
        "low": low,
        "high": high,
    }


def _words(op: AveragePool) -> dict[str, int]:
    by, taps = _quantization(op.y), prod(op.geometry.kernel)
    return {"y_scale": word(by.scale), "y_zero_point": word(by.zero_point), "divisor": word(taps)}


def _emulation_tables(op: AveragePool, x_by: Quantization, counts_taps: bool) -> tuple[Constants, ...]:
    values = dequantize(np.arange(op.x.dtype.low, op.x.dtype.high + 1), x_by.scale, x_by.zero_point)
    text = "what each code stands for, as the word of a float32 number."
    constants = [Constants("values", "uint32_t", words(values), text)]
    if counts_taps:
        counts = np.maximum(np.arange(prod(op.geometry.kernel) + 1), 1)
        text = "divisors of windows with 0, 1, 2, ... taps in the image, as words of float32 numbers."
        constants.append(Constants("counts", "uint32_t", words(counts), text))
    return tuple(constants)


def _quantization(tensor: Tensor) -> Quantization:
    assert tensor.scale is not None, "the tensor is quantized"
    return Quantization(tensor.scale, tensor.zero_point or 0)


MAX_POOL = Kernel("portable/max_pool", PoolContext, frozenset(), why_not_max, prepare_max)
AVERAGE_POOL = Kernel("portable/average_pool", PoolContext, frozenset(), why_not_average, prepare_average)


INTERPOLATED = 30.0  # operations that the library's function becomes
AXES = ("image", "row", "column", "channel")


def why_not_interpolate(op: Operator, _setting: Setting) -> str | None:
    """Serves every bilinear resizing of codes."""
    return None if isinstance(op, Interpolate) else f"{op.op_type} does not resize an image bilinearly"


def prepare_interpolate(op: Operator, setting: Setting) -> Prepared:
    """Tables of where rows and columns of y lie in x; images in any order."""
    assert isinstance(op, Interpolate)
    x, y = strides(op.x.shape, setting.xs[0]), strides(op.y.shape, setting.y)
    constants = (*_tables("row", op.down, x[1]), *_tables("column", op.across, x[2]))
    images, rows, columns, channels = op.y.shape
    numbers = {"images": images, "y_rows": rows, "y_columns": columns, "channels": channels}
    numbers |= {
        f"{name}_{axis}": step for name, steps in (("x", x), ("y", y)) for axis, step in zip(AXES, steps, strict=True)
    }
    tables = tuple(each.role for each in constants)
    layer = Struct("bilinear", tables, numbers | {"truncates": int(op.truncates)})
    type_of = op.x.dtype.c
    parameters = f"const {type_of} *restrict x, {type_of} *restrict y"
    what = f"To {rows} x {columns} pixels."
    context = library_call(op, what, parameters, f"bilinear_{KINDS[op.x.dtype]}", "x", "y", layer=layer, is_apart=True)
    return Prepared(constants, context, (), Certificate(), folded={"bilinear": INTERPOLATED})


def _tables(axis: str, by: Between, step: int) -> tuple[Constants, ...]:
    first = np.array(by.first) * step
    return (
        Constants(f"{axis}s", "int32_t", first, f"where the {axis} before each {axis} of y begins in x."),
        Constants(f"{axis}_parts", "int16_t", np.array(by.part), f"how far behind it each {axis} lies, in 1024ths."),
    )


INTERPOLATE = Kernel("portable/interpolate", LibraryCall, frozenset(), why_not_interpolate, prepare_interpolate)
