"""What is accepted of every operator, and how it is spelt."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite, isnan, prod
from types import MappingProxyType

import numpy as np

from qcgen.check import limits
from qcgen.check.limits import (
    at,
    auto_pad_exists,
    between,
    finite_constants,
    flag,
    in_range,
    multiplier_between_in_range,
    multiplier_in_range,
    one_of,
)
from qcgen.check.node import (
    CODES_OR_FLOAT,
    FLOAT,
    INTEGER,
    NUMBER,
    NUMBERS,
    TEXT,
    NodeView,
    Signature,
    Spec,
    Types,
    fits,
    number_kind,
    of_onnx,
)
from qcgen.errors import Problem
from qcgen.geometry import ACTIVATIONS, AUTO_PADS, CONVOLUTIONS, NHWC_DOMAIN, ConvKind, ConvSpelling
from qcgen.infer import DIRECTIONS
from qcgen.infer.facts import counted, shape_text
from qcgen.intervals import INT32_MAX
from qcgen.ir.graph import operator_keys
from qcgen.ir.types import CODES, Q8, Array, DType

INT32: Types = (DType.INT32,)


def coded(
    *names: str,
    lists: Collection[str] = (),
    constant: tuple[str, ...] = (),
    bias: tuple[str, ...] = (),
    same: Mapping[str, str] = MappingProxyType({}),
) -> Spec:
    """What is accepted of inputs that are codes of 8 bits, each with a constant scale and a zero point of its type.

    Scales and zero points in ``lists`` may be more than one number. ``constant`` codes must be known, and the ``bias``,
    which is int32; further inputs have the ``same`` types.
    """
    scales, zeros = (tuple(name for name in names if name.endswith(end)) for end in ("scale", "zero_point"))
    own = {zero: name for zero in zeros for name in names if zero.lower() == f"{name}_zero_point".lower()}
    return Spec(
        tuple(FLOAT if name in scales else INT32 if name in bias else Q8 for name in names),
        constant=(*scales, *zeros, *constant, *bias),
        numbers=tuple(name for name in (*scales, *zeros) if name not in lists),
        scales=scales,
        same={**own, **same},
    )


def spelt_like(op_type: str, inputs: tuple[str, ...], required: int, without: str = "", **more: str) -> Signature:
    """How an operator is spelt that has these inputs, and the attributes of one of ai.onnx, without one, and more."""
    attributes = {name: kind for name, kind in of_onnx(op_type).attributes.items() if name != without}
    return Signature(inputs, required, attributes | more)


# Rules of the layers that have weights: convolutions, products of matrices, recurrent layers.

PER_CHANNEL = ("w_scale", "w_zero_point")
DOUBLE_ACTIVATIONS = ("", "Clip", "Relu")


def without_sum(view: NodeView) -> Iterator[Problem]:
    """The input Z of FusedConv is absent."""
    for name in CONVOLUTIONS[view.node.domain, view.node.op_type].refused:
        if view.has(name):
            what = f"input {name}, which is added to the result, is not supported"
            yield view.problem(what, "save the model without fusing the addition into the convolution")


def padded_once(view: NodeView) -> Iterator[Problem]:
    """Padding is told by pads or by auto_pad."""
    value = view.node.attributes.get("auto_pad", "NOTSET")
    if isinstance(value, str) and value in AUTO_PADS[1:] and "pads" in view.node.attributes:
        yield view.problem(f"it has pads and auto_pad {value}", "give one of them")


def activates(view: NodeView) -> Iterator[Problem]:
    """The activation of a fused convolution is one that is known, with as many parameters as it has."""
    kind, params = view.node.attributes.get("activation", ""), view.node.attributes.get("activation_params", ())
    if view.dtype(0) is DType.FLOAT64 and kind not in DOUBLE_ACTIVATIONS:
        yield view.problem(f"activation {kind!r} of double is not supported", "use float, or Relu or Clip")
    if not isinstance(kind, str) or not isinstance(params, tuple) or not fits(NUMBERS, params) or not kind:
        return
    names = ACTIVATIONS.get(kind)
    if names is None:
        yield view.problem(f"the activation {kind!r} is unknown", f"use one of {', '.join(ACTIVATIONS)}")
    elif names and len(params) != len(names):
        what = f"the activation {kind} has {counted(len(params), 'parameter')}, but needs {len(names)}"
        yield view.problem(what, f"give {' and '.join(names)} in activation_params")
    elif any(isinstance(value, float) and isnan(value) for value in params):
        yield view.problem("activation_params holds NaN", "export the model again")


def parameters_fit(view: NodeView) -> Iterator[Problem]:
    """Scales and zero points of w, and the bias: one element, or one for every output channel."""
    w, title = view.shape("w"), view.signature.inputs[0].replace("x", "w").replace("X", "W")
    channels = w[0] if w and isinstance(w[0], int) else None
    for role in (*PER_CHANNEL, "B"):
        shape, is_bias = view.fixed_shape(role), role == "B"
        hint = f"give one {number_kind(role)}, or one per output channel"
        if is_bias:
            hint = "give one bias per output channel"
        if shape is None:
            continue
        if len(shape) > 1 or (is_bias and not shape):
            must = "a vector" if is_bias else "a number or a vector"
            yield view.problem(f"{role} has shape {shape_text(shape)}, but must be {must}", hint)
        elif channels is not None and prod(shape) not in ((channels,) if is_bias else (1, channels)):
            what = f"{role} has {counted(prod(shape), 'element')}, but {title} has {channels} output channels"
            yield view.problem(what, hint)


CONV_RULES = (without_sum, auto_pad_exists, padded_once, parameters_fit)
QUANTIZED = replace(
    coded(*of_onnx("QLinearConv").inputs, lists=PER_CHANNEL, constant=("w",), bias=("B",)),
    extra=(*CONV_RULES, flag("channels_last", 0, 1), multiplier_in_range("x_scale", "w_scale", "y_scale")),
    bears=True,
)
OF_KINDS = {
    ConvKind.QUANTIZED: ("QLinearConv", QUANTIZED),
    ConvKind.INTEGER: (
        "ConvInteger",
        Spec(
            (Q8,) * 4,
            constant=("w", "w_zero_point"),
            numbers=("x_zero_point",),
            same=QUANTIZED.same,
            extra=CONV_RULES,
            bears=True,
        ),
    ),
    ConvKind.FLOAT: (
        "Conv",
        Spec(
            ((*FLOAT, DType.FLOAT64),) * 3,
            constant=("W", "B"),
            same={"W": "X", "B": "X"},
            extra=(*CONV_RULES, activates, finite_constants, multiplier_between_in_range),
            bears=True,
        ),
    ),
}
"""ai.onnx's convolutions, of which those of other domains are spellings, and what is accepted of them."""


