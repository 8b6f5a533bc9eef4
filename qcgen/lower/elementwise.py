"""Element by element: quantization, casts, sums, products, other functions of numbers, and truth values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from qcgen import arithmetic, functions
from qcgen.ir.graph import Graph, Node, element_type, fresh
from qcgen.ir.program import (
    Comparison,
    Convert,
    Dequantize,
    DynamicParameter,
    DynamicQuantize,
    Extremes,
    Float32s,
    FloatActivation,
    FloatBinary,
    FloatUnary,
    Lookup,
    Operator,
    Quantize,
    QuantizedBinary,
    Reshape,
    Select,
    Tensor,
)
from qcgen.ir.types import DType
from qcgen.lower.codes import are_wide, ends_of, of_type
from qcgen.lower.source import Source, quantization_of, tensor_of
from qcgen.schemas import numbers_of


def lower_quantize(source: Source) -> Operator:
    """QuantizeLinear, per tensor: (x, y_scale, y_zero_point)."""
    return Quantize(*source.called, source.tensor(0), source.result(source.quantization(1, 2)))


def lower_dequantize(source: Source) -> Operator:
    """DequantizeLinear, per tensor: (x, x_scale, x_zero_point)."""
    return Dequantize(*source.called, source.tensor(0, source.quantization(1, 2)), source.result())


def lower_dynamic_quantize(source: Source) -> tuple[Operator, ...]:
    """DynamicQuantizeLinear: codes of 8 bits, and the scale and the zero point that it finds for each input."""
    outputs = (*source.node.outputs, "", "")
    scale, zero_point = (
        source.result(index=index) if outputs[index] else source.inner(suffix, dtype, ())
        for index, suffix, dtype in ((1, "scale", DType.FLOAT32), (2, "zero_point", DType.UINT8))
    )
    return quantized_by_extremes(source, scale, zero_point, source.result() if outputs[0] else None)


def quantized_by_extremes(
    source: Source, scale: Tensor, zero_point: Tensor, codes: Tensor | None
) -> tuple[Operator, ...]:
    """The first input's scale and zero point, from its smallest and largest number, and its codes, if they are used."""
    x, extremes = source.tensor(0), source.inner("extremes", DType.FLOAT32, (2,))
    made = () if codes is None else (DynamicQuantize(*source.called, x, scale, zero_point, codes),)
    return (
        Extremes(*source.called, x, extremes),
        DynamicParameter(*source.called, "scale", extremes, scale),
        DynamicParameter(*source.called, "zero point", extremes, zero_point),
        *made,
    )


def lower_cast(source: Source) -> Operator | tuple[Operator, ...]:
    """Cast to another type, or to the one that is there."""
    to, (name, op_type, x, y) = source.node.attributes.get("to"), source.ends
    if isinstance(to, int) and element_type(to) is DType.BOOL:
        return _to_truth(source)
    return Reshape(name, op_type, x, y) if x.dtype is y.dtype else Convert(name, op_type, x, y)


def lower_same(source: Source) -> Operator:
    """Operators that change nothing: Identity, Dropout."""
    return Reshape(*source.ends)


_SUMS_AND_PRODUCTS: dict[str, Literal["add", "mul", "sub"]] = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "QLinearAdd": "add",
    "QLinearMul": "mul",
}


def lower_binary(source: Source) -> tuple[Operator, ...]:
    """Two tensors, float32 or codes; Div, Sub where no code has 16 bits, and what was a Sum or Mean, in float32."""
    kind = _SUMS_AND_PRODUCTS.get(source.node.op_type)
    ends = None if kind is None or source.node.operator in ("Mean", "Sum") else ends_of(source, 0, 1)
    if ends is None or kind is None or not (are_wide(ends) or kind != "sub"):
        return (FloatBinary(*source.called, kind or "div", source.tensor(0), source.tensor(1), source.result()),)
    (a, b, y), before = ends, list[Operator]()
    # Codes of 8 bits are all of one type. onnxruntime takes an operand that is repeated along the innermost axis for
    # the second one, whichever comes first; the order of the additions depends on it.
    if not are_wide(ends):
        (a, of_a), (b, of_b) = of_type(source, a, y.dtype), of_type(source, b, y.dtype)
        before += (*of_a, *of_b)
        if kind == "add" and _repeats_innermost(a, b):
            a, b = b, a
    return (*before, QuantizedBinary(*source.called, kind, a, b, y))


