"""The Program: what the model means, independent of any machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from qcgen.ir.program.elementwise import (
    Between,
    BinaryKind,
    ChannelLookup,
    Comparison,
    Concat,
    Convert,
    Dequantize,
    Embedding,
    FloatBinary,
    FloatUnary,
    GatherElements,
    IntegerBinary,
    IntegerUnary,
    Interpolate,
    Lookup,
    Movement,
    Pad,
    Quantize,
    QuantizedBinary,
    Reshape,
    Resize,
    Scaled,
    Scaling,
    Select,
    Sigmoid,
    Slice,
    Transpose,
)
from qcgen.ir.program.operands import (
    DivideAway,
    Epilogue,
    Float32s,
    FloatActivation,
    Int32s,
    Int64s,
    RawAccumulator,
    Requantize,
    RoundedStep,
    RoundInSteps,
    RoundOnce,
    RoundTwice,
    Tensor,
)
from qcgen.ir.program.recurrent import BLOCK, GATES, GateWeights, IntegerLstm, IntegerRows, Recurrent
from qcgen.ir.program.reduction import (
    ArgMax,
    AveragePool,
    Conv,
    ConvGeometry,
    DynamicParameter,
    DynamicQuantize,
    Extremes,
    FloatOutput,
    FloatSoftmax,
    FloatSums,
    GlobalAveragePool,
    InstanceNorm,
    IntegerLogSoftmax,
    IntegerSoftmax,
    LayerNorm,
    MatMul,
    MaxPool,
    OrionConv,
    Reduce,
    ReduceKind,
    Softmax,
    Spatial,
    TopK,
    WideSoftmax,
    ZeroPointCorrection,
    products_at_once,
)
from qcgen.ir.types import Array, Layout

__all__ = [
    "BLOCK",
    "GATES",
    "ArgMax",
    "AveragePool",
    "Between",
    "BinaryKind",
    "ChannelLookup",
    "Comparison",
    "Concat",
    "Conv",
    "ConvGeometry",
    "Convert",
    "Dequantize",
    "DivideAway",
    "DynamicParameter",
    "DynamicQuantize",
    "Embedding",
    "Epilogue",
    "Extremes",
    "Float32s",
    "FloatActivation",
    "FloatBinary",
    "FloatOutput",
    "FloatSoftmax",
    "FloatSums",
    "FloatUnary",
    "GateWeights",
    "GatherElements",
    "GlobalAveragePool",
    "InstanceNorm",
    "Int32s",
    "Int64s",
    "IntegerBinary",
    "IntegerLogSoftmax",
    "IntegerLstm",
    "IntegerRows",
    "IntegerSoftmax",
    "IntegerUnary",
    "Interpolate",
    "LayerNorm",
    "Lookup",
    "MatMul",
    "MaxPool",
    "Movement",
    "Operator",
    "OrionConv",
    "Pad",
    "Program",
    "Quantize",
    "QuantizedBinary",
    "RawAccumulator",
    "Recurrent",
    "Reduce",
    "ReduceKind",
    "Requantize",
    "Reshape",
    "Resize",
    "RoundInSteps",
    "RoundOnce",
    "RoundTwice",
    "RoundedStep",
    "Scaled",
    "Scaling",
    "Select",
    "Sigmoid",
    "Slice",
    "Softmax",
    "Spatial",
    "State",
    "Tensor",
    "TopK",
    "Transpose",
    "WideSoftmax",
    "ZeroPointCorrection",
    "inputs_of",
    "joined_of",
    "macs_of",
    "products_at_once",
    "require_sizes",
    "run_time_scales",
    "with_inputs",
]

Operator = (
    Spatial
    | Movement
    | Lookup
    | Embedding
    | GatherElements
    | ChannelLookup
    | MatMul
    | Recurrent
    | IntegerLstm
    | QuantizedBinary
    | GlobalAveragePool
    | Reduce
    | ArgMax
    | TopK
    | Softmax
    | IntegerLogSoftmax
    | IntegerSoftmax
    | WideSoftmax
    | Interpolate
    | LayerNorm
    | InstanceNorm
    | Quantize
    | Extremes
    | DynamicParameter
    | DynamicQuantize
    | ZeroPointCorrection
    | FloatOutput
    | IntegerUnary
    | Convert
    | Dequantize
    | FloatUnary
    | FloatBinary
    | Select
    | FloatSoftmax
)


def inputs_of(op: Operator) -> tuple[Tensor, ...]:
    """The tensors that an operator reads, constants of the program included, in order."""
    match op:
        case Concat() | Select():
            return op.xs
        case QuantizedBinary() | FloatBinary() | MatMul():
            return (op.a, op.b)
        case DynamicQuantize():
            return (op.x, op.scale, op.zero_point)
        case ZeroPointCorrection():
            return (op.x, op.zero_point)
        case GatherElements():
            return (op.x, op.places)
        case FloatOutput():
            return (op.x, *op.operands)
        case Recurrent():
            return op.reads
        case IntegerLstm():
            return (op.x, op.h, op.c)
        case _:
            return (op.x,)


def with_inputs(op: Operator, change: Callable[[Tensor], Tensor]) -> Operator:
    """The operator with other tensors to read."""
    match op:
        case Concat():
            return replace(op, xs=tuple(change(x) for x in op.xs))
        case Select():
            first, second, chosen, other = map(change, op.xs)
            return replace(op, xs=(first, second, chosen, other))
        case QuantizedBinary() | FloatBinary() | MatMul():
            return replace(op, a=change(op.a), b=change(op.b))
        case GatherElements():
            return replace(op, x=change(op.x), places=change(op.places))
        case ZeroPointCorrection():
            return replace(op, x=change(op.x), zero_point=change(op.zero_point))
        case DynamicQuantize():
            return replace(op, x=change(op.x), scale=change(op.scale), zero_point=change(op.zero_point))
        case Recurrent():
            return op.with_reads(change)
        case IntegerLstm():
            return replace(op, x=change(op.x), h=change(op.h), c=change(op.c))
        case _:
            return replace(op, x=change(op.x))


def joined_of(op: Operator) -> tuple[str, ...]:
    """The names of the operators in front of this one that it computes, too, in execution order."""
    return op.joined if isinstance(op, Lookup | FloatOutput) else ()


def macs_of(op: Operator) -> int:
    """Multiply-accumulates by the convention of the field: convolutions and products of matrices have them."""
    if isinstance(op, Conv | OrionConv):
        return op.geometry.macs
    return op.macs if isinstance(op, MatMul | Recurrent | IntegerLstm) else 0


def run_time_scales(operators: Sequence[Operator]) -> str | None:
    """What is found for every input, and what is proved all the same, in a sentence; None where nothing is found."""
    tensors = sum(isinstance(op, Extremes) for op in operators)
    if not tensors:
        return None
    wraps = sum(op.bound >= 2**31 for op in operators if isinstance(op, ZeroPointCorrection))
    sums = f"{wraps} layers sum modulo 2^32" if wraps else "all sums are bounded for every input"
    return f"scale and zero point of {tensors} tensor{'s' * (tensors > 1)} are known at run time only; {sums}"


@dataclass(frozen=True)
class State:
    """What one call leaves to the next: the output ``written`` is the input ``read`` of the call behind it.

    Both are names of tensors of one shape and type; ``initial`` has the elements that the first call reads.
    """

    read: str
    written: str
    initial: Array


@dataclass(frozen=True)
class Program:
    """Operators in execution order, every one with a single output, ``y``.

    ``inputs`` and ``outputs`` are the caller's tensors in the model's order, but for those of ``states``, which stay
    in memory from call to call; ``constants`` holds the elements of operands that are known, by the tensor's name, in
    the tensor's shape. ``kept`` holds, for tensors that have lost
    channels, those that are left, as the model numbers them, by the tensor's name. ``in_float`` names the operators of
    codes that onnxruntime computes in float: next to a tie an output may be another code there, one more or less.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    operators: Sequence[Operator]
    sha256: str
    constants: Mapping[str, Array] = field(default_factory=dict)
    kept: Mapping[str, Int64s] = field(default_factory=dict)
    in_float: frozenset[str] = frozenset()
    states: tuple[State, ...] = ()

    @property
    def of_caller(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The inputs and the outputs that are those of no state."""
        kept = {name for state in self.states for name in (state.read, state.written)}
        inputs, outputs = (tuple(t for t in ends if t.name not in kept) for ends in (self.inputs, self.outputs))
        return inputs, outputs


# The last guard in front of the C: what the operators say of sizes agrees, so that no index leaves its tensor.


def require_sizes(operators: Iterable[Operator]) -> None:
    """Raises AssertionError for an operator that would read or write outside of its tensors.

    ``check`` refuses models that lead there, in their own words; this holds for whatever it overlooks.
    """
    for op in operators:
        if not _agrees(op):
            raise AssertionError(f"the sizes of {op.name!r} ({op.op_type}) contradict each other")


def _agrees(op: Operator) -> bool:
    match op:
        case Reshape():
            return op.x.size == op.y.size and op.x.dtype is op.y.dtype
        case Transpose():
            return sorted(op.perm) == [*range(len(op.x.shape))] and op.y.shape == tuple(op.x.shape[i] for i in op.perm)
        case Embedding():
            return op.y.shape == op.x.shape + op.table.shape[1:]
        case Concat():
            return _is_joined(op)
        case Slice():
            return _reads_inside(op)
        case Pad():
            return _holds(op)
        case Resize():
            return len(op.places) == len(op.x.shape) == len(op.y.shape) and all(
                len(places) == length and min(places) >= 0 and max(places) < size
                for places, length, size in zip(op.places, op.y.shape, op.x.shape, strict=True)
            )
        case QuantizedBinary() | FloatBinary():
            return _broadcast(op.a.shape, op.b.shape) == op.y.shape
        case Select():
            return _broadcast(*(x.shape for x in op.xs)) == op.y.shape
        case MatMul():
            return _is_product(op)
        case Conv() | OrionConv() | MaxPool() | AveragePool():
            return _slides_inside(op)
        case GlobalAveragePool():
            return op.x.size == op.y.size * op.pixels
        case Reduce():
            return _is_reduced(op, op.axes)
        case Recurrent():
            return _is_sequence(op)
        case IntegerLstm():
            return _is_integer_sequence(op)
        case Extremes():
            return op.y.shape == (2,)
        case DynamicParameter():
            return op.x.shape == (2,) and op.y.shape == ()
        case ZeroPointCorrection():
            taken = tuple(map(len, op.places))
            return op.x.shape == op.y.shape == taken and all(
                min(places) >= 0 and max(places) < size for places, size in zip(op.places, op.sums.shape, strict=True)
            )
        case Interpolate():
            return _is_interpolated(op)
        case ArgMax():
            return _is_reduced(op, (op.axis,))
        case TopK():
            found, y = op.y.shape[op.axis], op.y.shape
            return y == (*op.x.shape[: op.axis], found, *op.x.shape[op.axis + 1 :]) and found <= op.x.shape[op.axis]
        case GatherElements():
            return op.places.shape == op.y.shape and _reaches(op.axis, op.x.shape, op.y.shape)
        case _:
            return op.x.shape == op.y.shape


def _is_interpolated(op: Interpolate) -> bool:
    """Whether every place of y lies among those of x."""
    axes = zip((op.down, op.across), op.x.shape[1:3], op.y.shape[1:3], strict=True)
    return (op.x.shape[0], op.x.shape[3]) == (op.y.shape[0], op.y.shape[3]) and all(
        len(by.first) == len(by.part) == length
        and all(0 <= first < size - (part > 0) for first, part in zip(by.first, by.part, strict=True))
        for by, size, length in axes
    )


def _is_joined(op: Concat) -> bool:
    """Whether the parts fill the whole, and differ along the axis only."""
    whole = list(op.y.shape)
    whole[op.axis] = sum(x.shape[op.axis] for x in op.xs if len(x.shape) == len(whole))
    rests = {x.shape[: op.axis] + x.shape[op.axis + 1 :] for x in (*op.xs, op.y)}
    return tuple(whole) == op.y.shape and len(rests) == 1


def _reads_inside(op: Slice) -> bool:
    """Whether the first and the last element of every axis are x's."""
    if not len(op.x.shape) == len(op.y.shape) == len(op.starts) == len(op.steps):
        return False
    axes = zip(op.starts, op.steps, op.y.shape, op.x.shape, strict=True)
    return all(
        0 <= place < size for first, step, length, size in axes for place in (first, first + (length - 1) * step)
    )


def _holds(op: Pad) -> bool:
    """Whether x lies inside y."""
    if not len(op.x.shape) == len(op.y.shape) == len(op.before):
        return False
    axes = zip(op.before, op.x.shape, op.y.shape, strict=True)
    return all(before >= 0 and before + size <= length for before, size, length in axes)


def _reaches(axis: int, x: tuple[int, ...], y: tuple[int, ...]) -> bool:
    """Whether y has x's axes, and none longer but this one."""
    return len(x) == len(y) and all(b <= a for place, (a, b) in enumerate(zip(x, y, strict=True)) if place != axis)


def _is_reduced(op: Reduce | ArgMax, axes: tuple[int, ...]) -> bool:
    """Whether y has every axis of x that stays, with or without those that go."""
    rank = len(op.x.shape)
    if not all(0 <= axis < rank for axis in axes) or sorted(set(axes)) != list(axes):
        return False
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(op.x.shape))
    return op.y.shape in (kept, tuple(op.x.shape[axis] for axis in range(rank) if axis not in axes))