def conv_spec(spelling: ConvSpelling) -> Spec:
    """What is accepted of a convolution that is spelt so."""
    like, spec = OF_KINDS[spelling.kind]
    more = {"channels_last": INTEGER} if spelling.channels_last is None else {}
    more |= {"activation": TEXT, "activation_params": NUMBERS} if spelling.activations else {}
    return replace(spec, signature=spelt_like(like, spelling.inputs, of_onnx(like).required, **more))


def is_weights(view: NodeView) -> bool:
    """Whether input b is one constant matrix, whose columns may have scales of their own."""
    array = view.array("b")
    return array is not None and array.ndim == 2


B_NUMBERS = ("b_scale", "b_zero_point")


def products_of_codes(view: NodeView) -> Iterator[Problem]:
    """Inputs a and b of codes: b is one constant matrix, or both have leading axes, and their sums fit int32."""
    if is_weights(view):
        yield from scales_of_columns(view)
        return
    yield from no_vectors(view)
    for role in B_NUMBERS:
        array = view.array(role)
        if array is not None and array.size != 1:
            what = f"{role} has shape {shape_text(array.shape)}, but its operand is not a constant matrix"
            yield view.problem(what, "give one number: only weights have scales of columns")
    yield from _too_long(view, [(view.dtype(role), view.array(f"{role}_zero_point")) for role in ("a", "b")])