def _repeats_innermost(a: Tensor, b: Tensor) -> bool:
    """Whether a has size 1 on the innermost axis on which either has more."""
    rank = max(len(a.shape), len(b.shape))
    sizes = zip(*((1,) * (rank - len(t.shape)) + t.shape for t in (a, b)), strict=True)
    inner = [pair for pair in sizes if max(pair) > 1][-1:]
    return any(first == 1 for first, _ in inner)


# Functions of one number, and of two that are no sum or product: tables between codes, else float.

LARGEST_FLOAT = float(np.finfo(np.float32).max)


def _plain(source: Source) -> FloatActivation:
    """A function whose parameters are its attributes that are numbers, in the order of their names."""
    kind, defaults = source.node.op_type, numbers_of(source.node.op_type, source.node.version)
    return FloatActivation(kind, tuple(source.real(name, default) for name, default in sorted(defaults.items())))


def _gelu(source: Source) -> FloatActivation:
    return FloatActivation("GeluTanh" if source.node.text("approximate", "none") == "tanh" else "Gelu")


def _clip(source: Source) -> FloatActivation:
    """The bounds are attributes before opset 11; an absent one is the end of the type, which is finite for floats."""
    if source.node.version < 11:
        return FloatActivation("Clip", (source.real("min", -LARGEST_FLOAT), source.real("max", LARGEST_FLOAT)))
    dtype = source.tensor(0).dtype
    ends = (dtype.low, dtype.high) if dtype.is_code else (-LARGEST_FLOAT, LARGEST_FLOAT)
    return FloatActivation("Clip", (source.number(1, ends[0]), source.number(2, ends[1])))


FUNCTIONS: Mapping[tuple[str, str], Callable[[Source], FloatActivation]] = {
    **{
        ("", kind): _plain
        for kind in """Abs Ceil Celu Cos Elu Erf Exp Floor HardSigmoid HardSwish LeakyRelu Log Mish Neg Reciprocal Relu
        Round Selu Shrink Sigmoid Sign Sin Softplus Softsign Sqrt Tanh ThresholdedRelu""".split()
    },
    ("", "Clip"): _clip,
    ("", "Gelu"): _gelu,
    ("com.microsoft", "Gelu"): _gelu,
    ("com.microsoft", "QuickGelu"): lambda source: FloatActivation("QuickGelu", (source.real("alpha", 1.702),)),
}
"""Functions of one number, by (domain, op_type), with their parameters."""


def lower_function(source: Source) -> Operator:
    """A function of float32 numbers, between codes, alone or in chains, a table; Relu and Clip work on codes, too."""
    activation, (name, op_type, x, y) = FUNCTIONS[source.node.domain, source.node.op_type](source), source.ends
    if x.dtype.is_float:
        return FloatUnary(name, op_type, x, y, activation)
    low, high = activation.params if activation.kind == "Clip" else (0, x.dtype.high)
    codes = np.arange(x.dtype.low, x.dtype.high + 1)
    table = np.minimum(np.maximum(codes, int(max(low, x.dtype.low))), int(min(high, x.dtype.high)))
    return Lookup(name, op_type, x, y, table)


def lower_power(source: Source) -> Operator:
    """Pow of float32 tensors; a function of one where the exponent is a constant number."""
    name, op_type, x, y = source.ends
    if source.is_constant(1) and x.shape == y.shape and source.array(1).size == 1:
        return FloatUnary(name, op_type, x, y, FloatActivation("Pow", (source.number(1),)))
    return FloatBinary(name, op_type, "pow", x, source.tensor(1), y)


