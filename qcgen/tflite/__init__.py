"""TensorFlow Lite's models: a .tflite file is read, and lowered to the Program, which does not know of the format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import Literal

import numpy as np

from qcgen.errors import ModelRejected, Problem
from qcgen.ir.graph import Node
from qcgen.ir.program import (
    ArgMax,
    BinaryKind,
    ChannelLookup,
    Concat,
    Conv,
    ConvGeometry,
    Dequantize,
    DivideAway,
    FloatSoftmax,
    GlobalAveragePool,
    IntegerLogSoftmax,
    IntegerSoftmax,
    Lookup,
    MaxPool,
    Movement,
    Operator,
    Program,
    Quantize,
    QuantizedBinary,
    Reduce,
    Reshape,
    Slice,
    Tensor,
    WideSoftmax,
    inputs_of,
)
from qcgen.ir.types import Array, DType, Layout
from qcgen.lower.propagate import propagate
from qcgen.options import spelt
from qcgen.reference import evaluate_operator
from qcgen.tflite.fixed_point import (
    SUM_SHIFT,
    WIDE_SUM_SHIFT,
    bounds,
    exponentials,
    integer_binary,
    mean_twice,
    multiplier_of,
    overflows,
    round_twice,
    rounded_exponentials,
    softmax_lines,
)
from qcgen.tflite.graph import AGAIN, Refused, TfliteGraph, TfliteOperands
from qcgen.tflite.lookups import ANY_CODE, FUNCTIONS, in_tables, lower_function, lower_prelu, lower_wide_function
from qcgen.tflite.movements import MOST_PLACES, MOVEMENTS, lower_reshape, require_same_codes
from qcgen.tflite.products import (
    lower_batch_matmul,
    lower_conv,
    lower_depthwise,
    lower_fully_connected,
    lower_lstm,
    lower_svdf,
    lower_transpose_conv,
    require_image,
    window_geometry,
)
from qcgen.tflite.read import VARIABLES, FlatTable, in_file, in_program, kept_by, read_tflite, tflite_bytes

__all__ = [
    "LOWERINGS",
    "FlatTable",
    "TfliteGraph",
    "in_file",
    "in_program",
    "kept_by",
    "lower_tflite",
    "read_tflite",
    "tflite_bytes",
]


MOST_FOLDED = 2**20
"""Elements of a constant that is computed here."""

MOST_IN_PADDING = 64
"""Pixels of a window that reaches into padding: each count of pixels inside becomes a pooling of its own."""


def lower_average_pool(source: TfliteOperands) -> tuple[Operator, ...]:
    """AVERAGE_POOL_2D: of the pixels inside the image; the whole of it, or any windows as convolutions with ones."""
    x, y = _pooled(source)
    geometry = _pool_geometry(source, x, y)
    if not geometry.is_padded:
        return (_average(source, x, y, geometry),)
    name, op_type = source.node.name, source.node.op_type
    if prod(geometry.kernel) > MOST_IN_PADDING or max(geometry.output) > MOST_PLACES:
        what = f"its window of {geometry.kernel} reaches into padding"
        raise Refused(what, f"use windows of {MOST_IN_PADDING} pixels at most, or padding VALID")
    down, across = (_runs(geometry, axis) for axis in (0, 1))
    operators: list[Operator] = []
    rows = []
    for place, (top, height, y_height, kernel_height) in enumerate(down):
        parts = []
        for number, (left, width, y_width, kernel_width) in enumerate(across):
            suffix = f"part{place}_{number}"
            part = _image_of(source, f"{suffix}.input", x, height, width)
            pooled = _image_of(source, suffix, y, y_height, y_width)
            inside = replace(
                geometry,
                input=(height, width),
                kernel=(kernel_height, kernel_width),
                output=(y_height, y_width),
                pads_begin=(0, 0),
                pads_end=(0, 0),
            )
            operators.append(Slice(name, op_type, x, part, (0, top, left, 0), (1, 1, 1, 1)))
            operators.append(_average(source, part, pooled, inside))
            parts.append(pooled)
        row = _image_of(source, f"row{place}", y, y_height, y.shape[2]) if len(down) > 1 else y
        operators.append(Concat(name, op_type, tuple(parts), row, 2))
        rows.append(row)
    return (*operators, Concat(name, op_type, tuple(rows), y, 1)) if len(down) > 1 else tuple(operators)


def _image_of(source: TfliteOperands, suffix: str, like: Tensor, height: int, width: int) -> Tensor:
    inner = source.inner(suffix, like, (like.shape[0], height, width, like.shape[3]))
    return replace(inner, layout=Layout.CHANNELS_LAST)


def _runs(geometry: ConvGeometry, axis: int) -> list[tuple[int, int, int, int]]:
    """The runs of windows along an axis that have equally many pixels inside the image.

    Of each: its first pixel, how many pixels and windows it has, and how many pixels are in one window.
    """
    size, kernel, stride = geometry.input[axis], geometry.kernel[axis], geometry.strides[axis]
    starts = [place * stride - geometry.pads_begin[axis] for place in range(geometry.output[axis])]
    ends = [(max(start, 0), min(start + kernel, size)) for start in starts]
    runs: list[list[tuple[int, int]]] = []
    for window in ends:
        alike = runs and runs[-1][-1][1] - runs[-1][-1][0] == window[1] - window[0]
        if alike and window[0] - runs[-1][-1][0] == stride:
            runs[-1].append(window)
        else:
            runs.append([window])
    return [(run[0][0], run[-1][1] - run[0][0], len(run), run[0][1] - run[0][0]) for run in runs]


def _average(source: TfliteOperands, x: Tensor, y: Tensor, geometry: ConvGeometry) -> Operator:
    """The averages of windows none of which reaches into padding."""
    count = prod(geometry.kernel)
    if count >= 2**15:
        raise Refused(f"its window has {count} pixels", f"use one with {2**15 - 1} at most")
    zero_point, channels = x.zero_point or 0, geometry.in_channels
    low, high = bounds(source.activation(), y.scale or 1, y.zero_point or 0, y.dtype)
    is_whole = geometry.kernel == geometry.input
    scale = np.full(1 if is_whole else channels, 1 / count, np.float32)
    divide = DivideAway(scale, 0, low, high, count * zero_point, count)
    name, op_type = source.node.name, source.node.op_type
    if is_whole:
        return GlobalAveragePool(name, op_type, x, y, 3, count, divide)
    ones, zeros = np.ones((channels, 1, *geometry.kernel), np.int8), np.zeros(channels, np.int32)
    return Conv(name, op_type, x, y, geometry, zero_point, ones, zeros, zeros, divide)


def lower_max_pool(source: TfliteOperands) -> tuple[Operator, ...]:
    """MAX_POOL_2D: any window; padding never wins."""
    x, y = _pooled(source)
    geometry = _pool_geometry(source, x, y)
    low, high = bounds(source.activation(), y.scale or 1, y.zero_point or 0, y.dtype)
    name, op_type = source.node.name, source.node.op_type
    if (low, high) == (y.dtype.low, y.dtype.high):
        return (MaxPool(name, op_type, x, y, geometry),)
    largest = replace(source.inner("largest", y, y.shape), layout=y.layout)
    table = np.clip(np.arange(y.dtype.low, y.dtype.high + 1), low, high)
    return (MaxPool(name, op_type, x, largest, geometry), Lookup(name, op_type, largest, y, table))


def _pooled(source: TfliteOperands) -> tuple[Tensor, Tensor]:
    x, y = require_image(source.x(layout=Layout.CHANNELS_LAST)), require_image(source.y(Layout.CHANNELS_LAST))
    require_same_codes(x, y)
    return x, y


def _pool_geometry(source: TfliteOperands, x: Tensor, y: Tensor) -> ConvGeometry:
    kernel = source.option("filter_h"), source.option("filter_w")
    if not all(0 < size < 2**15 for size in kernel):
        raise Refused(f"its window is {kernel[0]}x{kernel[1]}", AGAIN)
    channels = x.shape[-1]
    geometry = window_geometry(source, x, kernel, channels, channels)
    if y.shape != (geometry.batch, *geometry.output, channels):
        raise Refused(f"its output should be {geometry.output} with {channels} channels", AGAIN)
    return geometry


def lower_binary(source: TfliteOperands) -> tuple[Operator, ...]:
    """ADD, MUL, SQUARED_DIFFERENCE, SUB: exact for all pairs of codes; broadcasting; an operand may be constant."""
    a, b, y = source.x(0), source.x(1), source.y()
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        shape = ()
    if shape != y.shape:
        raise Refused(f"its output has the shape {y.shape}, which is not that of its inputs together", AGAIN)
    kinds: dict[str, BinaryKind] = {
        "ADD": "add",
        "MUL": "mul",
        "SQUARED_DIFFERENCE": "squared_difference",
        "SUB": "sub",
    }
    kind = kinds[source.node.op_type]
    limits = bounds(source.activation(), y.scale or 1, y.zero_point or 0, y.dtype)
    sum_shift = WIDE_SUM_SHIFT if source.is_wide else SUM_SHIFT
    by = integer_binary(kind, a.scale or 1, b.scale or 1, y.scale or 1, *limits, sum_shift)
    if by is None:
        raise Refused("the scale of its output is too small for its inputs", "quantize with the range that it has")
    return (QuantizedBinary(source.node.name, source.node.op_type, kind, a, b, y, by),)


def lower_softmax(source: TfliteOperands) -> tuple[Operator, ...]:
    """SOFTMAX: over the last axis, of fewer than 4,096 elements; in fixed point, its exponentials from a table."""
    if source.graph.value(source.node.inputs[0] if source.node.inputs else "").dtype is DType.INT16:
        return _wide_softmax(source)
    x, y = source.x(), source.y(types=(DType.INT8, DType.INT16))
    units = y.dtype.high - y.dtype.low + 1
    tolerance = 0.001 / units if y.dtype is DType.INT16 else 0.0
    if abs((y.scale or 1) - 1 / units) > tolerance or y.zero_point != y.dtype.low:
        raise Refused(f"its output has not the scale 1/{units} and the zero point {y.dtype.low}", AGAIN)
    if x.shape != y.shape or not x.shape or x.shape[-1] >= 4096:
        raise Refused(f"it has rows of shape {x.shape}", "use one axis of fewer than 4,096 elements")
    beta = source.node.attributes["beta"]
    factor = float(beta) * (x.scale or 1) if isinstance(beta, int | float) else 0.0
    if not 2.0**-26 < factor < 2.0**5:
        raise Refused(f"its beta times the scale of its input is {factor}", AGAIN)
    table = exponentials(factor)
    return (IntegerSoftmax(source.node.name, source.node.op_type, x, y, table),)


def _wide_softmax(source: TfliteOperands) -> tuple[Operator, ...]:
    """SOFTMAX of int16 codes to others, by lines between numbers of tables."""
    x, y = (source.x(types=(DType.INT16,)), source.y(types=(DType.INT16,)))
    if abs((y.scale or 1) - 2.0**-15) > 0.001 * 2.0**-15 or y.zero_point:
        raise Refused("its output has not the scale 1/32768 and the zero point 0", AGAIN)
    if x.shape != y.shape or not x.shape or x.shape[-1] >= 2**16:
        raise Refused(f"it has rows of shape {x.shape}", "use one axis of fewer than 65,536 elements")
    beta = source.node.attributes["beta"]
    factor = float(beta) * (x.scale or 1) / (10.0 / 65535.0) if isinstance(beta, int | float) else 0.0
    if not 2.0**-26 < factor < 2.0**14:
        raise Refused(f"its beta times the scale of its input is {factor * 10.0 / 65535.0:g}", AGAIN)
    scale = multiplier_of(factor)
    return (WideSoftmax(source.node.name, source.node.op_type, x, y, scale, *softmax_lines()),)


def lower_log_softmax(source: TfliteOperands) -> tuple[Operator, ...]:
    """LOG_SOFTMAX: over the last axis, of fewer than 4,096 elements; in fixed point, or float32, by expf and logf."""
    if (number := source.x_in_float()) is not None:
        result = source.y_in_float()
        if number.shape != result.shape or not number.shape:
            raise Refused(f"its output has the shape {result.shape}, its input {number.shape}", AGAIN)
        return (FloatSoftmax(source.node.name, source.node.op_type, number, result, is_log=True, by_library=True),)
    x, y = source.x(), source.y()
    if (y.scale, y.zero_point) != (1 / 16, 127):
        raise Refused("its output has not the scale 1/16 and the zero point 127", AGAIN)
    if x.shape != y.shape or not x.shape or x.shape[-1] >= 4096:
        raise Refused(f"it has rows of shape {x.shape}", "use one axis of fewer than 4,096 elements")
    if not 2.0**-26 < (x.scale or 1) < 2.0**5:
        raise Refused(f"the scale of its input is {x.scale}", AGAIN)
    tables = rounded_exponentials(x.scale or 1)
    return (IntegerLogSoftmax(source.node.name, source.node.op_type, x, y, *tables),)


def lower_reduction(source: TfliteOperands) -> tuple[Operator, ...]:
    """MEAN, REDUCE_MAX, REDUCE_MIN, SUM: along any constant axes."""
    x, y = source.x(), source.y()
    rank = len(x.shape)
    axes = tuple(sorted({int(axis) + (rank if axis < 0 else 0) for axis in source.integers(1).reshape(-1)}))
    if not axes or axes[0] < 0 or axes[-1] >= rank:
        raise Refused(f"its axes {axes} are not those of its input", AGAIN)
    kept = prod(size for axis, size in enumerate(x.shape) if axis not in axes)
    count = prod(x.shape) // kept
    if prod(y.shape) != kept or count >= 2**22:
        raise Refused(f"{count} elements that become one do not make its output", AGAIN)
    name, op_type = source.node.name, source.node.op_type
    if op_type in ("REDUCE_MAX", "REDUCE_MIN"):
        require_same_codes(x, y)
        return (Reduce(name, op_type, x, y, "max" if op_type == "REDUCE_MAX" else "min", axes, None),)
    scale, ends = float(x.scale or 1) / float(y.scale or 1), (y.zero_point or 0, y.dtype.low, y.dtype.high)
    by = mean_twice(scale, count, *ends) if op_type == "MEAN" else round_twice(np.array([scale]), *ends)
    if overflows(by, np.array([(x.dtype.high - x.dtype.low) * count])):
        raise Refused("its sums, scaled, leave int32", "quantize with the range that its output has")
    if op_type == "MEAN" and rank == 4 and axes == (1, 2):
        image = replace(x, layout=Layout.CHANNELS_LAST)
        return (GlobalAveragePool(name, op_type, image, y, 3, count, by),)
    return (Reduce(name, op_type, x, y, "mean" if op_type == "MEAN" else "sum", axes, by),)


def lower_arg_max(source: TfliteOperands) -> tuple[Operator, ...]:
    """ARG_MAX, ARG_MIN: the int32 place along a constant axis, of equal elements the first."""
    x, y, given = source.x(), source.y_of_numbers(DType.INT32), source.integers(1)
    axis = int(given.reshape(-1)[0]) if given.size == 1 else -MOST_PLACES
    axis += len(x.shape) if axis < 0 else 0
    if not 0 <= axis < len(x.shape) or y.shape != (*x.shape[:axis], *x.shape[axis + 1 :]):
        raise Refused(f"its output {y.shape} is not its input {x.shape} without axis {axis}", AGAIN)
    kind: Literal["max", "min"] = "max" if source.node.op_type == "ARG_MAX" else "min"
    return (ArgMax(source.node.name, source.node.op_type, x, y, kind, axis, takes_last=False),)


def lower_extreme(source: TfliteOperands) -> tuple[Operator, ...]:
    """MAXIMUM, MINIMUM: of two tensors of one shape, or of one and constants of its last axis; equal scales."""
    a, b, y = source.x(0), source.x(1), source.y()
    for x in (a, b):
        require_same_codes(x, y)
    name, op_type, constants = source.node.name, source.node.op_type, source.graph.constants
    is_largest = op_type == "MAXIMUM"
    for x, other in ((a, b), (b, a)):
        limits = constants.get(other.name)
        if limits is None or x.shape != y.shape or x.name in constants or limits.size not in (1, *y.shape[-1:]):
            continue
        codes, column = np.arange(x.dtype.low, x.dtype.high + 1), limits.reshape(-1, 1).astype(np.int64)
        tables = np.maximum(codes, column) if is_largest else np.minimum(codes, column)
        if limits.size == 1:
            return (Lookup(name, op_type, x, y, tables[0]),)
        if limits.shape[-1] == limits.size and not source.is_wide:
            return (ChannelLookup(name, op_type, x, y, len(y.shape) - 1, tables),)
    if not a.shape == b.shape == y.shape:
        what = f"it compares {a.shape} and {b.shape}"
        raise Refused(what, "use two tensors of one shape, or constants of the last axis")
    parts = [source.inner(word, y, (1, *y.shape)) for word in ("first", "second")]
    pair = source.inner("pair", y, (2, *y.shape))
    before = [Reshape(name, op_type, x, part) for x, part in zip((a, b), parts, strict=True)]
    joined = Concat(name, op_type, tuple(parts), pair, 0)
    return (*before, joined, Reduce(name, op_type, pair, y, "max" if is_largest else "min", (0,), None))


def lower_dequantize(source: TfliteOperands) -> tuple[Operator, ...]:
    """DEQUANTIZE: to float32, at the end of a network."""
    x = source.x()
    y = source.y_in_float()
    if x.shape != y.shape:
        raise Refused(f"its output has the shape {y.shape}, its input {x.shape}", AGAIN)
    return (Dequantize(source.node.name, source.node.op_type, x, y),)


def lower_quantize(source: TfliteOperands) -> tuple[Operator, ...]:
    """QUANTIZE: float32 to int8 or int16, half away from zero; from codes to others, of 8 bits by a table."""
    x = source.x_in_float()
    if x is None:
        is_wide = source.x(types=ANY_CODE).dtype is DType.INT16
        return lower_wide_function(source) if is_wide else lower_function(source)
    y = source.y(types=(DType.INT8, DType.INT16))
    if y.dtype is DType.INT16 and y.zero_point:
        raise Refused(f"the zero point of its output is {y.zero_point}: of int16 codes it is 0", AGAIN)
    if x.shape != y.shape:
        raise Refused(f"its output has the shape {y.shape}, its input {x.shape}", AGAIN)
    return (Quantize(source.node.name, source.node.op_type, x, y, is_away=True),)


def lower_variable(source: TfliteOperands) -> tuple[Operator, ...]:
    """ASSIGN_VARIABLE, CALL_ONCE, READ_VARIABLE, VAR_HANDLE: what a call keeps for the next; begins as constants."""
    return lower_reshape(source)


LOWERINGS: dict[str, Callable[[TfliteOperands], tuple[Operator, ...]]] = {
    **dict.fromkeys(("ARG_MAX", "ARG_MIN"), lower_arg_max),
    **dict.fromkeys(FUNCTIONS, lower_function),
    **MOVEMENTS,
    **dict.fromkeys(sorted(VARIABLES), lower_variable),
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), lower_extreme),
    **dict.fromkeys(("MEAN", "REDUCE_MAX", "REDUCE_MIN", "SUM"), lower_reduction),
    "ADD": lower_binary,
    "AVERAGE_POOL_2D": lower_average_pool,
    "BATCH_MATMUL": lower_batch_matmul,
    "CONV_2D": lower_conv,
    "DEPTHWISE_CONV_2D": lower_depthwise,
    "DEQUANTIZE": lower_dequantize,
    "FULLY_CONNECTED": lower_fully_connected,
    "LOG_SOFTMAX": lower_log_softmax,
    "MAX_POOL_2D": lower_max_pool,
    "MUL": lower_binary,
    "PRELU": lower_prelu,
    "QUANTIZE": lower_quantize,
    "SOFTMAX": lower_softmax,
    "SQUARED_DIFFERENCE": lower_binary,
    "SUB": lower_binary,
    "SVDF": lower_svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": lower_lstm,
    "TRANSPOSE_CONV": lower_transpose_conv,
}
"""What each operator means."""


def lower_tflite(graph: TfliteGraph) -> Program:
    """The meaning of a graph. Raises ModelRejected with every node that cannot be compiled, and why."""
    operators: list[Operator] = []
    problems: list[Problem] = []
    constants = dict(graph.constants)
    graph = replace(graph, constants=constants)
    for node in graph.nodes:
        try:
            for op in _lowered(node, graph):
                if (values := _folded(op, constants)) is None:
                    operators.append(op)
                else:
                    constants[op.y.name] = values
        except Refused as refused:
            problems.append(Problem(f"node {node.name!r}", *refused.args))
    operators, in_float = in_tables(operators, graph.outputs)
    problems += in_float
    computed = {op.y.name for op in operators}
    if not problems:
        others = [name for name in graph.outputs if name not in computed]
        problems = [Problem(f"output {name!r}", "it does not depend on an input, or is one", AGAIN) for name in others]
    if problems:
        raise ModelRejected(problems)
    inputs = tuple(_boundary(graph, name) for name in graph.inputs)
    spread = propagate(operators, constants)
    known = {tensor.name: tensor for op in spread for tensor in (op.y, *inputs_of(op))}
    return Program(
        name=graph.name,
        inputs=tuple(known.get(tensor.name, tensor) for tensor in inputs),
        outputs=tuple(known[name] for name in graph.outputs),
        operators=spread,
        sha256=graph.sha256,
        constants={name: constants[name] for name in known if name in constants},
        states=tuple(s for s in graph.states if s.read in graph.inputs and s.written in graph.outputs),
    )


def _folded(op: Operator, constants: Mapping[str, Array]) -> Array | None:
    """The output of an operator that only moves elements of constants; None if an operator reads a computed tensor."""
    names = [x.name for x in inputs_of(op)]
    if not all(name in constants for name in names):
        return None
    if not isinstance(op, Movement) or prod(op.y.shape) > MOST_FOLDED:
        raise Refused("all its inputs are constant", "convert the model again: converters compute such nodes")
    return evaluate_operator(op, *(constants[name] for name in names))


def _lowered(node: Node, graph: TfliteGraph) -> tuple[Operator, ...]:
    lowering = LOWERINGS.get(node.op_type)
    if lowering is None:
        raise Refused(
            f"qcgen does not read {node.op_type} of .tflite files (qcgen ops lists what it reads)",
            f"compile the network up to it with {spelt(outputs='TENSOR')}, or convert it: pip install tf2onnx"
            " tensorflow, then python -m tf2onnx.convert --opset 13 --tflite MODEL.tflite --output MODEL.onnx",
        )
    return lowering(TfliteOperands(node, graph))


def _boundary(graph: TfliteGraph, name: str) -> Tensor:
    value = graph.value(name)
    assert value.dtype is not None, f"the type of {name!r} is known"
    return Tensor(name, value.dtype, value.fixed_shape or ())
