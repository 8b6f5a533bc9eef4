"""LSTM and GRU by their definition, in float64; LSTM in integers."""

from __future__ import annotations

import numpy as np

from qcgen import arithmetic, functions
from qcgen.ir.program import GateWeights, IntegerLstm, Recurrent
from qcgen.ir.types import Array
from qcgen.reference.activations import activate


def evaluate_recurrent(op: Recurrent, x: Array, *rest: Array) -> Array:
    """y; ``rest`` are the scale and the zero point, if there are such, then those states that are given, h before c."""
    if op.scale is not None:
        return _evaluate_dynamic_lstm(op, x, *rest)
    return _evaluate_in_float(op, x, *rest)


def _evaluate_dynamic_lstm(op: Recurrent, x: Array, scale: Array, zero_point: Array, *initial: Array) -> Array:
    """Equation (91), step by step, in float32; the batch is one."""
    rows, given = [], iter(initial)
    state = (len(op.reverses), op.units)
    h, c = (
        np.zeros(state, np.float32) if each is None else next(given).reshape(state)
        for each in (op.initial_h, op.initial_c)
    )
    codes = x[:, 0].astype(np.int64) - int(zero_point)
    for d, is_reverse in enumerate(op.reverses):
        of_x = _gate_sums(codes, op.weights, d, scale)
        now, cell, states = h[d], c[d], np.empty((len(x), op.units), np.float32)
        for t in range(len(x))[:: -1 if is_reverse else 1]:
            now, cell = _dynamic_step(op, d, of_x[t], now, cell)
            states[t] = now
        rows.append(np.stack([*states, now, cell]))
    y = np.stack(rows, axis=1)[:, :, None]
    parts = (op.keeps_states, y[:-2]), (op.keeps_last, y[-2:-1]), (op.keeps_cell, y[-1:])
    return np.concatenate([part for is_kept, part in parts if is_kept])


def _gate_sums(codes: Array, weights: GateWeights, direction: int, scale: Array) -> Array:
    """Equation (91): of codes (..., n) less their zero point, the sums for each gate and unit (..., G, H).

    fl32(fl32(sum) * fl32(scale * w_scale))
    """
    assert weights.scale is not None, "weights are codes"
    taps = weights.codes[direction].astype(np.int64) - weights.zero_point
    with np.errstate(all="ignore"):
        sums = np.einsum("...n,ghn->...gh", codes.astype(np.int64), taps).astype(np.float32)
        return np.asarray(sums * (scale * weights.scale[direction]))


