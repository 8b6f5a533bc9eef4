"""Operators of .tflite networks that keep what they saw in earlier calls."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qcgen.ir.program import Concat, ConvGeometry, Lookup, Operator, Reshape, Slice
from qcgen.ir.types import Layout
from qcgen.lower.linear import row_geometry
from qcgen.tflite.graph import AGAIN
from qcgen.tflite.multipliers import round_twice
from qcgen.tflite.operands import Refused, TfliteOperands
from qcgen.tflite.products import sums_of_products


def lower_svdf(source: TfliteOperands) -> tuple[Operator, ...]:
    """SVDF with int8 memory: a product whose results of the last M calls go through a convolution of M taps.

    x (N, I), weights (F, I) and (F, M), memory (N, M, F), y (N, F / rank). Each result is clamped to int8 before the
    zero point of the memory is added, and then wraps. Source: EvalIntegerSvdfReference and PrepareSvdf in
    micro/kernels/svdf_common.cc, in the version that recorded; a later one adds the zero point first.
    """
    x, y, memory = source.x(), source.y(of=2), source.x(4, Layout.CHANNELS_LAST)
    kept = source.kept(0, memory)
    features, features_by = source.weights(2)
    time, time_by = source.weights(2, 2)
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

    codes = np.arange(memory.dtype.low, memory.dtype.high + 1) + (memory.zero_point or 0)
    wrapped = (codes - memory.dtype.low) % 256 + memory.dtype.low
    coded = source.inner("codes", memory, found.shape)
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
        Lookup(name, op_type, found, coded, wrapped),
        Reshape(name, op_type, coded, newest),
        Slice(name, op_type, memory, older, (0, 1, 0), (1, 1, 1)),
        Concat(name, op_type, (older, newest), kept, 1),
        sums_of_products(source, kept, over_time, along, taps, time_by, bias, by),
        Reshape(name, op_type, over_time, y),
    )
