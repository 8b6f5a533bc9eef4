"""What is accepted of the operators of com.microsoft besides convolutions, written out."""

from __future__ import annotations

from dataclasses import replace

from qcgen.check import limits, matrices, movement, ranges, windows
from qcgen.check.limits import axis_exists, flag
from qcgen.check.node import FLOAT, INTEGER, NUMBER, Q8, Spec
from qcgen.check.ranges import at
from qcgen.check.specs.parts import (
    BINARY,
    DEQUANTIZE,
    FLOATS,
    GEMM,
    INT32,
    MAX_POOL,
    POOL,
    QUANTIZE,
    TRANSPOSES,
    UNARY,
    WINDOW,
)

MICROSOFT: dict[tuple[str, str], Spec] = {
    ("com.microsoft", "DequantizeLinear"): DEQUANTIZE,
    ("com.microsoft", "Gelu"): FLOATS,
    ("com.microsoft", "NhwcMaxPool"): MAX_POOL,
    ("com.microsoft", "QGemm"): Spec(
        GEMM,
        6,
        {role: FLOAT if role.endswith("scale") else Q8 for role in GEMM} | {"C": INT32},
        constant=GEMM[1:],
        numbers=("a_scale", "a_zero_point", "y_scale", "y_zero_point"),
        scales=("a_scale", "b_scale", "y_scale"),
        same=(("a_zero_point", "A"), ("b_zero_point", "B"), ("y_zero_point", "A")),
        attributes=TRANSPOSES,
        extra=(
            matrices.matrices(0, 3),
            matrices.columns(3, (("b_scale", 4), ("b_zero_point", 5))),
            matrices.bias_of_columns(6, 3),
            ranges.multiplier_in_range(1, 4, 7),
            matrices.quantized_once,
            matrices.positive_alpha,
        ),
    ),
    ("com.microsoft", "QLinearAdd"): replace(BINARY, extra=(*BINARY.extra, ranges.sum_in_range(at(1, 4, 6)))),
    ("com.microsoft", "QLinearAveragePool"): replace(
        UNARY,
        attributes=POOL | {"channels_last": INTEGER, "count_include_pad": INTEGER},
        extra=(*WINDOW, windows.few_taps, ranges.average_in_range(at(1, 3)), flag("channels_last", 0, 1)),
    ),
    ("com.microsoft", "QLinearConcat"): Spec(
        ("Y_scale", "Y_zero_point", "input", "scale", "zero_point"),
        5,
        {"Y_scale": FLOAT, "Y_zero_point": Q8, "input": Q8, "scale": FLOAT, "zero_point": Q8},
        constant=("Y_scale", "Y_zero_point", "scale", "zero_point"),
        numbers=("Y_scale", "Y_zero_point", "scale", "zero_point"),
        scales=("Y_scale", "scale"),
        same=(("input", "Y_zero_point"), ("zero_point", "Y_zero_point")),
        attributes={"axis": INTEGER},
        repeated=3,
        extra=(movement.joins_along_an_axis(2, 3),),
    ),
    ("com.microsoft", "QLinearGlobalAveragePool"): replace(
        UNARY,
        attributes={"channels_last": INTEGER},
        extra=(ranges.mean_in_range(at(1, 3)), flag("channels_last", 0, 1)),
    ),
    ("com.microsoft", "QLinearLeakyRelu"): replace(
        UNARY, attributes={"alpha": NUMBER}, extra=(limits.finite_number("alpha", 0.01),)
    ),
    ("com.microsoft", "QLinearMul"): replace(BINARY, extra=(*BINARY.extra, ranges.product_in_range(at(1, 4, 6)))),
    ("com.microsoft", "QLinearSigmoid"): UNARY,
    ("com.microsoft", "QLinearSoftmax"): replace(
        UNARY,
        attributes={"axis": INTEGER, "opset": INTEGER},
        extra=(axis_exists(-1), ranges.says_which_softmax, ranges.softmax_in_range(at(1, 3))),
    ),
    ("com.microsoft", "QuantizeLinear"): QUANTIZE,
    ("com.microsoft", "QuickGelu"): replace(
        FLOATS, attributes={"alpha": NUMBER}, extra=(limits.finite_number("alpha", 1.702),)
    ),
}
"""What is accepted, by (domain, op_type)."""
