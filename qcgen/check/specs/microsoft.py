"""What is accepted of the operators of com.microsoft besides convolutions, written out."""

from __future__ import annotations

from dataclasses import replace

from qcgen.check import limits, matrices, ranges
from qcgen.check.limits import flag
from qcgen.check.node import Spec
from qcgen.check.ranges import at, in_range
from qcgen.check.signature import INTEGER, INTEGERS, NUMBER, Signature
from qcgen.check.specs.standard import (
    BINARY,
    DEQUANTIZE,
    FLOATS,
    FUNCTION,
    GEMM,
    INT32,
    MAX_POOL,
    ONE,
    POOL,
    QUANTIZE,
    UNARY,
    codes_and_scales,
)

OF_ONE, OF_TWO = at("X_scale", "Y_scale"), at("A_scale", "B_scale", "C_scale")
JOINED = ("Y_scale", "Y_zero_point", "input", "scale", "zero_point")

MICROSOFT: dict[tuple[str, str], Spec] = {
    ("com.microsoft", "DequantizeLinear"): DEQUANTIZE,
    ("com.microsoft", "Gelu"): replace(FLOATS, signature=Signature(("X",), 1)),
    ("com.microsoft", "NhwcMaxPool"): replace(
        MAX_POOL, signature=Signature(("X",), 1, POOL | {"dilations": INTEGERS, "storage_order": INTEGER})
    ),
    ("com.microsoft", "QGemm"): Spec(
        tuple(INT32 if role == "C" else types for role, types in zip(GEMM, codes_and_scales(*GEMM), strict=True)),
        constant=GEMM[1:],
        numbers=("a_scale", "a_zero_point", "y_scale", "y_zero_point"),
        scales=("a_scale", "b_scale", "y_scale"),
        same=(("a_zero_point", "A"), ("b_zero_point", "B"), ("y_zero_point", "A")),
        extra=(
            matrices.columns,
            matrices.bias_of_columns,
            ranges.multiplier_in_range("a_scale", "b_scale", "y_scale"),
            matrices.quantized_once,
            matrices.positive_alpha,
        ),
        signature=Signature(GEMM, 6, {"alpha": NUMBER, "transA": INTEGER, "transB": INTEGER}),
    ),
    ("com.microsoft", "QLinearAdd"): replace(BINARY, extra=(in_range(ranges.sums, OF_TWO),)),
    ("com.microsoft", "QLinearAveragePool"): replace(
        UNARY,
        extra=(limits.auto_pad_exists, limits.few_taps, in_range(ranges.averages, OF_ONE), flag("channels_last", 0, 1)),
        signature=Signature(ONE, 4, POOL | {"channels_last": INTEGER, "count_include_pad": INTEGER}),
    ),
    ("com.microsoft", "QLinearConcat"): Spec(
        codes_and_scales(*JOINED),
        constant=("Y_scale", "Y_zero_point", "scale", "zero_point"),
        numbers=("Y_scale", "Y_zero_point", "scale", "zero_point"),
        scales=("Y_scale", "scale"),
        same=(("input", "Y_zero_point"), ("zero_point", "Y_zero_point")),
        signature=Signature(JOINED, 5, {"axis": INTEGER}, repeated=3),
    ),
    ("com.microsoft", "QLinearGlobalAveragePool"): replace(
        UNARY,
        extra=(in_range(ranges.means, OF_ONE), flag("channels_last", 0, 1)),
        signature=Signature(ONE, 4, {"channels_last": INTEGER}),
    ),
    ("com.microsoft", "QLinearLeakyRelu"): replace(
        UNARY, extra=(limits.finite_numbers,), signature=Signature(ONE, 4, {"alpha": NUMBER})
    ),
    ("com.microsoft", "QLinearMul"): replace(BINARY, extra=(in_range(ranges.products, OF_TWO),)),
    ("com.microsoft", "QLinearSigmoid"): UNARY,
    ("com.microsoft", "QLinearSoftmax"): replace(
        UNARY,
        extra=(ranges.says_which_softmax, in_range(ranges.softmaxes, OF_ONE, ranges.LARGER)),
        signature=Signature(ONE, 4, {"axis": INTEGER, "opset": INTEGER}),
    ),
    ("com.microsoft", "QuantizeLinear"): QUANTIZE,
    ("com.microsoft", "QuickGelu"): replace(FUNCTION, signature=Signature(("X",), 1, {"alpha": NUMBER})),
}
"""What is accepted, by (domain, op_type)."""
