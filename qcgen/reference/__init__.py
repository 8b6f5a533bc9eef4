"""The reference: a Program evaluated on numpy arrays, slow and plain, the oracle for every target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

import numpy as np

from qcgen.ir.program import (
    ArgMax,
    AveragePool,
    ChannelLookup,
    Concat,
    Conv,
    Convert,
    Dequantize,
    DynamicParameter,
    DynamicQuantize,
    Embedding,
    Extremes,
    FloatBinary,
    FloatOutput,
    FloatSoftmax,
    FloatUnary,
    GatherElements,
    GlobalAveragePool,
    InstanceNorm,
    IntegerLogSoftmax,
    IntegerLstm,
    IntegerSoftmax,
    IntegerUnary,
    Interpolate,
    LayerNorm,
    Lookup,
    MatMul,
    MaxPool,
    Operator,
    OrionConv,
    Pad,
    Program,
    Quantize,
    QuantizedBinary,
    Recurrent,
    Reduce,
    Reshape,
    Resize,
    Select,
    Slice,
    Softmax,
    TopK,
    Transpose,
    WideSoftmax,
    ZeroPointCorrection,
    inputs_of,
)
from qcgen.ir.types import Array
from qcgen.reference import elementwise, reduction
from qcgen.reference.recurrent import evaluate_integer_lstm, evaluate_recurrent

__all__ = ["evaluate", "evaluate_all", "evaluate_frames", "evaluate_operator"]


def evaluate(program: Program, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs by name, for inputs by name; all of them in the shapes and layouts of the model."""
    values = evaluate_all(program, feeds)
    return {tensor.name: values[tensor.name] for tensor in program.outputs}


def evaluate_all(program: Program, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Every tensor of the program by name, for inputs by name; states that are not among them are initial."""
    values = {**program.constants, **{state.read: state.initial for state in program.states}, **feeds}
    for op in program.operators:
        values[op.y.name] = evaluate_operator(op, *(values[x.name] for x in inputs_of(op)))
    return values


def evaluate_frames(program: Program, frames: Iterable[Mapping[str, Array]]) -> Iterator[dict[str, Array]]:
    """Every tensor of the program by name, for the inputs of calls one after the other, each from the states before."""
    kept: dict[str, Array] = {}
    for feeds in frames:
        values = evaluate_all(program, {**kept, **feeds})
        kept = {state.read: values[state.written] for state in program.states}
        yield values


@np.errstate(over="ignore", invalid="ignore")  # what overflows float32 is infinite; infinities cancel to NaN
def evaluate_operator(op: Operator, *inputs: Array) -> Array:
    """One operator's output, for its inputs in the order of ``inputs_of``."""
    match op:
        case Conv():
            return reduction.evaluate_conv(op, *inputs)
        case OrionConv():
            return reduction.evaluate_orion_conv(op, *inputs)
        case MaxPool():
            return reduction.evaluate_max_pool(op, *inputs)
        case AveragePool():
            return reduction.evaluate_average_pool(op, *inputs)
        case GlobalAveragePool():
            return reduction.evaluate_global_average_pool(op, *inputs)
        case Reduce():
            return reduction.evaluate_reduce(op, *inputs)
        case ArgMax():
            return reduction.evaluate_arg_max(op, *inputs)
        case TopK():
            return reduction.evaluate_top_k(op, *inputs)
        case GatherElements():
            return elementwise.evaluate_gather_elements(op, *inputs)
        case Lookup():
            return elementwise.evaluate_lookup(op, *inputs)
        case Embedding():
            return elementwise.evaluate_embedding(op, *inputs)
        case ChannelLookup():
            return elementwise.evaluate_channel_lookup(op, *inputs)
        case MatMul():
            return reduction.evaluate_matmul(op, *inputs)
        case Recurrent():
            return evaluate_recurrent(op, *inputs)
        case IntegerLstm():
            return evaluate_integer_lstm(op, *inputs)
        case QuantizedBinary():
            return elementwise.evaluate_quantized_binary(op, *inputs)
        case IntegerUnary():
            return elementwise.evaluate_integer_unary(op, *inputs)
        case Quantize():
            return elementwise.evaluate_quantize(op, *inputs)
        case Extremes():
            return reduction.evaluate_extremes(op, *inputs)
        case DynamicParameter():
            return reduction.evaluate_dynamic_parameter(op, *inputs)
        case DynamicQuantize():
            return reduction.evaluate_dynamic_quantize(op, *inputs)
        case ZeroPointCorrection():
            return reduction.evaluate_zero_point_correction(op, *inputs)
        case FloatOutput():
            return _evaluate_steps(op, *inputs)
        case Dequantize():
            return elementwise.evaluate_dequantize(op, *inputs)
        case Convert():
            return elementwise.evaluate_convert(op, *inputs)
        case FloatUnary():
            return elementwise.evaluate_float_unary(op, *inputs)
        case FloatBinary():
            return elementwise.evaluate_float_binary(op, *inputs)
        case Select():
            return elementwise.evaluate_select(op, *inputs)
        case Softmax():
            return reduction.evaluate_softmax(op, *inputs)
        case IntegerLogSoftmax():
            return reduction.evaluate_integer_log_softmax(op, *inputs)
        case WideSoftmax():
            return reduction.evaluate_wide_softmax(op, *inputs)
        case IntegerSoftmax():
            return reduction.evaluate_integer_softmax(op, *inputs)
        case Interpolate():
            return elementwise.evaluate_interpolate(op, *inputs)
        case LayerNorm():
            return reduction.evaluate_layer_norm(op, *inputs)
        case InstanceNorm():
            return reduction.evaluate_instance_norm(op, *inputs)
        case FloatSoftmax():
            return reduction.evaluate_float_softmax(op, *inputs)
        case Transpose() | Reshape() | Concat() | Slice() | Pad() | Resize():
            return elementwise.evaluate_movement(op, *inputs)
        case _:
            assert_never(op)


def _evaluate_steps(op: FloatOutput, x: Array, *operands: Array) -> Array:
    """One step after the other."""
    values = {op.x.name: x, **{tensor.name: value for tensor, value in zip(op.operands, operands, strict=True)}}
    for step in op.steps:
        values[step.y.name] = evaluate_operator(step, *(values[each.name] for each in inputs_of(step)))
    return values[op.y.name]
