"""Small .tflite files, written with the schema alone: tests compile them, TensorFlow Lite Micro gave recordings."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qcgen.tflite import read_tflite
from qcgen.tflite.graph import OPERATORS

TYPES = {"resource": 13, "float32": 0, "int32": 2, "uint8": 3, "int64": 4, "int16": 7, "int8": 9}
OPTION_TYPES = {
    "CONV_2D": 1,
    "DEPTHWISE_CONV_2D": 2,
    "AVERAGE_POOL_2D": 5,
    "MAX_POOL_2D": 5,
    "SOFTMAX": 9,
    "SVDF": 6,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": 71,
    "CONCATENATION": 10,
    "PAD": 22,
    "TRANSPOSE": 26,
    "MEAN": 27,
    "SQUEEZE": 30,
    "ADD": 11,
    "MUL": 21,
    "LOG_SOFTMAX": 36,
    "SQUARED_DIFFERENCE": 76,
    "SUB": 28,
    "FULLY_CONNECTED": 8,
    "RESHAPE": 17,
    "SPACE_TO_DEPTH": 19,
    "GATHER": 23,
    "DEQUANTIZE": 38,
    "REDUCE_MAX": 27,
    "ABS": 78,
    "ARG_MAX": 40,
    "ARG_MIN": 57,
    "BATCH_MATMUL": 101,
    "TRANSPOSE_CONV": 49,
    "SUM": 27,
    "STRIDED_SLICE": 32,
    "SPLIT": 35,
    "PADV2": 43,
    "MAXIMUM": 39,
    "MINIMUM": 39,
    "TILE": 51,
    "PACK": 59,
    "UNPACK": 64,
    "RESIZE_BILINEAR": 15,
    "RESIZE_NEAREST_NEIGHBOR": 74,
    "LEAKY_RELU": 75,
    "MIRROR_PAD": 77,
    "SPLIT_V": 79,
    "DEPTH_TO_SPACE": 94,
    "BROADCAST_TO": 119,
    "CALL_ONCE": 103,
    "VAR_HANDLE": 111,
}


@dataclass(frozen=True)
class Field:
    """A number in a table: its letter in struct, and its value."""

    kind: str
    value: float


@dataclass(frozen=True)
class Told:
    """A tensor: computed where it has no ``data``; ``axis`` is that of several scales."""

    name: str
    shape: Sequence[int]
    scale: float | Sequence[float] | None = None
    zero_point: int | Sequence[int] = 0
    data: np.ndarray | None = None
    dtype: str = "int8"
    axis: int = 0
    is_variable: bool = False


@dataclass(frozen=True)
class Step:
    """An operator, the numbers of its tensors, and its options by field."""

    kind: str
    inputs: Sequence[int]
    outputs: Sequence[int]
    options: Mapping[int, Field | str] | None = None
    intermediates: Sequence[int] = ()


def written(
    tensors: Sequence[Told],
    steps: Sequence[Step],
    inputs: Sequence[int],
    outputs: Sequence[int],
    once: tuple[Sequence[Told], Sequence[Step]] = ((), ()),
) -> bytes:
    """The bytes of a model; ``once``: tensors and operators of a second subgraph."""
    kinds = list(dict.fromkeys(step.kind for step in (*steps, *once[1])))
    buffers: list[dict[int, Any]] = [{}]
    subgraphs = [_subgraph(tensors, steps, inputs, outputs, kinds, buffers)]
    subgraphs += [_subgraph(*once, (), (), kinds, buffers)] if once[1] else []
    numbers = [OPERATORS.index(kind) for kind in kinds]
    codes = [{0: Field("b", min(n, 127)), 2: Field("i", 1), 3: Field("i", n)} for n in numbers]
    model = {0: Field("I", 3), 1: codes, 2: subgraphs, 3: "written by a test", 4: buffers}
    data = bytearray(b"\0\0\0\0TFL3\0\0\0\0\0\0\0\0")
    data[0:4] = struct.pack("<I", _table(data, model))
    return bytes(data)


def _subgraph(
    tensors: Sequence[Told],
    steps: Sequence[Step],
    inputs: Sequence[int],
    outputs: Sequence[int],
    kinds: Sequence[str],
    buffers: list[dict[int, Any]],
) -> dict[int, Any]:
    """A subgraph; what its constants hold goes to ``buffers``."""
    told = []
    for tensor in tensors:
        fields: dict[int, Any] = {0: _ints(tensor.shape), 1: Field("b", TYPES[tensor.dtype]), 3: tensor.name}
        if tensor.data is not None:
            fields[2] = Field("I", len(buffers))
            buffers.append({0: np.frombuffer(tensor.data.astype(tensor.dtype).tobytes(), np.uint8)})
        if tensor.is_variable:
            fields[5] = Field("B", 1)
        if tensor.scale is not None:
            scales = np.atleast_1d(np.float32(tensor.scale))
            zero_points = np.broadcast_to(np.int64(tensor.zero_point), scales.shape)
            fields[4] = {2: scales, 3: np.array(zero_points), 6: Field("i", tensor.axis)}
        told.append(fields)
    operators = []
    for step in steps:
        operator: dict[int, Any] = {
            0: Field("I", kinds.index(step.kind)),
            1: _ints(step.inputs),
            2: _ints(step.outputs),
        }
        if step.intermediates:
            operator[8] = _ints(step.intermediates)
        if step.options is not None:
            operator |= {3: Field("B", OPTION_TYPES[step.kind]), 4: dict(step.options)}
        operators.append(operator)
    return {0: told, 1: _ints(inputs), 2: _ints(outputs), 3: operators, 4: "main"}


def _ints(values: Sequence[int]) -> np.ndarray:
    return np.array(values, np.int32)


def _aligned(data: bytearray, to: int, after: int = 0) -> None:
    while (len(data) + after) % to:
        data.append(0)


def _table(data: bytearray, fields: Mapping[int, Any]) -> int:
    """Appends a table, and behind it all that it leads to; returns its place."""
    kinds = {at: value.kind if isinstance(value, Field) else "I" for at, value in fields.items()}
    offsets, size = {}, 4
    for at, kind in kinds.items():
        width = struct.calcsize(f"<{kind}")
        size += -size % width
        offsets[at] = size
        size += width
    slots = max(fields, default=-1) + 1
    _aligned(data, 8, after=4 + 2 * slots)
    vtable = len(data)
    data += struct.pack(f"<HH{slots}H", 4 + 2 * slots, size, *(offsets.get(at, 0) for at in range(slots)))
    place = len(data)
    data += struct.pack("<i", place - vtable) + bytes(size - 4)
    for at, value in fields.items():
        if isinstance(value, Field):
            struct.pack_into(f"<{value.kind}", data, place + offsets[at], value.value)
        else:
            target = _target(data, value)
            struct.pack_into("<I", data, place + offsets[at], target - place - offsets[at])
    return place


def _target(data: bytearray, value: Any) -> int:
    if isinstance(value, Mapping):
        return _table(data, value)
    if isinstance(value, str):
        value = np.frombuffer(value.encode() + b"\0", np.uint8)
        _aligned(data, 4)
        data += struct.pack("<I", value.size - 1) + value.tobytes()
        return len(data) - value.size - 4
    if isinstance(value, np.ndarray):
        _aligned(data, 16, after=4)
        place = len(data)
        data += struct.pack("<I", value.size) + value.tobytes()
        return place
    _aligned(data, 4)
    place = len(data)
    data += struct.pack(f"<I{len(value)}I", len(value), *[0] * len(value))
    for number, part in enumerate(value):
        at = place + 4 + 4 * number
        struct.pack_into("<I", data, at, _target(data, part) - at)
    return place


def weights(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-127, 128, shape)


def bias(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3000, 3000, count)


def window(stride: int = 1, padding: int = 0, activation: int = 0, dilation: int = 1) -> dict[int, Field]:
    """Options of CONV_2D."""
    numbers = (stride, stride)
    own = {0: Field("b", padding), 3: Field("b", activation), 4: Field("i", dilation), 5: Field("i", dilation)}
    return own | {1 + at: Field("i", number) for at, number in enumerate(numbers)}


def depthwise(stride: int, multiplier: int, padding: int = 0, activation: int = 0) -> dict[int, Field]:
    """Options of DEPTHWISE_CONV_2D."""
    own = {0: Field("b", padding), 3: Field("i", multiplier), 4: Field("b", activation)}
    return own | {1: Field("i", stride), 2: Field("i", stride), 5: Field("i", 1), 6: Field("i", 1)}


def scales(seed: int, count: int) -> list[float]:
    return np.random.default_rng(seed).uniform(0.002, 0.02, count).astype(np.float32).tolist()


def network() -> bytes:
    """A convolution without activation, a depthwise one with Relu6, a Reshape and a dense layer."""
    tensors = [
        Told("image", (1, 7, 6, 3), 0.021, -3),
        Told("w0", (5, 3, 3, 3), scales(1, 5), 0, weights(2, 5, 3, 3, 3)),
        Told("b0", (5,), scales(1, 5), 0, bias(3, 5), "int32"),
        Told("first", (1, 7, 6, 5), 0.043, 9),
        Told("w1", (1, 3, 3, 10), scales(4, 10), 0, weights(5, 1, 3, 3, 10), axis=3),
        Told("b1", (10,), scales(4, 10), 0, bias(6, 10), "int32"),
        Told("second", (1, 4, 3, 10), 6 / 255, -128),
        Told("shape", (2,), None, 0, np.array([1, 120]), "int32"),
        Told("row", (1, 120), 6 / 255, -128),
        Told("w2", (4, 120), 0.011, 0, weights(7, 4, 120)),
        Told("b2", (4,), 0.011 * 6 / 255, 0, bias(8, 4), "int32"),
        Told("scores", (1, 4), 0.18, 17),
    ]
    steps = [
        Step("CONV_2D", (0, 1, 2), (3,), window()),
        Step("DEPTHWISE_CONV_2D", (3, 4, 5), (6,), depthwise(2, 2, activation=3)),
        Step("RESHAPE", (6, 7), (8,), {}),
        Step("FULLY_CONNECTED", (8, 9, 10), (11,), {0: Field("b", 0)}),
    ]
    return written(tensors, steps, (0,), (11,))


def dense(x_scale: float, w_scale: float, y_scale: float, has_bias: bool = True, terms: int = 24) -> bytes:
    """One dense layer of 40 outputs."""
    tensors = [
        Told("x", (1, terms), x_scale, -7),
        Told("w", (40, terms), w_scale, 0, weights(9, 40, terms)),
        Told("y", (1, 40), y_scale, 5),
        Told("b", (40,), np.float32(x_scale) * np.float32(w_scale), 0, bias(10, 40), "int32"),
    ]
    step = Step("FULLY_CONNECTED", (0, 1, 3 if has_bias else -1), (2,), {0: Field("b", 0)})
    return written(tensors, [step], (0,), (2,))


BETWEEN = (0.0663, 0.0907, 11.425)
BETWEEN_SUM = 192841


def between_steps() -> bytes:
    """A dense layer whose one sum, for 120 and a last -6, has another code if its scales are multiplied in float32."""
    x_scale, w_scale, y_scale = (np.float32(scale) for scale in BETWEEN)
    matrix = np.zeros((1, 24))
    matrix[0] = [*np.clip(BETWEEN_SUM // 127 - 127 * np.arange(23), 0, 127), BETWEEN_SUM % 127]
    tensors = [
        Told("x", (1, 24), x_scale, -7),
        Told("w", (1, 24), w_scale, 0, matrix),
        Told("y", (1, 1), y_scale, 0),
    ]
    step = Step("FULLY_CONNECTED", (0, 1, -1), (2,), {0: Field("b", 0)})
    return written(tensors, [step], (0,), (2,))


def pool(
    kind: str, window: tuple[int, int], y_shape: Sequence[int], stride: int, padding: int, activation: int
) -> bytes:
    """A pooling of an image of 6 x 5 pixels, whose zero point is not the lowest code."""
    tensors = [Told("x", IMAGE, 0.05, 3), Told("y", y_shape, 0.05, 3)]
    options = {0: Field("b", padding), 1: Field("i", stride), 2: Field("i", stride), 5: Field("b", activation)}
    options |= {3: Field("i", window[1]), 4: Field("i", window[0])}
    return written(tensors, [Step(kind, (0,), (1,), options)], (0,), (1,))


def binary(kind: str, y_scale: float, activation: int = 0, shape: Sequence[int] = (1, 24)) -> bytes:
    """A sum, difference or product with a constant of another scale, which is broadcast if it is shorter."""
    constant = np.random.default_rng(12).integers(-128, 128, shape)
    tensors = [
        Told("x", (1, 24), 0.031, -7),
        Told("c", shape, 0.0173, 11, constant),
        Told("y", (1, 24), y_scale, 5),
    ]
    return written(tensors, [Step(kind, (0, 1), (2,), {0: Field("b", activation)})], (0,), (2,))


def softmax(scale: float, beta: float) -> bytes:
    tensors = [Told("x", (1, 24), scale, 9), Told("y", (1, 24), 1 / 256, -128)]
    return written(tensors, [Step("SOFTMAX", (0,), (1,), {0: Field("f", beta)})], (0,), (1,))


def wide_shares() -> bytes:
    """Shares in 16 bits, and what the first and the last half of them are in 8."""
    tensors = [
        Told("x", (5, 24), 0.21, 9),
        Told("wide", (5, 24), 1 / 65536, -32768, dtype="int16"),
        Told("y", (5, 24), 1 / 300, -128),
    ]
    steps = [Step("SOFTMAX", (0,), (1,), {0: Field("f", 0.7)}), Step("QUANTIZE", (1,), (2,))]
    return written(tensors, steps, (0,), (2,))


def log_softmax(scale: float, length: int = 24) -> bytes:
    tensors = [Told("x", (5, length), scale, 9), Told("y", (5, length), 1 / 16, 127)]
    return written(tensors, [Step("LOG_SOFTMAX", (0,), (1,), {})], (0,), (1,))


def log_softmax_of_floats() -> bytes:
    real = [Told(name, (5, 24), dtype="float32") for name in ("real", "y")]
    steps = [Step("DEQUANTIZE", (0,), (1,)), Step("LOG_SOFTMAX", (1,), (2,), {})]
    return written([Told("x", (5, 24), 0.11, 9), *real], steps, (0,), (2,))


def function(
    kind: str,
    x: tuple[float, int],
    y: tuple[float, int] = (0.031, 5),
    options: dict[int, Field] | None = None,
    types: tuple[str, str] = ("int8", "int8"),
) -> bytes:
    """A function of each of all codes; ``x`` and ``y`` are scales and zero points."""
    tensors = [Told("x", (1, 256), *x, dtype=types[0]), Told("y", (1, 256), *y, dtype=types[1])]
    return written(tensors, [Step(kind, (0,), (1,), options)], (0,), (1,))


def elu_of_floats(is_output: bool = False) -> bytes:
    """All codes: DEQUANTIZE, ELU, QUANTIZE, as TensorFlow's converter writes an ELU."""
    told = [("x", (0.047, 20)), ("real", ()), ("elu", ()), ("y", (0.031, -90))]
    tensors = [Told(name, (1, 256), *by, dtype="int8" if by else "float32") for name, by in told]
    steps = [Step("DEQUANTIZE", (0,), (1,)), Step("ELU", (1,), (2,)), Step("QUANTIZE", (2,), (3,))]
    return written(tensors, steps[: 2 + (not is_output)], (0,), (2 if is_output else 3,))


