"""portable/softmax and float_softmax: softmax over the last axis, of codes in integers alone, or of float32 numbers."""

from __future__ import annotations

from math import prod

from qcgen.cores import CONSTANT_TIME
from qcgen.errors import prove
from qcgen.ir.context import Struct
from qcgen.ir.plan import Certificate
from qcgen.ir.program import FloatSoftmax, IntegerLogSoftmax, IntegerSoftmax, Operator, Softmax, WideSoftmax
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Setting, number, words
from qcgen.kernels.portable.rows import RowsCall, in_place, rows_call

MOST_BITS = 15
"""Of a factor that times 2^40 through a significand of 24 bits stays in 32 bits."""

BY_DIVISION = "code_softmax_by_division"
"""The function whose shares are divided bit by bit."""

FEWEST = 32
"""Outputs from which on reciprocals of sums pay where products of 64 bits and divisions are function calls."""


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every softmax of codes."""
    return None if isinstance(op, Softmax) else f"{op.op_type} is not a softmax of quantized numbers"


def why_not_float(op: Operator, _setting: Setting) -> str | None:
    """Serves every softmax of float32 numbers."""
    return None if isinstance(op, FloatSoftmax) else f"{op.op_type} is not a softmax of float32 numbers"


def prepare(op: Operator, setting: Setting) -> Prepared:
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
    context = rows_call(op, setting, f"code_softmax{own}" if has_reciprocal else BY_DIVISION, layer)
    certificate = Certificate(numbers={"kind": "softmax", "exponentials": words(op.table), "factor": int(op.factor)})
    return Prepared(constants, context, (), certificate, in_place(op.x, setting))


def prepare_float(op: Operator, setting: Setting) -> Prepared:
    """No constants."""
    assert isinstance(op, FloatSoftmax)
    row = "log_softmax_by_library" if op.by_library else "log_softmax_row" if op.is_log else "softmax_row"
    context = rows_call(op, setting, f"float_{row}", Struct("float_softmax", ()))
    return Prepared((), context, (), Certificate(), in_place(op.x, setting))


def why_not_integer(op: Operator, _setting: Setting) -> str | None:
    """Serves every softmax in fixed point."""
    return None if isinstance(op, IntegerSoftmax) else f"{op.op_type} is not a softmax in fixed point"


def prepare_integer(op: Operator, setting: Setting) -> Prepared:
    """A table of the exponentials."""
    assert isinstance(op, IntegerSoftmax)
    meaning = "exponentials of x - max x = -255, ..., 0, in units of 2^-31."
    constants = (Constants("exponentials", "int32_t", op.table, meaning),)
    low, high = op.y.dtype.low, op.y.dtype.high
    codes = {"low": low, "high": high, "right": 43 - (high - low).bit_length()}
    layer = Struct("integer_softmax", ("exponentials",), codes)
    row = "integer_softmax_to_16_bits" if op.y.dtype.is_16_bit else "integer_softmax"
    context = rows_call(op, setting, row, layer)
    certificate = Certificate(numbers={"kind": "integer softmax", "exponentials": op.table})
    places = in_place(op.x, setting) if op.x.dtype.bytes == op.y.dtype.bytes else ()
    return Prepared(constants, context, (), certificate, places)


def why_not_integer_log(op: Operator, _setting: Setting) -> str | None:
    """Serves every logarithm of a softmax in fixed point."""
    return None if isinstance(op, IntegerLogSoftmax) else f"{op.op_type} is not a logarithm of a softmax in fixed point"


def prepare_integer_log(op: Operator, setting: Setting) -> Prepared:
    """Tables of the exponentials and of the distances."""
    assert isinstance(op, IntegerLogSoftmax)
    constants = (
        Constants("exponentials", "int32_t", op.table, "exponentials of x - max x = -255, ..., 0, in units of 2^-19."),
        Constants("distances", "int32_t", op.distances, "what they are taken of, in units of 2^-26, none below -17."),
    )
    codes = {"low": op.y.dtype.low, "high": op.y.dtype.high}
    layer = Struct("integer_softmax", ("exponentials", "distances"), codes)
    context = rows_call(op, setting, "integer_log_softmax", layer)
    return Prepared(constants, context, (), Certificate(), in_place(op.x, setting))


def why_not_wide(op: Operator, _setting: Setting) -> str | None:
    """Serves every softmax of int16 codes."""
    return None if isinstance(op, WideSoftmax) else f"{op.op_type} is not a softmax of int16 codes"


def prepare_wide(op: Operator, setting: Setting) -> Prepared:
    """Tables of 513 numbers; exponentials are kept where the shares go."""
    assert isinstance(op, WideSoftmax)
    prove(op.scale[1] <= 14 and op.x.shape[-1] < 2**16, "no distance and no sum leaves int32")
    constants = (
        Constants("exponentials", "int16_t", op.exponentials, "exp(x), x from -10 to 0, in units of 2^-15."),
        Constants("reciprocals", "int16_t", op.reciprocals, "1 / (1 + v), v from 0 to 1, in units of 2^-15."),
    )
    by = {"multiplier": op.scale[0], "exponent": op.scale[1]}
    context = rows_call(op, setting, "wide_softmax_row", Struct("wide_softmax", ("exponentials", "reciprocals"), by))
    return Prepared(constants, context, (), Certificate(), in_place(op.x, setting))


WIDE_SOFTMAX = Kernel("portable/wide_softmax", RowsCall, frozenset(), why_not_wide, prepare_wide)
INTEGER_LOG_SOFTMAX = Kernel(
    "portable/integer_log_softmax", RowsCall, frozenset(), why_not_integer_log, prepare_integer_log
)
INTEGER_SOFTMAX = Kernel("portable/integer_softmax", RowsCall, frozenset(), why_not_integer, prepare_integer)
SOFTMAX = Kernel("portable/softmax", RowsCall, frozenset(), why_not, prepare)
FLOAT_SOFTMAX = Kernel("portable/float_softmax", RowsCall, frozenset(), why_not_float, prepare_float)