def no_vectors(view: NodeView) -> Iterator[Problem]:
    """An operand may be a vector where it is computed alone."""
    for place, role in (("first", "a"), ("second", "b")):
        array = view.array(role)
        if array is not None and array.ndim == 1:
            yield view.problem(f"the {place} operand has shape {shape_text(array.shape)}", "give a matrix")


def computed_zero_point(view: NodeView) -> Iterator[Problem]:
    """The zero point of a is known, or b is one constant matrix."""
    if view.has("a_zero_point") and view.array("a_zero_point") is None and not is_weights(view):
        what = f"a_zero_point is not constant ({view.source('a_zero_point')}), nor is the second operand"
        yield view.problem(what, "quantize the model statically (onnxruntime: quantize_static)")


def sums_between_fit(view: NodeView) -> Iterator[Problem]:
    """The same rule for a product of two computed operands between codes of 8 bits."""
    makers = [view.graph.dequantizer(view.node.input(index)) for index in (0, 1)]
    codes = [view.beside(maker) for maker in makers if maker is not None]
    if None not in between(2)(view) and not is_weights(view):
        yield from _too_long(view, [(each.dtype(0), each.array(2)) for each in codes])


def _too_long(view: NodeView, ends: Sequence[tuple[DType | None, Array | None]]) -> Iterator[Problem]:
    shape, largest = view.fixed_shape("a"), 1
    for dtype, array in ends:
        if dtype is None or not dtype.is_quantized or (array is not None and array.size != 1):
            return
        zero = 0 if array is None else int(array.reshape(()))
        largest *= max(dtype.high - zero, zero - dtype.low)
    if shape and shape[-1] * largest > INT32_MAX:
        what = f"sums of {shape[-1]} products of codes can exceed int32"
        yield view.problem(what, f"split the product: {INT32_MAX // largest} terms fit for every input")


def _columns_of(view: NodeView) -> int | None:
    """How many columns a product with b has."""
    shape = view.fixed_shape("b")
    return None if shape is None or len(shape) != 2 else shape[0 if view.integer("transB", 0) else 1]


def scales_of_columns(view: NodeView) -> Iterator[Problem]:
    """Scales and zero points of b have one element, or one for every column of the product."""
    count = _columns_of(view)
    for role in B_NUMBERS:
        array = view.array(role)
        if (
            array is not None
            and count is not None
            and (array.size not in (1, count) or array.size != max(array.shape, default=1))
        ):
            what = f"{role} has shape {shape_text(array.shape)}, but the product has {counted(count, 'column')}"
            yield view.problem(what, "give one number, or one for every column")


def bias_of_columns(view: NodeView) -> Iterator[Problem]:
    """The matrix that is added is the same in every row."""
    array, count = view.array("c"), _columns_of(view)
    if array is None or count is None:
        return
    rows = array if array.ndim == 2 else array.reshape(1, -1)
    if array.ndim > 2 or array.shape[-1:] not in ((), (1,), (count,)):
        what = f"C has shape {shape_text(array.shape)}, but the product has {counted(count, 'column')}"
        yield view.problem(what, "give one bias for every column")
    elif not np.array_equal(rows, np.broadcast_to(rows[:1], rows.shape), equal_nan=True):
        yield view.problem("C differs from row to row", "add it in a node of its own")


def quantized_once(view: NodeView) -> Iterator[Problem]:
    """QGemm without y_scale gives floats; with it, it needs y_zero_point, which tells the type."""
    for role, other in (("y_scale", "y_zero_point"), ("y_zero_point", "y_scale")):
        if view.has(role) and not view.has(other):
            yield view.problem(f"it has {role}, but no {other}", "give both, or none of them")
    weights = view.array("b_scale")
    if not view.has("y_scale") and weights is not None and weights.size != 1:
        yield view.problem("its result is float, but b_scale has one number for every column", "give it a y_scale")