def dequantize() -> bytes:
    tensors = [Told("x", (1, 256), 0.0473, -20), Told("y", (1, 256), dtype="float32")]
    return written(tensors, [Step("DEQUANTIZE", (0,), (1,))], (0,), (1,))


def quantize() -> bytes:
    tensors = [Told("x", (1, 256), dtype="float32"), Told("y", (1, 256), 0.5, -20)]
    return written(tensors, [Step("QUANTIZE", (0,), (1,))], (0,), (1,))


def extreme(kind: str, shape: Sequence[int], is_first: bool = False) -> bytes:
    """The larger or the smaller of an image and constants, or of an image and itself backwards."""
    by = (0.05, 3)
    tensors = [Told("x", IMAGE, *by), Told("y", IMAGE, *by)]
    if shape:
        tensors.append(Told("c", shape, *by, np.array([-60, 40, 99, 7])[: shape[-1]].reshape(shape)))
        given = (2, 0) if is_first else (0, 2)
        return written(tensors, [Step(kind, given, (1,), {})], (0,), (1,))
    tensors += [Told("z", IMAGE, *by)]
    numbers = [Told(f"n{i}", (4,), None, 0, np.array(each), "int32") for i, each in enumerate(BACKWARDS)]
    steps = [
        Step("STRIDED_SLICE", (0, 3, 4, 5), (2,), {0: Field("i", 15), 1: Field("i", 15)}),
        Step(kind, (0, 2), (1,), {}),
    ]
    return written([*tensors, *numbers], steps, (0,), (1,))


