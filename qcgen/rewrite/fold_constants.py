"""Nodes that depend on constants alone become constants, in the type of the operands.

Elements that only get another shape get the one that inference found. onnx's reference implementation computes most of
the rest; tests/test_fold_constants.py compares all of it with onnxruntime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

import numpy as np
from onnx import defs

from qcgen.errors import ModelRejected, Problem
from qcgen.infer import told
from qcgen.ir.graph import Graph, Node, Value
from qcgen.ir.types import Array, DType
from qcgen.rewrite.quantization import DOMAINS, are_crossed, by_element
from qcgen.rewrite.wiring import Wiring

# How large constants may get that are computed when a model is compiled.

LEAST = 2**22
"""The bytes that all constants together may have whatever the model's own have."""

FACTOR = 16
"""How many times the bytes of the model's own constants all of them may have: int8 weights that turn float."""


@dataclass
class Budget:
    """The bytes of all constants, and how many they may become."""

    used: int
    most: int

    @classmethod
    def of(cls, constants: Mapping[str, Array]) -> Budget:
        """The budget of a model with these constants of its own."""
        used = sum(array.nbytes for array in constants.values())
        return cls(used, max(LEAST, FACTOR * used))

    def spend(self, node: Node, count: int) -> None:
        """Adds the bytes that a node computes; raises ModelRejected if that is too much."""
        self.used += count
        if self.used > self.most:
            what = (
                f"its result is constant and has {count} bytes; all constants together may have {self.most},"
                f" {FACTOR} times the model's own or {LEAST}"
            )
            hint = "correct the shape that it makes, or compute it from an input of the model"
            raise ModelRejected([Problem(f"node {node.name!r} ({node.operator})", what, hint)])


# How nodes of constants are computed.


class Result(NamedTuple):
    """A node with the type and the shape that inference finds for its only output."""

    node: Node
    dtype: DType
    shape: tuple[int, ...]


Fold = Callable[..., Array]
"""From a Result and the node's constant inputs, None for absent ones, to the output.

It raises one of MALFORMED, or has another type or shape, where the node is malformed or depends on the machine.
"""

MALFORMED = (
    *(ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError),
    defs.SchemaError,
)
"""What folds raise; the node stays where it is, and check reports it."""


def by_reference(y: Result, *inputs: Array | None) -> Array:
    """What the reference implementation makes of operands of the types that the operator has."""
    from onnx.reference.ops import load_op  # takes a while, and most models of codes need none of it

    node = y.node
    types: dict[str, str] = {}
    parameters = defs.get_schema(node.op_type, node.version, "").inputs
    for index, array in enumerate(inputs):
        parameter = parameters[min(index, len(parameters) - 1)]
        dtype = "" if array is None else f"tensor({DType.of(array).value})"
        if dtype and (dtype not in parameter.types or types.setdefault(parameter.type_str, dtype) != dtype):
            raise TypeError(f"{node.op_type} takes no such type")
    # Integers are not divided by zero.
    with np.errstate(divide="ignore" if y.dtype.is_float else "raise"):
        result: Array = load_op("", node.op_type, node.version).eval(*inputs, **node.attributes)
    return result


