"""Operators on the rows of a tensor, along its last axis: a function of the library for each row.

portable/softmax and its kin: of codes in integers alone, or of float32 numbers. portable/layer_norm, instance_norm,
float_layer_norm, float_instance_norm: mean 0, variance 1, as in onnxruntime.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

import numpy as np

from qcgen.arithmetic import LANES, RMS_LANES, Quantization, dequantize
from qcgen.cores import CONSTANT_TIME
from qcgen.errors import prove
from qcgen.ir.context import Context, Struct
from qcgen.ir.plan import Certificate
from qcgen.ir.program import (
    FloatSoftmax,
    InstanceNorm,
    IntegerLogSoftmax,
    IntegerSoftmax,
    LayerNorm,
    Operator,
    Softmax,
    Tensor,
    WideSoftmax,
    inputs_of,
)
from qcgen.ir.types import DType, Layout
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting, number, word, words
from qcgen.kernels.loop_nest import Dimension, LoopNest, loop_nest, pixel_stride, strides
from qcgen.kernels.text import LibraryCall, library_call
from qcgen.requantize.fixed_point import decompose
from qcgen.requantize.means import NormalLine, fit_normal_line

MOST_BITS = 15
"""Of a factor that times 2^40 through a significand of 24 bits stays in 32 bits."""

BY_DIVISION = "code_softmax_by_division"
"""The function whose shares are divided bit by bit."""

FEWEST = 32
"""Outputs from which on reciprocals of sums pay where products of 64 bits and divisions are function calls."""

MANY = 256  # codes: of more pixels than these the results of each code are kept


@dataclass(frozen=True)
class RowsCall(Context):
    """A loop over rows."""

    template: ClassVar[str] = "kernels/portable/rows.c.jinja"

    nest: LoopNest  # over the first elements of the rows
    x_type: str  # of C
    y_type: str  # of C
    row: str  # the library's function for a row
    cast: str  # of y for that function, in C
    layer: Struct
    line: Struct | None  # a fixed-point form of codes, if there is one
    scratch: str  # the type of C of what the function keeps there of a row, if it does


def _rows_call(
    op: Operator, setting: Setting, row: str, layer: Struct, line: Struct | None = None, scratch: str = ""
) -> RowsCall:
    """The loop over the rows of an operator. The layer gets their length and the steps along them.

    ``row``: the function's name, without the letters for the type of bytes.
    """
    [x, *_], y = inputs_of(op), op.y
    x_steps, y_steps = strides(x.shape, setting.xs[0]), strides(y.shape, setting.y)
    dimensions = [Dimension(size, {"x": i, "y": o}) for size, i, o in zip(x.shape[:-1], x_steps, y_steps, strict=False)]
    sizes: Mapping[str, int] = {"length": x.shape[-1], "x_along": x_steps[-1], "y_along": y_steps[-1]}
    return RowsCall(
        nest=loop_nest(dimensions, ("x", "y"), {}),
        x_type=x.dtype.c,
        y_type=y.dtype.c,
        row=f"{row}{_of_bytes(x.dtype)}",
        cast="(uint8_t *)" if y.dtype is DType.INT8 else "",
        layer=replace(layer, numbers={**sizes, **layer.numbers}),
        line=line,
        scratch=scratch,
    )


def _of_bytes(dtype: DType) -> str:
    """How the names of the library's functions of bytes end."""
    return {DType.INT8: "_s8", DType.UINT8: "_u8"}.get(dtype, "")


def _in_place(x: Tensor, setting: Setting) -> tuple[int, ...]:
    """A row is read to its end before the first element of it is written, and each element before it is."""
    return (0,) if strides(x.shape, setting.xs[0]) == strides(x.shape, setting.y) else ()


def why_not_softmax(op: Operator, _setting: Setting) -> str | None:
    """Serves every softmax of codes."""
    return None if isinstance(op, Softmax) else f"{op.op_type} is not a softmax of quantized numbers"


def why_not_float_softmax(op: Operator, _setting: Setting) -> str | None:
    """Serves every softmax of float32 numbers."""
    return None if isinstance(op, FloatSoftmax) else f"{op.op_type} is not a softmax of float32 numbers"