BACKWARDS = ((0, 0, 0, 0), (0, 0, 0, 0), (1, -1, -1, 1))


def moved(kind: str, y_shape: Sequence[int], numbers: np.ndarray | None, options: dict[int, Field]) -> bytes:
    """An operator that only moves elements of an image; ``numbers`` say how, or are its second part."""
    by = (0.05, 3)
    tensors = [Told("x", IMAGE, *by), Told("y", y_shape, *by)]
    if numbers is not None:
        is_part = kind == "CONCATENATION"
        how = Told("n", numbers.shape, *by, numbers) if is_part else Told("n", numbers.shape, None, 0, numbers, "int32")
        tensors.append(how)
    return written(tensors, [Step(kind, (0,) if numbers is None else (0, 2), (1,), options)], (0,), (1,))


def sliced(y_shape: Sequence[int], places: Sequence[Sequence[int]], masks: Mapping[int, int]) -> bytes:
    """STRIDED_SLICE of an image: where each axis begins and ends, and by which steps; masks by their field."""
    numbers = [Told(f"n{i}", (4,), None, 0, np.array(each), "int32") for i, each in enumerate(places)]
    tensors = [Told("x", IMAGE, 0.05, 3), Told("y", y_shape, 0.05, 3), *numbers]
    options = {at: Field("i", mask) for at, mask in masks.items()}
    return written(tensors, [Step("STRIDED_SLICE", (0, 2, 3, 4), (1,), options)], (0,), (1,))


