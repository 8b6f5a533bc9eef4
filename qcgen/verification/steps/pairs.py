"""Sums, differences and products of two tensors: all pairs of codes, of 16 bits those beside steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from qcgen.ir.program import QuantizedBinary, Tensor
from qcgen.ir.types import Array
from qcgen.reference import evaluate_operator
from qcgen.verification.steps.driven import MOST_ELEMENTS, Driven

TURNS = 2**16  # inputs at most
TOGETHER = 2**18  # elements of inputs that are made at a time
WIDE = 2**13  # outputs of 16 bits that are driven to a step


def of_pairs(op: QuantizedBinary, constants: Mapping[str, Array]) -> Iterator[Driven]:
    """All pairs of codes; of an operand that is a constant those with its codes, of one tensor twice the equal ones."""
    table = _table(op)
    wanted = np.zeros(table.shape, np.bool_)
    wanted[np.ix_(*(_codes(tensor, constants) for tensor in (op.a, op.b)))] = True
    if op.a.name == op.b.name:
        wanted &= np.eye(len(table), dtype=np.bool_)
    seen = np.zeros_like(wanted)
    rank, size, turn = len(op.y.shape), op.y.size, 0
    while turn == 0 or ((wanted & ~seen).any() and turn < TURNS and turn * size < MOST_ELEMENTS):
        turns = np.arange(turn, turn + max(1, min(2**12, TOGETHER // size)))
        a, b = _places(op, constants, turns)
        pairs = np.broadcast_arrays(_ranked(a, rank), _ranked(b, rank))
        before = _sides(table, wanted & seen)
        seen[pairs[0], pairs[1]] = True
        sides, sides_of = _sides(table, wanted & seen) - before, _sides(table, wanted) if turn == 0 else 0
        xs = _given(op, constants, a + op.a.dtype.low, b + op.b.dtype.low)
        yield Driven("pairs of codes", xs, table[pairs[0], pairs[1]], sides, sides_of)
        turn += len(turns)


def _table(op: QuantizedBinary) -> Array:
    """The output of every pair of codes, (256, 256), a's along the first axis."""
    a, b = (np.arange(x.dtype.low, x.dtype.high + 1).astype(x.dtype.numpy) for x in (op.a, op.b))
    return evaluate_operator(op, a[:, None], b[None, :])


def _codes(tensor: Tensor, constants: Mapping[str, Array]) -> Array:
    """The codes that an operand can have, less the lowest one of its type."""
    known = constants.get(tensor.name)
    return np.arange(256) if known is None else np.unique(known.astype(np.int64) - tensor.dtype.low)


def _sides(table: Array, pairs: Array) -> int:
    """How many sides of the steps between neighbouring codes of a are among ``pairs`` (256, 256)."""
    steps = np.diff(table, axis=0) != 0
    return int((steps & pairs[:-1]).sum() + (steps & pairs[1:]).sum())


def _places(op: QuantizedBinary, constants: Mapping[str, Array], turns: Array) -> tuple[Array, Array]:
    """Codes less the lowest one of both operands for some turns: (turns, ...), or (1, ...) of a constant.

    In turns, neighbouring elements have neighbouring codes, and b is moved on against a.
    """
    step = max(op.y.size // 256 - 1, 0) | 1
    a, b = (np.arange(x.size).reshape(x.shape) for x in (op.a, op.b))
    turn_of_a, turn_of_b = (turns.reshape(-1, *[1] * each.ndim) for each in (a, b))
    if op.b.name in constants:
        return (a + turn_of_a) % 256, constants[op.b.name].astype(np.int64)[None] - op.b.dtype.low
    if op.a.name in constants:
        return constants[op.a.name].astype(np.int64)[None] - op.a.dtype.low, (b + turn_of_b) % 256
    places = (a + a // 256 + turn_of_a // 256) % 256
    return places, places if op.a.name == op.b.name else (b + turn_of_b * step) % 256


def _ranked(x: Array, rank: int) -> Array:
    """Operands (count, ...) with as many axes behind the first as the output has."""
    return x.reshape(len(x), *[1] * (rank + 1 - x.ndim), *x.shape[1:])


def _given(op: QuantizedBinary, constants: Mapping[str, Array], a: Array, b: Array) -> list[Array]:
    """The operands that are not constants, in their types."""
    return [x.astype(t.dtype.numpy) for t, x in ((op.a, a), (op.b, b)) if t.name not in constants]


def of_wide_pairs(
    op: QuantizedBinary, constants: Mapping[str, Array], generator: np.random.Generator
) -> Iterator[Driven]:
    """Random codes, and with those of b two neighbouring codes of a between which there is a step."""
    count = max(2, -(-WIDE // op.y.size))
    a, b = (_random(x, constants, count, generator) for x in (op.a, op.b))
    b = a if op.a.name == op.b.name else b
    rank = len(op.y.shape)

    def code_of(a: Array) -> Array:
        return evaluate_operator(op, _ranked(a, rank), _ranked(b, rank)).astype(np.int64)

    code = code_of(a)
    yield Driven("random codes", _given(op, constants, a, b), code.astype(op.y.dtype.numpy))
    if op.a.name in constants or op.a.name == op.b.name or a.shape != code.shape:
        return
    below, above = (np.full(a.shape, end) for end in (op.a.dtype.low, op.a.dtype.high))
    sign = np.where(code_of(above) >= code_of(below), 1, -1)
    while (above - below > 1).any():
        middle = (below + above) >> 1
        is_below = sign * code_of(middle) < sign * code
        below, above = np.where(is_below, middle, below), np.where(is_below, above, middle)
    sides = int((code_of(below) != code_of(above)).sum())
    b = np.broadcast_to(b, (count, *b.shape[1:]))
    for end in (below, above):
        expected = code_of(end).astype(op.y.dtype.numpy)
        yield Driven("pairs of codes beside steps", _given(op, constants, end, b), expected, sides, sides)


def _random(tensor: Tensor, constants: Mapping[str, Array], count: int, generator: np.random.Generator) -> Array:
    """Random codes (count, ...), one in eight of them at an end of the type; or the constant (1, ...)."""
    if tensor.name in constants:
        return constants[tensor.name].astype(np.int64)[None]
    ends, shape = (tensor.dtype.low, tensor.dtype.high), (count, *tensor.shape)
    codes = generator.integers(ends[0], ends[1] + 1, shape)
    return np.where(generator.integers(0, 8, shape) == 0, generator.choice(ends, shape), codes)
