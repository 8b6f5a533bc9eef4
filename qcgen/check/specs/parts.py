"""What the specs of several operators share."""

from __future__ import annotations

from dataclasses import replace

from qcgen.check import limits
from qcgen.check.limits import flag
from qcgen.check.node import CODES, CODES_OR_FLOAT, FLOAT, Q8, Spec, Types
from qcgen.check.signature import INTEGER, INTEGERS, TEXT, Signature
from qcgen.ir.types import DType

INT32: Types = (DType.INT32,)
INDEX: Types = (DType.INT32, DType.INT64)

PAD_MODES = ("constant", "edge", "reflect", "wrap")
NEAREST_MODES = ("round_prefer_floor", "ceil", "floor", "round_prefer_ceil")
COORDINATES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn")


def codes_and_scales(*names: str) -> tuple[Types, ...]:
    """The types of inputs of 8 bits, and of their scales, by their names."""
    return tuple(FLOAT if name.endswith("scale") else Q8 for name in names)


FLOATS = Spec((FLOAT,))
FUNCTION = replace(FLOATS, extra=(limits.finite_numbers,))
BINARY_FLOATS = Spec((FLOAT, FLOAT), extra=(limits.finite_constants,))
SAME = Spec((CODES_OR_FLOAT,))
INDEXED = Spec((CODES_OR_FLOAT, INDEX))
AXES = replace(INDEXED, constant=("axes",))
REDUCE = Spec((FLOAT, INDEX), constant=("axes",))

POOL = {"auto_pad": TEXT, "ceil_mode": INTEGER, "kernel_shape": INTEGERS, "pads": INTEGERS, "strides": INTEGERS}
MAX_POOL = replace(SAME, extra=(limits.auto_pad_exists,))

ONE = ("X", "X_scale", "X_zero_point", "Y_scale", "Y_zero_point")
UNARY = Spec(
    codes_and_scales(*ONE),
    constant=ONE[1:],
    numbers=ONE[1:],
    scales=("X_scale", "Y_scale"),
    same=(("X_zero_point", "X"), ("Y_zero_point", "X")),
    signature=Signature(ONE, 4),
)

TWO = ("A", "A_scale", "A_zero_point", "B", "B_scale", "B_zero_point", "C_scale", "C_zero_point")
BINARY = Spec(
    codes_and_scales(*TWO),
    constant=(*TWO[1:3], *TWO[4:]),
    numbers=(*TWO[1:3], *TWO[4:]),
    scales=("A_scale", "B_scale", "C_scale"),
    same=(("A_zero_point", "A"), ("B", "A"), ("B_zero_point", "A"), ("C_zero_point", "A")),
    signature=Signature(TWO, 7),
)

MATMUL = ("a", "a_scale", "a_zero_point", "b", "b_scale", "b_zero_point", "y_scale", "y_zero_point")
GEMM = ("A", "a_scale", "a_zero_point", "B", "b_scale", "b_zero_point", "C", "y_scale", "y_zero_point")

QUANTIZE = Spec(
    (FLOAT, FLOAT, CODES),
    constant=("y_scale", "y_zero_point"),
    numbers=("y_scale", "y_zero_point"),
    scales=("y_scale",),
    extra=(flag("block_size", 0), limits.quantized_result),
)
DEQUANTIZE = Spec(
    ((*CODES, *INT32), FLOAT, (*CODES, *INT32)),
    constant=("x_scale", "x_zero_point"),
    numbers=("x_scale", "x_zero_point"),
    scales=("x_scale",),
    same=(("x_zero_point", "x"),),
    extra=(flag("block_size", 0), limits.zero_point_is_zero),
)