def divided(kind: str, sizes: Sequence[int], axis: int) -> bytes:
    """An image in parts along an axis, and these in the order of their numbers, backwards, joined again."""
    shapes = [(*IMAGE[:axis], size, *IMAGE[axis + 1 :]) for size in sizes]
    whole, by, last = Told("x", IMAGE, 0.05, 3), (0.05, 3), axis - len(IMAGE)
    count = len(sizes)
    parts = [Told(f"part{i}", shape, *by) for i, shape in enumerate(shapes)]
    numbers = [
        Told("axis", (), None, 0, np.array(axis), "int32"),
        Told("sizes", (count,), None, 0, np.array(sizes), "int32"),
    ]
    tensors = [whole, Told("y", IMAGE, *by), *parts, *numbers]
    given = (count + 2, 0) if kind == "SPLIT" else (0, count + 3, count + 2)
    outputs = range(2, count + 2)
    steps = [
        Step(kind, given, outputs, {0: Field("i", count)}),
        Step("CONCATENATION", outputs[::-1], (1,), {0: Field("i", last)}),
    ]
    return written(tensors, steps, (0,), (1,))


def packed(axis: int, pack_axis: int) -> bytes:
    """The places of an axis of an image, packed along another one."""
    shape = (*IMAGE[:axis], *IMAGE[axis + 1 :])
    count = IMAGE[axis]
    y_shape = list(shape)
    y_shape.insert(pack_axis, count)
    parts = [Told(f"part{i}", shape, 0.05, 3) for i in range(count)]
    tensors = [Told("x", IMAGE, 0.05, 3), Told("y", y_shape, 0.05, 3), *parts]
    places = range(2, count + 2)
    steps = [
        Step("UNPACK", (0,), places, {0: Field("i", count), 1: Field("i", axis - len(IMAGE))}),
        Step("PACK", places, (1,), {0: Field("i", count), 1: Field("i", pack_axis)}),
    ]
    return written(tensors, steps, (0,), (1,))