def finite_factors(view: NodeView) -> Iterator[Problem]:
    """Gemm: alpha and beta are multiplied into the constants, which are written into C as numbers."""
    for name, role in (("alpha", "b"), ("beta", "c")):
        factor, array = view.node.attributes.get(name, 1.0), view.array(role)
        if not isinstance(factor, float | int) or array is None or array.dtype != np.float32:
            continue
        with np.errstate(all="ignore"):
            folded = array * np.float32(factor)
        if np.isfinite(array).all() and not np.isfinite(folded).all():
            yield view.problem(f"{name} is {factor:.6g}: its product with a constant is not finite", f"correct {name}")


def positive_alpha(view: NodeView) -> Iterator[Problem]:
    """QGemm: alpha scales the result as the scales do."""
    alpha = view.node.attributes.get("alpha", 1.0)
    if isinstance(alpha, float | int) and not (isfinite(alpha) and np.float32(alpha) > 0):
        yield view.problem(f"alpha is {alpha:.6g}, but must be positive and finite", "correct alpha")


DEFAULTS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh")}
"""The activations where none are named."""


def one_sequence(view: NodeView) -> Iterator[Problem]:
    """DynamicQuantizeLSTM: of one batch, without a clip; a scale for each direction, or for each row."""
    x, r = view.fixed_shape(0), view.fixed_shape(2)
    if x is None or r is None or len(x) != 3 or len(r) != 3:
        return
    if x[1] != 1:
        hint = "give it one sequence at a time: with more, onnxruntime's own result depends on its threads"
        yield view.problem(f"its batch is {x[1]}, but must be 1", hint)
    if view.node.attributes.get("clip", 0.0):
        yield view.problem("it has a clip, which is not supported", "quantize the LSTM without it")
    directions, rows = r[0], r[0] * r[2]
    for role in ("W_scale", "W_zero_point", "R_scale", "R_zero_point"):
        array = view.array(role)
        if not view.has(role) and role.endswith("scale"):
            yield view.problem(f"input {role} is missing", "quantize the model again")
        if array is not None and array.size not in (1, directions, rows):
            what = f"{role} has {array.size} elements, but must have {directions}, or {rows}"
            yield view.problem(what, "give one for each direction, or for each row of the weights")


def whole_sequences(view: NodeView) -> Iterator[Problem]:
    """sequence_lens, if it is there, says that every sequence is as long as X."""
    x, lengths = view.fixed_shape(0), view.array("sequence_lens")
    if x is None or lengths is None or len(x) != 3:
        return
    steps = x[1] if view.integer("layout", 0) else x[0]
    if not np.all(lengths == steps):
        hint = "leave sequence_lens out, and give sequences of the model's length"
        yield view.problem(f"sequence_lens differs from the {steps} steps of X", hint)


def without_peepholes(view: NodeView) -> Iterator[Problem]:
    """P, weights from the cell to the gates, is absent or zero."""
    array = view.array("P")
    if array is not None and np.any(array != 0):
        yield view.problem("it has peephole weights (P), which are not supported", "train the LSTM without them")


