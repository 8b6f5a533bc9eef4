"""portable/convert, quantize, dequantize: numbers in another type, to and from codes in onnxruntime's arithmetic.

portable/extremes, dynamic_parameter, dynamic_quantize, zero_point_correction: quantization found at run time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qcgen.arithmetic import is_binary_fraction
from qcgen.errors import prove
from qcgen.ir.context import Context
from qcgen.ir.plan import AccessOrder, Certificate
from qcgen.ir.program import (
    Convert,
    Dequantize,
    DynamicParameter,
    DynamicQuantize,
    Extremes,
    Operator,
    Quantize,
    ZeroPointCorrection,
)
from qcgen.ir.types import DType
from qcgen.kernels.elements import Elements, elements
from qcgen.kernels.kernel import Constants, Kernel, Order, Prepared, Setting, number
from qcgen.kernels.loop_nest import LoopNest, Placed, Stride, elementwise, nest_of, ordered, strides
from qcgen.kernels.text import LibraryCall, library_call


def why_not_convert(op: Operator, _setting: Setting) -> str | None:
    """Serves every conversion."""
    return None if isinstance(op, Convert) else f"{op.op_type} does not convert between types"


def prepare_convert(op: Operator, setting: Setting) -> Prepared:
    """float16 by functions of integers, since few cores have it; y may lie over x where that is int32."""
    assert isinstance(op, Convert)
    x, y = op.x.dtype, op.y.dtype
    nest = elementwise({"x": Placed(op.x.shape, setting.xs[0])}, Placed(op.y.shape, setting.y))
    in_place = (0,) if "x" in nest.same_places and (x, y) == (DType.INT32, DType.FLOAT32) else ()
    types = {"x": x.c, "y": y.c}
    context = elements(op, nest, types, _converted(x, y), what=_what(x, y), in_place=in_place)
    return Prepared((), context, (), Certificate(), in_place)


def _converted(x: DType, y: DType) -> str:
    """A number in the other type, in C."""
    number, whole = "qcgen_from_half({x})" if x is DType.FLOAT16 else "{x}", _whole(x, y)
    if y is DType.FLOAT16:
        return f"qcgen_to_half({number if x in (DType.FLOAT16, DType.FLOAT32) else '(float){x}'})"
    if y is DType.BOOL:
        return f"({y.c})({number} != {'0.0f' if x.is_float else '0'})"
    if whole is None:
        return number if x is DType.FLOAT16 and y is DType.FLOAT32 else f"({y.c}){number}"
    if x.is_float:
        kind = "double" if x is DType.FLOAT64 else "float"
        number = f"qcgen_truncated{'_wide' if whole is DType.INT64 else ''}_{kind}({number})"
    elif x is not whole:
        number = f"({whole.c}){number}"
    return number if whole is y else f"({y.c}){_low_bits(number, y)}"


def _whole(x: DType, y: DType) -> DType | None:
    """The integers whose low bits y has; None where it is a float or 0 or 1, or holds every number of x."""
    if y.is_float or y is DType.BOOL or (not x.is_float and y.low <= x.low and x.high <= y.high):
        return None
    return DType.INT64 if DType.INT64 in (x, y) or x is DType.UINT32 else DType.INT32


def _low_bits(whole: str, y: DType) -> str:
    """Of a signed type by way of an unsigned one, since C leaves open what a conversion gives that does not fit."""
    return f"((({whole} & 0x{2 * y.high + 1:X}) ^ 0x{-y.low:X}) - 0x{-y.low:X})" if y.low else whole


def _what(x: DType, y: DType) -> str:
    """How the comment goes on: what becomes of numbers that y does not hold."""
    return f" from {x.value} to {y.value}{_note(x, y, _whole(x, y))}."


def _note(x: DType, y: DType, whole: DType | None) -> str:
    if y is DType.BOOL:
        return ": whether a number is not 0"
    if whole is None:
        return ", by way of float, as in onnxruntime" if y is DType.FLOAT16 and x is not DType.FLOAT32 else ""
    how = (
        f"truncated to {whole.value} as on x86-64, the lowest number for what that does not hold" if x.is_float else ""
    )
    return ": " + "; ".join([how] * x.is_float + ["the low bits"] * (whole is not y))


CONVERT = Kernel("portable/convert", Elements, frozenset(), why_not_convert, prepare_convert)


def why_not_quantize(op: Operator, _setting: Setting) -> str | None:
    """Serves every quantization."""
    return None if isinstance(op, Quantize) else f"{op.op_type} does not quantize float32 numbers"


def why_not_dequantize(op: Operator, _setting: Setting) -> str | None:
    """Serves every dequantization."""
    return None if isinstance(op, Dequantize) else f"{op.op_type} does not dequantize"


def prepare_quantize(op: Operator, setting: Setting) -> Prepared:
    """A division per element; y cannot lie over x, whose elements are larger."""
    assert isinstance(op, Quantize)
    scale, zero_point = _parameters(op.y.scale, op.y.zero_point)
    numbers = (
        *_numbers(scale, zero_point),
        number("low", "int32_t", op.y.dtype.low - zero_point, "the lowest code less the zero point."),
        number("high", "int32_t", op.y.dtype.high - zero_point, "the highest code less the zero point."),
    )
    nest = elementwise({"x": Placed(op.x.shape, setting.xs[0])}, Placed(op.y.shape, setting.y))
    context = elements(
        op,
        nest,
        {"x": "float", "y": op.y.dtype.c},
        f"({op.y.dtype.c})(qcgen_quantized{'_away' * op.is_away}({{x}}, scale, low, high) + zero_point)",
        numbers={each.role: each.values.item() for each in numbers},
        first=(
            "const float scale = {scale};",
            "const int32_t zero_point = {zero_point}, low = {low}, high = {high};",
        ),
    )
    return Prepared(numbers if setting.is_free else (), context, (), Certificate())


def prepare_dequantize(op: Operator, setting: Setting) -> Prepared:
    """A difference, a conversion that rounds if the difference is large, and a product."""
    assert isinstance(op, Dequantize)
    scale, zero_point = _parameters(op.x.scale, op.x.zero_point)
    numbers = _numbers(scale, zero_point)
    nest = elementwise({"x": Placed(op.x.shape, setting.xs[0])}, Placed(op.y.shape, setting.y))
    first, code = ["const float scale = {scale};"], "{x}"
    if setting.is_free or is_binary_fraction(scale):
        first = ["const float scale = qcgen_not_known({scale});"]
    if setting.is_free or zero_point != 0:
        first.append("const int32_t zero_point = {zero_point};")
        code = f"({_cast(op.x.dtype)}{{x}} - zero_point)"
    context = elements(
        op,
        nest,
        {"x": op.x.dtype.c, "y": "float"},
        f"(float){code} * scale",
        numbers={each.role: each.values.item() for each in numbers},
        first=first,
    )
    return Prepared(numbers if setting.is_free else (), context, (), Certificate())


def _numbers(scale: float, zero_point: int) -> tuple[Constants, ...]:
    zero = number("zero_point", "int32_t", zero_point, "the code of 0.")
    return (number("scale", "float", scale, "what a code is worth."), zero)


def _cast(dtype: DType) -> str:
    return "(int64_t)" if dtype is DType.INT32 else "(int32_t)" if dtype.is_16_bit else ""


def _parameters(scale: float | None, zero_point: int | None) -> tuple[float, int]:
    assert scale is not None, "the tensor is quantized"
    return scale, zero_point or 0


QUANTIZE = Kernel("portable/quantize", Elements, frozenset(), why_not_quantize, prepare_quantize)
DEQUANTIZE = Kernel("portable/dequantize", Elements, frozenset(), why_not_dequantize, prepare_dequantize)


@dataclass(frozen=True)
class ZeroPointCorrectionContext(Context):
    """What a computed zero point adds to sums, taken from them."""

    template: ClassVar[str] = "kernels/portable/zero_point_correction.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    is_in_place: bool  # y may lie over x
    wraps: bool  # modulo 2^32


def why_not_extremes(op: Operator, _setting: Setting) -> str | None:
    """Serves all."""
    return None if isinstance(op, Extremes) else f"{op.op_type} does not find the smallest and the largest number"


def why_not_parameter(op: Operator, _setting: Setting) -> str | None:
    """Serves all."""
    return None if isinstance(op, DynamicParameter) else f"{op.op_type} does not compute a scale or a zero point"


def why_not_dynamic_quantize(op: Operator, _setting: Setting) -> str | None:
    """Serves every quantization of this kind."""
    return None if isinstance(op, DynamicQuantize) else f"{op.op_type} does not quantize by a computed scale"


def prepare_extremes(op: Operator, setting: Setting) -> Prepared:
    """Every number once, in the order of the memory; rows that come one by one extend what was found."""
    assert isinstance(op, Extremes)
    what = "y[0] is the smallest number of x, y[1] the largest; 0 counts as one of them, NaN does not."
    if setting.in_rows:
        what = "y[0] is the smallest number of x, y[1] the largest; the numbers in y count, NaN does not."
    function = "extend_range" if setting.in_rows else "find_range"
    context = library_call(op, what, "const float *restrict x, float *restrict y", function, "x", op.x.size, "y")
    return Prepared((), context, (), Certificate())


def prepare_parameter(op: Operator, _setting: Setting) -> Prepared:
    """A few operations in float32."""
    assert isinstance(op, DynamicParameter)
    what = f"The {op.kind} of codes from 0 to 255 for numbers from x[0] to x[1]."
    parameters = f"const float *restrict x, {op.y.dtype.c} *restrict y"
    return Prepared(
        (), library_call(op, what, parameters, f"{op.kind.replace(' ', '_')}_of_range", "x", "y"), (), Certificate()
    )


def prepare_dynamic_quantize(op: Operator, setting: Setting) -> Prepared:
    """A division per element; codes may lie over the numbers that have been read, which are four times as large."""
    assert isinstance(op, DynamicQuantize)
    prove(setting.xs[0] == setting.y, "codes lie in the order of their numbers")
    parameters = "const float *x, const float *scale, const uint8_t *zero_point, uint8_t *y"
    arguments = ("x", op.x.size, "scale", "zero_point", "y")
    context = library_call(op, "Codes of a computed scale and zero point.", parameters, "quantize_dynamic", *arguments)
    places = np.arange(op.y.size)
    return Prepared((), context, (), Certificate(), access=AccessOrder(4 * places, places + 1, gathers=True))


def why_not_correction(op: Operator, _setting: Setting) -> str | None:
    """Serves every correction of this kind."""
    return None if isinstance(op, ZeroPointCorrection) else f"{op.op_type} has no zero point that is computed"


def prepare_correction(op: Operator, setting: Setting) -> Prepared:
    """A product and a difference an element; the sums of weights are a table, one for each kind of window."""
    assert isinstance(op, ZeroPointCorrection)
    in_sums, tables = sums_of_weights(op, setting.y)
    steps = {"x": strides(op.x.shape, setting.xs[0]), "sums": in_sums, "y": strides(op.y.shape, setting.y)}
    nest = nest_of(op.y.shape, steps)
    in_place = (0,) if "x" in nest.same_places else ()
    context = ZeroPointCorrectionContext(nest, bool(in_place), wraps(op))
    return Prepared(tables, context, (), corrected_sums(op), in_place)


def wraps(op: ZeroPointCorrection) -> bool:
    """Whether sums are taken modulo 2^32."""
    return op.bound >= 2**31


def corrected_sums(op: ZeroPointCorrection) -> Certificate:
    """What is proved of the sums."""
    return Certificate(None if wraps(op) else (-op.bound, op.bound), wraps(op))


def sums_of_weights(op: ZeroPointCorrection, order: Order) -> tuple[tuple[Stride, ...], tuple[Constants, ...]]:
    """The steps on each axis of an output in ``order`` through the table ``sums``; that table, and those of windows."""
    in_table = strides(op.sums.shape, order)
    tables = [Constants("sums", "int32_t", ordered(op.sums, order, op.sums.ndim), "sums of the weights of a window.")]
    steps: list[Stride] = []
    for axis, places in enumerate(op.places):
        step: Stride = 0
        if len(places) > 1 and places == tuple(range(len(places))):
            step = in_table[axis]
        elif any(places):
            step, distances = f"window{axis}", np.asarray(places) * in_table[axis]
            c_type = "uint16_t" if distances.max() < 2**16 else "int32_t"
            tables.append(Constants(step, c_type, distances, f"the distance in sums of each position on axis {axis}."))
        steps.append(step)
    return tuple(steps), tuple(tables)


EXTREMES = Kernel("portable/extremes", LibraryCall, frozenset(), why_not_extremes, prepare_extremes)
DYNAMIC_PARAMETER = Kernel("portable/dynamic_parameter", LibraryCall, frozenset(), why_not_parameter, prepare_parameter)
DYNAMIC_QUANTIZE = Kernel(
    "portable/dynamic_quantize", LibraryCall, frozenset(), why_not_dynamic_quantize, prepare_dynamic_quantize
)
ZERO_POINT_CORRECTION = Kernel(
    "portable/zero_point_correction", ZeroPointCorrectionContext, frozenset(), why_not_correction, prepare_correction
)
