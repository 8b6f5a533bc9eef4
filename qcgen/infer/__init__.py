"""Types and shapes of every tensor, from the operators' definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from qcgen.geometry import NHWC_DOMAIN
from qcgen.infer import arithmetic, shape
from qcgen.infer.arithmetic import broadcasted, like_first
from qcgen.infer.facts import Facts, Shape, TensorType, TypeRule, rule
from qcgen.ir.graph import Dim, Graph, Node, Value
from qcgen.ir.types import Array, DType

Problems = Sequence[tuple[str, str]]
"""What is wrong with a node, each with what to do; "" if the size of an input may be to blame."""

CODES = slice(0, 4, 3)
"""The two tensors of an operator that reads each with its scale and its zero point."""

ROWS: tuple[tuple[str, str, TypeRule], ...] = (
    (
        "",
        """Abs BatchNormalization Ceil Celu Clip Cos Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity LeakyRelu Log
        Mish Neg Not Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Softplus Softsign Sqrt Swish Tanh
        ThresholdedRelu""",
        rule(like_first, 0),
    ),
    ("", "And Equal Greater GreaterOrEqual Less LessOrEqual Or Xor", rule(broadcasted, DType.BOOL, of=slice(2))),
    ("", "Add Div Mod Mul Pow Sub", rule(broadcasted, (0, 1), of=slice(2))),
    ("", "ArgMax ArgMin", rule(shape.arg_max, DType.INT64)),
    ("", "AveragePool MaxPool", rule(shape.pooling, 0, DType.INT64)),
    ("", "Cast", rule(like_first, arithmetic.cast)),
    ("", "Concat", rule(shape.concat, 0)),
    ("", "Constant", arithmetic.constant),
    ("", "ConstantOfShape", rule(lambda facts: facts.known_integers(0), arithmetic.filling)),
    ("", "Conv", rule(shape.convolution, 0)),
    ("", "ConvInteger", rule(shape.convolution, DType.INT32)),
    ("", "DepthToSpace", rule(shape.depth_to_space, 0)),
    ("", "DequantizeLinear", rule(like_first, (1, DType.FLOAT32))),
    ("", "Dropout", rule(like_first, 0, DType.BOOL)),
    ("", "DynamicQuantizeLinear", arithmetic.dynamic_quantize),
    ("", "Expand", rule(shape.expand, 0)),
    ("", "Flatten", rule(shape.flatten, 0)),
    ("", "Gather", rule(shape.gather, 0)),
    ("", "GatherElements", rule(shape.gather_elements, 0)),
    ("", "GRU LSTM", arithmetic.recurrent),
    ("", "Gemm", rule(arithmetic.gemm, 0)),
    ("", "GlobalAveragePool GlobalMaxPool", rule(shape.global_pooling, 0)),
    ("", "If", arithmetic.branches),
    ("", "InstanceNormalization", rule(arithmetic.instance_normalization, 0)),
    ("", "LayerNormalization", rule(arithmetic.layer_normalization, 0)),
    ("", "LogSoftmax Softmax", rule(arithmetic.softmax, 0)),
    ("", "MatMul", rule(arithmetic.matmul, 0)),
    ("", "MatMulInteger", rule(arithmetic.matmul, DType.INT32, of=slice(2))),
    ("", "Max Mean Min Sum", rule(broadcasted, 0)),
    ("", "PRelu", rule(arithmetic.prelu, 0)),
    ("", "Pad", rule(shape.pad, 0, keeps_rank=True)),
    ("", "QLinearConv", rule(shape.convolution, 7, of=CODES)),
    ("", "QLinearMatMul", rule(arithmetic.matmul, 7, of=CODES)),
    ("", "QuantizeLinear", rule(like_first, arithmetic.quantized)),
    ("", "Range", rule(shape.range_, 0)),
    ("", "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean", rule(shape.reduce, 0)),
    ("", "ReduceMin ReduceProd ReduceSum ReduceSumSquare", rule(shape.reduce, 0)),
    ("", "Reshape", rule(shape.reshape, 0)),
    ("", "ReverseSequence ScatterElements ScatterND Trilu", rule(like_first, 0)),
    ("", "Resize", rule(shape.resize, 0, keeps_rank=True)),
    ("", "Shape", rule(shape.shape, DType.INT64)),
    ("", "Slice", rule(shape.slice_, 0, keeps_rank=True)),
    ("", "SpaceToDepth", rule(shape.space_to_depth, 0)),
    ("", "Split", shape.split),
    ("", "Squeeze", rule(shape.squeeze, 0)),
    ("", "Tile", rule(shape.tile, 0, keeps_rank=True)),
    ("", "TopK", rule(shape.top_k, 0, DType.INT64)),
    ("", "Transpose", rule(shape.transpose, 0)),
    ("", "Unsqueeze", rule(shape.unsqueeze, 0)),
    ("", "Where", rule(broadcasted, (1, 2), of=slice(3))),
    ("com.microsoft", "DequantizeLinear", rule(like_first, (1, DType.FLOAT32))),
    ("com.microsoft", "DynamicQuantizeLSTM", arithmetic.recurrent),
    ("com.microsoft", "FusedConv NhwcFusedConv", rule(shape.convolution, 0)),
    ("com.microsoft", "BiasGelu FastGelu Gelu QLinearLeakyRelu QLinearSigmoid QuickGelu", rule(like_first, 0)),
    ("com.microsoft", "MatMulNBits", rule(arithmetic.matmul_of_blocks, 0)),
    ("com.microsoft", "NhwcMaxPool QLinearAveragePool", rule(shape.pooling, 0, DType.INT64)),
    ("com.microsoft", "QGemm", rule(arithmetic.gemm, arithmetic.quantized_product, of=CODES)),
    ("com.microsoft", "QLinearAdd QLinearMul", rule(broadcasted, (0, 3), of=CODES)),
    ("com.microsoft", "QLinearConcat", rule(shape.concat, 1, of=slice(2, None, 3))),
    ("com.microsoft", "QLinearConv", rule(shape.convolution, 7, of=CODES)),
    ("com.microsoft", "QLinearGlobalAveragePool", rule(shape.global_pooling, 0)),
    ("com.microsoft", "QLinearSoftmax", rule(arithmetic.softmax, 0)),
    ("com.microsoft", "QuantizeLinear", rule(like_first, arithmetic.quantized)),
    (NHWC_DOMAIN, "AveragePool MaxPool", rule(shape.pooling, 0, DType.INT64)),
    (NHWC_DOMAIN, "Conv", rule(shape.convolution, 0)),
    (NHWC_DOMAIN, "GlobalAveragePool GlobalMaxPool", rule(shape.global_pooling, 0)),
    (NHWC_DOMAIN, "QLinearConv", rule(shape.convolution, 7, of=CODES)),
)
"""The domain and the names of operators that have one rule, and that."""

RULES: dict[tuple[str, str], TypeRule] = {
    (domain, op_type): types for domain, op_types, types in ROWS for op_type in op_types.split()
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
    return computed(graph)[0]


def computed(graph: Graph) -> tuple[Mapping[str, Value], Mapping[str, Problems]]:
    """The same, and by the names of nodes what their rules find wrong with them."""
    values = dict(graph.values)
    results: dict[str, Value] = {}
    problems: dict[str, Problems] = {}
    values |= {name: value_of(name, array) for name, array in graph.constants.items()}
    for node in graph.nodes:
        known, problems[node.name] = _told(node, values, graph.constants)
        types = dict(zip(node.outputs, known, strict=False))
        for name in filter(None, node.outputs):
            declared = graph.value(name)
            results[name] = Value(name, *types[name]) if name in types else declared
            values[name] = _merged(results[name], declared)
    return {**values, **results}, problems


def value_of(name: str, array: Array) -> Value:
    """What is known of a constant."""
    return Value(name, DType.of(array), tuple(array.shape))


def types_of(node: Node, values: Mapping[str, Value], constants: Mapping[str, Array]) -> tuple[TensorType, ...]:
    """What the rule of a node's operator says of these inputs; without one nothing."""
    return _told(node, values, constants)[0]


def _told(
    node: Node, values: Mapping[str, Value], constants: Mapping[str, Array]
) -> tuple[tuple[TensorType, ...], Problems]:
    if (types := RULES.get((node.domain, node.op_type))) is None:
        return (), ()
    facts = Facts(
        node,
        inputs=tuple(values.get(name, Value(name, None, None)) for name in node.inputs),
        constants=tuple(constants.get(name) for name in node.inputs),
    )
    found: tuple[TensorType, ...] = ()
    # What a malformed node gives is unknown. Its rule notes why, or check does: attributes that are no integers.
    with suppress(ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError):
        found = types(facts)
    return found or (TensorType(None, None),) * len(node.outputs), facts.problems


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
