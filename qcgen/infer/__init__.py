"""Types and shapes of every tensor, from the operators' definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from qcgen.geometry import NHWC_DOMAIN
from qcgen.infer import shape
from qcgen.infer.facts import Facts, Shape, TensorType, TypeRule, contradict, counted, rule, shape_text
from qcgen.ir.graph import Dim, Graph, Node, Value, element_type, operator_keys
from qcgen.ir.types import Array, DType

# Shapes of operators that compute numbers; types of conversions and of constants.


def like_first(facts: Facts) -> Shape | None:
    """The first input's shape."""
    return facts.shape(0)


def broadcasted(facts: Facts) -> Shape | None:
    """All inputs, broadcast."""
    return facts.broadcast(*(value.shape for value in facts.inputs))


def prelu(facts: Facts) -> Shape | None:
    """A slope is broadcast to x, never x to the slope."""
    x, slope = facts.shape(0), facts.shape(1)
    if x is not None and slope is not None and not _spreads(slope, x):
        what = f"its slope of shape {shape_text(slope)} cannot be broadcast to {shape_text(x)}"
        facts.wrong(what, "give a slope for each channel: (channels, 1, 1)")
    return x


def _spreads(shape: Shape, over: Shape) -> bool:
    """Whether a tensor is broadcast to a shape as in numpy, which keeps its size."""
    return len(shape) <= len(over) and not any(
        isinstance(a, int) and isinstance(b, int) and a not in (1, b)
        for a, b in zip(shape[::-1], over[::-1], strict=False)
    )


def softmax(facts: Facts) -> Shape:
    """The shape of x, which has the axis."""
    x, node = facts.known_shape(), facts.node
    facts.axis(1 if node.version < 13 and not node.domain else -1, len(x))
    return x


def layer_normalization(facts: Facts) -> Shape:
    """The shape of x, whose rows Scale and B fit."""
    x = facts.known_shape()
    row = x[facts.axis(-1, len(x)) :]
    for role, given in (("Scale", facts.shape(1)), ("B", facts.shape(2))):
        if given is not None and not _spreads(given, row):
            what = f"{role} has shape {shape_text(given)}, but the rows have shape {shape_text(row)}"
            facts.wrong(what, f"give {role} an element for each of a row")
    return x


def instance_normalization(facts: Facts) -> Shape:
    """The shape of x, for whose channels scale and B have a number each."""
    x = facts.known_shape()
    if len(x) < 3:
        what = f"its input has shape {shape_text(x)}, but must have batch, channels and spatial axes"
        raise facts.wrong(what, "give it 3 dimensions or more")
    for role, given in (("Scale", facts.shape(1)), ("B", facts.shape(2))):
        if given is not None and isinstance(x[1], int) and contradict(given, x[1:2]):
            what = f"{role} has shape {shape_text(given)}, but x has {counted(x[1], 'channel')}"
            facts.wrong(what, f"give {role} a number for each channel")
    return x