def lower_choice(source: Source) -> tuple[Operator, ...]:
    """Max and Min of float32 tensors, two at a time; NaN wins."""
    first, inputs, operators = source.tensor(0), source.node.inputs, list[Operator]()
    if len(inputs) == 1:
        return (Reshape(*source.ends),)
    kind: Literal["max", "min"] = "max" if source.node.op_type == "Max" else "min"
    for index in range(1, len(inputs)):
        second, is_last = source.tensor(index), index == len(inputs) - 1
        shape = np.broadcast_shapes(first.shape, second.shape)
        y = source.result() if is_last else source.inner(f"of{index + 1}", DType.FLOAT32, shape)
        operators.append(FloatBinary(*source.called, kind, first, second, y))
        first = y
    return tuple(operators)


def lower_prelu(source: Source) -> Operator:
    """PRelu of float32 numbers: x, or slope * x below 0."""
    return FloatBinary(*source.called, "prelu", source.tensor(0), source.tensor(1), source.result())


def lower_qlinear_function(source: Source) -> Operator:
    """QLinearSigmoid and QLinearLeakyRelu: (X, scale, zero point, Y_scale, Y_zero_point)."""
    x, y = source.tensor(0, source.quantization(1, 2)), source.result(source.quantization(3, 4))
    alpha = source.real("alpha", 0.01)
    if source.node.op_type == "QLinearSigmoid":
        return lookup(source, x, y, functions.logistic)
    return lookup(source, x, y, lambda values: functions.leaky_relu(values, alpha))


def lookup(source: Source, x: Tensor, y: Tensor, function: Callable[[Float32s], Float32s]) -> Lookup:
    """The table of a float function between two quantized tensors that say what their codes mean."""
    x_by, y_by = quantization_of(x), quantization_of(y)
    codes = np.arange(x.dtype.low, x.dtype.high + 1)
    values = function(arithmetic.dequantize(codes, x_by.scale, x_by.zero_point))
    table = arithmetic.quantize(values, y_by.scale, y_by.zero_point, y.dtype.low, y.dtype.high)
    return Lookup(*source.called, x, y, table)


# Truth values are the float32 numbers 1 and 0: only inputs and outputs of the model stay bool.

COMPARISONS: Mapping[str, Comparison] = {
    "Greater": "greater",
    "GreaterOrEqual": "greater or equal",
    "Less": "less",
    "LessOrEqual": "less or equal",
    "Equal": "equal",
}
"""The comparisons by the operators of ai.onnx that compute them."""


def truth_as_numbers(graph: Graph) -> tuple[Graph, list[Operator], list[Operator]]:
    """The graph with float32 numbers in place of truth values, what converts its inputs, and what its outputs.

    Nodes read and write each bool tensor under another name. Constant codes that a comparison reads become float32
    numbers under another name, too.
    """
    if not any(value.dtype is DType.BOOL for value in graph.values.values()):
        return graph, [], []
    taken = set(graph.names)
    names: dict[str, str] = {}
    compared: dict[str, str] = {}
    for node in graph.nodes:
        for name in filter(None, (*node.inputs, *node.outputs)):
            dtype = graph.dtype(name)
            is_compared = node.op_type in COMPARISONS and name in graph.constants and dtype is not DType.FLOAT32
            found = names if dtype is DType.BOOL else compared
            if name not in found and (dtype is DType.BOOL or is_compared):
                found[name] = fresh(f"{name} as a number", taken)
                taken.add(found[name])
    both = {**names, **compared}

    def with_numbers(node: Node) -> Node:
        read = both if node.op_type in COMPARISONS else names
        inputs, outputs = (read.get(x, x) for x in node.inputs), (names.get(y, y) for y in node.outputs)
        return replace(node, inputs=tuple(inputs), outputs=tuple(outputs))

    values = {new: replace(graph.value(old), name=new, dtype=DType.FLOAT32) for old, new in both.items()}
    constants = {new: graph.constants[old].astype(np.float32) for old, new in both.items() if old in graph.constants}
    constants |= {end.name: np.asarray(value, np.float32) for value, end in enumerate(_false_and_true(graph))}
    renamed = replace(
        graph,
        nodes=tuple(with_numbers(node) for node in graph.nodes),
        values={**graph.values, **values},
        constants={**graph.constants, **constants},
    )
    number, truth = partial(tensor_of, renamed), partial(tensor_of, graph)
    read = [Convert(f"{x} to float", "Cast", truth(x), number(names[x])) for x in graph.inputs if x in names]
    made = [y for y in graph.outputs if y in names and y not in (*graph.inputs, *graph.constants)]
    written = [Convert(f"{y} to bool", "Cast", number(names[y]), truth(y)) for y in made]
    return renamed, list[Operator](read), list[Operator](written)


