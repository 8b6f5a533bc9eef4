"""portable/quantize and dequantize: between float32 and integers, in onnxruntime's float32 arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qcgen.arithmetic import is_binary_fraction
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import Dequantize, Operator, Quantize
from qcgen.ir.types import DType
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Setting, number
from qcgen.kernels.loop_nest import LoopNest, Placed, elementwise


@dataclass(frozen=True)
class QuantizeContext(Context):
    """From float32 to codes."""

    template: ClassVar[str] = "kernels/portable/quantize.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    y_type: str  # of C
    scale: float  # of y
    zero_point: int  # of y
    low: int  # the lowest code less the zero point
    high: int  # the highest code less the zero point
    is_wide: bool  # one of these is beyond an int of 16 bits
    is_away: bool  # halves are rounded away from zero, not to even


@dataclass(frozen=True)
class DequantizeContext(Context):
    """From codes to float32."""

    template: ClassVar[str] = "kernels/portable/dequantize.c.jinja"

    nest: LoopNest  # the loops over the elements of y
    x_type: str  # of C
    scale: float  # of x
    zero_point: int  # of x
    is_wide: bool  # it may be beyond an int of 16 bits
    cast: str  # before a code in C, where the code less its zero point may leave its type, or an int of 16 bits
    is_fraction: bool  # the scale is 2^-1 to 2^-32, which clang hands to Helium's conversion, and may get it wrong


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
    context = QuantizeContext(
        nest=elementwise({"x": Placed(op.x.shape, setting.xs[0])}, Placed(op.y.shape, setting.y)),
        y_type=op.y.dtype.c,
        scale=scale,
        zero_point=zero_point,
        low=op.y.dtype.low - zero_point,
        high=op.y.dtype.high - zero_point,
        is_wide=op.y.dtype.is_16_bit or setting.is_free,
        is_away=op.is_away,
    )
    return Prepared(numbers if setting.is_free else (), context, (), Certificate())


def prepare_dequantize(op: Operator, setting: Setting) -> Prepared:
    """A difference, a conversion that rounds if the difference is large, and a product."""
    assert isinstance(op, Dequantize)
    scale, zero_point = _parameters(op.x.scale, op.x.zero_point)
    has_zero_point = setting.is_free or zero_point != 0
    context = DequantizeContext(
        nest=elementwise({"x": Placed(op.x.shape, setting.xs[0])}, Placed(op.y.shape, setting.y)),
        x_type=op.x.dtype.c,
        scale=scale,
        zero_point=zero_point,
        is_wide=op.x.dtype.is_16_bit or setting.is_free,
        cast=_cast(op.x.dtype) if has_zero_point else "",
        is_fraction=setting.is_free or is_binary_fraction(scale),
    )
    numbers = _numbers(scale, zero_point) if setting.is_free else ()
    return Prepared(numbers, context, (), Certificate())


def _numbers(scale: float, zero_point: int) -> tuple[Constants, ...]:
    zero = number("zero_point", "int32_t", zero_point, "the code of 0.")
    return (number("scale", "float", scale, "what a code is worth."), zero)


def _cast(dtype: DType) -> str:
    return "(int64_t)" if dtype is DType.INT32 else "(int32_t)" if dtype.is_16_bit else ""


def _parameters(scale: float | None, zero_point: int | None) -> tuple[float, int]:
    assert scale is not None, "the tensor is quantized"
    return scale, zero_point or 0


QUANTIZE = Kernel("portable/quantize", QuantizeContext, frozenset(), why_not_quantize, prepare_quantize)
DEQUANTIZE = Kernel("portable/dequantize", DequantizeContext, frozenset(), why_not_dequantize, prepare_dequantize)
