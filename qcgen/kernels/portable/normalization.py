"""portable/layer_norm, instance_norm, float_layer_norm, float_instance_norm: mean 0, variance 1, as in onnxruntime."""

from __future__ import annotations

from math import prod

import numpy as np

from qcgen.arithmetic import LANES, Quantization, dequantize
from qcgen.errors import prove
from qcgen.ir.context import Struct
from qcgen.ir.plan import Certificate
from qcgen.ir.program import InstanceNorm, LayerNorm, Operator
from qcgen.ir.types import Layout
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting, word, words
from qcgen.kernels.loop_nest import pixel_stride, strides
from qcgen.kernels.portable.rows import RowsCall, in_place, of_bytes, rows_call
from qcgen.kernels.text import LibraryCall, library_call
from qcgen.requantize.fixed_point import decompose
from qcgen.requantize.means import NormalLine, fit_normal_line


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
    context = rows_call(
        op,
        setting,
        f"layer_norm_{'fixed' if line else 'codes' if has_codes else 'numbers'}",
        Struct("layer_norm", tuple(proved), codes, floats),
        _line_struct(line) if line else None,
        has_deviations=True,
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
    names = ("shift", "normal_bits", "most_reach", "base", "by_reach", "slope", "slope_by_reach")
    numbers = {name: getattr(line, name) for name in names}
    return Struct("layer_norm_line", ("gain", "offset"), numbers, {"epsilon": word(line.epsilon)})


LAYER_NORM = Kernel("portable/layer_norm", RowsCall, frozenset(), why_not_layer_norm, prepare_layer_norm)


MANY = 256  # codes: of more pixels than these the results of each code are kept


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
        f"instance_norm{of_bytes(x)}",
        *("x", "(uint8_t *)y" if y.low else "y", "squares" if has_tables else "NULL"),
        layer=Struct("instance_norm", tuple(constant.role for constant in constants), channels | codes, floats),
    )
    proved: dict[str, object] = {constant.role: constant.values for constant in constants}
    certificate = Certificate(numbers={"kind": "instance norm", "epsilon": word(op.epsilon), **proved})
    return Prepared(constants, context, (Scratch(4 * MANY, 4),) * has_tables, certificate, in_place(op.x, setting))


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
    constants = [Constants("scale", "float", op.scale, "what each element of a row is multiplied by.")]
    if op.bias is not None:
        constants.append(Constants("bias", "float", op.bias, "what is added to each element of a row."))
    is_short = op.is_one_by_one or op.x.shape[-1] < LANES
    layer = Struct("float_layer_norm", tuple(constant.role for constant in constants), floats={"epsilon": op.epsilon})
    context = rows_call(op, setting, f"float_layer_norm_{'one_by_one' if is_short else 'row'}", layer)
    return Prepared(tuple(constants), context, (), Certificate(), in_place(op.x, setting))


def prepare_channels(op: Operator, setting: Setting) -> Prepared:
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
    return Prepared(constants, context, (), Certificate(), in_place(op.x, setting))


FLOAT_LAYER_NORM = Kernel("portable/float_layer_norm", RowsCall, frozenset(), why_not_rows, prepare_rows)
FLOAT_INSTANCE_NORM = Kernel(
    "portable/float_instance_norm", LibraryCall, frozenset(), why_not_channels, prepare_channels
)