def divide(y: Result, a: Array, b: Array) -> Array:
    """a / b; integers, for which older reference implementations take floats, are truncated toward zero as in C."""
    if y.dtype.is_float:
        return by_reference(y, a, b)
    if a.dtype != b.dtype or not b.all():
        raise ValueError("integers of one type are divided, and not by zero")
    return np.asarray((a - np.fmod(a, b)) // b)


def constant(y: Result) -> Array:
    """The tensor in the attribute value, or the number or list in value_int, value_floats and so on."""
    [value] = y.node.attributes.values()
    if isinstance(value, np.ndarray):
        return value
    return np.array(value, object if y.dtype is DType.OTHER else y.dtype.numpy)


def constant_of_shape(y: Result, _: Array) -> Array:
    """The shape that the input holds, filled with the attribute value, a float 0 by default."""
    return np.full(y.shape, np.ravel(np.asarray(y.node.attributes.get("value", 0)))[0], y.dtype.numpy)


def range_(y: Result, start: Array, _: Array, delta: Array) -> Array:
    """Numbers from the first input up to before the second one, each the third more than the one before."""
    numbers = np.full(y.shape, delta)
    numbers[:1] = start
    return np.add.accumulate(numbers, dtype=numbers.dtype)


def where(y: Result, condition: Array, x: Array, *other: Array) -> Array:
    """x where the condition holds, else the other; of floats -0 of x becomes 0, as in onnxruntime."""
    return by_reference(y, condition, x + x.dtype.type(0), *other)


def clip(y: Result, *inputs: Array | None) -> Array:
    """min(max(x, low), high): the upper bound wins, but attributes, the bounds before opset 11, must not be crossed."""
    if are_crossed(y.node):
        raise ValueError("min is above max")
    return by_reference(y, *inputs)


def cast(y: Result, x: Array) -> Array:
    """The elements in another type; not where the result would depend on the machine (floats out of range)."""
    if x.dtype.kind == "f" and y.dtype.numpy.kind in "iu":
        whole = np.trunc(x.astype(np.float64))
        if not np.all((whole >= y.dtype.low) & (whole < y.dtype.high + 1.0)):
            raise ValueError("numbers are out of range")
    return by_reference(y, x)


def quantize(y: Result, x: Array, scale: Array, zero_point: Array | None = None) -> Array:
    """saturate(round_half_even(x / scale) + zero_point) in float32, per tensor, along an axis or in blocks.

    Source: ONNX QuantizeLinear-10 to 25 and onnxruntime's kernel, which clamps before it rounds. Not for types other
    than 8 and 16 bits.
    """
    if not y.dtype.is_code or scale.dtype != np.float32 or x.dtype not in (np.float32, np.int32) or np.isnan(x).any():
        raise TypeError("codes of 8 and 16 bits are made of float32 and int32")
    given = np.zeros((), y.dtype.numpy) if zero_point is None else zero_point
    zero = by_element(y.node, given, y.shape).astype(np.float32)
    quotient = np.clip(
        x.astype(np.float32) / by_element(y.node, scale, y.shape), y.dtype.low - zero, y.dtype.high - zero
    )
    return np.asarray(np.rint(quotient) + zero).astype(y.dtype.numpy)


def dequantize(y: Result, x: Array, scale: Array, zero_point: Array | None = None) -> Array:
    """float32(x - zero_point) * scale, per tensor, along an axis or in blocks; not for float16."""
    if scale.dtype != np.float32 or x.dtype.kind not in "iu" or x.itemsize > 4:
        raise TypeError("float32 is made of codes of at most 32 bits")
    difference = x.astype(np.int64)
    if zero_point is not None:
        if zero_point.dtype != x.dtype:
            raise TypeError("the zero point has another type")
        if zero_point.size not in (1, scale.size):
            raise ValueError("there are more zero points than scales")
        difference -= by_element(y.node, zero_point, y.shape)
    return difference.astype(np.float32) * by_element(y.node, scale, y.shape)


FOLDS: dict[tuple[str, str], Fold] = {
    **{
        ("", op_type): by_reference
        for op_type in (
            *("Abs", "Add", "And", "Ceil", "Concat", "Equal", "Floor", "Gather", "GatherElements", "Greater"),
            *("GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Pad"),
            *("Reciprocal", "Relu", "Round", "Sign", "Slice", "Sqrt", "Sub", "Tile", "Transpose", "Xor"),
        )
    },
    **{
        ("", op_type): lambda y, x, *_: x.reshape(y.shape)
        for op_type in ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
    },
    **{(domain, "DequantizeLinear"): dequantize for domain in DOMAINS},
    **{(domain, "QuantizeLinear"): quantize for domain in DOMAINS},
    ("", "Cast"): cast,
    ("", "Clip"): clip,
    ("", "Constant"): constant,
    ("", "ConstantOfShape"): constant_of_shape,
    ("", "Div"): divide,
    ("", "Expand"): lambda y, x, *_: np.broadcast_to(x, y.shape),
    ("", "Range"): range_,
    ("", "Where"): where,
}
"""How the operators that stand in front of weights and parameters are computed, by (domain, op_type)."""


def fold_constants(graph: Graph, folds: Mapping[tuple[str, str], Fold] = FOLDS, budget: Budget | None = None) -> Graph:
    """The graph without the nodes whose inputs are all constant and whose operator is in ``folds``.

    Shape is folded wherever the shape of its input is known, constant or not. What depends on an input of the model
    is never computed. Raises ModelRejected for results that are too large for the ``budget``, which without one is
    that of a model with the graph's constants.
    """
    budget = budget or Budget.of(graph.constants)
    constants, dequantized, nodes = dict(graph.constants), dict(graph.dequantized), []
    for node in graph.nodes:
        result = _shape(graph, node)
        if result is None:
            result = _computed(node, constants, folds, budget)
        if result is None:
            nodes.append(node)
            continue
        [name] = node.outputs
        constants[name] = result
        if node.op_type == "DequantizeLinear":
            dequantized[name] = node
    return replace(graph, nodes=tuple(nodes), constants=constants, dequantized=dequantized)


def _shape(graph: Graph, node: Node) -> Array | None:
    """The output of Shape, None for any other node."""
    if node.op_type != "Shape" or node.domain or (len(node.inputs), len(node.outputs)) != (1, 1):
        return None
    shape = graph.value(node.inputs[0]).fixed_shape
    start, end = node.attributes.get("start", 0), node.attributes.get("end")
    if shape is None or not isinstance(start, int) or not (end is None or isinstance(end, int)):
        return None
    return np.array(shape[start:end], np.int64)


def _computed(
    node: Node, constants: Mapping[str, Array], folds: Mapping[tuple[str, str], Fold], budget: Budget | None = None
) -> Array | None:
    """The only output of a node of constants that can be folded, in an array of its own; None for any other node."""
    fold = folds.get((node.domain, node.op_type))
    if fold is None or len(node.outputs) != 1 or any(name and name not in constants for name in node.inputs):
        return None
    types, _ = told(node, {name: Value.of(name, constants[name]) for name in node.inputs if name}, constants)
    value = Value(node.outputs[0], *types[0]) if types else None
    if value is None or not value.name or value.dtype is None or value.fixed_shape is None:
        return None
    y, inputs = Result(node, value.dtype, value.fixed_shape), [constants.get(name) for name in node.inputs]
    try:
        if budget:
            width = max((array.itemsize for array in inputs if array is not None), default=0)
            budget.spend(node, max(0, prod(y.shape) * width))
        with np.errstate(all="ignore"):
            result = np.array(fold(y, *inputs))
    except MALFORMED:
        return None
    return result if DType.of(result) is y.dtype and result.shape == y.shape else None


def float_constant(wiring: Wiring, tensor: str) -> Array | None:
    """A float32 constant, or what a DequantizeLinear makes of constant codes; None for anything else."""
    constant, maker = wiring.constant(tensor), wiring.producers.get(tensor)
    if constant is None and maker is not None and maker.op_type == "DequantizeLinear":
        constant = _computed(maker, wiring.graph.constants, FOLDS)
    return constant if constant is not None and constant.dtype == np.float32 else None