def transposed_convolution(
    strides: tuple[int, int], kernel: tuple[int, int], y_shape: Sequence[int], padding: int, activation: int = 0
) -> bytes:
    """TRANSPOSE_CONV of an image; without a bias where there is no activation."""
    count = y_shape[-1]
    tensors = [
        Told("x", IMAGE, 0.05, 3),
        Told("y", y_shape, 0.071, -9),
        Told("w", (count, *kernel, 4), scales(1, count), 0, weights(2, count, *kernel, 4)),
        Told("size", (4,), None, 0, np.array(y_shape), "int32"),
        Told("b", (count,), scales(1, count), 0, bias(3, count), "int32"),
    ]
    options = {0: Field("b", padding), 1: Field("i", strides[1]), 2: Field("i", strides[0])}
    given = (3, 2, 0, 4) if activation else (3, 2, 0)
    step = Step("TRANSPOSE_CONV", given, (1,), options | {3: Field("b", activation)})
    return written(tensors, [step], (0,), (1,))


def matrices(
    x_shape: Sequence[int], y_shape: Sequence[int], adjoint: tuple[int, int], other: Sequence[int] = ()
) -> bytes:
    """BATCH_MATMUL of x with itself, or with a constant of another shape."""
    tensors = [Told("x", x_shape, 0.05, 3), Told("y", y_shape, 0.31, -9)]
    if other:
        tensors.append(Told("c", other, 0.03, -7, weights(17, *other)))
    options = {at: Field("b", flag) for at, flag in enumerate(adjoint)}
    return written(tensors, [Step("BATCH_MATMUL", (0, 2 if other else 0), (1,), options)], (0,), (1,))