def prepare_softmax(op: Operator, setting: Setting) -> Prepared:
    """A table of the exponentials, as the words of float32 numbers."""
    assert isinstance(op, Softmax)
    prove(op.factor <= 2**24, "float64 rounds no product of an exponential and the factor")
    meaning = "exponentials of x - max x = -255, ..., 0, as float32."
    bits = int(op.factor).bit_length()
    constants: tuple[Constants, ...] = (Constants("exponentials", "uint32_t", words(op.table), meaning),)
    if setting.is_free:
        bits = max(bits, MOST_BITS)
        constants += (
            number("factor", "uint32_t", int(op.factor), "what shares of the sum are multiplied by."),
            number("zero_point", "int32_t", op.y.zero_point or 0, "the code of 0."),
        )
    has_reciprocal = bits <= MOST_BITS and (prod(op.y.shape) >= FEWEST or "no-wide-product" not in setting.features)
    own = "_constant" if CONSTANT_TIME in setting.features else ""
    codes = {"factor": int(op.factor), "bits": bits, "zero_point": op.y.zero_point or 0, "high": op.y.dtype.high}
    layer = Struct("code_softmax", ("exponentials",), codes)
    context = _rows_call(op, setting, f"code_softmax{own}" if has_reciprocal else BY_DIVISION, layer)
    certificate = Certificate(numbers={"kind": "softmax", "exponentials": words(op.table), "factor": int(op.factor)})
    return Prepared(constants, context, (), certificate, _in_place(op.x, setting))


def prepare_float_softmax(op: Operator, setting: Setting) -> Prepared:
    """No constants."""
    assert isinstance(op, FloatSoftmax)
    row = "log_softmax_by_library" if op.by_library else "log_softmax_row" if op.is_log else "softmax_row"
    context = _rows_call(op, setting, f"float_{row}", Struct("float_softmax", ()))
    return Prepared((), context, (), Certificate(), _in_place(op.x, setting))


def why_not_integer_softmax(op: Operator, _setting: Setting) -> str | None:
    """Serves every softmax in fixed point."""
    return None if isinstance(op, IntegerSoftmax) else f"{op.op_type} is not a softmax in fixed point"


def prepare_integer_softmax(op: Operator, setting: Setting) -> Prepared:
    """A table of the exponentials."""
    assert isinstance(op, IntegerSoftmax)
    meaning = "exponentials of x - max x = -255, ..., 0, in units of 2^-31."
    constants = (Constants("exponentials", "int32_t", op.table, meaning),)
    low, high = op.y.dtype.low, op.y.dtype.high
    codes = {"low": low, "high": high, "right": 43 - (high - low).bit_length()}
    layer = Struct("integer_softmax", ("exponentials",), codes)
    row = "integer_softmax_to_16_bits" if op.y.dtype.is_16_bit else "integer_softmax"
    context = _rows_call(op, setting, row, layer)
    certificate = Certificate(numbers={"kind": "integer softmax", "exponentials": op.table})
    places = _in_place(op.x, setting) if op.x.dtype.bytes == op.y.dtype.bytes else ()
    return Prepared(constants, context, (), certificate, places)


def why_not_integer_log_softmax(op: Operator, _setting: Setting) -> str | None:
    """Serves every logarithm of a softmax in fixed point."""
    return None if isinstance(op, IntegerLogSoftmax) else f"{op.op_type} is not a logarithm of a softmax in fixed point"


def prepare_integer_log_softmax(op: Operator, setting: Setting) -> Prepared:
    """Tables of the exponentials and of the distances."""
    assert isinstance(op, IntegerLogSoftmax)
    constants = (
        Constants("exponentials", "int32_t", op.table, "exponentials of x - max x = -255, ..., 0, in units of 2^-19."),
        Constants("distances", "int32_t", op.distances, "what they are taken of, in units of 2^-26, none below -17."),
    )
    codes = {"low": op.y.dtype.low, "high": op.y.dtype.high}
    layer = Struct("integer_softmax", ("exponentials", "distances"), codes)
    context = _rows_call(op, setting, "integer_log_softmax", layer)
    return Prepared(constants, context, (), Certificate(), _in_place(op.x, setting))


def why_not_wide_softmax(op: Operator, _setting: Setting) -> str | None:
    """Serves every softmax of int16 codes."""
    return None if isinstance(op, WideSoftmax) else f"{op.op_type} is not a softmax of int16 codes"


