"""Shapes of operators that compute numbers; types of conversions and of constants."""

from __future__ import annotations

import numpy as np

from qcgen.infer.facts import Facts, Shape, TensorType, contradict, counted, shape_text
from qcgen.ir.graph import Dim, element_type
from qcgen.ir.types import DType


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
    for role, shape in (("Scale", facts.shape(1)), ("B", facts.shape(2))):
        if shape is not None and not _spreads(shape, row):
            what = f"{role} has shape {shape_text(shape)}, but the rows have shape {shape_text(row)}"
            facts.wrong(what, f"give {role} an element for each of a row")
    return x


def instance_normalization(facts: Facts) -> Shape:
    """The shape of x, for whose channels scale and B have a number each."""
    x = facts.known_shape()
    if len(x) < 3:
        what = f"its input has shape {shape_text(x)}, but must have batch, channels and spatial axes"
        raise facts.wrong(what, "give it 3 dimensions or more")
    for role, shape in (("Scale", facts.shape(1)), ("B", facts.shape(2))):
        if shape is not None and isinstance(x[1], int) and contradict(shape, x[1:2]):
            what = f"{role} has shape {shape_text(shape)}, but x has {counted(x[1], 'channel')}"
            facts.wrong(what, f"give {role} a number for each channel")
    return x


def matmul(facts: Facts) -> Shape:
    """Two matrices as in numpy."""
    a, b = facts.known_shape(0), facts.known_shape(1)
    for place, shape in (("first", a), ("second", b)):
        if not shape:
            raise facts.wrong(f"the {place} operand has shape ()", "give a matrix")
    _multiply(facts, a[-1], b[-2] if len(b) > 1 else b[0])
    return (*(facts.broadcast(a[:-2], b[:-2]) or ()), *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def gemm(facts: Facts) -> Shape:
    """(M, N) of two matrices, each transposed if its attribute says so."""
    a, b = facts.known_shape(0), facts.known_shape(1)
    for place, shape in (("first", a), ("second", b)):
        if len(shape) != 2:
            what = f"the {place} operand has shape {shape_text(shape)}, but must be a matrix"
            raise facts.wrong(what, "give a matrix")
    rows, inner = a[::-1] if facts.integer("transA", 0) else a
    across, columns = b[::-1] if facts.integer("transB", 0) else b
    _multiply(facts, inner, across)
    return (rows, columns)


def _multiply(facts: Facts, inner: Dim, rows: Dim) -> None:
    """A row of one matrix has as many elements as a column of the other."""
    if isinstance(inner, int) and isinstance(rows, int) and inner != rows:
        what = f"the first operand has {counted(inner, 'column')}, the second {counted(rows, 'row')}"
        facts.wrong(what, f"correct the {'operands' if facts.constants[1] is None else 'weights'}")


def matmul_of_blocks(facts: Facts) -> Shape:
    """MatMulNBits: (A, packed weights, ...), of N columns."""
    return (*facts.known_shape()[:-1], facts.integer("N", 0))


DYNAMIC_LSTM = ("com.microsoft", "DynamicQuantizeLSTM")
"""LSTM with W (D, I, 4 H) and R (D, H, 4 H) of 8-bit codes; behind P: W_scale, W_zero_point, R_scale, R_zero_point."""

DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


def recurrent(facts: Facts) -> tuple[TensorType, ...]:
    """Y (T, D, B, H), Y_h (D, B, H) and, of LSTM, Y_c like it; with layout 1 the batch comes first.

    X (T, B, I), W (D, G H, I), R (D, G H, H), B (D, 2 G H), initial states (D, B, H); hidden_size is H.
    """
    node, x, r, gates = facts.node, facts.shape(0), facts.shape(2), 3 if facts.node.op_type == "GRU" else 4
    shapes: tuple[Shape | None, ...] = (None,) * 3
    if x is not None and r is not None and (len(x) != 3 or len(r) != 3):
        facts.wrong(f"X has shape {shape_text(x)}, R {shape_text(r)}", "both must have 3 axes")
    elif x is not None and r is not None:
        is_turned, is_batch_first = (node.domain, node.op_type) == DYNAMIC_LSTM, facts.integer("layout", 0)
        (a, b, i), h = x, r[1 if is_turned else 2]
        d = DIRECTIONS.get(str(node.attributes.get("direction", "forward")), 1)
        last = (a, d, h) if is_batch_first else (d, b, h)
        shapes = ((a, b, d, h) if is_batch_first else (a, d, b, h), last, last)
        if isinstance(h, int):
            units = h if is_turned else facts.integer("hidden_size", h)
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
    return element_type(facts.integer("to", 0))


def quantized(facts: Facts) -> DType | None:
    """The type of the zero point, else that of the attribute output_dtype, else uint8."""
    return facts.dtype(2) if facts.has(2) else element_type(facts.integer("output_dtype", 0)) or DType.UINT8


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
