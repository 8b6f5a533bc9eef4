"""LSTM and GRU become one operator each, and movements for the outputs that the model has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

import numpy as np

from qcgen.infer import DIRECTIONS
from qcgen.ir.program import GATES, GateWeights, Operator, Recurrent, Reshape, Slice, Tensor, Transpose
from qcgen.ir.types import Array, DType
from qcgen.lower.codes import codes_of
from qcgen.lower.elementwise import quantized_by_extremes
from qcgen.lower.source import Source


def lower_recurrent(source: Source) -> tuple[Operator, ...]:
    """LSTM or GRU in float32, weights float or dequantized; states in and out."""
    # The time is brought to the front, and the outputs that are used are taken from what is computed.
    kind: Literal["lstm", "gru"] = "gru" if source.node.op_type == "GRU" else "lstm"
    x, before = source.tensor(0), list[Operator]()
    states = [source.tensor(i) if _is_given(source, i, kind) else None for i in (5, 6)]
    if source.node.integer("layout", 0):
        x = _exchanged(source, x, before)
        states = [state and _exchanged(source, state, before) for state in states]
    gates, state_gates = _weights(source, 1, kind), _weights(source, 2, kind)
    op, after = _layer(source, kind, x, states, gates, state_gates)
    return (*before, op, *after)


def lower_dynamic_lstm(source: Source) -> tuple[Operator, ...]:
    """DynamicQuantizeLSTM of one sequence: X becomes codes at once, h before each step; sums are integers."""
    codes = source.inner("codes", DType.UINT8, source.tensor(0).shape)
    scale, zero_point = source.inner("scale", DType.FLOAT32, ()), source.inner("zero_point", DType.UINT8, ())
    states = [source.tensor(i) if _is_given(source, i, "lstm") else None for i in (5, 6)]
    op, after = _layer(source, "lstm", codes, states, _codes(source, 1, 8), _codes(source, 2, 10))
    op = replace(op, scale=scale, zero_point=zero_point, couples=False)
    return (*quantized_by_extremes(source, scale, zero_point, codes), op, *after)


def _layer(
    source: Source,
    kind: Literal["lstm", "gru"],
    x: Tensor,
    states: Sequence[Tensor | None],
    gates: GateWeights,
    state_gates: GateWeights,
) -> tuple[Recurrent, tuple[Operator, ...]]:
    """The operator over x (T, B, I), the time in front, and what makes the node's outputs of its own."""
    directions, _, units, _ = gates.codes.shape
    direction, (h, c) = source.node.text("direction", "forward"), states
    bias, state_bias = _biases(source, kind, directions, units)
    outputs = _Outputs(source, (x.shape[0], directions, x.shape[1], units))
    op = Recurrent(
        *source.called,
        kind,
        x,
        h,
        c,
        outputs.y,
        gates,
        state_gates,
        bias,
        state_bias,
        DIRECTIONS[direction],
        outputs.keeps_states,
        outputs.keeps_last,
        outputs.keeps_cell,
        source.real("clip", 0.0) or None,
        bool(source.node.integer("input_forget", 0)),
    )
    return op, outputs.taken(direction == "reverse")