def prepare_wide_softmax(op: Operator, setting: Setting) -> Prepared:
    """Tables of 513 numbers; exponentials are kept where the shares go."""
    assert isinstance(op, WideSoftmax)
    prove(op.scale[1] <= 14 and op.x.shape[-1] < 2**16, "no distance and no sum leaves int32")
    constants = (
        Constants("exponentials", "int16_t", op.exponentials, "exp(x), x from -10 to 0, in units of 2^-15."),
        Constants("reciprocals", "int16_t", op.reciprocals, "1 / (1 + v), v from 0 to 1, in units of 2^-15."),
    )
    by = {"multiplier": op.scale[0], "exponent": op.scale[1]}
    context = _rows_call(op, setting, "wide_softmax_row", Struct("wide_softmax", ("exponentials", "reciprocals"), by))
    return Prepared(constants, context, (), Certificate(), _in_place(op.x, setting))


WIDE_SOFTMAX = Kernel("portable/wide_softmax", RowsCall, frozenset(), why_not_wide_softmax, prepare_wide_softmax)
INTEGER_LOG_SOFTMAX = Kernel(
    "portable/integer_log_softmax", RowsCall, frozenset(), why_not_integer_log_softmax, prepare_integer_log_softmax
)
INTEGER_SOFTMAX = Kernel(
    "portable/integer_softmax", RowsCall, frozenset(), why_not_integer_softmax, prepare_integer_softmax
)
SOFTMAX = Kernel("portable/softmax", RowsCall, frozenset(), why_not_softmax, prepare_softmax)
FLOAT_SOFTMAX = Kernel("portable/float_softmax", RowsCall, frozenset(), why_not_float_softmax, prepare_float_softmax)


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
    constants = _line_tables(line) if line else []
    constants += [Constants("scale", "uint32_t", words(op.scale), "what each element of a row is multiplied by.")]
    if op.bias is not None:
        constants.append(Constants("bias", "uint32_t", words(op.bias), "what is added to each element of a row."))
    proved = {constant.role: constant.values for constant in constants if constant.role in ("scale", "bias")}
    codes = {"x_unit": int(exponent), "x_zero_point": op.x.zero_point or 0}
    if has_codes:
        codes |= {"y_zero_point": op.y.zero_point or 0, "y_low": op.y.dtype.low, "y_high": op.y.dtype.high}
    floats = {"x_scale": int(mantissa), "count": word(length), "epsilon": word(op.epsilon)}
    if has_codes:
        floats["y_scale"] = word(op.y.scale or 1)
    context = _rows_call(
        op,
        setting,
        f"layer_norm_{'fixed' if line else 'codes' if has_codes else 'numbers'}",
        Struct("layer_norm", tuple(proved), codes, floats),
        _line_struct(line) if line else None,
        scratch="uint32_t",
    )
    numbers: dict[str, object] = {"kind": "layer norm", "epsilon": word(op.epsilon), **proved}
    certificate = Certificate(numbers=numbers if has_codes else {})
    return Prepared(
        tuple(constants),
        context,
        (Scratch(4 * length, 4),),
        certificate,
        () if line else _in_place(op.x, setting),
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
    names = ("shift", "normal_bits", "most_reach", "base", "by_reach", "slope", "slope_by_reach")
    numbers = {name: getattr(line, name) for name in names}
    return Struct("layer_norm_line", ("gain", "offset"), numbers, {"epsilon": word(line.epsilon)})


LAYER_NORM = Kernel("portable/layer_norm", RowsCall, frozenset(), why_not_layer_norm, prepare_layer_norm)


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
    channels = _channels(op, setting)
    has_tables = channels["pixels"] > MANY
    numbers = dequantize(np.arange(op.x.dtype.low, op.x.dtype.high + 1), op.x.scale, op.x.zero_point or 0)
    constants = (
        Constants("numbers", "uint32_t", words(numbers), "what each code stands for, as the word of a float32 number."),
        Constants("scale", "uint32_t", words(op.scale), "what each channel is multiplied by."),
        Constants("bias", "uint32_t", words(op.bias), "what is added to each channel."),
    )
    x, y = op.x.dtype, op.y.dtype
    codes = {"first": -x.low, "y_zero_point": op.y.zero_point or 0, "y_low": y.low, "y_high": y.high}
    floats = {"count": word(channels["pixels"]), "epsilon": word(op.epsilon), "y_scale": word(op.y.scale)}
    context = library_call(
        op,
        "",
        f"const {x.c} *x, {y.c} *y{', uint32_t *squares' if has_tables else ''}",
        f"instance_norm{_of_bytes(x)}",
        *("x", "(uint8_t *)y" if y.low else "y", "squares" if has_tables else "NULL"),
        layer=Struct("instance_norm", tuple(constant.role for constant in constants), channels | codes, floats),
    )
    proved: dict[str, object] = {constant.role: constant.values for constant in constants}
    certificate = Certificate(numbers={"kind": "instance norm", "epsilon": word(op.epsilon), **proved})
    return Prepared(constants, context, (Scratch(4 * MANY, 4),) * has_tables, certificate, _in_place(op.x, setting))


def _channels(op: InstanceNorm, setting: Setting) -> dict[str, int]:
    """How many channels and pixels there are, and how they lie in x and y."""
    axis = len(op.x.shape) - 1 if op.x.layout is Layout.CHANNELS_LAST else 1
    spatial = [each for each in range(1, len(op.x.shape)) if each != axis]
    found = {"batch": op.x.shape[0], "channels": op.x.shape[axis], "pixels": prod(op.x.shape[i] for i in spatial)}
    for name, order in (("x", setting.xs[0]), ("y", setting.y)):
        steps = strides(op.x.shape, order)
        found |= {f"{name}_image": steps[0], f"{name}_channel": steps[axis]}
        found[f"{name}_pixel"] = pixel_stride(op.x.shape, order, spatial)
    return found


INSTANCE_NORM = Kernel("portable/instance_norm", LibraryCall, frozenset(), why_not_instance_norm, prepare_instance_norm)


def why_not_float_layer_norm(op: Operator, _setting: Setting) -> str | None:
    """Serves every layer normalization of float32 numbers."""
    return None if isinstance(op, LayerNorm) and op.x.dtype.is_float else f"{op.op_type} normalizes no float32 rows"


def why_not_float_instance_norm(op: Operator, _setting: Setting) -> str | None:
    """Serves every instance normalization of float32 numbers."""
    if isinstance(op, InstanceNorm) and op.x.dtype.is_float:
        return None
    return f"{op.op_type} normalizes no float32 channels"


def prepare_float_layer_norm(op: Operator, setting: Setting) -> Prepared:
    """Scale and bias, an element for each of a row."""
    assert isinstance(op, LayerNorm)
    constants = [Constants("scale", "float", op.scale, "what each element of a row is multiplied by.")]
    if op.bias is not None:
        constants.append(Constants("bias", "float", op.bias, "what is added to each element of a row."))
    is_short = op.is_one_by_one or op.x.shape[-1] < (LANES if op.is_centered else RMS_LANES)
    layer = Struct("float_layer_norm", tuple(constant.role for constant in constants), floats={"epsilon": op.epsilon})
    kind = "layer" if op.is_centered else "rms"
    context = _rows_call(op, setting, f"float_{kind}_norm_{'one_by_one' if is_short else 'row'}", layer)
    return Prepared(tuple(constants), context, (), Certificate(), _in_place(op.x, setting))


def prepare_float_instance_norm(op: Operator, setting: Setting) -> Prepared:
    """Scale and bias, a number for each channel."""
    assert isinstance(op, InstanceNorm)
    context = library_call(
        op,
        "",
        "const float *x, float *y",
        "float_instance_norm_channels",
        *("x", "y"),
        layer=Struct("float_instance_norm", ("scale", "bias"), _channels(op, setting), floats={"epsilon": op.epsilon}),
    )
    constants = (
        Constants("scale", "float", op.scale, "what each channel is multiplied by."),
        Constants("bias", "float", op.bias, "what is added to each channel."),
    )
    return Prepared(constants, context, (), Certificate(), _in_place(op.x, setting))


FLOAT_LAYER_NORM = Kernel(
    "portable/float_layer_norm", RowsCall, frozenset(), why_not_float_layer_norm, prepare_float_layer_norm
)
FLOAT_INSTANCE_NORM = Kernel(
    "portable/float_instance_norm", LibraryCall, frozenset(), why_not_float_instance_norm, prepare_float_instance_norm
)
