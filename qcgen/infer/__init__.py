"""Types and shapes of every tensor, from the operators' definitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from qcgen.convolutions import NHWC_DOMAIN
from qcgen.infer import linear, pointwise, shape, window
from qcgen.infer.facts import Facts, Shape, TensorType
from qcgen.infer.recurrent import RECURRENT, recurrent
from qcgen.ir.graph import Dim, Graph, Node, Value
from qcgen.ir.types import DType

TypeRule = Callable[[Facts], tuple[TensorType, ...]]
"""From what is known of a node's inputs to the types of its outputs, as many as the rule knows."""

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

RULES: dict[tuple[str, str], TypeRule] = {
    **{("", op_type): pointwise.unary for op_type in FUNCTIONS},
    **dict.fromkeys((("", op_type) for op_type in (*COMPARISONS, "And", "Or", "Xor")), pointwise.comparison),
    **dict.fromkeys(RECURRENT, recurrent),
    ("", "Add"): pointwise.binary,
    ("", "ArgMax"): shape.arg_max,
    ("", "ArgMin"): shape.arg_max,
    ("", "AveragePool"): window.pooling,
    ("", "Cast"): pointwise.cast,
    ("", "Clip"): pointwise.unary,
    ("", "Concat"): shape.concat,
    ("", "Constant"): pointwise.constant,
    ("", "ConstantOfShape"): pointwise.constant_of_shape,
    ("", "Conv"): window.convolution,
    ("", "ConvInteger"): window.convolution,
    ("", "DepthToSpace"): shape.depth_to_space,
    ("", "DequantizeLinear"): pointwise.dequantize,
    ("", "Div"): pointwise.binary,
    ("", "Dropout"): pointwise.dropout,
    ("", "DynamicQuantizeLinear"): pointwise.dynamic_quantize,
    ("", "Expand"): shape.expand,
    ("", "Flatten"): shape.flatten,
    ("", "Gather"): shape.gather,
    ("", "GatherElements"): shape.gather_elements,
    ("", "Gemm"): linear.gemm,
    ("", "GlobalAveragePool"): window.global_pooling,
    ("", "GlobalMaxPool"): window.global_pooling,
    ("", "HardSigmoid"): pointwise.unary,
    ("", "HardSwish"): pointwise.unary,
    ("", "Identity"): pointwise.unary,
    ("", "If"): pointwise.branches,
    ("", "InstanceNormalization"): pointwise.unary,
    ("", "LayerNormalization"): pointwise.unary,
    ("", "LeakyRelu"): pointwise.unary,
    ("", "LogSoftmax"): pointwise.unary,
    ("", "MatMul"): linear.matmul,
    ("", "MatMulInteger"): linear.matmul_integer,
    ("", "MaxPool"): window.pooling,
    ("", "Max"): pointwise.variadic,
    ("", "Min"): pointwise.variadic,
    ("", "Mul"): pointwise.binary,
    ("", "Not"): pointwise.unary,
    ("", "PRelu"): pointwise.unary,
    ("", "Pow"): pointwise.binary,
    ("", "Pad"): shape.pad,
    ("", "QLinearConv"): window.convolution,
    ("", "QLinearMatMul"): linear.quantized_matmul,
    ("", "QuantizeLinear"): pointwise.quantize,
    ("", "ReduceL2"): shape.reduce,
    ("", "Range"): pointwise.range_,
    ("", "ReduceMax"): shape.reduce,
    ("", "ReduceMean"): shape.reduce,
    ("", "ReduceMin"): shape.reduce,
    ("", "ReduceSum"): shape.reduce,
    ("", "Relu"): pointwise.unary,
    ("", "Reshape"): shape.reshape,
    ("", "Resize"): shape.resize,
    ("", "Shape"): shape.shape,
    ("", "Sigmoid"): pointwise.unary,
    ("", "Slice"): shape.slice_,
    ("", "Softmax"): pointwise.unary,
    ("", "SpaceToDepth"): shape.space_to_depth,
    ("", "Split"): shape.split,
    ("", "Squeeze"): shape.squeeze,
    ("", "Sub"): pointwise.binary,
    ("", "Tanh"): pointwise.unary,
    ("", "Tile"): shape.tile,
    ("", "TopK"): shape.top_k,
    ("", "Transpose"): shape.transpose,
    ("", "Unsqueeze"): shape.unsqueeze,
    ("", "Where"): pointwise.where,
    ("com.microsoft", "DequantizeLinear"): pointwise.dequantize,
    ("com.microsoft", "FusedConv"): window.convolution,
    ("com.microsoft", "MatMulNBits"): linear.matmul_of_blocks,
    ("com.microsoft", "NhwcFusedConv"): window.convolution,
    ("com.microsoft", "NhwcMaxPool"): window.pooling,
    ("com.microsoft", "Gelu"): pointwise.unary,
    ("com.microsoft", "QuickGelu"): pointwise.unary,
    ("com.microsoft", "QGemm"): linear.quantized_gemm,
    ("com.microsoft", "QLinearAdd"): pointwise.quantized_binary,
    ("com.microsoft", "QLinearAveragePool"): window.quantized_pooling,
    ("com.microsoft", "QLinearConcat"): shape.quantized_concat,
    ("com.microsoft", "QLinearConv"): window.convolution,
    ("com.microsoft", "QLinearGlobalAveragePool"): window.quantized_global_pooling,
    ("com.microsoft", "QLinearLeakyRelu"): pointwise.unary,
    ("com.microsoft", "QLinearMul"): pointwise.quantized_binary,
    ("com.microsoft", "QLinearSigmoid"): pointwise.unary,
    ("com.microsoft", "QLinearSoftmax"): pointwise.unary,
    ("com.microsoft", "QuantizeLinear"): pointwise.quantize,
    (NHWC_DOMAIN, "AveragePool"): window.pooling,
    (NHWC_DOMAIN, "Conv"): window.convolution,
    (NHWC_DOMAIN, "GlobalAveragePool"): window.global_pooling,
    (NHWC_DOMAIN, "GlobalMaxPool"): window.global_pooling,
    (NHWC_DOMAIN, "MaxPool"): window.pooling,
    (NHWC_DOMAIN, "QLinearConv"): window.convolution,
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