def matmul(facts: Facts) -> Shape:
    """Two matrices as in numpy."""
    a, b = facts.known_shape(0), facts.known_shape(1)
    for place, given in (("first", a), ("second", b)):
        if not given:
            raise facts.wrong(f"the {place} operand has shape ()", "give a matrix")
    _multiply(facts, a[-1], b[-2] if len(b) > 1 else b[0])
    return (*(facts.broadcast(a[:-2], b[:-2]) or ()), *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def gemm(facts: Facts) -> Shape:
    """(M, N) of two matrices, each transposed if its attribute says so."""
    a, b = facts.known_shape(0), facts.known_shape(1)
    for place, given in (("first", a), ("second", b)):
        if len(given) != 2:
            what = f"the {place} operand has shape {shape_text(given)}, but must be a matrix"
            raise facts.wrong(what, "give a matrix")
    rows, inner = a[::-1] if facts.node.integer("transA", 0) else a
    across, columns = b[::-1] if facts.node.integer("transB", 0) else b
    _multiply(facts, inner, across)
    return (rows, columns)


def _multiply(facts: Facts, inner: Dim, rows: Dim) -> None:
    """A row of one matrix has as many elements as a column of the other."""
    if isinstance(inner, int) and isinstance(rows, int) and inner != rows:
        what = f"the first operand has {counted(inner, 'column')}, the second {counted(rows, 'row')}"
        facts.wrong(what, f"correct the {'operands' if facts.constants[1] is None else 'weights'}")


def einsum(facts: Facts) -> Shape | None:
    """What the letters behind -> stand for; None of an equation with an ellipsis, or without ->."""
    terms, arrow, result = facts.node.text("equation", "").replace(" ", "").partition("->")
    sizes: dict[str, Dim] = {}
    for index, letters in enumerate(terms.split(",")):
        sizes.update(zip(letters, facts.known_shape(index), strict=False))
    is_known = arrow and "." not in terms and sizes.keys() >= set(result)
    return tuple(sizes[letter] for letter in result) if is_known else None


def matmul_of_blocks(facts: Facts) -> Shape:
    """MatMulNBits: (A, packed weights, ...), of N columns."""
    return (*facts.known_shape()[:-1], facts.node.integer("N", 0))


DYNAMIC_LSTM = ("com.microsoft", "DynamicQuantizeLSTM")
"""LSTM with W (D, I, 4 H) and R (D, H, 4 H) of 8-bit codes; behind P: W_scale, W_zero_point, R_scale, R_zero_point."""

DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""Whether each direction of a recurrent layer begins with the last step."""


def recurrent(facts: Facts) -> tuple[TensorType, ...]:
    """Y (T, D, B, H), Y_h (D, B, H) and, of LSTM, Y_c like it; with layout 1 the batch comes first.

    X (T, B, I), W (D, G H, I), R (D, G H, H), B (D, 2 G H), initial states (D, B, H); hidden_size is H.
    """
    node, x, r, gates = facts.node, facts.shape(0), facts.shape(2), 3 if facts.node.op_type == "GRU" else 4
    shapes: tuple[Shape | None, ...] = (None,) * 3
    if x is not None and r is not None and (len(x) != 3 or len(r) != 3):
        facts.wrong(f"X has shape {shape_text(x)}, R {shape_text(r)}", "both must have 3 axes")
    elif x is not None and r is not None:
        is_turned, is_batch_first = (node.domain, node.op_type) == DYNAMIC_LSTM, facts.node.integer("layout", 0)
        (a, b, i), h = x, r[1 if is_turned else 2]
        d = len(DIRECTIONS.get(node.text("direction", "forward"), (False,)))
        last = (a, d, h) if is_batch_first else (d, b, h)
        shapes = ((a, b, d, h) if is_batch_first else (a, d, b, h), last, last)
        if isinstance(h, int):
            units = h if is_turned else facts.node.integer("hidden_size", h)
            rows, state = gates * units, (*last[:2], units)
            w, r = ((d, i, rows), (d, units, rows)) if is_turned else ((d, rows, i), (d, rows, units))
            states = ((5, "initial_h", state), (6, "initial_c", state))
            for index, role, shape in ((1, "W", w), (2, "R", r), (3, "B", (d, 2 * rows)), *states):
                given = facts.shape(index)
                if given is not None and contradict(given, shape):
                    what = f"{role} has shape {shape_text(given)}, but must have {shape_text(shape)}"
                    facts.wrong(what, "correct the shapes, hidden_size and direction, or export the model again")
    return tuple(TensorType(facts.dtype(0), shape) for shape in shapes[: gates - 1])


def branches(facts: Facts) -> tuple[TensorType, ...]:
    """If, whose branches give its further inputs: what is the same of both."""
    count = len(facts.node.inputs) // 2
    pairs = zip(facts.inputs[1 : 1 + count], facts.inputs[1 + count : 1 + 2 * count], strict=True)
    return tuple(
        TensorType(one.dtype if one.dtype is other.dtype else None, one.shape if one.shape == other.shape else None)
        for one, other in pairs
    )


def cast(facts: Facts) -> DType | None:
    """The type that the attribute ``to`` names."""
    return element_type(facts.node.integer("to", 0))


def quantized(facts: Facts) -> DType | None:
    """The type of the zero point, else that of the attribute output_dtype, else uint8."""
    return facts.dtype(2) if facts.has(2) else element_type(facts.node.integer("output_dtype", 0)) or DType.UINT8


def quantized_product(facts: Facts) -> DType | None:
    """The type of QGemm's y_zero_point; float without one."""
    return facts.dtype(8) if facts.has(8) else DType.FLOAT32


def dynamic_quantize(facts: Facts) -> tuple[TensorType, ...]:
    """Codes, scale and zero point."""
    return (TensorType(DType.UINT8, facts.shape(0)), TensorType(DType.FLOAT32, ()), TensorType(DType.UINT8, ()))


def constant(facts: Facts) -> tuple[TensorType, ...]:
    """The tensor of an attribute value, or the scalar or list of value_int, value_floats and so on."""
    types = {"value_int": DType.INT64, "value_float": DType.FLOAT32, "value_string": DType.OTHER}
    for name, value in facts.node.attributes.items():
        if name == "value" and isinstance(value, np.ndarray):
            return (TensorType(DType.of(value), value.shape),)
        if (dtype := types.get(name.removesuffix("s"))) is not None:
            return (TensorType(dtype, (len(value),) if isinstance(value, tuple) else ()),)
    return ()


def filling(facts: Facts) -> DType:
    """The type of ConstantOfShape's attribute value, a float by default."""
    value = facts.node.attributes.get("value")
    return DType.of(value) if isinstance(value, np.ndarray) else DType.FLOAT32


# The rules by operator, and what they say of all nodes.

Problems = Sequence[tuple[str, str]]
"""What is wrong with a node, each with what to do; "" if the size of an input may be to blame."""

CODES = slice(0, 4, 3)
"""The two tensors of an operator that reads each with its scale and its zero point."""

ROWS: Mapping[str, TypeRule] = {
    """Abs BatchNormalization Ceil Celu Clip Cos CumSum Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity LeakyRelu
    Log Mish Neg Not Reciprocal Relu ReverseSequence Round ScatterElements ScatterND Selu Shrink Sigmoid Sign Sin
    Softplus Softsign Sqrt Swish Tanh ThresholdedRelu Trilu com.microsoft.BiasGelu com.microsoft.FastGelu
    com.microsoft.Gelu com.microsoft.QLinearLeakyRelu com.microsoft.QLinearSigmoid
    com.microsoft.QuickGelu""": rule(like_first, 0),
    "And Equal Greater GreaterOrEqual Less LessOrEqual Or Xor": rule(broadcasted, DType.BOOL, of=slice(2)),
    "Add Div Mod Mul Pow Sub": rule(broadcasted, (0, 1), of=slice(2)),
    "ArgMax ArgMin": rule(shape.arg_max, DType.INT64),
    f"""AveragePool MaxPool com.microsoft.NhwcMaxPool com.microsoft.QLinearAveragePool {NHWC_DOMAIN}.AveragePool
    {NHWC_DOMAIN}.MaxPool""": rule(shape.pooling, 0, DType.INT64),
    "Cast": rule(like_first, cast),
    "Concat": rule(shape.concat, 0),
    "Constant": constant,
    "ConstantOfShape": rule(lambda facts: facts.known_integers(0), filling),
    f"Conv com.microsoft.FusedConv com.microsoft.NhwcFusedConv {NHWC_DOMAIN}.Conv": rule(shape.convolution, 0),
    "ConvInteger": rule(shape.convolution, DType.INT32),
    "ConvTranspose": rule(shape.transposed_convolution, 0),
    "DepthToSpace": rule(shape.depth_to_space, 0),
    "DequantizeLinear com.microsoft.DequantizeLinear": rule(like_first, (1, DType.FLOAT32)),
    "Dropout": rule(like_first, 0, DType.BOOL),
    "DynamicQuantizeLinear": dynamic_quantize,
    "Einsum": rule(einsum, 0),
    "Expand": rule(shape.expand, 0),
    "Flatten": rule(shape.flatten, 0),
    "GRU LSTM com.microsoft.DynamicQuantizeLSTM": recurrent,
    "Gather": rule(shape.gather, 0),
    "GatherElements": rule(shape.gather_elements, 0),
    "Gemm": rule(gemm, 0),
    f"""GlobalAveragePool GlobalMaxPool com.microsoft.QLinearGlobalAveragePool {NHWC_DOMAIN}.GlobalAveragePool
    {NHWC_DOMAIN}.GlobalMaxPool""": rule(shape.global_pooling, 0),
    "If": branches,
    "InstanceNormalization": rule(instance_normalization, 0),
    "LayerNormalization RMSNormalization": rule(layer_normalization, 0),
    "LogSoftmax Softmax com.microsoft.QLinearSoftmax": rule(softmax, 0),
    "MatMul": rule(matmul, 0),
    "MatMulInteger": rule(matmul, DType.INT32, of=slice(2)),
    "Max Mean Min Sum": rule(broadcasted, 0),
    "OneHot": rule(shape.one_hot, 2),
    "PRelu": rule(prelu, 0),
    "Pad": rule(shape.pad, 0, keeps_rank=True),
    f"QLinearConv com.microsoft.QLinearConv {NHWC_DOMAIN}.QLinearConv": rule(shape.convolution, 7, of=CODES),
    "QLinearMatMul": rule(matmul, 7, of=CODES),
    "QuantizeLinear com.microsoft.QuantizeLinear": rule(like_first, quantized),
    "Range": rule(shape.range_, 0),
    """ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare""": rule(shape.reduce, 0),
    "Reshape": rule(shape.reshape, 0),
    "Resize": rule(shape.resize, 0, keeps_rank=True),
    "Shape": rule(shape.shape, DType.INT64),
    "Slice": rule(shape.slice_, 0, keeps_rank=True),
    "SpaceToDepth": rule(shape.space_to_depth, 0),
    "Split": shape.split,
    "Squeeze": rule(shape.squeeze, 0),
    "Tile": rule(shape.tile, 0, keeps_rank=True),
    "TopK": rule(shape.top_k, 0, DType.INT64),
    "Transpose": rule(shape.transpose, 0),
    "Unsqueeze": rule(shape.unsqueeze, 0),
    "Where": rule(broadcasted, (1, 2), of=slice(3)),
    "com.microsoft.MatMulNBits": rule(matmul_of_blocks, 0),
    "com.microsoft.QGemm": rule(gemm, quantized_product, of=CODES),
    "com.microsoft.QLinearAdd com.microsoft.QLinearMul": rule(broadcasted, (0, 3), of=CODES),
    "com.microsoft.QLinearConcat": rule(shape.concat, 1, of=slice(2, None, 3)),
}
"""The operators that have one rule, and that."""

RULES: dict[tuple[str, str], TypeRule] = {key: types for names, types in ROWS.items() for key in operator_keys(names)}
"""How the outputs of every known operator follow from its inputs, by (domain, op_type)."""


def infer(graph: Graph) -> Graph:
    """The graph with a type and a shape for every tensor for which they can be found.

    What the model declares is kept, even where it contradicts the operators: ``check`` reports that.
    """
    values = {name: _merged(graph.value(name), value) for name, value in computed(graph)[0].items()}
    return replace(graph, values={**graph.values, **values})


def computed(graph: Graph) -> tuple[Mapping[str, Value], Mapping[str, Problems]]:
    """Every tensor with what its producer's rule alone says of it; what it needs of inputs may be declared.

    Where there is no rule, and for inputs, this is what the model declares. And by the names of nodes what their rules
    find wrong with them.
    """
    values = dict(graph.values)
    results: dict[str, Value] = {}
    problems: dict[str, Problems] = {}
    values |= {name: Value.of(name, array) for name, array in graph.constants.items()}
    for node in graph.nodes:
        known, problems[node.name] = told(node, values, graph.constants)
        types = dict(zip(node.outputs, known, strict=False))
        for name in filter(None, node.outputs):
            declared = graph.value(name)
            results[name] = Value(name, *types[name]) if name in types else declared
            values[name] = _merged(results[name], declared)
    return {**values, **results}, problems


def told(
    node: Node, values: Mapping[str, Value], constants: Mapping[str, Array]
) -> tuple[tuple[TensorType, ...], Problems]:
    """What the rule of a node's operator says of these inputs, and finds wrong with them; without one nothing."""
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
    shape = second.shape if first.shape is None else first.shape
    if first.shape != second.shape and first.shape and second.shape and len(first.shape) == len(second.shape):
        # A size is known better than a name.
        shape = tuple(
            min(a, b, key=lambda dim: (dim is None, isinstance(dim, str)))
            for a, b in zip(first.shape, second.shape, strict=True)
        )
    return Value(first.name, first.dtype or second.dtype, shape)
