"""What is accepted of every operator, and how it is spelt."""

from __future__ import annotations

from dataclasses import replace

from qcgen.check import layers, limits
from qcgen.check.layers import DYNAMIC, GRU, LSTM, conv_spec
from qcgen.check.limits import at, between, flag, in_range, one_of
from qcgen.check.node import (
    CODES,
    CODES_OR_FLOAT,
    FLOAT,
    INTEGER,
    INTEGERS,
    NUMBER,
    Q8,
    TEXT,
    Signature,
    Spec,
    Types,
    of_onnx,
)
from qcgen.geometry import CONVOLUTIONS, NHWC_DOMAIN
from qcgen.infer import DYNAMIC_LSTM
from qcgen.ir.types import DType

INT32: Types = (DType.INT32,)
BOOL: Types = (DType.BOOL,)
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

FUNCTIONS = """Abs Ceil Celu Cos Elu Erf Exp Floor Log Mish Neg Reciprocal Round Selu Shrink Sign Sin Softplus Softsign
Sqrt ThresholdedRelu""".split()
"""Of one number, which are what their attributes make of them."""

SHAPED = replace(INDEXED, constant=("shape",))
COMPARED = Spec((CODES_OR_FLOAT, CODES_OR_FLOAT), extra=(limits.same_types, limits.finite_constants))

