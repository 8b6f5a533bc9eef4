"""portable/max_pool and average_pool: windows of images, quantized or float32, channels last or first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from qcgen.arithmetic import Quantization, dequantize
from qcgen.ir.plan import Certificate
from qcgen.ir.program import AveragePool, ConvGeometry, MaxPool, Operator, Tensor
from qcgen.ir.types import Array, DType, Layout
from qcgen.kernels.axes import INDENT, Axis, axes
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.requantize import window_mean

MAX_TAPS = 64  # written out one by one; larger windows are walked through tap by tap


@dataclass(frozen=True)
class Nested:
    """The loop over one axis, with its depth in C."""

    axis: Axis
    indent: str


def why_not_max(op: Operator, _setting: Setting) -> str | None:
    """Serves every max pooling of int8, uint8 and float32."""
    return None if isinstance(op, MaxPool) else f"{op.op_type} is no max pooling"


def why_not_average(op: Operator, _setting: Setting) -> str | None:
    """Serves every average pooling of int8, uint8 and float32."""
    return None if isinstance(op, AveragePool) else f"{op.op_type} is no average pooling"


def prepare_max(op: Operator, setting: Setting) -> Prepared:
    """No constants; outputs are kept where they belong while a window is walked through."""
    assert isinstance(op, MaxPool)
    lowest = "-INFINITY" if op.x.dtype is DType.FLOAT32 else str(op.x.dtype.low)
    names = _names(op.geometry, op.x, setting)
    del names["tap_count"]
    context = names | {"is_guarded": False, "lowest": lowest}
    headers = ("math.h",) if op.x.dtype is DType.FLOAT32 else ()
    return Prepared((), context | _row_enumerators(context), (), ("compiler",), Certificate(), headers=headers)


def prepare_average(op: Operator, setting: Setting) -> Prepared:
    """Quantized: sums in int32 against one line; where the order of float32 additions matters they are emulated."""
    assert isinstance(op, AveragePool)
    names = _names(op.geometry, op.x, setting) | {"counts_padding": op.count_include_pad}
    if op.x.dtype is DType.FLOAT32:
        unused = (
            "line",
            "counts_taps",
            "lowest_code",
            "start",
            "low",
            "high",
            "clamps_low",
            "clamps_high",
            "fraction_mask",
        )
        flags = {"is_float": True, "is_guarded": False, "emulates": False}
        none = dict.fromkeys((*unused, "y_scale", "y_zero", "divisor"))
        context = names | flags | none
        return Prepared((), context | _row_enumerators(context), (), ("compiler",), Certificate())
    return _prepare_quantized(op, names, setting)


def _prepare_quantized(op: AveragePool, names: dict[str, object], setting: Setting) -> Prepared:
    g = op.geometry
    x_by, y_by = _quantization(op.x), _quantization(op.y)
    low, high, taps = op.y.dtype.low, op.y.dtype.high, prod(g.kernel)
    line = window_mean.fit(taps, x_by, y_by, (op.x.dtype.low, op.x.dtype.high), low, high)
    has_inside = bool(names["has_inside"]) and not line.emulates_always
    has_border = bool(names["has_border"]) or not has_inside
    is_guarded = has_inside and line.guard is not None
    emulates = is_guarded or has_border
    counts_taps = bool(names["has_border"]) and not op.count_include_pad
    ends = tuple(end * line.slope + line.offset for end in line.sums)
    context = names | {
        "is_float": False,
        "has_inside": has_inside,
        "has_border": has_border,
        "line": line,
        "is_guarded": is_guarded,
        "emulates": emulates,
        "counts_taps": counts_taps,
        "lowest_code": op.x.dtype.low,
        # The share of the zero point is in every sum of codes.
        "start": line.offset - line.slope * taps * x_by.zero_point,
        "low": low,
        "high": high,
        "clamps_low": has_inside and ends[0] >> line.shift < low,
        "clamps_high": has_inside and ends[1] >> line.shift > high,
        "fraction_mask": (1 << line.shift) - 1,
        "y_scale": _word(y_by.scale),
        "y_zero": _word(y_by.zero_point),
        "divisor": _word(taps),
    }
    scratch = (Scratch(4 * _run(g, setting), 4),) if is_guarded else ()
    support = ("compiler",) + ("right_shift",) * has_inside + ("soft_float_add", "soft_float") * emulates
    form = "emulated" if not has_inside else "line" if line.guard is None else "tie window"
    numbers: dict[str, object] = {"kind": "window mean", "form": form, "accumulator": line.sums}
    if has_inside:
        numbers |= {"slope": line.slope, "offset": line.offset, "shift": line.shift, "guard": line.guard}
    certificate = Certificate(line.sums, False, {form: 1}, line.comparisons, numbers=numbers)
    constants = _emulation_tables(op, x_by, counts_taps) if emulates else ()
    return Prepared(constants, context | _row_enumerators(context), scratch, support, certificate)


def _emulation_tables(op: AveragePool, x_by: Quantization, counts_taps: bool) -> tuple[Constants, ...]:
    values = dequantize(np.arange(op.x.dtype.low, op.x.dtype.high + 1), x_by.scale, x_by.zero_point)
    text = "what each code stands for, as the word of a float32 number."
    constants = [Constants("values", "uint32_t", _words(values), text)]
    if counts_taps:
        counts = np.maximum(np.arange(prod(op.geometry.kernel) + 1), 1)
        text = "divisors of windows with 0, 1, 2, ... taps in the image, as words of float32 numbers."
        constants.append(Constants("counts", "uint32_t", _words(counts), text))
    return tuple(constants)


def _quantization(tensor: Tensor) -> Quantization:
    assert tensor.scale is not None, "the tensor is quantized"
    return Quantization(tensor.scale, tensor.zero_point or 0)


def _words(values: Array) -> Array:
    """Float32 numbers as the words that hold their bits."""
    return values.astype(np.float32).view(np.uint32).astype(np.int64)


def _word(value: float) -> int:
    return int(_words(np.asarray(value)))


def _run(g: ConvGeometry, setting: Setting) -> int:
    """How many outputs are computed together: the channels of a pixel, or what lies within the image of a row."""
    if setting.x_layout is Layout.CHANNELS_LAST:
        return g.in_channels
    across = axes(g, setting.x_layout)[-1]
    return across.inside_end - across.inside_begin


def _names(g: ConvGeometry, x: Tensor, setting: Setting) -> dict[str, object]:
    """The names that templates/kernels/portable/pool.c.jinja and those that extend it use."""
    x_last, y_last = (layout is Layout.CHANNELS_LAST for layout in (setting.x_layout, setting.y_layout))
    spatial = axes(g, setting.x_layout)
    pixels, in_pixels = prod(g.output), prod(g.input)
    y_pixel, y_channel = (g.out_channels, 1) if y_last else (1, pixels)
    across = spatial[-1]
    is_small = prod(g.kernel) <= MAX_TAPS
    has_inside = is_small and all(axis.inside_begin < axis.inside_end for axis in spatial)
    return {
        "window": _kind(g),
        "type": x.dtype.c,
        "batch": g.batch,
        "planes": 1 if x_last else g.in_channels,
        "channels_last": x_last,
        "lanes": g.in_channels if x_last else 1,
        "lane_step": y_channel,
        "run": _run(g, setting),
        "run_step": 1 if x_last else across.stride,
        "is_rolled": not x_last and any(axis.stride < axis.span for axis in spatial),
        "out_step": y_channel if x_last else y_pixel,
        "axes": spatial,
        "rows": spatial[:-1],
        "across": across,
        "taps": _taps(spatial) if has_inside else (),
        "tap_count": prod(g.kernel),
        "has_inside": has_inside,
        "has_border": not has_inside or any(a.inside_begin > 0 or a.inside_end < a.output for a in spatial),
        "has_row_border": any(a.inside_begin > 0 or a.inside_end < a.output for a in spatial[:-1]),
        "x_image": g.in_channels * in_pixels,
        "x_plane": in_pixels,
        "y_image": g.out_channels * pixels,
        "y_channel": y_channel,
        "y_row": across.output * y_pixel,
        "row_loops": tuple(Nested(axis, INDENT * (3 + depth)) for depth, axis in enumerate(spatial[:-1])),
        "row_indent": INDENT * (2 + len(spatial)),
        "tap_loops": tuple(Nested(axis, INDENT * (1 + depth)) for depth, axis in enumerate(spatial)),
        "tap_indent": INDENT * (1 + len(spatial)),
    }


def _row_enumerators(names: Mapping[str, Any]) -> dict[str, object]:
    """Those that the function of a row uses, in lines: what parts windows in the image from others, and the rest."""
    across, is_last, has_border = names["across"], names["channels_last"], names["has_border"]
    bounds, numbers = [], []
    for axis in names["axes"] if names["has_inside"] else ():
        if has_border and (axis is across or names["has_row_border"]):
            ends = axis is not across or is_last or axis.inside_end < axis.output
            beyond = f", BEYOND_{axis.label} = {axis.inside_end}" if ends else ""
            bounds.append(f"INSIDE_{axis.label} = {axis.inside_begin}{beyond}")
        if is_last or has_border or axis is not across:
            step = f", STEP_{axis.label} = {axis.step}" if is_last or axis is not across else ""
            numbers.append(f"STRIDE_{axis.label} = {axis.stride}, PAD_{axis.label} = {axis.pad}{step}")
    is_cut_behind = not names["has_inside"] or names["has_row_border"] or across.inside_end < across.output
    out = [f"OUT_{across.label} = {across.output}"] if is_cut_behind or (is_last and not has_border) else []
    out += [f"Y_PIXEL = {names['y_row'] // across.output}"] if is_last or has_border or names["is_guarded"] else []
    out += [f"RUN = {names['run']}"] if names["is_guarded"] else []
    out += [f"OUT_STEP = {names['out_step']}"] if names["is_guarded"] and is_last else []
    return {"row_bounds": tuple(bounds), "row_numbers": (*numbers, ", ".join(out)) if out else tuple(numbers)}


def _kind(g: ConvGeometry) -> str:
    return "window " + "x".join(map(str, g.kernel)) + ", stride " + "x".join(map(str, g.strides))


def _taps(spatial: tuple[Axis, ...]) -> tuple[int, ...]:
    """The distance of each tap from the first element of the window, rows from top to bottom."""
    places = product(*(range(axis.kernel) for axis in spatial))
    return tuple(sum(k * axis.tap_step for k, axis in zip(place, spatial, strict=True)) for place in places)


MAX_POOL = Kernel("portable/max_pool", "kernels/portable/max_pool.c.jinja", frozenset(), why_not_max, prepare_max)
AVERAGE_POOL = Kernel(
    "portable/average_pool", "kernels/portable/average_pool.c.jinja", frozenset(), why_not_average, prepare_average
)