def _false_and_true(graph: Graph) -> tuple[Tensor, Tensor]:
    """The constants that stand for false and true."""
    no, yes = (Tensor(fresh(name, graph.values), DType.FLOAT32, ()) for name in ("false", "true"))
    return no, yes


def _chosen(source: Source, kind: Comparison, xs: tuple[Tensor, Tensor], *, otherwise: bool = False) -> Select:
    """1 where two tensors compare so, else 0; ``otherwise``, the other way round."""
    no, yes = _false_and_true(source.graph)
    results = (no, yes) if otherwise else (yes, no)
    return Select(*source.called, kind, (*xs, *results), source.result())


def _number(source: Source, index: int) -> tuple[Tensor, tuple[Operator, ...]]:
    """An input as float32 numbers, and what makes these of integers."""
    x = source.tensor(index)
    if x.dtype is DType.FLOAT32:
        return x, ()
    number = source.inner(f"{index} as a number", DType.FLOAT32, x.shape)
    return number, (Convert(*source.called, replace(x, scale=None, zero_point=None), number),)


def lower_comparison(source: Source) -> tuple[Operator, ...]:
    """Greater, Less, Equal and the like of float32 numbers, or of integers that float32 holds."""
    (a, casts), (b, more) = _number(source, 0), _number(source, 1)
    return (*casts, *more, _chosen(source, COMPARISONS[source.node.op_type], (a, b)))


def lower_logic(source: Source) -> Operator:
    """And, Or, Xor and Not of truth values."""
    a, op_type = source.tensor(0), source.node.op_type
    b = _false_and_true(source.graph)[1] if op_type == "Not" else source.tensor(1)
    if op_type in ("Not", "Xor"):
        return _chosen(source, "equal", (a, b), otherwise=True)
    return FloatBinary(*source.called, "mul" if op_type == "And" else "max", a, b, source.result())


def _to_truth(source: Source) -> tuple[Operator, ...]:
    """Cast to bool: whether x is not 0."""
    x, casts = _number(source, 0)
    return (*casts, _chosen(source, "equal", (x, _false_and_true(source.graph)[0]), otherwise=True))


def lower_where(source: Source) -> Operator:
    """Where of float32 numbers: by the comparison of two others, or by truth values."""
    graph, condition, is_negated = source.graph, source.node.inputs[0], False
    maker = graph.producers.get(condition)
    if maker is not None and maker.op_type == "Not":
        is_negated, condition = True, maker.inputs[0]
        maker = graph.producers.get(condition)
    kind: Comparison = "greater"
    compared = tensor_of(graph, condition), _false_and_true(graph)[0]
    if maker is not None and maker.op_type in COMPARISONS:
        comparison = lower_comparison(Source(maker, graph))[-1]
        assert isinstance(comparison, Select), "a comparison chooses between 1 and 0"
        kind, compared = comparison.comparison, comparison.xs[:2]
    return Select(*source.called, kind, (*compared, source.tensor(1), source.tensor(2)), source.result(), is_negated)
