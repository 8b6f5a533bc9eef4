"""What is accepted of the operators of ai.onnx besides convolutions, written out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from qcgen.check import limits, matrices, movement, normalization, ranges, reductions, selection
from qcgen.check.limits import axis_exists, one_of
from qcgen.check.node import CODES_OR_FLOAT, FLOAT, INTEGER, INTEGERS, NUMBER, Q8, TEXT, Spec
from qcgen.check.ranges import between
from qcgen.check.specs.parts import (
    ARG_MAX,
    AVERAGE_POOL,
    AXES,
    BINARY_FLOATS,
    COORDINATES,
    DEQUANTIZE,
    FLOATS,
    GLOBAL_MAX_POOL,
    GLOBAL_POOL,
    INDEX,
    MATMUL,
    MAX_POOL,
    NEAREST_MODES,
    PAD_MODES,
    QUANTIZE,
    REDUCE,
    SAME,
    TRANSPOSES,
)
from qcgen.check.specs.recurrent import GRU, LSTM
from qcgen.ir.types import DType

CHOICE = Spec(("inputs",), 1, {"inputs": FLOAT}, repeated=1, extra=(limits.broadcasts_all, limits.finite_constants))

COMPARED = Spec(
    ("A", "B"),
    2,
    extra=(
        limits.are_of((0, 1), *CODES_OR_FLOAT),
        limits.same_types,
        limits.broadcasts(0, 1),
        limits.finite_constants,
    ),
)
LOGIC = replace(COMPARED, extra=(limits.are_of((0, 1), DType.BOOL), limits.broadcasts(0, 1)))

SOFTMAX = replace(FLOATS, attributes={"axis": INTEGER}, extra=(limits.softmax_axis_exists,))

NUMBERS_OF: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("Abs", "Ceil", "Cos", "Erf", "Exp", "Floor", "Log", "Mish", "Neg", "Reciprocal", "Round"), ()),
    **dict.fromkeys(("Sign", "Sin", "Softplus", "Softsign", "Sqrt"), ()),
    **dict.fromkeys(("Celu", "Elu", "ThresholdedRelu"), ("alpha",)),
    "Selu": ("alpha", "gamma"),
    "Shrink": ("bias", "lambd"),
}
"""The attributes of functions of one number."""

SINCE = {
    "Celu": 12, "Cos": 7, "Erf": 9, "Mish": 18, "Round": 11, "Shrink": 9, "Sign": 9, "Sin": 7, "ThresholdedRelu": 10
}  # fmt: skip
"""The opsets that brought them, where that is not the first."""

STANDARD: dict[tuple[str, str], Spec] = {
    **{
        ("", op_type): replace(
            FLOATS,
            attributes=dict.fromkeys(names, NUMBER),
            extra=tuple(limits.finite_number(name, 1) for name in names),
            since=SINCE.get(op_type, 1),
        )
        for op_type, names in NUMBERS_OF.items()
    },
    ("", "Add"): replace(BINARY_FLOATS, extra=(*BINARY_FLOATS.extra, ranges.sum_in_range(between(2)))),
    ("", "ArgMax"): ARG_MAX,
    ("", "And"): LOGIC,
    ("", "ArgMin"): ARG_MAX,
    ("", "AveragePool"): AVERAGE_POOL,
    ("", "Cast"): replace(
        SAME,
        types={},
        attributes={"to": INTEGER, "saturate": INTEGER},
        extra=(limits.converts,),
    ),
    ("", "Clip"): replace(
        SAME,
        inputs=("input", "min", "max"),
        types={"input": CODES_OR_FLOAT},
        constant=("min", "max"),
        numbers=("min", "max"),
        same=(("min", "input"), ("max", "input")),
        attributes={"min": NUMBER, "max": NUMBER},
        extra=(limits.bounds_are_numbers, limits.bounds_in_order),
    ),
    ("", "Concat"): Spec(
        ("inputs",),
        1,
        {"inputs": CODES_OR_FLOAT},
        attributes={"axis": INTEGER},
        repeated=1,
        extra=(limits.same_types, movement.joins_along_an_axis(0, 1)),
    ),
    ("", "DepthToSpace"): replace(
        SAME,
        attributes={"blocksize": INTEGER, "mode": TEXT},
        extra=(one_of("mode", "DCR", "CRD"), selection.has_blocks(of_channels=True)),
    ),
    ("", "DequantizeLinear"): replace(DEQUANTIZE, since=10),
    ("", "Div"): BINARY_FLOATS,
    ("", "Dropout"): replace(
        SAME,
        inputs=("data", "ratio", "training_mode"),
        attributes={"ratio": NUMBER, "seed": INTEGER},
        extra=(limits.not_training,),
    ),
    ("", "DynamicQuantizeLinear"): Spec(("x",), 1, {"x": FLOAT}, since=11),
    ("", "Equal"): replace(COMPARED, extra=(limits.are_of((0, 1), *CODES_OR_FLOAT, DType.BOOL), *COMPARED.extra[1:])),
    ("", "Expand"): Spec(
        ("input", "shape"),
        2,
        {"input": CODES_OR_FLOAT, "shape": INDEX},
        constant=("shape",),
        since=8,
        extra=(selection.expands,),
    ),
    ("", "Flatten"): replace(SAME, attributes={"axis": INTEGER}, extra=(movement.flattens_at_an_axis,)),
    ("", "Gather"): Spec(
        ("data", "indices"),
        2,
        {"data": CODES_OR_FLOAT, "indices": INDEX},
        attributes={"axis": INTEGER},
        extra=(axis_exists(0), selection.indices_inside, selection.computed_indices_of_rows, limits.finite_constants),
    ),
    ("", "GRU"): GRU,
    ("", "Gemm"): Spec(
        ("A", "B", "C"),
        2,
        {"A": FLOAT, "B": FLOAT, "C": FLOAT},
        constant=("B", "C"),
        attributes=TRANSPOSES | {"beta": NUMBER},
        extra=(
            matrices.matrices(0, 1),
            matrices.bias_of_columns(2, 1),
            matrices.finite_factors,
            limits.finite_constants,
            ranges.multiplier_between_in_range,
        ),
    ),
    ("", "Gelu"): replace(
        FLOATS, attributes={"approximate": TEXT}, extra=(one_of("approximate", "none", "tanh"),), since=20
    ),
    ("", "GlobalAveragePool"): replace(
        GLOBAL_POOL, extra=(*GLOBAL_POOL.extra, ranges.of_codes(ranges.mean_in_range(between(1))))
    ),
    ("", "GlobalMaxPool"): GLOBAL_MAX_POOL,
    ("", "HardSigmoid"): replace(FLOATS, attributes={"alpha": NUMBER, "beta": NUMBER}),
    ("", "HardSwish"): replace(FLOATS, since=14),
    ("", "Identity"): SAME,
    ("", "InstanceNormalization"): Spec(
        ("input", "scale", "B"),
        3,
        {"input": FLOAT, "scale": FLOAT, "B": FLOAT},
        constant=("scale", "B"),
        attributes={"epsilon": NUMBER},
        since=6,
        extra=(normalization.channels_fit, limits.finite_number("epsilon", 1), limits.finite_constants),
    ),
    ("", "GatherElements"): Spec(
        ("data", "indices"),
        2,
        {"data": CODES_OR_FLOAT, "indices": INDEX},
        attributes={"axis": INTEGER},
        extra=(axis_exists(0), selection.gathers_elements),
        since=11,
    ),
    ("", "Greater"): COMPARED,
    ("", "GreaterOrEqual"): replace(COMPARED, since=12),
    ("", "LSTM"): LSTM,
    ("", "Less"): COMPARED,
    ("", "LessOrEqual"): replace(COMPARED, since=12),
    ("", "Not"): Spec(("X",), 1, extra=(limits.are_of((0,), DType.BOOL),)),
    ("", "Or"): LOGIC,
    ("", "LayerNormalization"): Spec(
        ("X", "Scale", "B"),
        2,
        {"X": FLOAT, "Scale": FLOAT, "B": FLOAT},
        constant=("Scale", "B"),
        attributes={"axis": INTEGER, "epsilon": NUMBER, "stash_type": INTEGER},
        extra=(
            axis_exists(-1),
            normalization.row_fits,
            normalization.computes_in_float32,
            limits.finite_number("epsilon", 1),
            limits.finite_constants,
        ),
    ),
    ("", "LeakyRelu"): replace(FLOATS, attributes={"alpha": NUMBER}),
    ("", "LogSoftmax"): SOFTMAX,
    ("", "MatMul"): Spec(
        ("A", "B"),
        2,
        {"A": FLOAT, "B": FLOAT},
        extra=(
            matrices.float_products(0, 1),
            matrices.sums_between_fit,
            limits.finite_constants,
            ranges.multiplier_between_in_range,
        ),
    ),
    ("", "MatMulInteger"): Spec(
        ("A", "B", "a_zero_point", "b_zero_point"),
        2,
        {"A": Q8, "B": Q8, "a_zero_point": Q8, "b_zero_point": Q8},
        constant=("b_zero_point",),
        numbers=("a_zero_point",),
        same=(("a_zero_point", "A"), ("b_zero_point", "B")),
        since=10,
        extra=(matrices.products(0, 1, 2, (("b_zero_point", 3),)), matrices.computed_zero_point(1, 2)),
    ),
    ("", "Max"): CHOICE,
    ("", "MaxPool"): MAX_POOL,
    ("", "Min"): CHOICE,
    ("", "Mul"): replace(BINARY_FLOATS, extra=(*BINARY_FLOATS.extra, ranges.product_in_range(between(2)))),
    ("", "PRelu"): replace(
        BINARY_FLOATS,
        inputs=("X", "slope"),
        types={"X": FLOAT, "slope": FLOAT},
        extra=(limits.slope_keeps_shape, limits.finite_constants),
    ),
    ("", "Pad"): Spec(
        ("data", "pads", "constant_value", "axes"),
        1,
        {"data": CODES_OR_FLOAT, "pads": INDEX, "axes": INDEX},
        constant=("pads", "constant_value", "axes"),
        same=(("constant_value", "data"),),
        attributes={"mode": TEXT, "pads": INTEGERS, "value": NUMBER},
        extra=(one_of("mode", *PAD_MODES), movement.pads_every_axis, limits.pads_forward),
    ),
    ("", "Pow"): BINARY_FLOATS,
    ("", "QLinearMatMul"): Spec(
        MATMUL,
        8,
        {role: FLOAT if role.endswith("scale") else Q8 for role in MATMUL},
        constant=(*MATMUL[1:3], *MATMUL[4:]),
        numbers=("a_scale", "a_zero_point", "y_scale", "y_zero_point"),
        scales=("a_scale", "b_scale", "y_scale"),
        same=(("a_zero_point", "a"), ("b_zero_point", "b")),
        since=10,
        extra=(
            matrices.products(0, 3, 2, (("b_scale", 4), ("b_zero_point", 5))),
            ranges.multiplier_in_range(1, 4, 6),
        ),
    ),
    ("", "QuantizeLinear"): replace(QUANTIZE, since=10),
    ("", "ReduceL2"): replace(REDUCE, extra=(*REDUCE.extra, reductions.norm_of_something)),
    ("", "ReduceMax"): replace(REDUCE, types={"data": CODES_OR_FLOAT, "axes": INDEX}),
    ("", "ReduceMean"): REDUCE,
    ("", "ReduceMin"): replace(REDUCE, types={"data": CODES_OR_FLOAT, "axes": INDEX}),
    ("", "ReduceSum"): REDUCE,
    ("", "Relu"): replace(SAME, types={role: (*types, DType.FLOAT64) for role, types in SAME.types.items()}),
    ("", "Reshape"): Spec(
        ("data", "shape"),
        2,
        {"data": CODES_OR_FLOAT, "shape": INDEX},
        constant=("shape",),
        attributes={"allowzero": INTEGER},
        since=5,
        extra=(movement.keeps_elements,),
    ),
    ("", "Resize"): Spec(
        ("X", "roi", "scales", "sizes"),
        1,
        {"X": CODES_OR_FLOAT},
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
    ("", "Sigmoid"): FLOATS,
    ("", "Slice"): Spec(
        ("data", "starts", "ends", "axes", "steps"),
        1,
        {"data": CODES_OR_FLOAT, **dict.fromkeys(("starts", "ends", "axes", "steps"), INDEX)},
        constant=("starts", "ends", "axes", "steps"),
        attributes={"axes": INTEGERS, "ends": INTEGERS, "starts": INTEGERS},
        extra=(movement.cuts_each_axis_once,),
    ),
    ("", "Softmax"): replace(SOFTMAX, extra=(*SOFTMAX.extra, ranges.softmax_in_range(between(1)))),
    ("", "SpaceToDepth"): replace(
        SAME, attributes={"blocksize": INTEGER}, extra=(selection.has_blocks(of_channels=False),)
    ),
    ("", "Split"): Spec(
        ("input", "split"),
        1,
        {"input": CODES_OR_FLOAT, "split": INDEX},
        constant=("split",),
        attributes={"axis": INTEGER, "num_outputs": INTEGER, "split": INTEGERS},
        extra=(axis_exists(0), movement.splits_the_whole),
    ),
    ("", "Squeeze"): replace(AXES, extra=(movement.removes_ones,)),
    ("", "Sub"): BINARY_FLOATS,
    ("", "Tanh"): FLOATS,
    ("", "Tile"): Spec(
        ("input", "repeats"),
        2,
        {"input": CODES_OR_FLOAT, "repeats": INDEX},
        constant=("repeats",),
        since=6,
        extra=(selection.repeats_every_axis,),
    ),
    ("", "TopK"): Spec(
        ("X", "K"),
        1,
        {"X": CODES_OR_FLOAT, "K": (DType.INT64,)},
        constant=("K",),
        numbers=("K",),
        attributes={"axis": INTEGER, "k": INTEGER, "largest": INTEGER, "sorted": INTEGER},
        extra=(axis_exists(-1), selection.finds_what_is_there),
    ),
    ("", "Transpose"): replace(SAME, attributes={"perm": INTEGERS}, extra=(movement.permutes_axes,)),
    ("", "Unsqueeze"): replace(AXES, extra=(movement.inserts_axes,)),
    ("", "Where"): Spec(
        ("condition", "X", "Y"),
        3,
        extra=(
            limits.are_of((0,), DType.BOOL),
            limits.are_of((1, 2), *FLOAT),
            limits.broadcasts_all,
            limits.finite_constants,
        ),
        since=9,
    ),
    ("", "Xor"): LOGIC,
}
"""What is accepted, by (domain, op_type)."""
