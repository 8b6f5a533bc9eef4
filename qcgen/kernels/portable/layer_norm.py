"""portable/layer_norm: LayerNormalization of codes, its float32 arithmetic in integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from qcgen.arithmetic import LANES, Quantization
from qcgen.errors import prove
from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import LayerNorm, Operator
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.portable.rows import Rows, in_place, rows_of
from qcgen.kernels.portable.words import word, words
from qcgen.requantize.fixed_point import decompose
from qcgen.requantize.means import NormalLine, fit_normal_line


@dataclass(frozen=True)
class LayerNormContext(Context):
    """The normalization of rows of codes. Words hold the bits of float32 numbers."""

    template: ClassVar[str] = "kernels/portable/layer_norm.c.jinja"

    rows: Rows
    x_type: str  # of C
    y_type: str  # of C
    x_zero_point: int  # of x
    x_scale: int  # in units of 2^unit
    unit: int  # the exponent of the last bit of x's scale
    whole: int  # elements of a row that are squared and summed in lanes
    rounded: int  # elements of a row before the last ones, whose squares are not rounded before they are added
    epsilon: int  # a word
    count: int  # the length of a row as a word
    one: int  # the number 1 as a word
    has_codes: bool  # y are codes, else float32 numbers
    y_scale: int  # a word
    y_zero_point: int  # of y
    low: int  # the lowest code of y
    high: int  # the highest code of y
    has_bias: bool  # something is added to each element
    line: NormalLine | None  # the fixed-point form of codes, if there is one
    code_epsilon: int  # epsilon in squares of codes, a word


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every layer normalization of codes."""
    if isinstance(op, LayerNorm) and op.x.dtype.is_quantized:
        return None
    return f"{op.op_type} is not a layer normalization of codes"


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Scale and bias as words, and in fixed point; the deviations of a row stay in the arena."""
    assert isinstance(op, LayerNorm)
    assert op.x.scale is not None, "x is quantized"
    length = op.x.shape[-1]
    [mantissa], [exponent] = decompose(np.array([op.x.scale], np.float32))
    prove(length < 2**20, "sums of a row are exact in float64, as in int64")
    whole, has_codes = length - length % LANES, op.y.dtype.is_quantized
    line = _line(op) if has_codes else None
    context = LayerNormContext(
        rows=rows_of(op.x, op.y, setting.xs[0], setting.y),
        x_type=op.x.dtype.c,
        y_type=op.y.dtype.c,
        x_zero_point=op.x.zero_point or 0,
        x_scale=int(mantissa),
        unit=int(exponent),
        whole=whole,
        rounded=whole + (length - whole) // 4 * 4,
        epsilon=word(op.epsilon),
        count=word(length),
        one=word(1),
        has_codes=has_codes,
        y_scale=word(op.y.scale or 1),
        y_zero_point=op.y.zero_point or 0,
        low=op.y.dtype.low if has_codes else 0,
        high=op.y.dtype.high if has_codes else 0,
        has_bias=op.bias is not None,
        line=line,
        code_epsilon=word(line.epsilon) if line else 0,
    )
    constants = _line_tables(line) if line else []
    constants += [Constants("scale", "uint32_t", words(op.scale), "what each element of a row is multiplied by.")]
    if op.bias is not None:
        constants.append(Constants("bias", "uint32_t", words(op.bias), "what is added to each element of a row."))
    proved = {constant.role: constant.values for constant in constants if constant.role in ("scale", "bias")}
    numbers: dict[str, object] = {"kind": "layer norm", "epsilon": context.epsilon, **proved}
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


LAYER_NORM = Kernel("portable/layer_norm", LayerNormContext, frozenset(), why_not, prepare)
