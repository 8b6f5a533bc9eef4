"""Small .tflite networks with variables; TensorFlow Lite Micro recorded what they give, call by call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tflite_models import Field, Step, Told, bias, weights, window, written

from qcgen.tflite import read_tflite

CALLS = 6


def handle(name: str) -> Told:
    return Told(f"{name} of", (), dtype="resource")


def named(name: str, tensor: int) -> Step:
    return Step("VAR_HANDLE", (), (tensor,), {0: "", 1: name})


def begun(name: str, value: np.ndarray, scale: float, zero_point: int) -> tuple[Sequence[Told], Sequence[Step]]:
    """A subgraph that a variable begins by."""
    tensors = [handle(name), Told("begin", value.shape, scale, zero_point, value)]
    return tensors, [named(name, 0), Step("ASSIGN_VARIABLE", (0, 1), ())]


CALL = Step("CALL_ONCE", (), (), {0: Field("i", 1)})


def stream(begin: np.ndarray | None = None) -> bytes:
    """The last two rows and a new one, through a convolution; what is kept is computed before that."""
    tensors = [
        Told("x", (1, 1, 1, 4), 0.05, 3),
        handle("rows"),
        Told("before", (1, 2, 1, 4), 0.05, 3),
        Told("all", (1, 3, 1, 4), 0.05, 3),
        Told("after", (1, 2, 1, 4), 0.05, 3),
        Told("from", (4,), None, 0, np.array([0, -2, 0, 0]), "int32"),
        Told("to", (4,), None, 0, np.array([0, 0, 0, 0]), "int32"),
        Told("by", (4,), None, 0, np.array([1, 1, 1, 1]), "int32"),
        Told("w", (5, 3, 1, 4), 0.01, 0, weights(1, 5, 3, 1, 4)),
        Told("b", (5,), 0.0005, 0, bias(2, 5), "int32"),
        Told("y", (1, 1, 1, 5), 0.11, -7),
    ]
    steps = [
        named("rows", 1),
        Step("READ_VARIABLE", (1,), (2,)),
        Step("CONCATENATION", (2, 0), (3,), {0: Field("i", 1)}),
        Step("STRIDED_SLICE", (3, 5, 6, 7), (4,), {0: Field("i", 13), 1: Field("i", 15)}),
        Step("ASSIGN_VARIABLE", (1, 4), ()),
        Step("CONV_2D", (3, 8, 9), (10,), window(padding=1)),
    ]
    if begin is None:
        return written(tensors, steps, (0,), (10,))
    return written(tensors, [CALL, *steps], (0,), (10,), begun("rows", begin, 0.05, 3))


def total() -> bytes:
    """What has come so far, with what came before; the output itself is kept, and read again in the same call."""
    tensors = [
        Told("x", (1, 6), 0.05, 3),
        handle("total"),
        Told("before", (1, 6), 0.09, -9),
        Told("y", (1, 6), 0.09, -9),
        Told("again", (1, 6), 0.09, -9),
        Told("z", (1, 6), 0.1, 2),
    ]
    steps = [
        named("total", 1),
        Step("READ_VARIABLE", (1,), (2,)),
        Step("ADD", (2, 0), (3,), {0: Field("b", 0)}),
        Step("ASSIGN_VARIABLE", (1, 3), ()),
        Step("READ_VARIABLE", (1,), (4,)),
        Step("ADD", (4, 2), (5,), {0: Field("b", 0)}),
    ]
    return written(tensors, steps, (0,), (3, 5))


def delay() -> bytes:
    """Two variables and one that is only read: the input, then what came one and two calls before."""
    tensors = [
        Told("x", (1, 6), 0.05, 3),
        handle("one"),
        handle("two"),
        handle("fixed"),
        Told("a", (1, 6), 0.05, 3),
        Told("b", (1, 6), 0.05, 3),
        Told("c", (1, 6), 0.04, -1),
        Told("sum", (1, 6), 0.1, 2),
        Told("y", (1, 6), 0.15, 1),
    ]
    steps = [
        CALL,
        named("one", 1),
        named("two", 2),
        named("fixed", 3),
        Step("READ_VARIABLE", (1,), (4,)),
        Step("READ_VARIABLE", (2,), (5,)),
        Step("READ_VARIABLE", (3,), (6,)),
        Step("ASSIGN_VARIABLE", (2, 4), ()),
        Step("ASSIGN_VARIABLE", (1, 0), ()),
        Step("SUB", (5, 4), (7,), {0: Field("b", 0)}),
        Step("ADD", (7, 6), (8,), {0: Field("b", 0)}),
    ]
    return written(tensors, steps, (0,), (8,), begun("fixed", np.arange(6).reshape(1, 6) * 20, 0.04, -1))


def early() -> bytes:
    """A variable that is read at first only; what is assigned is another tensor's memory, and read later, too."""
    tensors = [
        Told("x", (6,), 0.05, 3),
        handle("v"),
        Told("before", (1, 6), 0.09, -9),
        Told("s", (1, 6), 0.09, -9),
        Told("shape", (1,), None, 0, np.array([6]), "int32"),
        Told("row", (6,), 0.09, -9),
        Told("u", (6,), 0.09, -9),
        Told("shapes", (2,), None, 0, np.array([1, 6]), "int32"),
        Told("after", (1, 6), 0.09, -9),
        Told("t", (6,), 0.12, 5),
        Told("y", (6,), 0.1, 2),
    ]
    steps = [
        named("v", 1),
        Step("READ_VARIABLE", (1,), (2,)),
        Step("ADD", (2, 0), (3,), {0: Field("b", 0)}),
        Step("RESHAPE", (3, 4), (5,), {}),
        Step("ADD", (5, 0), (6,), {0: Field("b", 0)}),
        Step("RESHAPE", (6, 7), (8,), {}),
        Step("ASSIGN_VARIABLE", (1, 8), ()),
        Step("ADD", (6, 5), (9,), {0: Field("b", 0)}),
        Step("SUB", (9, 0), (10,), {0: Field("b", 0)}),
    ]
    return written(tensors, steps, (0,), (10,))