def known_activations(view: NodeView) -> Iterator[Problem]:
    """The activations are those that ONNX takes where none are named, in every direction."""
    defaults, given = DEFAULTS.get(view.node.op_type, DEFAULTS["LSTM"]), view.node.attributes.get("activations")
    if not isinstance(given, tuple) or not given:
        return
    names = tuple(str(name) for name in given)
    if len(names) % len(defaults) or names != defaults * (len(names) // len(defaults)):
        what = f"its activations are {', '.join(names)}, but only {', '.join(defaults)} are supported"
        yield view.problem(what, "train the layer with the activations that ONNX takes where none are named")


FIXED = ("W", "R", "B", "sequence_lens")
RECURRENT_RULES = (one_of("direction", *DIRECTIONS), whole_sequences, known_activations, finite_constants)

GRU = Spec((FLOAT,) * 4 + (INT32, FLOAT), constant=FIXED, extra=RECURRENT_RULES)
LSTM = Spec((*GRU.types, FLOAT, FLOAT), constant=(*FIXED, "P"), extra=(*RECURRENT_RULES, without_peepholes))

SCALES = ("W_scale", "W_zero_point", "R_scale", "R_zero_point")
DYNAMIC = replace(
    LSTM,
    types=(FLOAT, Q8, Q8, *LSTM.types[3:], FLOAT, Q8, FLOAT, Q8),
    constant=(*LSTM.constant, *SCALES),
    scales=SCALES[::2],
    same={"W_zero_point": "W", "R_zero_point": "R"},
    extra=(*LSTM.extra, flag("input_forget", 0), one_sequence),
    signature=spelt_like("LSTM", ("X", *FIXED, "initial_h", "initial_c", "P", *SCALES), 3, without="layout"),
)


# What is accepted of every operator.

BOOL: Types = (DType.BOOL,)
INDEX: Types = (DType.INT32, DType.INT64)

PAD_MODES = ("constant", "edge", "reflect", "wrap")
NEAREST_MODES = ("round_prefer_floor", "ceil", "floor", "round_prefer_ceil")
COORDINATES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn")

FLOATS = Spec((FLOAT,))
FUNCTION = replace(FLOATS, extra=(limits.finite_numbers,))
BINARY_FLOATS = Spec((FLOAT, FLOAT), extra=(finite_constants,))
SAME = Spec((CODES_OR_FLOAT,))
INDEXED = Spec((CODES_OR_FLOAT, INDEX))
SHAPED = replace(INDEXED, constant=("shape",))
AXES = replace(INDEXED, constant=("axes",))
REDUCE = Spec((FLOAT, INDEX), constant=("axes",))
MAX_POOL = replace(SAME, extra=(auto_pad_exists,))
COMPARED = Spec((CODES_OR_FLOAT, CODES_OR_FLOAT), extra=(limits.same_types, finite_constants))
NORMALIZATION = Spec((FLOAT,) * 3, constant=("scale", "B"), extra=(limits.finite_numbers, finite_constants))
OF_ROWS = replace(NORMALIZATION, constant=("Scale", "B"), extra=(flag("stash_type", 1), *NORMALIZATION.extra))

ONE = ("X", "X_scale", "X_zero_point", "Y_scale", "Y_zero_point")
UNARY = replace(coded(*ONE, same={"Y_zero_point": "X"}), signature=Signature(ONE, 4))
OF_ONE = at("X_scale", "Y_scale")

TWO = ("A", "A_scale", "A_zero_point", "B", "B_scale", "B_zero_point", "C_scale", "C_zero_point")
BINARY = replace(
    coded(*TWO, same=dict.fromkeys(("B", "B_zero_point", "C_zero_point"), "A")), signature=Signature(TWO, 7)
)
OF_TWO = at("A_scale", "B_scale", "C_scale")

GEMM = ("A", "a_scale", "a_zero_point", "B", "b_scale", "b_zero_point", "C", "y_scale", "y_zero_point")
JOINED = ("Y_scale", "Y_zero_point", "input", "scale", "zero_point")

ROWS: Mapping[str, Spec] = {
    """Abs Ceil Celu Cos Elu Erf Exp Floor Log Mish Neg Reciprocal Round Selu Shrink Sign Sin Softplus Softsign Sqrt
    ThresholdedRelu""": FUNCTION,
    "Add": replace(BINARY_FLOATS, extra=(finite_constants, in_range(limits.sums, between(2)))),
    "And Or Xor": Spec((BOOL, BOOL)),
    f"ArgMax ArgMin Flatten GlobalMaxPool Identity Transpose {NHWC_DOMAIN}.GlobalMaxPool": SAME,
    f"AveragePool {NHWC_DOMAIN}.AveragePool": replace(
        FLOATS, extra=(auto_pad_exists, in_range(limits.averages, between(1)), limits.of_codes(limits.few_taps))
    ),
    "Cast": Spec(extra=(limits.converts,)),
    "Clip": replace(
        SAME,
        constant=("min", "max"),
        numbers=("min", "max"),
        same={"min": "input", "max": "input"},
        extra=(limits.bounds_are_numbers, limits.bounds_in_order),
    ),
    "Concat": replace(SAME, extra=(limits.same_types,)),
    "DepthToSpace": replace(SAME, extra=(one_of("mode", "DCR", "CRD"),)),
    "DequantizeLinear com.microsoft.DequantizeLinear": replace(
        coded("x", "x_scale", "x_zero_point"),
        types=((*CODES, *INT32), FLOAT, (*CODES, *INT32)),
        extra=(flag("block_size", 0), limits.zero_point_is_zero),
    ),
    "Div PRelu Pow Sub": BINARY_FLOATS,
    "Dropout": replace(SAME, extra=(limits.not_training,)),
    "DynamicQuantizeLinear HardSigmoid HardSwish LeakyRelu LogSoftmax Sigmoid Tanh": FLOATS,
    "Equal": replace(COMPARED, types=((*CODES_OR_FLOAT, *BOOL),) * 2),
    "Expand Reshape": SHAPED,
    "GRU": GRU,
    "Gather": replace(INDEXED, extra=(limits.computed_indices_of_rows, finite_constants)),
    "GatherElements": INDEXED,
    "Gelu": replace(FLOATS, extra=(one_of("approximate", "none", "tanh"),)),
    "Gemm": Spec(
        (FLOAT,) * 3,
        constant=("B", "C"),
        extra=(bias_of_columns, finite_factors, finite_constants, multiplier_between_in_range),
    ),
    f"GlobalAveragePool {NHWC_DOMAIN}.GlobalAveragePool": replace(FLOATS, extra=(in_range(limits.means, between(1)),)),
    "Greater GreaterOrEqual Less LessOrEqual": COMPARED,
    "InstanceNormalization": NORMALIZATION,
    "LSTM": LSTM,
    "LayerNormalization": OF_ROWS,
    "MatMul": Spec((FLOAT, FLOAT), extra=(no_vectors, sums_between_fit, finite_constants, multiplier_between_in_range)),
    "MatMulInteger": Spec(
        (Q8,) * 4,
        constant=("b_zero_point",),
        numbers=("a_zero_point",),
        same={"a_zero_point": "A", "b_zero_point": "B"},
        extra=(products_of_codes, computed_zero_point),
    ),
    "Max Min": replace(FLOATS, extra=(finite_constants,)),
    f"MaxPool {NHWC_DOMAIN}.MaxPool": MAX_POOL,
    "Mul": replace(BINARY_FLOATS, extra=(finite_constants, in_range(limits.products, between(2)))),
    "Not": Spec((BOOL,)),
    "Pad": Spec(
        (CODES_OR_FLOAT, INDEX, (), INDEX),
        constant=("pads", "constant_value", "axes"),
        same={"constant_value": "data"},
        extra=(one_of("mode", *PAD_MODES), limits.pads_forward),
    ),
    "QLinearMatMul": replace(
        coded(*of_onnx("QLinearMatMul").inputs, lists=B_NUMBERS),
        extra=(products_of_codes, multiplier_in_range("a_scale", "b_scale", "y_scale")),
    ),
    "QuantizeLinear com.microsoft.QuantizeLinear": replace(
        coded("x", "y_scale", "y_zero_point"),
        types=(FLOAT, FLOAT, CODES),
        extra=(flag("block_size", 0), limits.quantized_result),
    ),
    "RMSNormalization": replace(OF_ROWS, types=(FLOAT, FLOAT), constant=("scale",)),
    "ReduceL1 ReduceL2 ReduceProd ReduceSumSquare": replace(REDUCE, extra=(limits.norm_of_something,)),
    "ReduceMax ReduceMin": AXES,
    "ReduceMean ReduceSum": REDUCE,
    "Relu": Spec(((*CODES_OR_FLOAT, DType.FLOAT64),)),
    "Resize": replace(
        SAME,
        extra=(
            one_of("coordinate_transformation_mode", *COORDINATES),
            one_of("nearest_mode", *NEAREST_MODES),
            one_of("keep_aspect_ratio_policy", "stretch"),
            limits.is_nearest,
        ),
    ),
    "Slice": Spec((CODES_OR_FLOAT, *(INDEX,) * 4), constant=("starts", "ends", "axes", "steps")),
    "Softmax": replace(FLOATS, extra=(in_range(limits.softmaxes, between(1), limits.LARGER),)),
    "SpaceToDepth": replace(SAME, extra=(one_of("mode", "DCR"),)),
    "Split": replace(INDEXED, constant=("split",)),
    "Squeeze Unsqueeze": AXES,
    "Tile": replace(INDEXED, constant=("repeats",)),
    "TopK": Spec((CODES_OR_FLOAT, (DType.INT64,)), constant=("K",), numbers=("K",), extra=(limits.sorted_elements,)),
    "Where": Spec((BOOL, FLOAT, FLOAT), extra=(finite_constants,)),
    "com.microsoft.DynamicQuantizeLSTM": DYNAMIC,
    "com.microsoft.Gelu": replace(FLOATS, signature=Signature(("X",), 1)),
    "com.microsoft.NhwcMaxPool": replace(MAX_POOL, signature=spelt_like("MaxPool", ("X",), 1)),
    "com.microsoft.QGemm": replace(
        coded(*GEMM, lists=B_NUMBERS, constant=("B",), bias=("C",), same={"y_zero_point": "A"}),
        extra=(
            scales_of_columns,
            bias_of_columns,
            multiplier_in_range("a_scale", "b_scale", "y_scale"),
            quantized_once,
            positive_alpha,
        ),
        signature=spelt_like("Gemm", GEMM, 6, without="beta"),
    ),
    "com.microsoft.QLinearAdd": replace(BINARY, extra=(in_range(limits.sums, OF_TWO),)),
    "com.microsoft.QLinearAveragePool": replace(
        UNARY,
        extra=(auto_pad_exists, limits.few_taps, in_range(limits.averages, OF_ONE), flag("channels_last", 0, 1)),
        signature=spelt_like("AveragePool", ONE, 4, without="dilations", channels_last=INTEGER),
    ),
    "com.microsoft.QLinearConcat": replace(
        coded(*JOINED, same=dict.fromkeys(("input", "zero_point"), "Y_zero_point")),
        signature=replace(spelt_like("Concat", JOINED, 5), repeated=3),
    ),
    "com.microsoft.QLinearGlobalAveragePool": replace(
        UNARY,
        extra=(in_range(limits.means, OF_ONE), flag("channels_last", 0, 1)),
        signature=spelt_like("GlobalAveragePool", ONE, 4, channels_last=INTEGER),
    ),
    "com.microsoft.QLinearLeakyRelu": replace(
        UNARY, extra=(limits.finite_numbers,), signature=spelt_like("LeakyRelu", ONE, 4)
    ),
    "com.microsoft.QLinearMul": replace(BINARY, extra=(in_range(limits.products, OF_TWO),)),
    "com.microsoft.QLinearSigmoid": UNARY,
    "com.microsoft.QLinearSoftmax": replace(
        UNARY,
        extra=(limits.says_which_softmax, in_range(limits.softmaxes, OF_ONE, limits.LARGER)),
        signature=spelt_like("Softmax", ONE, 4, opset=INTEGER),
    ),
    "com.microsoft.QuickGelu": replace(FUNCTION, signature=Signature(("X",), 1, {"alpha": NUMBER})),
}
"""What is accepted of operators; how those of ai.onnx are spelt, ONNX's schemas say."""

SPECS: dict[tuple[str, str], Spec] = {
    **{key: spec for names, spec in ROWS.items() for key in operator_keys(names)},
    **{key: conv_spec(spelling) for key, spelling in CONVOLUTIONS.items()},
}
"""What is accepted, by (domain, op_type)."""


def signature_of(domain: str, op_type: str) -> Signature:
    """How an operator is spelt that can be compiled."""
    return SPECS[domain, op_type].signature or of_onnx(op_type)
