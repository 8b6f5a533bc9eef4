"""What is accepted of every operator besides convolutions, written out."""

from __future__ import annotations

from dataclasses import replace

from qcgen.check import limits, matrices, movement, ranges, windows
from qcgen.check.limits import axis_exists, flag, one_of
from qcgen.check.node import FLOAT, INTEGER, INTEGERS, NUMBER, Q8, Q8_OR_FLOAT, TEXT, Spec, Types
from qcgen.convolutions import NHWC_DOMAIN
from qcgen.geometry import AUTO_PADS
from qcgen.infer.lookup import LOOKUP
from qcgen.ir.types import DType

INT32: Types = (DType.INT32,)
INDEX: Types = (DType.INT32, DType.INT64)

PAD_MODES = ("constant", "edge", "reflect", "wrap")
NEAREST_MODES = ("round_prefer_floor", "ceil", "floor", "round_prefer_ceil")
COORDINATES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn")

_POOL = {"auto_pad": TEXT, "ceil_mode": INTEGER, "kernel_shape": INTEGERS, "pads": INTEGERS, "strides": INTEGERS}
_WINDOW = (windows.is_image, windows.window_fits, flag("ceil_mode", 0, 1), one_of("auto_pad", *AUTO_PADS))

_MAX_POOL = Spec(
    ("X",),
    1,
    {"X": Q8_OR_FLOAT},
    attributes=_POOL | {"dilations": INTEGERS, "storage_order": INTEGER},
    extra=_WINDOW,
)
_AVERAGE_POOL = Spec(
    ("X",),
    1,
    {"X": FLOAT},
    attributes=_POOL | {"dilations": INTEGERS, "count_include_pad": INTEGER},
    extra=(*_WINDOW, windows.counts_its_padding),
)
_GLOBAL_POOL = Spec(("X",), 1, {"X": FLOAT}, extra=(windows.is_image,))

_ONE = ("X", "X_scale", "X_zero_point", "Y_scale", "Y_zero_point")
_UNARY = Spec(
    _ONE,
    4,
    {"X": Q8, "X_scale": FLOAT, "X_zero_point": Q8, "Y_scale": FLOAT, "Y_zero_point": Q8},
    constant=_ONE[1:],
    numbers=_ONE[1:],
    scales=("X_scale", "Y_scale"),
    same=(("X_zero_point", "X"), ("Y_zero_point", "X")),
)

_TWO = ("A", "A_scale", "A_zero_point", "B", "B_scale", "B_zero_point", "C_scale", "C_zero_point")
_BINARY = Spec(
    _TWO,
    7,
    {role: FLOAT if role.endswith("scale") else Q8 for role in _TWO},
    constant=(*_TWO[1:3], *_TWO[4:]),
    numbers=(*_TWO[1:3], *_TWO[4:]),
    scales=("A_scale", "B_scale", "C_scale"),
    same=(("A_zero_point", "A"), ("B", "A"), ("B_zero_point", "A"), ("C_zero_point", "A")),
    extra=(limits.broadcasts(0, 3),),
)

_MATMUL = ("a", "a_scale", "a_zero_point", "b", "b_scale", "b_zero_point", "y_scale", "y_zero_point")
_GEMM = ("A", "a_scale", "a_zero_point", "B", "b_scale", "b_zero_point", "C", "y_scale", "y_zero_point")
_TRANSPOSES = {"alpha": NUMBER, "transA": INTEGER, "transB": INTEGER}

