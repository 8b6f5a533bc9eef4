"""The Program: what the model means, independent of any machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

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
from qcgen.ir.types import Array

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