def _is_integer_sequence(op: IntegerLstm) -> bool:
    """Whether weights, biases and states have the sizes of one another."""
    gates, units, inputs = op.weights.codes.shape
    batch, steps = op.x.shape[:2]
    return (
        (gates, inputs) == (4, *op.x.shape[2:])
        and op.state_weights.codes.shape == (4, units, units)
        and op.weights.bias.shape == op.state_weights.bias.shape == (4, units)
        and (op.h.shape, op.c.shape, op.y.shape) == ((batch, units), (batch, 2 * units), (batch, steps + 2, units))
    )


def _is_sequence(op: Recurrent) -> bool:
    """Whether weights, biases and states have the sizes of one another."""
    directions, gates, units, inputs = op.weights.codes.shape
    state = (directions, op.x.shape[1], units)
    return (
        len(op.x.shape) == 3
        and op.x.shape[2] == inputs
        and op.y.shape == (op.rows, *state)
        and op.state_weights.codes.shape == (directions, gates, units, units)
        and op.bias.shape == (directions, gates, units)
        and (op.state_bias is None or op.state_bias.shape == (directions, units))
        and len(op.reverses) == directions
        and all(given is None or given.shape == state for given in (op.initial_h, op.initial_c))
    )


def _broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return None


def _is_product(op: MatMul) -> bool:
    """Whether the matrices fit each other and the result."""
    if min(len(op.a.shape), len(op.b.shape)) < 2 or op.a.shape[-1] != op.b.shape[-2]:
        return False
    batch = _broadcast(op.a.shape[:-2], op.b.shape[:-2])
    return batch is not None and op.y.shape == (*batch, op.a.shape[-2], op.b.shape[-1])


def _slides_inside(op: Conv | OrionConv | MaxPool | AveragePool) -> bool:
    """Whether the tensors have the sizes of the geometry, which kernels go by."""
    g = op.geometry
    x, y = (g.batch, g.in_channels, *g.input), (g.batch, g.out_channels, *g.output)
    if isinstance(op, Conv | OrionConv) and op.weights.shape != (g.out_channels, g.group_in, *g.kernel):
        return False
    return _is(op.x, x) and _is(op.y, y)


def _is(tensor: Tensor, sizes: tuple[int, ...]) -> bool:
    """Whether an image has these sizes: batch, channels, spatial axes; matrices need only hold as many numbers."""
    if tensor.layout is None:
        return tensor.size == int(np.prod(sizes, dtype=object))
    if tensor.layout is Layout.CHANNELS_LAST:
        return tensor.shape == (sizes[0], *sizes[2:], sizes[1])
    return tensor.shape == sizes