_QUANTIZE = Spec(
    ("x", "y_scale", "y_zero_point"),
    2,
    {"x": FLOAT, "y_scale": FLOAT, "y_zero_point": Q8},
    constant=("y_scale", "y_zero_point"),
    numbers=("y_scale", "y_zero_point"),
    scales=("y_scale",),
    attributes=dict.fromkeys(("axis", "block_size", "output_dtype", "precision", "saturate"), INTEGER),
    extra=(flag("block_size", 0), limits.quantized_result),
)
_DEQUANTIZE = Spec(
    ("x", "x_scale", "x_zero_point"),
    2,
    {"x": (*Q8, *INT32), "x_scale": FLOAT, "x_zero_point": (*Q8, *INT32)},
    constant=("x_scale", "x_zero_point"),
    numbers=("x_scale", "x_zero_point"),
    scales=("x_scale",),
    same=(("x_zero_point", "x"),),
    attributes=dict.fromkeys(("axis", "block_size", "output_dtype"), INTEGER),
    extra=(flag("block_size", 0), limits.zero_point_is_zero),
)

_FLOATS = Spec(("X",), 1, {"X": FLOAT})
_BINARY_FLOATS = Spec(("A", "B"), 2, {"A": FLOAT, "B": FLOAT}, extra=(limits.broadcasts(0, 1), limits.finite_constants))
_SAME = Spec(("data",), 1, {"data": Q8_OR_FLOAT})
_AXES = Spec(
    ("data", "axes"),
    1,
    {"data": Q8_OR_FLOAT, "axes": INDEX},
    constant=("axes",),
    attributes={"axes": INTEGERS},
)