STANDARD: dict[str, Spec] = {
    **dict.fromkeys(FUNCTIONS, FUNCTION),
    **dict.fromkeys(("DynamicQuantizeLinear", "HardSigmoid", "HardSwish", "LeakyRelu", "Sigmoid", "Tanh"), FLOATS),
    **dict.fromkeys(("Div", "Pow", "Sub"), BINARY_FLOATS),
    **dict.fromkeys(("Greater", "GreaterOrEqual", "Less", "LessOrEqual"), COMPARED),
    **dict.fromkeys(("And", "Or", "Xor"), Spec((BOOL, BOOL))),
    **dict.fromkeys(("ArgMax", "ArgMin"), SAME),
    **dict.fromkeys(("Max", "Min"), replace(FLOATS, extra=(limits.finite_constants,))),
    **dict.fromkeys(("ReduceMax", "ReduceMin"), replace(REDUCE, types=INDEXED.types)),
    **dict.fromkeys(("ReduceMean", "ReduceSum"), REDUCE),
    **dict.fromkeys(
        ("ReduceL1", "ReduceL2", "ReduceProd", "ReduceSumSquare"), replace(REDUCE, extra=(limits.norm_of_something,))
    ),
    "Add": replace(BINARY_FLOATS, extra=(*BINARY_FLOATS.extra, in_range(limits.sums, between(2)))),
    "AveragePool": replace(
        FLOATS, extra=(limits.auto_pad_exists, in_range(limits.averages, between(1)), limits.of_codes(limits.few_taps))
    ),
    "Cast": Spec(extra=(limits.converts,)),
    "Clip": replace(
        SAME,
        constant=("min", "max"),
        numbers=("min", "max"),
        same=(("min", "input"), ("max", "input")),
        extra=(limits.bounds_are_numbers, limits.bounds_in_order),
    ),
    "Concat": replace(SAME, extra=(limits.same_types,)),
    "DepthToSpace": replace(SAME, extra=(one_of("mode", "DCR", "CRD"),)),
    "DequantizeLinear": DEQUANTIZE,
    "Dropout": replace(SAME, extra=(limits.not_training,)),
    "Equal": replace(COMPARED, types=((*CODES_OR_FLOAT, *BOOL),) * 2),
    "Expand": SHAPED,
    "Flatten": SAME,
    "GRU": GRU,
    "Gather": replace(INDEXED, extra=(limits.computed_indices_of_rows, limits.finite_constants)),
    "GatherElements": INDEXED,
    "Gelu": replace(FLOATS, extra=(one_of("approximate", "none", "tanh"),)),
    "Gemm": Spec(
        (FLOAT, FLOAT, FLOAT),
        constant=("B", "C"),
        extra=(
            layers.bias_of_columns,
            layers.finite_factors,
            limits.finite_constants,
            limits.multiplier_between_in_range,
        ),
    ),
    "GlobalAveragePool": replace(FLOATS, extra=(in_range(limits.means, between(1)),)),
    "GlobalMaxPool": SAME,
    "Identity": SAME,
    "InstanceNormalization": Spec(
        (FLOAT, FLOAT, FLOAT),
        constant=("scale", "B"),
        extra=(limits.finite_numbers, limits.finite_constants),
    ),
    "LSTM": LSTM,
    "LayerNormalization": Spec(
        (FLOAT, FLOAT, FLOAT),
        constant=("Scale", "B"),
        extra=(flag("stash_type", 1), limits.finite_numbers, limits.finite_constants),
    ),
    "LogSoftmax": FLOATS,
    "MatMul": Spec(
        (FLOAT, FLOAT),
        extra=(
            layers.no_vectors,
            layers.sums_between_fit,
            limits.finite_constants,
            limits.multiplier_between_in_range,
        ),
    ),
    "MatMulInteger": Spec(
        (Q8, Q8, Q8, Q8),
        constant=("b_zero_point",),
        numbers=("a_zero_point",),
        same=(("a_zero_point", "A"), ("b_zero_point", "B")),
        extra=(layers.products_of_codes, layers.computed_zero_point),
    ),
    "MaxPool": MAX_POOL,
    "Mul": replace(BINARY_FLOATS, extra=(*BINARY_FLOATS.extra, in_range(limits.products, between(2)))),
    "Not": Spec((BOOL,)),
    "PRelu": replace(BINARY_FLOATS, extra=(limits.finite_constants,)),
    "Pad": Spec(
        (CODES_OR_FLOAT, INDEX, (), INDEX),
        constant=("pads", "constant_value", "axes"),
        same=(("constant_value", "data"),),
        extra=(one_of("mode", *PAD_MODES), limits.pads_forward),
    ),
    "QLinearMatMul": Spec(
        codes_and_scales(*MATMUL),
        constant=(*MATMUL[1:3], *MATMUL[4:]),
        numbers=("a_scale", "a_zero_point", "y_scale", "y_zero_point"),
        scales=("a_scale", "b_scale", "y_scale"),
        same=(("a_zero_point", "a"), ("b_zero_point", "b")),
        extra=(layers.products_of_codes, limits.multiplier_in_range("a_scale", "b_scale", "y_scale")),
    ),
    "QuantizeLinear": QUANTIZE,
    "RMSNormalization": Spec(
        (FLOAT, FLOAT),
        constant=("scale",),
        extra=(flag("stash_type", 1), limits.finite_numbers, limits.finite_constants),
    ),
    "Relu": Spec(((*CODES_OR_FLOAT, DType.FLOAT64),)),
    "Reshape": SHAPED,
    "Resize": replace(
        SAME,
        extra=(
            one_of("coordinate_transformation_mode", *COORDINATES),
            one_of("nearest_mode", *NEAREST_MODES),
            one_of("keep_aspect_ratio_policy", "stretch"),
            limits.is_nearest,
        ),
    ),
    "Slice": Spec(
        (CODES_OR_FLOAT, INDEX, INDEX, INDEX, INDEX),
        constant=("starts", "ends", "axes", "steps"),
    ),
    "Softmax": replace(FLOATS, extra=(in_range(limits.softmaxes, between(1), limits.LARGER),)),
    "SpaceToDepth": replace(SAME, extra=(one_of("mode", "DCR"),)),
    "Split": replace(INDEXED, constant=("split",)),
    "Squeeze": AXES,
    "Tile": replace(INDEXED, constant=("repeats",)),
    "TopK": Spec(
        (CODES_OR_FLOAT, (DType.INT64,)),
        constant=("K",),
        numbers=("K",),
        extra=(limits.sorted_elements,),
    ),
    "Transpose": SAME,
    "Unsqueeze": AXES,
    "Where": Spec((BOOL, FLOAT, FLOAT), extra=(limits.finite_constants,)),
}
"""What is accepted of operators of ai.onnx, by op_type; how they are spelt, ONNX's schemas say."""