def filters(rank: int, zero_point: int, batch: int = 1) -> bytes:
    """Two layers whose memory holds four calls and three; results beyond int8 wrap with the zero point."""
    tensors = [
        Told("x", (batch, 6), 0.05, 3),
        Told("w", (rank * 5, 6), 0.02, 0, weights(1, rank * 5, 6)),
        Told("over time", (rank * 5, 4), 0.01, 0, weights(2, rank * 5, 4)),
        Told("b", (5,), 0.0006, 0, bias(3, 5), "int32"),
        Told("memory", (batch, rank * 20), 0.06, zero_point, is_variable=True),
        Told("y", (batch, 5), 0.07, -128),
        Told("w2", (rank * 3, 5), 0.02, 0, weights(4, rank * 3, 5)),
        Told("over time 2", (rank * 3, 3), 0.01, 0, weights(5, rank * 3, 3)),
        Told("b2", (3,), 0.0006, 0, bias(6, 3), "int32"),
        Told("memory 2", (batch, rank * 9), 0.06, -5, is_variable=True),
        Told("z", (batch, 3), 0.09, 7),
    ]
    options = {0: Field("i", rank), 1: Field("b", 1)}
    steps = [Step("SVDF", (0, 1, 2, 3, 4), (5,), options), Step("SVDF", (5, 6, 7, 8, 9), (10,), options)]
    return written(tensors, steps, (0,), (10,))


def gates(batch: int, clip: float = 10.0, scale: float = 2.0**-11, *, by_step: bool = False) -> bytes:
    """An LSTM of five units over three steps of four elements, whose states stay from call to call."""
    count = 5
    x, y = (Told(name, (3, batch, n) if by_step else (batch, 3, n), *by) for name, n, by in (
        ("x", 4, (0.05, 3)), ("y", count, (0.0078, -4))
    ))  # fmt: skip
    scales = (0.011, 0.02, 0.017, 0.013)
    matrices = [
        Told(f"{word}{gate}", (count, n), each / 2, 0, weights(20 * n + gate, count, n))
        for word, n in (("w", 4), ("r", count))
        for gate, each in enumerate(scales)
    ]
    biases = [Told(f"b{g}", (count,), 0.05 * each / 2, 0, bias(g, count), "int32") for g, each in enumerate(scales)]
    states = [
        Told("h", (batch, count), 0.0078, -4, is_variable=True),
        Told("c", (batch, count), scale, 0, dtype="int16", is_variable=True),
    ]
    nothing = [Told(f"intermediate{n}", (0,), dtype="float32") for n in range(4)]
    tensors = [x, *matrices, *biases, *states, y, *nothing, Told("hidden", (0,), 0.0078, -4)]
    inputs = (0, *range(1, 9), -1, -1, -1, *range(9, 13), -1, -1, 13, 14, -1, -1, -1, -1)
    options = {0: Field("b", 4), 1: Field("f", clip), 3: Field("b", by_step)}
    step = Step("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, (15,), options, tuple(range(16, 21)))
    return written(tensors, [step], (0,), (15,))


def wide_filters(rank: int) -> bytes:
    """A memory of int16; extreme inputs make sums leave int32."""
    count = rank * 5
    tensors = [
        Told("x", (1, 6), 0.05, 3),
        Told("w", (count, 6), 0.02, 0, weights(1, count, 6)),
        Told("over time", (count, 4), 0.0001, 0, weights(2, count, 4) * 258, "int16"),
        Told("b", (5,), 2.1e-8, 0, bias(3, 5) * 10000, "int32"),
        Told("memory", (1, count * 4), 0.00021, 0, dtype="int16", is_variable=True),
        Told("y", (1, 5), 0.07, -128),
    ]
    step = Step("SVDF", (0, 1, 2, 3, 4), (5,), {0: Field("i", rank), 1: Field("b", 1)})
    return written(tensors, [step], (0,), (5,))


def frames(data: bytes) -> Sequence[np.ndarray]:
    """Random inputs of calls one after the other."""
    graph = read_tflite(data, "model")
    shape = graph.value(graph.inputs[0]).fixed_shape or ()
    return np.random.default_rng(5).integers(-128, 128, (CALLS, *shape)).astype(np.int8)


STREAMS = {
    "stream": stream(),
    "stream_that_begins": stream(weights(9, 1, 2, 1, 4)),
    "total": total(),
    "delay": delay(),
    "early": early(),
    "gates": gates(1),
    "gates_of_two": gates(2, clip=0.0, scale=2.0**-9),
    "gates_by_step": gates(2, clip=0.7, scale=2.0**-13, by_step=True),
    "wide_filters": wide_filters(2),
    "filters": filters(1, 0),
    "filters_of_rank_2": filters(2, -40, 2),
}
"""Networks by name."""
