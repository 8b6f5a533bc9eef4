"""portable/layer_norm, instance_norm, float_layer_norm, float_instance_norm: mean 0, variance 1, as in onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from qcgen.arithmetic import LANES, Quantization, dequantize
from qcgen.errors import prove
from qcgen.ir.context import Context, Struct
from qcgen.ir.plan import Certificate
from qcgen.ir.program import InstanceNorm, LayerNorm, Operator
from qcgen.ir.types import DType, Layout
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.loop_nest import LoopNest, pixel_stride, strides
from qcgen.kernels.portable.rows import Rows, in_place, rows_of
from qcgen.kernels.portable.words import word, words
from qcgen.requantize.fixed_point import decompose
from qcgen.requantize.means import NormalLine, fit_normal_line


@dataclass(frozen=True)
class LayerNormContext(Context):
    """The normalization of rows of codes."""

    template: ClassVar[str] = "kernels/portable/layer_norm.c.jinja"

    nest: LoopNest  # over the first elements of the rows
    x_type: str  # of C
    y_type: str  # of C
    row: str  # the library's function for a row
    cast: str  # of y for that function, in C
    layer: Struct
    line: Struct | None  # the fixed-point form of codes, if there is one


def why_not_layer_norm(op: Operator, _setting: Setting) -> str | None:
    """Serves every layer normalization of codes."""
    if isinstance(op, LayerNorm) and op.x.dtype.is_quantized:
        return None
    return f"{op.op_type} is not a layer normalization of codes"


def prepare_layer_norm(op: Operator, setting: Setting) -> Prepared:
    """Scale and bias as words, and in fixed point; the deviations of a row stay in the arena."""
    assert isinstance(op, LayerNorm)
    assert op.x.scale is not None, "x is quantized"
    length = op.x.shape[-1]
    [mantissa], [exponent] = decompose(np.array([op.x.scale], np.float32))
    prove(length < 2**20, "sums of a row are exact in float64, as in int64")
    has_codes = op.y.dtype.is_quantized
    line = _line(op) if has_codes else None
    rows = rows_of(op.x, op.y, setting.xs[0], setting.y)
    constants = _line_tables(line) if line else []
    constants += [Constants("scale", "uint32_t", words(op.scale), "what each element of a row is multiplied by.")]
    if op.bias is not None:
        constants.append(Constants("bias", "uint32_t", words(op.bias), "what is added to each element of a row."))
    proved = {constant.role: constant.values for constant in constants if constant.role in ("scale", "bias")}
    sizes = {"length": length, "x_along": rows.x_along, "y_along": rows.y_along}
    codes = {"x_unit": int(exponent), "x_zero_point": op.x.zero_point or 0}
    if has_codes:
        codes |= {"y_zero_point": op.y.zero_point or 0, "y_low": op.y.dtype.low, "y_high": op.y.dtype.high}
    floats = {"x_scale": int(mantissa), "count": word(length), "epsilon": word(op.epsilon)}
    if has_codes:
        floats["y_scale"] = word(op.y.scale or 1)
    context = LayerNormContext(
        nest=rows.nest,
        x_type=op.x.dtype.c,
        y_type=op.y.dtype.c,
        row=f"layer_norm_{'fixed' if line else 'codes' if has_codes else 'numbers'}_{'s8' if op.x.dtype.low else 'u8'}",
        cast="(uint8_t *)" if op.y.dtype is DType.INT8 else "",
        layer=Struct(tuple(proved), sizes | codes, floats),
        line=_line_struct(line) if line else None,
    )
    numbers: dict[str, object] = {"kind": "layer norm", "epsilon": word(op.epsilon), **proved}
    certificate = Certificate(numbers=numbers if has_codes else {})
    return Prepared(
        tuple(constants),
        context,
        (Scratch(4 * length, 4),),
        certificate,
        () if line else in_place(op.x, setting),
    )


def _line(op: LayerNorm) -> NormalLine | None:
    """The fixed-point form of outputs that are codes."""
    x_by, y_by = (Quantization(t.scale or 1.0, t.zero_point or 0) for t in (op.x, op.y))
    return fit_normal_line(op.scale, op.bias, op.epsilon, x_by, (op.x.dtype.low, op.x.dtype.high), y_by)


def _line_tables(line: NormalLine) -> list[Constants]:
    unit = line.shift + 32 - line.normal_bits
    return [
        Constants("gain", "int32_t", line.gain, f"scale / y_scale in units of 2^-{unit}."),
        Constants(
            "offset", "int32_t", line.offset, f"bias / y_scale + y_zero_point + 1/2 in units of 2^-{line.shift}."
        ),
    ]


def _line_struct(line: NormalLine) -> Struct:
    numbers = ("shift", "normal_bits", "most_reach", "base", "by_reach", "slope", "slope_by_reach")
    return Struct(("gain", "offset"), {name: getattr(line, name) for name in numbers}, {"epsilon": word(line.epsilon)})


LAYER_NORM = Kernel("portable/layer_norm", LayerNormContext, frozenset(), why_not_layer_norm, prepare_layer_norm)


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


def why_not_instance_norm(op: Operator, _setting: Setting) -> str | None:
    """Serves every instance normalization of codes."""
    if isinstance(op, InstanceNorm) and op.x.dtype.is_quantized:
        return None
    return f"{op.op_type} is not an instance normalization of codes"


def prepare_instance_norm(op: Operator, setting: Setting) -> Prepared:
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


INSTANCE_NORM = Kernel(
    "portable/instance_norm", InstanceNormContext, frozenset(), why_not_instance_norm, prepare_instance_norm
)


@dataclass(frozen=True)
class FloatLayerNormContext(Context):
    """The normalization of rows of float32 numbers."""

    template: ClassVar[str] = "kernels/portable/float_layer_norm.c.jinja"

    rows: Rows
    is_one_by_one: bool  # no lanes
    whole: int  # elements of a row that are squared and summed in lanes
    rounded: int  # elements of a row before the last ones, whose squares are rounded before they are added
    epsilon: float  # added to the variance
    has_bias: bool  # something is added to each element


@dataclass(frozen=True)
class FloatInstanceNormContext(Context):
    """The normalization of channels of float32 numbers."""

    template: ClassVar[str] = "kernels/portable/float_instance_norm.c.jinja"

    batch: int  # images
    channels: int  # of an image
    pixels: int  # of a channel
    x_image: int  # from one image of x to the next, in elements
    x_channel: int  # from one channel of x to the next
    x_pixel: int  # from one pixel of a channel of x to the next
    y_image: int  # from one image of y to the next
    y_channel: int  # from one channel of y to the next
    y_pixel: int  # from one pixel of a channel of y to the next
    epsilon: float  # added to the variance


def why_not_rows(op: Operator, _setting: Setting) -> str | None:
    """Serves every layer normalization of float32 numbers."""
    return None if isinstance(op, LayerNorm) and op.x.dtype.is_float else f"{op.op_type} normalizes no float32 rows"


def why_not_channels(op: Operator, _setting: Setting) -> str | None:
    """Serves every instance normalization of float32 numbers."""
    if isinstance(op, InstanceNorm) and op.x.dtype.is_float:
        return None
    return f"{op.op_type} normalizes no float32 channels"


def prepare_rows(op: Operator, setting: Setting) -> Prepared:
    """Scale and bias, an element for each of a row."""
    assert isinstance(op, LayerNorm)
    length = op.x.shape[-1]
    whole = length - length % LANES
    context = FloatLayerNormContext(
        rows=rows_of(op.x, op.y, setting.xs[0], setting.y),
        is_one_by_one=op.is_one_by_one or length < LANES,
        whole=whole,
        rounded=whole + (length - whole) // 4 * 4,
        epsilon=op.epsilon,
        has_bias=op.bias is not None,
    )
    constants = [Constants("scale", "float", op.scale, "what each element of a row is multiplied by.")]
    if op.bias is not None:
        constants.append(Constants("bias", "float", op.bias, "what is added to each element of a row."))
    return Prepared(tuple(constants), context, (), Certificate(), in_place(op.x, setting))


def prepare_channels(op: Operator, setting: Setting) -> Prepared:
    """Scale and bias, a number for each channel."""
    assert isinstance(op, InstanceNorm)
    channel_axis = len(op.x.shape) - 1 if op.x.layout is Layout.CHANNELS_LAST else 1
    spatial = [axis for axis in range(1, len(op.x.shape)) if axis != channel_axis]
    x, y = strides(op.x.shape, setting.xs[0]), strides(op.y.shape, setting.y)
    context = FloatInstanceNormContext(
        batch=op.x.shape[0],
        channels=op.x.shape[channel_axis],
        pixels=prod(op.x.shape[axis] for axis in spatial),
        x_image=x[0],
        x_channel=x[channel_axis],
        x_pixel=pixel_stride(op.x.shape, setting.xs[0], spatial),
        y_image=y[0],
        y_channel=y[channel_axis],
        y_pixel=pixel_stride(op.y.shape, setting.y, spatial),
        epsilon=op.epsilon,
    )
    constants = (
        Constants("scale", "float", op.scale, "what each channel is multiplied by."),
        Constants("bias", "float", op.bias, "what is added to each channel."),
    )
    return Prepared(constants, context, (), Certificate(), (0,) if x == y else ())


FLOAT_LAYER_NORM = Kernel("portable/float_layer_norm", FloatLayerNormContext, frozenset(), why_not_rows, prepare_rows)
FLOAT_INSTANCE_NORM = Kernel(
    "portable/float_instance_norm", FloatInstanceNormContext, frozenset(), why_not_channels, prepare_channels
)