def _codes(source: Source, index: int, scale: int) -> GateWeights:
    """W or R (D, n, G H) by gates and units, less its zero points: where these are 0, as they are."""
    array = source.array(index).swapaxes(1, 2)
    shape = (array.shape[0], len(GATES["lstm"]), array.shape[1] // len(GATES["lstm"]))
    zero = _for_each(source.array(scale + 1) if source.has(scale + 1) else np.zeros(1, np.int8), shape)
    return GateWeights(_less(array.reshape(*shape, array.shape[2]), zero), _for_each(source.array(scale), shape))


def _less(codes: Array, zero_point: Array) -> Array:
    """Codes less their zero points, (...) of (..., n): int8 if they fit, else int16."""
    differences = codes.astype(np.int16) - zero_point[..., None].astype(np.int16)
    is_int8 = differences.min() >= DType.INT8.low and differences.max() <= DType.INT8.high
    return np.asarray(differences.astype(np.int8) if is_int8 else differences)


def _for_each(values: Array, shape: tuple[int, int, int]) -> Array:
    """One number, one for each direction, or one for each gate and unit, for all gates and units."""
    return np.broadcast_to(values.reshape((-1, 1, 1) if values.size in (1, shape[0]) else shape), shape)


def _is_given(source: Source, index: int, kind: str) -> bool:
    """Whether an input is there, and is not a state of zeros; a GRU has no cell."""
    if not source.has(index) or (kind == "gru" and index == 6):
        return False
    return not source.is_constant(index) or bool(np.any(source.array(index) != 0))


def _exchanged(source: Source, tensor: Tensor, before: list[Operator]) -> Tensor:
    """The tensor with its first two axes exchanged."""
    shape = (tensor.shape[1], tensor.shape[0], tensor.shape[2])
    inner = source.inner(f"{tensor.name} by time", tensor.dtype, shape)
    before.append(Transpose(*source.called, tensor, inner, (1, 0, 2)))
    return inner


def _weights(source: Source, index: int, kind: str) -> GateWeights:
    """W or R, by gates and units: codes where they are dequantized from 8 bits with a scale for each row, or fewer.

    Codes less their zero points if these fit int8, or if zero points differ from row to row.
    """
    array, found = source.array(index), codes_of(source, index)
    shape = (array.shape[0], len(GATES[kind]), array.shape[1] // len(GATES[kind]))
    if found is None or found.axis not in (None, 0, 1):
        return GateWeights(array.reshape(*shape, array.shape[2]))
    scale, zero_point = (
        np.broadcast_to(parameter.reshape((1, -1) if found.axis else (-1, 1)), array.shape[:2])
        for parameter in (found.scale, found.zero_point)
    )
    codes, one = _less(found.codes, zero_point), 0
    if codes.dtype != np.int8 and (zero_point == zero_point[0, 0]).all():
        codes, one = found.codes, int(zero_point[0, 0])
    return GateWeights(codes.reshape(*shape, array.shape[2]), np.array(scale).reshape(shape), one)


def _biases(source: Source, kind: str, directions: int, units: int) -> tuple[np.ndarray, np.ndarray | None]:
    """The sums of W's and R's biases; and, where the reset gate multiplies R h, the bias of that apart."""
    gates = len(GATES[kind])
    both = source.array(3) if source.has(3) else np.zeros((directions, 2 * gates * units), np.float32)
    w, r = both.reshape(directions, 2, gates, units).swapaxes(0, 1)
    if kind == "lstm" or not source.node.integer("linear_before_reset", 0):
        return w + r, None
    bias = w + r
    bias[:, 2] = w[:, 2]
    return bias, r[:, 2]


class _Outputs:
    """What the operator computes for those outputs of the node that are used, and how they are taken from it.

    ``sizes`` are T, D, B and H. Of Y, Y_h and Y_c the names are kept, "" for one that is not used.
    """

    def __init__(self, source: Source, sizes: tuple[int, int, int, int]) -> None:
        self._source, self._sizes = source, sizes
        names = (*source.node.outputs, "", "", "")[:3]
        self._states, self._last, self._cell = (name if name in source.graph.used else "" for name in names)
        steps, directions, batch, units = sizes
        self.keeps_states, self.keeps_cell = bool(self._states), bool(self._cell)
        # In one direction the last state is one of those that are there already.
        self._is_last_a_state = self.keeps_states and directions == 1
        self.keeps_last = not (self.keeps_states or self.keeps_cell) or (bool(self._last) and not self._is_last_a_state)
        rows = steps * self.keeps_states + self.keeps_last + self.keeps_cell
        self._is_batch_first = bool(source.node.integer("layout", 0))
        is_y = self.keeps_states and not self.keeps_last and not self.keeps_cell and not self._is_batch_first
        shape = (rows, directions, batch, units)
        self.y = source.result() if is_y else source.inner("states", DType.FLOAT32, shape)

    def taken(self, is_reverse: bool) -> tuple[Operator, ...]:
        """The operators that make the outputs of y."""
        steps = self._sizes[0] if self.keeps_states else 0
        found: list[Operator] = []
        if self._states and self._states != self.y.name:
            found += self._rows(self._states, 0, steps, (2, 0, 1, 3))
        if self._last:
            state = 0 if is_reverse else steps - 1
            found += self._rows(self._last, state if self._is_last_a_state else steps, 1, (1, 0, 2))
        if self._cell:
            found += self._rows(self._cell, steps + self.keeps_last, 1, (1, 0, 2))
        return tuple(found)

    def _rows(self, output: str, first: int, count: int, perm: tuple[int, ...]) -> list[Operator]:
        """Some rows of y as an output; one row without its axis, if it is a last state; the batch first, if it is."""
        node, index = self._source.node, self._source.node.outputs.index(output)
        called, result = (f"{node.name}.{index}", node.op_type), self._source.result(index=index)
        steps: list[tuple[tuple[int, ...], Callable[[Tensor, Tensor], Operator]]] = []
        if count < self.y.shape[0]:
            starts = (first, 0, 0, 0)
            steps.append(((count, *self._sizes[1:]), lambda x, y: Slice(*called, x, y, starts, (1, 1, 1, 1))))
        if output != self._states:
            steps.append((self._sizes[1:], lambda x, y: Reshape(*called, x, y)))
        if self._is_batch_first:
            steps.append((result.shape, lambda x, y: Transpose(*called, x, y, perm)))
        inner = (
            self._source.inner(f"{output} {i}", DType.FLOAT32, shape) for i, (shape, _) in enumerate(steps[:-1], 1)
        )
        return [step(*ends) for (_, step), ends in zip(steps, pairwise((self.y, *inner, result)), strict=True)]