OF_ONE, OF_TWO = at("X_scale", "Y_scale"), at("A_scale", "B_scale", "C_scale")
JOINED = ("Y_scale", "Y_zero_point", "input", "scale", "zero_point")

MICROSOFT: dict[str, Spec] = {
    "DequantizeLinear": DEQUANTIZE,
    "Gelu": replace(FLOATS, signature=Signature(("X",), 1)),
    "NhwcMaxPool": replace(
        MAX_POOL, signature=Signature(("X",), 1, POOL | {"dilations": INTEGERS, "storage_order": INTEGER})
    ),
    "QGemm": Spec(
        tuple(INT32 if role == "C" else types for role, types in zip(GEMM, codes_and_scales(*GEMM), strict=True)),
        constant=GEMM[1:],
        numbers=("a_scale", "a_zero_point", "y_scale", "y_zero_point"),
        scales=("a_scale", "b_scale", "y_scale"),
        same=(("a_zero_point", "A"), ("b_zero_point", "B"), ("y_zero_point", "A")),
        extra=(
            layers.scales_of_columns,
            layers.bias_of_columns,
            limits.multiplier_in_range("a_scale", "b_scale", "y_scale"),
            layers.quantized_once,
            layers.positive_alpha,
        ),
        signature=Signature(GEMM, 6, {"alpha": NUMBER, "transA": INTEGER, "transB": INTEGER}),
    ),
    "QLinearAdd": replace(BINARY, extra=(in_range(limits.sums, OF_TWO),)),
    "QLinearAveragePool": replace(
        UNARY,
        extra=(limits.auto_pad_exists, limits.few_taps, in_range(limits.averages, OF_ONE), flag("channels_last", 0, 1)),
        signature=Signature(ONE, 4, POOL | {"channels_last": INTEGER, "count_include_pad": INTEGER}),
    ),
    "QLinearConcat": Spec(
        codes_and_scales(*JOINED),
        constant=("Y_scale", "Y_zero_point", "scale", "zero_point"),
        numbers=("Y_scale", "Y_zero_point", "scale", "zero_point"),
        scales=("Y_scale", "scale"),
        same=(("input", "Y_zero_point"), ("zero_point", "Y_zero_point")),
        signature=Signature(JOINED, 5, {"axis": INTEGER}, repeated=3),
    ),
    "QLinearGlobalAveragePool": replace(
        UNARY,
        extra=(in_range(limits.means, OF_ONE), flag("channels_last", 0, 1)),
        signature=Signature(ONE, 4, {"channels_last": INTEGER}),
    ),
    "QLinearLeakyRelu": replace(UNARY, extra=(limits.finite_numbers,), signature=Signature(ONE, 4, {"alpha": NUMBER})),
    "QLinearMul": replace(BINARY, extra=(in_range(limits.products, OF_TWO),)),
    "QLinearSigmoid": UNARY,
    "QLinearSoftmax": replace(
        UNARY,
        extra=(limits.says_which_softmax, in_range(limits.softmaxes, OF_ONE, limits.LARGER)),
        signature=Signature(ONE, 4, {"axis": INTEGER, "opset": INTEGER}),
    ),
    "QuantizeLinear": QUANTIZE,
    "QuickGelu": replace(FUNCTION, signature=Signature(("X",), 1, {"alpha": NUMBER})),
}
"""Of com.microsoft."""

POOLS = ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool")

SPECS: dict[tuple[str, str], Spec] = {
    **{("", op_type): spec for op_type, spec in STANDARD.items()},
    **{("com.microsoft", op_type): spec for op_type, spec in MICROSOFT.items()},
    **{(NHWC_DOMAIN, op_type): STANDARD[op_type] for op_type in POOLS},
    DYNAMIC_LSTM: DYNAMIC,
    **{key: conv_spec(spelling) for key, spelling in CONVOLUTIONS.items()},
}
"""What is accepted, by (domain, op_type)."""


def signature_of(domain: str, op_type: str) -> Signature:
    """How an operator is spelt that can be compiled."""
    return SPECS[domain, op_type].signature or of_onnx(op_type)
