"""What the specs of several operators share."""

from __future__ import annotations

from dataclasses import replace

from qcgen.check import limits, ranges, reductions, windows
from qcgen.check.limits import flag, one_of
from qcgen.check.node import CODES, CODES_OR_FLOAT, FLOAT, INTEGER, INTEGERS, NUMBER, Q8, TEXT, Spec, Types
from qcgen.geometry import AUTO_PADS
from qcgen.ir.types import DType

INT32: Types = (DType.INT32,)
INDEX: Types = (DType.INT32, DType.INT64)

PAD_MODES = ("constant", "edge", "reflect", "wrap")
NEAREST_MODES = ("round_prefer_floor", "ceil", "floor", "round_prefer_ceil")
COORDINATES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn")

POOL = {"auto_pad": TEXT, "ceil_mode": INTEGER, "kernel_shape": INTEGERS, "pads": INTEGERS, "strides": INTEGERS}
WINDOW = (windows.is_image, windows.window_fits, one_of("auto_pad", *AUTO_PADS))

MAX_POOL = Spec(
    ("X",),
    1,
    {"X": CODES_OR_FLOAT},
    attributes=POOL | {"dilations": INTEGERS, "storage_order": INTEGER},
    extra=WINDOW,
)
AVERAGE_POOL = Spec(
    ("X",),
    1,
    {"X": FLOAT},
    attributes=POOL | {"dilations": INTEGERS, "count_include_pad": INTEGER},
    extra=(*WINDOW, ranges.average_in_range(ranges.between(1)), ranges.of_codes(windows.few_taps)),
)
GLOBAL_POOL = Spec(("X",), 1, {"X": FLOAT}, extra=(windows.is_image,))
GLOBAL_MAX_POOL = replace(GLOBAL_POOL, types={"X": CODES_OR_FLOAT})

ONE = ("X", "X_scale", "X_zero_point", "Y_scale", "Y_zero_point")
UNARY = Spec(
    ONE,
    4,
    {"X": Q8, "X_scale": FLOAT, "X_zero_point": Q8, "Y_scale": FLOAT, "Y_zero_point": Q8},
    constant=ONE[1:],
    numbers=ONE[1:],
    scales=("X_scale", "Y_scale"),
    same=(("X_zero_point", "X"), ("Y_zero_point", "X")),
)

TWO = ("A", "A_scale", "A_zero_point", "B", "B_scale", "B_zero_point", "C_scale", "C_zero_point")
BINARY = Spec(
    TWO,
    7,
    {role: FLOAT if role.endswith("scale") else Q8 for role in TWO},
    constant=(*TWO[1:3], *TWO[4:]),
    numbers=(*TWO[1:3], *TWO[4:]),
    scales=("A_scale", "B_scale", "C_scale"),
    same=(("A_zero_point", "A"), ("B", "A"), ("B_zero_point", "A"), ("C_zero_point", "A")),
    extra=(limits.broadcasts(0, 3),),
)

MATMUL = ("a", "a_scale", "a_zero_point", "b", "b_scale", "b_zero_point", "y_scale", "y_zero_point")
GEMM = ("A", "a_scale", "a_zero_point", "B", "b_scale", "b_zero_point", "C", "y_scale", "y_zero_point")
TRANSPOSES = {"alpha": NUMBER, "transA": INTEGER, "transB": INTEGER}

QUANTIZE = Spec(
    ("x", "y_scale", "y_zero_point"),
    2,
    {"x": FLOAT, "y_scale": FLOAT, "y_zero_point": CODES},
    constant=("y_scale", "y_zero_point"),
    numbers=("y_scale", "y_zero_point"),
    scales=("y_scale",),
    attributes=dict.fromkeys(("axis", "block_size", "output_dtype", "precision", "saturate"), INTEGER),
    extra=(flag("block_size", 0), limits.quantized_result),
)
DEQUANTIZE = Spec(
    ("x", "x_scale", "x_zero_point"),
    2,
    {"x": (*CODES, *INT32), "x_scale": FLOAT, "x_zero_point": (*CODES, *INT32)},
    constant=("x_scale", "x_zero_point"),
    numbers=("x_scale", "x_zero_point"),
    scales=("x_scale",),
    same=(("x_zero_point", "x"),),
    attributes=dict.fromkeys(("axis", "block_size", "output_dtype"), INTEGER),
    extra=(flag("block_size", 0), limits.zero_point_is_zero),
)

FLOATS = Spec(("X",), 1, {"X": FLOAT})
BINARY_FLOATS = Spec(("A", "B"), 2, {"A": FLOAT, "B": FLOAT}, extra=(limits.broadcasts(0, 1), limits.finite_constants))
SAME = Spec(("data",), 1, {"data": CODES_OR_FLOAT})
AXES = Spec(
    ("data", "axes"),
    1,
    {"data": CODES_OR_FLOAT, "axes": INDEX},
    constant=("axes",),
    attributes={"axes": INTEGERS},
)
REDUCE = Spec(
    ("data", "axes"),
    1,
    {"data": FLOAT, "axes": INDEX},
    constant=("axes",),
    attributes={"axes": INTEGERS, "keepdims": INTEGER, "noop_with_empty_axes": INTEGER},
    extra=(reductions.reduces_axes,),
)
ARG_MAX = replace(
    SAME,
    attributes={"axis": INTEGER, "keepdims": INTEGER, "select_last_index": INTEGER},
    extra=(limits.axis_exists(0),),
)