SPECS: dict[tuple[str, str], Spec] = {
    ("", "Add"): _BINARY_FLOATS,
    ("", "AveragePool"): _AVERAGE_POOL,
    ("", "Cast"): replace(_SAME, attributes={"to": INTEGER, "saturate": INTEGER}, extra=(limits.no_change_of_type,)),
    ("", "Clip"): replace(
        _SAME,
        inputs=("input", "min", "max"),
        types={"input": Q8_OR_FLOAT},
        constant=("min", "max"),
        numbers=("min", "max"),
        same=(("min", "input"), ("max", "input")),
        attributes={"min": NUMBER, "max": NUMBER},
        extra=(limits.bounds_are_numbers, limits.bounds_in_order),
    ),
    ("", "Concat"): Spec(
        ("inputs",),
        1,
        {"inputs": Q8_OR_FLOAT},
        attributes={"axis": INTEGER},
        repeated=1,
        extra=(limits.same_types, movement.joins_along_an_axis(0, 1)),
    ),
    ("", "DequantizeLinear"): _DEQUANTIZE,
    ("", "Div"): _BINARY_FLOATS,
    ("", "Dropout"): replace(
        _SAME,
        inputs=("data", "ratio", "training_mode"),
        attributes={"ratio": NUMBER, "seed": INTEGER},
        extra=(limits.not_training,),
    ),
    ("", "Flatten"): replace(_SAME, attributes={"axis": INTEGER}, extra=(movement.flattens_at_an_axis,)),
    ("", "Gemm"): Spec(
        ("A", "B", "C"),
        2,
        {"A": FLOAT, "B": FLOAT, "C": FLOAT},
        constant=("B", "C"),
        attributes=_TRANSPOSES | {"beta": NUMBER},
        extra=(
            matrices.matrices(0, 1),
            matrices.bias_of_columns(2, 1),
            matrices.finite_factors,
            limits.finite_constants,
        ),
    ),
    ("", "GlobalAveragePool"): _GLOBAL_POOL,
    ("", "HardSigmoid"): replace(_FLOATS, attributes={"alpha": NUMBER, "beta": NUMBER}),
    ("", "HardSwish"): replace(_FLOATS, since=14),
    ("", "Identity"): _SAME,
    ("", "LeakyRelu"): replace(_FLOATS, attributes={"alpha": NUMBER}),
    ("", "MatMul"): Spec(
        ("A", "B"),
        2,
        {"A": FLOAT, "B": FLOAT},
        constant=("B",),
        extra=(matrices.matrices(0, 1), limits.finite_constants),
    ),
    ("", "MatMulInteger"): Spec(
        ("A", "B", "a_zero_point", "b_zero_point"),
        2,
        {"A": Q8, "B": Q8, "a_zero_point": Q8, "b_zero_point": Q8},
        constant=("B", "a_zero_point", "b_zero_point"),
        numbers=("a_zero_point",),
        same=(("a_zero_point", "A"), ("b_zero_point", "B")),
        since=10,
        extra=(matrices.matrices(0, 1), matrices.columns(1, (("b_zero_point", 3),))),
    ),
    ("", "MaxPool"): _MAX_POOL,
    ("", "Mul"): _BINARY_FLOATS,
    ("", "Pad"): Spec(
        ("data", "pads", "constant_value", "axes"),
        1,
        {"data": Q8_OR_FLOAT, "pads": INDEX, "axes": INDEX},
        constant=("pads", "constant_value", "axes"),
        same=(("constant_value", "data"),),
        attributes={"mode": TEXT, "pads": INTEGERS, "paddings": INTEGERS, "value": NUMBER},
        extra=(one_of("mode", *PAD_MODES), movement.pads_every_axis, limits.pads_forward),
    ),
    ("", "QLinearMatMul"): Spec(
        _MATMUL,
        8,
        {role: FLOAT if role.endswith("scale") else Q8 for role in _MATMUL},
        constant=_MATMUL[1:],
        numbers=("a_scale", "a_zero_point", "y_scale", "y_zero_point"),
        scales=("a_scale", "b_scale", "y_scale"),
        same=(("a_zero_point", "a"), ("b_zero_point", "b")),
        since=10,
        extra=(
            matrices.matrices(0, 3),
            matrices.columns(3, (("b_scale", 4), ("b_zero_point", 5))),
            ranges.multiplier_in_range(1, 4, 6),
        ),
    ),
    ("", "QuantizeLinear"): replace(_QUANTIZE, since=10),
    ("", "ReduceMean"): Spec(
        ("data", "axes"),
        1,
        {"data": FLOAT},
        constant=("axes",),
        attributes={"axes": INTEGERS, "keepdims": INTEGER, "noop_with_empty_axes": INTEGER},
        extra=(windows.averages_images,),
    ),
    ("", "Relu"): _SAME,
    ("", "Reshape"): Spec(
        ("data", "shape"),
        2,
        {"data": Q8_OR_FLOAT, "shape": INDEX},
        constant=("shape",),
        attributes={"allowzero": INTEGER},
        since=5,
        extra=(movement.keeps_elements,),
    ),
    ("", "Resize"): Spec(
        ("X", "roi", "scales", "sizes"),
        1,
        {"X": Q8_OR_FLOAT},
        attributes={
            "antialias": INTEGER,
            "axes": INTEGERS,
            "coordinate_transformation_mode": TEXT,
            "cubic_coeff_a": NUMBER,
            "exclude_outside": INTEGER,
            "extrapolation_value": NUMBER,
            "keep_aspect_ratio_policy": TEXT,
            "mode": TEXT,
            "nearest_mode": TEXT,
        },
        since=10,
        extra=(
            one_of("mode", "nearest"),
            one_of("coordinate_transformation_mode", *COORDINATES),
            one_of("nearest_mode", *NEAREST_MODES),
            one_of("keep_aspect_ratio_policy", "stretch"),
            limits.is_nearest,
            movement.resizes_every_axis,
        ),
    ),
    ("", "Sigmoid"): _FLOATS,
    ("", "Slice"): Spec(
        ("data", "starts", "ends", "axes", "steps"),
        1,
        {"data": Q8_OR_FLOAT, **dict.fromkeys(("starts", "ends", "axes", "steps"), INDEX)},
        constant=("starts", "ends", "axes", "steps"),
        attributes={"axes": INTEGERS, "ends": INTEGERS, "starts": INTEGERS},
        extra=(movement.cuts_each_axis_once,),
    ),
    ("", "Softmax"): replace(_FLOATS, attributes={"axis": INTEGER}, extra=(axis_exists(-1),)),
    ("", "Split"): Spec(
        ("input", "split"),
        1,
        {"input": Q8_OR_FLOAT, "split": INDEX},
        constant=("split",),
        attributes={"axis": INTEGER, "num_outputs": INTEGER, "split": INTEGERS},
        extra=(axis_exists(0), movement.splits_the_whole),
    ),
    ("", "Squeeze"): replace(_AXES, extra=(movement.removes_ones,)),
    ("", "Sub"): _BINARY_FLOATS,
    ("", "Tanh"): _FLOATS,
    ("", "Transpose"): replace(_SAME, attributes={"perm": INTEGERS}, extra=(movement.permutes_axes,)),
    ("", "Unsqueeze"): replace(_AXES, extra=(movement.inserts_axes,)),
    ("com.microsoft", "DequantizeLinear"): _DEQUANTIZE,
    ("com.microsoft", "NhwcMaxPool"): _MAX_POOL,
    ("com.microsoft", "QGemm"): Spec(
        _GEMM,
        6,
        {role: FLOAT if role.endswith("scale") else Q8 for role in _GEMM} | {"C": INT32},
        constant=_GEMM[1:],
        numbers=("a_scale", "a_zero_point", "y_scale", "y_zero_point"),
        scales=("a_scale", "b_scale", "y_scale"),
        same=(("a_zero_point", "A"), ("b_zero_point", "B"), ("y_zero_point", "A")),
        attributes=_TRANSPOSES,
        extra=(
            matrices.matrices(0, 3),
            matrices.columns(3, (("b_scale", 4), ("b_zero_point", 5))),
            matrices.bias_of_columns(6, 3),
            ranges.multiplier_in_range(1, 4, 7),
            matrices.quantized_once,
            matrices.positive_alpha,
        ),
    ),
    ("com.microsoft", "QLinearAdd"): replace(_BINARY, extra=(*_BINARY.extra, ranges.sum_in_range)),
    ("com.microsoft", "QLinearAveragePool"): replace(
        _UNARY,
        attributes=_POOL | {"channels_last": INTEGER, "count_include_pad": INTEGER},
        extra=(*_WINDOW, windows.few_taps, ranges.average_in_range, flag("channels_last", 0, 1)),
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
        extra=(limits.groups_of_three, movement.joins_along_an_axis(2, 3)),
    ),
    ("com.microsoft", "QLinearGlobalAveragePool"): replace(
        _UNARY, attributes={"channels_last": INTEGER}, extra=(ranges.mean_in_range, flag("channels_last", 0, 1))
    ),
    ("com.microsoft", "QLinearLeakyRelu"): replace(
        _UNARY, attributes={"alpha": NUMBER}, extra=(limits.finite_number("alpha", 0.01),)
    ),
    ("com.microsoft", "QLinearMul"): replace(_BINARY, extra=(*_BINARY.extra, ranges.product_in_range)),
    ("com.microsoft", "QLinearSigmoid"): _UNARY,
    ("com.microsoft", "QLinearSoftmax"): replace(
        _UNARY, attributes={"axis": INTEGER, "opset": INTEGER}, extra=(axis_exists(-1), ranges.softmax_in_range)
    ),
    ("com.microsoft", "QuantizeLinear"): _QUANTIZE,
    (NHWC_DOMAIN, "AveragePool"): _AVERAGE_POOL,
    (NHWC_DOMAIN, "GlobalAveragePool"): _GLOBAL_POOL,
    (NHWC_DOMAIN, "MaxPool"): _MAX_POOL,
    LOOKUP: Spec(
        (*_ONE, "table"),
        6,
        {**_UNARY.types, "table": Q8},
        constant=(*_ONE[1:], "table"),
        numbers=_ONE[1:],
        scales=_UNARY.scales,
        same=(("X_zero_point", "X"), ("Y_zero_point", "table")),
        extra=(limits.has_a_code_each,),
    ),
}
"""What is accepted, by (domain, op_type)."""