def place(kind: str, axis: int) -> bytes:
    """ARG_MAX or ARG_MIN of an image."""
    shape = np.delete(IMAGE, axis).tolist()
    tensors = [Told("x", IMAGE, 0.05, 3), Told("axis", (), None, 0, np.array(axis), "int32")]
    return written([*tensors, Told("y", shape, dtype="int32")], [Step(kind, (0, 1), (2,), {})], (0,), (2,))


def prelu(shape: Sequence[int]) -> bytes:
    """All codes, in four channels."""
    slopes = np.array([-128, 127, 30, -9])[: shape[-1]].reshape(shape)
    tensors = [
        Told("x", (1, 64, 1, 4), 0.047, 20),
        Told("slopes", shape, 0.0071, 2, slopes),
        Told("y", (1, 64, 1, 4), 0.031, 5),
    ]
    return written(tensors, [Step("PRELU", (0, 1), (2,))], (0,), (2,))


def reduction(kind: str, axes: Sequence[int], y: tuple[float, int]) -> bytes:
    shape = tuple(size for axis, size in enumerate(IMAGE) if axis not in axes and axis - len(IMAGE) not in axes)
    tensors = [
        Told("x", IMAGE, 0.05, 3),
        Told("axes", (len(axes),), None, 0, np.array(axes), "int32"),
        Told("y", shape, *y),
    ]
    return written(tensors, [Step(kind, (0, 1), (2,), {})], (0,), (2,))


def mean(axes: Sequence[int]) -> bytes:
    return reduction("MEAN", axes, (0.0093, -11))


IMAGE = (1, 6, 5, 4)


def cases(data: bytes) -> Sequence[np.ndarray]:
    """Inputs of a model: random codes, those of BETWEEN, all low, all high, one after the other."""
    [x, *_] = read_tflite(data, "model").inputs
    value = read_tflite(data, "model").value(x)
    shape, dtype = value.fixed_shape or (), value.dtype
    assert dtype is not None
    if dtype.is_float:  # quarters: half of them are ties
        return [np.random.default_rng(11).integers(-300, 301, shape).astype(np.float32) / 4 for _ in range(8)]
    random = np.random.default_rng(11).integers(dtype.low, dtype.high + 1, (4, *shape))
    nearly = np.full(shape, 120)
    nearly[..., -1] = -6 if dtype.low else 6
    ends = (np.full(shape, end) for end in (dtype.low, dtype.high))
    every = np.resize(np.arange(dtype.low, dtype.high + 1), shape)
    return [each.astype(dtype.numpy) for each in (*random, nearly, *ends, every)]