def _dynamic_step(op: Recurrent, d: int, of_x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    """Equation (91): the states h and c (H,) after a step in direction d whose input gave ``of_x`` (G, H), in float32.

    h is quantized by its extremes; g = fl32(fl32(of_x + _gate_sums(h)) + bias), of i, o, f the logistic, else tanh;
    c' = fl32(fl32(c * f) + fl32(i * g)); h' = fl32(tanh(c') * o).
    Source: onnxruntime's DynamicQuantizeLSTM. Checked: 0 of 5,516 outputs with a batch of one differ.
    """
    with np.errstate(all="ignore"):
        scale, zero = arithmetic.dynamic_parameters(np.fmin.reduce(h, initial=0), np.fmax.reduce(h, initial=0))
        codes = arithmetic.quantize(h, float(scale), zero, 0, 255) - zero
        numbers = of_x + _gate_sums(codes, op.state_weights, d, np.asarray(scale)) + op.bias[d]
        i, o, forget = (functions.logistic(numbers[gate]) for gate in range(3))
        cell = c * forget + i * functions.tanh(numbers[3])
        return functions.tanh(cell) * o, cell


def _evaluate_in_float(op: Recurrent, x: Array, *initial: Array) -> Array:
    """Rounded to float32 at the end."""
    directions, units = len(op.reverses), op.units
    given = iter(initial)
    h, c = (
        np.zeros((directions, x.shape[1], units)) if state is None else next(given).astype(np.float64)
        for state in (op.initial_h, op.initial_c)
    )
    weights, state_weights = matrix(op.weights), matrix(op.state_weights)
    y = np.zeros((x.shape[0] + 2, directions, x.shape[1], units))
    for d, is_reverse in enumerate(op.reverses):
        now, cell = h[d], c[d]
        for t in range(x.shape[0])[:: -1 if is_reverse else 1]:
            inputs = np.einsum("bi,ghi->gbh", x[t].astype(np.float64), weights[d]) + op.bias[d][:, None].astype(float)
            step = _lstm_step if op.kind == "lstm" else _gru_step
            now, cell = step(op, d, inputs, state_weights[d], now, cell)
            y[t, d] = now
        y[-2, d], y[-1, d] = now, cell
    parts = (op.keeps_states, y[:-2]), (op.keeps_last, y[-2:-1]), (op.keeps_cell, y[-1:])
    return np.concatenate([part for is_kept, part in parts if is_kept]).astype(np.float32)


def evaluate_integer_lstm(op: IntegerLstm, x: Array, h: Array, c: Array) -> Array:
    """Equation (89), step by step; the cell, as bytes, in the last two rows."""
    state, cell = h.astype(np.int64), np.ascontiguousarray(c).view("<i2").astype(np.int64)
    rows = []
    for t in range(x.shape[1]):
        state, cell = arithmetic.lstm_step_in_integers(op, x[:, t], state, cell)
        rows.append(state.astype(np.int8))
    last = cell.astype("<i2").view(np.int8).reshape(len(x), 2, op.units)
    return np.concatenate([np.stack(rows, axis=1), last], axis=1)


def terms(op: Recurrent, x: Array, *initial: Array) -> float:
    """The most that the terms of a gate can sum up to: |W| |x| + |R| + |b|, or |R| |h| for larger initial states."""
    if op.scale is not None:
        return 0.0  # its numbers are exact
    largest = 1.0 if op.initial_h is None else max(1.0, float(np.abs(initial[0]).max(initial=0)))
    of_x, of_h = (np.abs(matrix(weights)) for weights in (op.weights, op.state_weights))
    most = np.einsum("tbi,dghi->dghtb", np.abs(x.astype(np.float64)), of_x).max(axis=(-2, -1))
    return float((most + of_h.sum(axis=-1) * largest + np.abs(op.bias.astype(np.float64))).max())


def matrix(weights: GateWeights) -> Array:
    """The weights as float64 numbers (D, G, H, n)."""
    values: Array = weights.codes.astype(np.float64) - weights.zero_point
    return values if weights.scale is None else values * weights.scale[..., None].astype(np.float64)


def _lstm_step(op: Recurrent, _d: int, inputs: Array, weights: Array, h: Array, c: Array) -> tuple[Array, Array]:
    f, g, last = op.activations
    i, o, forget, cell = _clipped(op, inputs + np.einsum("bk,ghk->gbh", h, weights))
    now = activate(f, i)
    kept = 1 - now if op.couples else activate(f, forget)
    c = kept * c + now * activate(g, cell)
    return activate(f, o) * activate(last, c), c


def _gru_step(op: Recurrent, d: int, inputs: Array, weights: Array, h: Array, c: Array) -> tuple[Array, Array]:
    f, g = op.activations
    z, r = activate(f, _clipped(op, inputs[:2] + np.einsum("bk,ghk->gbh", h, weights[:2])))
    if op.state_bias is None:
        state = (r * h) @ weights[2].T
    else:
        state = r * (h @ weights[2].T + op.state_bias[d].astype(np.float64))
    candidate = activate(g, _clipped(op, inputs[2] + state))
    return (1 - z) * candidate + z * h, c


def _clipped(op: Recurrent, values: Array) -> Array:
    return values if op.clip is None else np.clip(values, -op.clip, op.clip)
