"""Types and shapes of every tensor, from the operators' definitions."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from qcgen.convolutions import NHWC_DOMAIN
from qcgen.infer import linear, pointwise, shape, window
from qcgen.infer.facts import Facts, Shape, TensorType, TypeRule, rule
from qcgen.infer.pointwise import broadcasted, like_first
from qcgen.infer.recurrent import RECURRENT, recurrent
from qcgen.ir.graph import Dim, Graph, Node, Value
from qcgen.ir.types import DType

FUNCTIONS = (
    *(
        "Abs",
        "BatchNormalization",
        "Ceil",
        "Celu",
        "Cos",
        "Elu",
        "Erf",
        "Exp",
        "Floor",
        "Gelu",
        "Log",
        "Mish",
        "Neg",
        "Reciprocal",
        "Round",
    ),
    *("Selu", "Shrink", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "ThresholdedRelu"),
)
"""Operators of ai.onnx whose result is like their first input."""

COMPARISONS = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
"""Operators of ai.onnx that give truth values."""

CODES = slice(0, 4, 3)
"""The two tensors of an operator that reads each with its scale and its zero point."""

RULES: dict[tuple[str, str], TypeRule] = {
    **{("", op_type): rule(like_first, 0) for op_type in FUNCTIONS},
    **dict.fromkeys(
        (("", op_type) for op_type in (*COMPARISONS, "And", "Or", "Xor")), rule(broadcasted, DType.BOOL, of=slice(2))
    ),
    **dict.fromkeys(RECURRENT, recurrent),
    ("", "Add"): rule(broadcasted, (0, 1), of=slice(2)),
    ("", "ArgMax"): rule(shape.arg_max, DType.INT64),
    ("", "ArgMin"): rule(shape.arg_max, DType.INT64),
    ("", "AveragePool"): rule(window.pooling, 0, DType.INT64),
    ("", "Cast"): rule(like_first, pointwise.cast),
    ("", "Clip"): rule(like_first, 0),
    ("", "Concat"): rule(shape.concat, 0),
    ("", "Constant"): pointwise.constant,
    ("", "ConstantOfShape"): rule(lambda facts: facts.known_integers(0), pointwise.filling),
    ("", "Conv"): rule(window.convolution, 0),
    ("", "ConvInteger"): rule(window.convolution, DType.INT32),
    ("", "DepthToSpace"): rule(shape.depth_to_space, 0),
    ("", "DequantizeLinear"): rule(like_first, (1, DType.FLOAT32)),
    ("", "Div"): rule(broadcasted, (0, 1), of=slice(2)),
    ("", "Dropout"): rule(like_first, 0, DType.BOOL),
    ("", "DynamicQuantizeLinear"): pointwise.dynamic_quantize,
    ("", "Expand"): rule(shape.expand, 0),
    ("", "Flatten"): rule(shape.flatten, 0),
    ("", "Gather"): rule(shape.gather, 0),
    ("", "GatherElements"): rule(like_first, 0, of=slice(1, 2)),
    ("", "Gemm"): rule(linear.gemm, 0),
    ("", "GlobalAveragePool"): rule(window.global_pooling, 0),
    ("", "GlobalMaxPool"): rule(window.global_pooling, 0),
    ("", "HardSigmoid"): rule(like_first, 0),
    ("", "HardSwish"): rule(like_first, 0),
    ("", "Identity"): rule(like_first, 0),
    ("", "If"): pointwise.branches,
    ("", "InstanceNormalization"): rule(like_first, 0),
    ("", "LayerNormalization"): rule(like_first, 0),
    ("", "LeakyRelu"): rule(like_first, 0),
    ("", "LogSoftmax"): rule(like_first, 0),
    ("", "MatMul"): rule(linear.matmul, 0),
    ("", "MatMulInteger"): rule(linear.matmul, DType.INT32),
    ("", "MaxPool"): rule(window.pooling, 0, DType.INT64),
    ("", "Max"): rule(broadcasted, 0),
    ("", "Min"): rule(broadcasted, 0),
    ("", "Mul"): rule(broadcasted, (0, 1), of=slice(2)),
    ("", "Not"): rule(like_first, 0),
    ("", "PRelu"): rule(like_first, 0),
    ("", "Pow"): rule(broadcasted, (0, 1), of=slice(2)),
    ("", "Pad"): rule(shape.pad, 0, keeps_rank=True),
    ("", "QLinearConv"): rule(window.convolution, 7, of=CODES),
    ("", "QLinearMatMul"): rule(linear.matmul, 7, of=CODES),
    ("", "QuantizeLinear"): rule(like_first, pointwise.quantized),
    ("", "ReduceL2"): rule(shape.reduce, 0),
    ("", "Range"): rule(lambda _: None, 0),
    ("", "ReduceMax"): rule(shape.reduce, 0),
    ("", "ReduceMean"): rule(shape.reduce, 0),
    ("", "ReduceMin"): rule(shape.reduce, 0),
    ("", "ReduceSum"): rule(shape.reduce, 0),
    ("", "Relu"): rule(like_first, 0),
    ("", "Reshape"): rule(shape.reshape, 0),
    ("", "Resize"): rule(shape.resize, 0, keeps_rank=True),
    ("", "Shape"): rule(shape.shape, DType.INT64),
    ("", "Sigmoid"): rule(like_first, 0),
    ("", "Slice"): rule(shape.slice_, 0, keeps_rank=True),
    ("", "Softmax"): rule(like_first, 0),
    ("", "SpaceToDepth"): rule(shape.space_to_depth, 0),
    ("", "Split"): shape.split,
    ("", "Squeeze"): rule(shape.squeeze, 0),
    ("", "Sub"): rule(broadcasted, (0, 1), of=slice(2)),
    ("", "Tanh"): rule(like_first, 0),
    ("", "Tile"): rule(shape.tile, 0, keeps_rank=True),
    ("", "TopK"): rule(shape.top_k, 0, DType.INT64),
    ("", "Transpose"): rule(shape.transpose, 0),
    ("", "Unsqueeze"): rule(shape.unsqueeze, 0),
    ("", "Where"): rule(broadcasted, (1, 2), of=slice(3)),
    ("com.microsoft", "DequantizeLinear"): rule(like_first, (1, DType.FLOAT32)),
    ("com.microsoft", "FusedConv"): rule(window.convolution, 0),
    ("com.microsoft", "MatMulNBits"): rule(linear.matmul_of_blocks, 0),
    ("com.microsoft", "NhwcFusedConv"): rule(window.convolution, 0),
    ("com.microsoft", "NhwcMaxPool"): rule(window.pooling, 0, DType.INT64),
    ("com.microsoft", "Gelu"): rule(like_first, 0),
    ("com.microsoft", "QuickGelu"): rule(like_first, 0),
    ("com.microsoft", "QGemm"): rule(linear.gemm, pointwise.quantized_product, of=CODES),
    ("com.microsoft", "QLinearAdd"): rule(broadcasted, (0, 3), of=CODES),
    ("com.microsoft", "QLinearAveragePool"): rule(window.pooling, 0, DType.INT64),
    ("com.microsoft", "QLinearConcat"): rule(shape.concat, 1, of=slice(2, None, 3)),
    ("com.microsoft", "QLinearConv"): rule(window.convolution, 7, of=CODES),
    ("com.microsoft", "QLinearGlobalAveragePool"): rule(window.global_pooling, 0),
    ("com.microsoft", "QLinearLeakyRelu"): rule(like_first, 0),
    ("com.microsoft", "QLinearMul"): rule(broadcasted, (0, 3), of=CODES),
    ("com.microsoft", "QLinearSigmoid"): rule(like_first, 0),
    ("com.microsoft", "QLinearSoftmax"): rule(like_first, 0),
    ("com.microsoft", "QuantizeLinear"): rule(like_first, pointwise.quantized),
    (NHWC_DOMAIN, "AveragePool"): rule(window.pooling, 0, DType.INT64),
    (NHWC_DOMAIN, "Conv"): rule(window.convolution, 0),
    (NHWC_DOMAIN, "GlobalAveragePool"): rule(window.global_pooling, 0),
    (NHWC_DOMAIN, "GlobalMaxPool"): rule(window.global_pooling, 0),
    (NHWC_DOMAIN, "MaxPool"): rule(window.pooling, 0, DType.INT64),
    (NHWC_DOMAIN, "QLinearConv"): rule(window.convolution, 7, of=CODES),
}
"""How the outputs of every known operator follow from its inputs, by (domain, op_type)."""


def infer(graph: Graph) -> Graph:
    """The graph with a type and a shape for every tensor for which they can be found.

    What the model declares is kept, even where it contradicts the operators: ``check`` reports that.
    """
    computed = computed_values(graph)
    values = {name: _merged(graph.value(name), value) for name, value in computed.items()}
    return replace(graph, values={**graph.values, **values})


def computed_values(graph: Graph) -> Mapping[str, Value]:
    """Every tensor with what its producer's rule alone says of it; what it needs of inputs may be declared.

    Where there is no rule, and for inputs, this is what the model declares.
    """
    values = dict(graph.values)
    results: dict[str, Value] = {}
    for name, array in graph.constants.items():
        values[name] = Value(name, DType.of(array), tuple(array.shape))
    for node in graph.nodes:
        types = dict(zip(node.outputs, _types(graph, node, values), strict=False))
        for name in filter(None, node.outputs):
            declared = graph.value(name)
            results[name] = Value(name, *types[name]) if name in types else declared
            values[name] = _merged(results[name], declared)
    return {**values, **results}


def _types(graph: Graph, node: Node, values: Mapping[str, Value]) -> tuple[TensorType, ...]:
    """What the node's rule says; without one nothing."""
    if (types := RULES.get((node.domain, node.op_type))) is None:
        return ()
    facts = Facts(
        node,
        inputs=tuple(values.get(name, Value(name, None, None)) for name in node.inputs),
        constants=tuple(graph.constants.get(name) for name in node.inputs),
    )
    found: tuple[TensorType, ...] = ()
    # Rules are written for well-formed nodes. What a malformed one gives is unknown; check says why.
    with suppress(ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError):
        found = types(facts)
    return found or (TensorType(None, None),) * len(node.outputs)


def _merged(first: Value, second: Value) -> Value:
    """What either knows; the first one has precedence where both know something."""
    return Value(first.name, first.dtype or second.dtype, _merged_shape(first.shape, second.shape))


def _merged_shape(first: Shape | None, second: Shape | None) -> Shape | None:
    if first is None or second is None or first == second or len(first) != len(second):
        return second if first is None else first
    return tuple(_merged_dim(a, b) for a, b in zip(first, second, strict=True))


def _merged_dim(first: Dim, second: Dim) -> Dim:
    if isinstance(first, int) or second is None:
        return first
    return second if isinstance(second, int) or first is None else first