MODELS = {
    "log_softmax_of_floats": log_softmax_of_floats(),
    "elu_of_floats": elu_of_floats(),
    "log_softmax": log_softmax(0.11),
    "log_softmax_of_distant_codes": log_softmax(1.7),
    "log_softmax_of_near_codes": log_softmax(0.003),
    "log_softmax_of_many": log_softmax(0.021, 300),
    "log_softmax_of_two": log_softmax(0.4, 2),
    "network": network(),
    "dense": dense(0.02, 0.01, 0.021),
    "dense_without_bias": dense(0.02, 0.01, 0.021, has_bias=False),
    "dense_of_large_scales": dense(0.9, 0.8, 0.31),
    "between_steps": between_steps(),
    "average_of_image": pool("AVERAGE_POOL_2D", (6, 5), (1, 1, 1, 4), 1, 1, 0),
    "average_with_relu": pool("AVERAGE_POOL_2D", (2, 3), (1, 3, 2, 4), 2, 1, 1),
    "average_of_windows": pool("AVERAGE_POOL_2D", (2, 2), (1, 5, 4, 4), 1, 1, 0),
    "largest_with_padding": pool("MAX_POOL_2D", (3, 2), (1, 3, 3, 4), 2, 0, 0),
    "largest_with_relu6": pool("MAX_POOL_2D", (2, 2), (1, 3, 2, 4), 2, 1, 3),
    "sum": binary("ADD", 0.037),
    "sum_with_relu": binary("ADD", 0.037, activation=1),
    "sum_of_a_scalar": binary("ADD", 0.029, shape=(1, 1)),
    "shares_of_16_bits": wide_shares(),
    "short_to_byte": function("QUANTIZE", (0.00013, 0), (0.031, 5), types=("int16", "int8")),
    "short_to_short": function("QUANTIZE", (0.00013, 0), (0.00017, 0), types=("int16", "int16")),
    "short_to_long": function("QUANTIZE", (0.00013, -77), (0.0000057, 0), types=("int16", "int32")),
    "squared_difference": binary("SQUARED_DIFFERENCE", 0.19),
    "squared_difference_of_one": binary("SQUARED_DIFFERENCE", 0.047, shape=(1, 1)),
    "difference": binary("SUB", 0.041),
    "product": binary("MUL", 0.0191, activation=2),
    "concatenation": moved("CONCATENATION", (1, 6, 5, 7), weights(13, 1, 6, 5, 3), {0: Field("i", -1)}),
    "pad": moved("PAD", (1, 9, 6, 4), np.array([[0, 0], [1, 2], [1, 0], [0, 0]]), {}),
    "transpose": moved("TRANSPOSE", (1, 4, 6, 5), np.array([0, 3, 1, 2]), {}),
    "mirror": moved("MIRROR_PAD", (1, 9, 6, 4), np.array([[0, 0], [1, 2], [1, 0], [0, 0]]), {0: Field("b", 0)}),
    "mirror_with_edge": moved(
        "MIRROR_PAD", (1, 9, 7, 4), np.array([[0, 0], [0, 3], [2, 0], [0, 0]]), {0: Field("b", 1)}
    ),
    "slice_backwards": sliced((1, 3, 3, 4), ([0, 5, 1, 0], [1, -7, -1, 4], [1, -2, 1, 1]), {}),
    "slice_with_masks": sliced((2, 4), ([0, 2, 1, -3], [1, 3, 9, 2], [1, 1, 2, 1]), {0: 8, 1: 8, 4: 3}),
    "split": divided("SPLIT", (3, 3), 1),
    "split_v": divided("SPLIT_V", (1, 3, 1), 2),
    "pack": packed(3, 0),
    "pack_inside": packed(1, 2),
    "bilinear": moved("RESIZE_BILINEAR", (1, 9, 13, 4), np.array([9, 13]), {2: Field("b", 0)}),
    "bilinear_of_corners": moved("RESIZE_BILINEAR", (1, 11, 3, 4), np.array([11, 3]), {2: Field("b", 1)}),
    "bilinear_of_centers": moved("RESIZE_BILINEAR", (1, 12, 10, 4), np.array([12, 10]), {3: Field("b", 1)}),
    "bilinear_to_fewer": moved("RESIZE_BILINEAR", (1, 4, 1, 4), np.array([4, 1]), {3: Field("b", 1)}),
    "nearest": moved("RESIZE_NEAREST_NEIGHBOR", (1, 9, 13, 4), np.array([9, 13]), {0: Field("b", 0), 1: Field("b", 0)}),
    "nearest_of_corners": moved("RESIZE_NEAREST_NEIGHBOR", (1, 11, 3, 4), np.array([11, 3]), {0: Field("b", 1)}),
    "nearest_of_centers": moved("RESIZE_NEAREST_NEIGHBOR", (1, 4, 10, 4), np.array([4, 10]), {1: Field("b", 1)}),
    "gather": moved("GATHER", (1, 3, 5, 4), np.array([4, 0, 4]), {0: Field("i", 1)}),
    "broadcast": moved("BROADCAST_TO", (3, 6, 5, 4), np.array([3, 6, 5, 4]), {}),
    "depth_to_space": moved("DEPTH_TO_SPACE", (1, 12, 10, 1), None, {0: Field("i", 2)}),
    "average_with_padding": pool("AVERAGE_POOL_2D", (3, 2), (1, 6, 5, 4), 1, 0, 0),
    "average_of_large_windows_with_padding": pool("AVERAGE_POOL_2D", (5, 4), (1, 3, 3, 4), 2, 0, 1),
    "average_with_one_run": pool("AVERAGE_POOL_2D", (2, 1), (1, 6, 5, 4), 1, 0, 0),
    "transposed_convolution": transposed_convolution((2, 2), (3, 3), (1, 12, 10, 3), 0, activation=1),
    "transposed_convolution_cut": transposed_convolution((3, 2), (4, 3), (1, 17, 11, 2), 1),
    "transposed_convolution_of_small_windows": transposed_convolution((3, 2), (1, 2), (1, 18, 9, 2), 0, activation=3),
    "transposed_convolution_of_stride_1": transposed_convolution((1, 1), (3, 2), (1, 6, 5, 3), 0),
    "matrices": matrices((2, 5, 8), (2, 5, 5), (0, 1)),
    "matrices_turned": matrices((2, 5, 8), (2, 8, 8), (1, 0)),
    "matrices_turned_both": matrices((1, 6, 6), (1, 6, 6), (1, 1)),
    "matrices_and_a_constant": matrices((3, 5, 8), (2, 3, 5, 7), (0, 0), (2, 1, 8, 7)),
    "matrices_and_a_constant_matrix": matrices((3, 5, 8), (3, 5, 7), (0, 0), (8, 7)),
    "place_of_the_largest": place("ARG_MAX", -1),
    "place_of_the_smallest": place("ARG_MIN", 1),
    "absolute": function("ABS", (0.047, 20), options={}),
    "absolute_of_the_same_scale": function("ABS", (0.031, 20), options={}),
    "reciprocal_root": function("RSQRT", (0.017, -128), (0.0151, -128)),
    "reciprocal_root_of_large_numbers": function("RSQRT", (9.3, -128), (0.0004, 11)),
    "prelu": prelu((1, 1, 4)),
    "prelu_of_one_slope": prelu((1,)),
    "largest": reduction("REDUCE_MAX", (1, 2), (0.05, 3)),
    "sum_of_image": reduction("SUM", (1, 2), (0.31, -11)),
    "sum_of_rows": reduction("SUM", (-1,), (0.14, 4)),
    "maximum": extreme("MAXIMUM", ()),
    "minimum_of_channels": extreme("MINIMUM", (1, 1, 4)),
    "maximum_of_a_number": extreme("MAXIMUM", (1,), is_first=True),
    "dequantize": dequantize(),
    "quantize": quantize(),
    "mean": mean((1, 2)),
    "mean_of_rows": mean((-1,)),
    "squeeze": moved("SQUEEZE", (6, 5, 4), None, {}),
    "logistic": function("LOGISTIC", (0.061, 12), (1 / 256, -128)),
    "logistic_of_near_codes": function("LOGISTIC", (0.0007, -128), (1 / 256, -128)),
    "logistic_of_distant_codes": function("LOGISTIC", (0.9, 0), (1 / 256, -128)),
    "tanh": function("TANH", (0.043, -3), (1 / 128, 0)),
    "leaky_relu": function("LEAKY_RELU", (0.047, 20), options={0: Field("f", 0.17)}),
    "leaky_relu_that_falls": function("LEAKY_RELU", (0.047, 20), options={0: Field("f", -1.3)}),
    "hard_swish": function("HARD_SWISH", (0.05, -9), (0.037, -111)),
    "hard_swish_of_distant_codes": function("HARD_SWISH", (1.9, 31), (1.3, -77)),
    "hard_swish_of_near_codes": function("HARD_SWISH", (0.0041, 31), (0.0029, 7)),
    "elu": function("ELU", (0.047, 20)),
    "relu": function("RELU", (0.047, 20)),
    "relu6": function("RELU6", (0.047, -20), (0.047, -20)),
    "requantize": function("QUANTIZE", (0.047, 20), (0.0131, -100)),
    "requantize_to_uint8": function("QUANTIZE", (0.047, 20), (0.061, 130), types=("int8", "uint8")),
    "requantize_of_uint8": function("QUANTIZE", (0.047, 131), (0.047, 3), types=("uint8", "int8")),
    "softmax": softmax(0.11, 1.0),
    "softmax_of_distant_codes": softmax(1.7, 0.9),
    "softmax_of_near_codes": softmax(0.003, 1.0),
}
"""Models by name."""
