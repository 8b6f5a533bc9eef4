"""Every kind of output step, driven in the C itself from both sides of the steps of its codes, at ties and near them.

The sums of layers are driven by verification/sums.py; here is everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from qcgen import arithmetic
from qcgen.ir.program import (
    AveragePool,
    ChannelLookup,
    Convert,
    Dequantize,
    InstanceNorm,
    IntegerUnary,
    LayerNorm,
    Lookup,
    MatMul,
    Operator,
    Quantize,
    QuantizedBinary,
    Reduce,
    Requantize,
    Softmax,
    Tensor,
    inputs_of,
)
from qcgen.ir.types import Array, DType
from qcgen.plan.arrange import steps_of
from qcgen.progress import report_progress
from qcgen.reference import evaluate_operator
from qcgen.reference.elementwise import quantization_of
from qcgen.verification.layers import Bounds, layers_of
from qcgen.verification.nodes import CalledNode, Nodes, WrongValue
from qcgen.verification.steps.groups import (
    MOST_ELEMENTS,
    Driven,
    Ends,
    beside,
    of_average_pool,
    of_normalization,
    of_product,
    of_reduce,
    of_rounded_once,
    of_softmax,
    spread,
)

# Operators of one number or of two, element by element: numbers on both sides of every step, or all codes.

INFINITE = 0x7F800000
"""The word of the float32 infinity."""

TIES = 2**12  # integers, and float32 numbers, between which ties are tried


def of_quantize(op: Quantize, generator: np.random.Generator) -> Iterator[Driven]:
    """Two float32 numbers on each side of every step; numbers beyond all codes, the smallest ones, infinities."""
    by, low, high = quantization_of(op.y), op.y.dtype.low, op.y.dtype.high

    def code_of(places: Array) -> Array:
        return arithmetic.quantize(_float32_at(places), by.scale, by.zero_point, low, high, op.is_away)

    codes = np.arange(low, high)
    below, above = beside(code_of, -INFINITE, INFINITE, codes)
    ends = np.array([0, 1, -1, INFINITE - 1, 1 - INFINITE, INFINITE, -INFINITE])
    places = np.concatenate([below, above, below - 1, above + 1, ends])
    values = _float32_at(np.clip(places, -INFINITE, INFINITE))
    x = spread(np.append(values, np.float32(-0.0)), op.x.shape, generator)
    yield Driven("numbers beside steps", (x,), evaluate_operator(op, x), 2 * len(codes), 2 * len(codes))


def _float32_at(places: Array) -> Array:
    """The float32 numbers in ascending order: 0 at 0, infinity at its word."""
    words = np.where(places < 0, 2**31 - places, places)
    return words.astype(np.uint32).view(np.float32)


def of_conversion(op: Dequantize | Convert, generator: np.random.Generator) -> Iterator[Driven]:
    """Every code or float16 number; of wider types those beside ties of what they are rounded to."""
    x, sides = op.x.dtype, 0
    if x is DType.FLOAT16:
        values = np.arange(2**16).astype(np.uint16).view(np.float16)
    elif not op.y.dtype.is_float:
        values = _beside_ends(x, op.y.dtype)
    elif x is DType.INT32:
        values = _integers_beside_ties(op.x.zero_point or 0, generator)
    elif x.is_float:
        numbers, sides = _neighbours(op.y.dtype, generator)
        values = _between(numbers, x)
    elif x.bytes > 2:
        values = _beside_ends(x, x)
    else:
        values = np.arange(x.low, x.high + 1).astype(x.numpy)
    given = spread(values, op.x.shape, generator)
    yield Driven("numbers beside ties", (given,), evaluate_operator(op, given), sides, sides)


def _beside_ends(x: DType, y: DType) -> Array:
    """Numbers beside powers of two, where integers end, whole and a little less or more; and beside 0."""
    powers = [sign * (1 << bit) for bit in range(8 * max(y.bytes, 4) + 1) for sign in (1, -1)]
    whole = [0, *(power + by for power in powers for by in (-257, -1, 0, 1, 257))]
    if not x.is_float:
        inside = [min(max(value, x.low), x.high) for value in whole]
        return np.array(inside, object).astype(x.numpy)
    numbers = np.array(whole, np.float64)
    with np.errstate(over="ignore"):
        beside = [numbers, numbers + 0.5, numbers - 0.5, *(np.nextafter(numbers, end) for end in (-np.inf, np.inf))]
        return np.concatenate([*beside, [np.nan, np.inf, -np.inf]]).astype(x.numpy)


def _integers_beside_ties(zero_point: int, generator: np.random.Generator) -> Array:
    """int32 whose difference to the zero point lies in the middle of two float32 numbers, or next to it."""
    odd = 2 * generator.integers(2**23, 2**24, TIES) + 1
    middle = generator.choice([-1, 1], TIES) * (odd << generator.integers(0, 7, TIES))
    ends = np.array([-(2**31), 2**31 - 1, -1, 0, 1])
    values = np.concatenate([*(middle + by + zero_point for by in (-1, 0, 1)), ends])
    clipped: Array = np.clip(values, -(2**31), 2**31 - 1).astype(np.int32)
    return clipped


def _neighbours(dtype: DType, generator: np.random.Generator) -> tuple[Array, int]:
    """Pairs (2, n) of neighbours of at least 0 as float64; and how many sides of steps lie at all of the type's."""
    if dtype is DType.FLOAT16:
        every = np.arange(0x7C01).astype(np.uint16).view(np.float16).astype(np.float64)
        every[-1] = 2.0**16  # what would follow the largest number
        return np.stack([every[:-1], every[1:]]), 2 * 2 * 0x7C00
    words = generator.integers(0, INFINITE - 1, TIES).astype(np.uint32)
    return np.stack([words, words + 1]).view(np.float32).astype(np.float64), 0


def _between(pairs: Array, dtype: DType) -> Array:
    """Numbers in the middle of neighbours (2, n), next to it, and next to what float32 rounds to it; of both signs."""
    own = dtype.numpy
    middle = pairs.mean(axis=0)
    values = [*pairs, middle, middle * (1 + 2.0**-30), middle * (1 - 2.0**-30)]
    beside_middle = [np.nextafter(middle.astype(own), own.type(end)) for end in (0, np.inf)]
    ends = np.array([np.inf, np.nan, np.finfo(own).max, np.finfo(own).tiny])
    every = np.concatenate([each.astype(own) for each in (*values, *beside_middle, ends)])
    return np.concatenate([every, -every])


def of_lookup(op: Lookup, generator: np.random.Generator) -> Iterator[Driven]:
    """All codes."""
    x = spread(np.arange(op.x.dtype.low, op.x.dtype.high + 1).astype(op.x.dtype.numpy), op.x.shape, generator)
    sides = 2 * int(np.count_nonzero(np.diff(op.table)))
    yield Driven("all codes", (x,), evaluate_operator(op, x), sides, sides)


def of_every_code(op: IntegerUnary) -> Iterator[Driven]:
    """All codes of 16 bits."""
    codes = np.arange(op.x.dtype.low, op.x.dtype.high + 1).astype(op.x.dtype.numpy)
    x = spread(codes, op.x.shape, np.random.default_rng(0))
    steps = np.diff(evaluate_operator(op, codes)) != 0
    yield Driven("all codes", (x,), evaluate_operator(op, x), *[2 * int(np.count_nonzero(steps))] * 2)


def of_channel_lookup(op: ChannelLookup) -> Iterator[Driven]:
    """All codes in every channel."""
    shape = op.x.shape
    wide = [-1 if axis == op.axis else 1 for axis in range(len(shape))]
    channels = np.arange(shape[op.axis]).reshape(wide)
    # Of a channel, the elements are numbered by all the other axes.
    number = np.moveaxis(np.arange(prod(shape) // shape[op.axis]).reshape([1, *np.delete(shape, op.axis)]), 0, op.axis)
    count = min(-(-256 // number.size), max(1, MOST_ELEMENTS // prod(shape)))
    first = np.arange(count).reshape(-1, *[1] * len(shape)) * number.size
    places = np.broadcast_to((number + first) % 256, (count, *shape))
    seen = np.zeros(op.tables.shape, np.bool_)
    seen[np.broadcast_to(channels, places.shape), places] = True
    steps = np.diff(op.tables, axis=1) != 0
    sides = int((steps & seen[:, :-1]).sum() + (steps & seen[:, 1:]).sum())
    x = (places + op.x.dtype.low).astype(op.x.dtype.numpy)
    expected = evaluate_operator(replace(op, axis=op.axis + 1), x)
    yield Driven("all codes of each channel", (x,), expected, sides, 2 * int(steps.sum()))


# Sums, differences and products of two tensors: all pairs of codes, of 16 bits those beside steps.

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


# All kinds of steps.

__all__ = ["DrivenSteps", "NodeSteps", "drive_steps"]


@dataclass(frozen=True)
class NodeSteps:
    """What was found of a node, called on so many ``inputs``: ``wrong`` is the first output that is not as it must be.

    ``sides`` of the steps between its output codes were reached, of ``sides_of``. A side is the number or the sum next
    to a step, or the least or greatest sum; where none can be computed, what is within near.NEAR of a code, of the
    sides that any output came to.
    """

    node: str
    inputs: int
    sides: int
    sides_of: int
    wrong: WrongValue | None


@dataclass(frozen=True)
class DrivenSteps:
    """The nodes that have output steps, but for layers whose sums are measured."""

    nodes: tuple[NodeSteps, ...]

    @property
    def wrong(self) -> WrongValue | None:
        """The first wrong output of all."""
        return next((node.wrong for node in self.nodes if node.wrong), None)

    def total(self, what: str) -> int:
        """The sum of a number over all nodes."""
        return sum(int(getattr(node, what)) for node in self.nodes)


def drive_steps(nodes: Nodes, seed: int) -> DrivenSteps:
    """Calls every node by itself on inputs beside its steps; the reference of its operator says what must come."""
    found = (_steps(nodes, node, each) for node, each in _driven(nodes, seed))
    return DrivenSteps(tuple(steps for steps in found if steps.inputs))


def _driven(nodes: Nodes, seed: int) -> Iterator[tuple[CalledNode, Iterator[Driven]]]:
    """Each node with inputs beside its steps."""
    artifact = nodes.artifact
    constants = artifact.planned.constants
    ends = Bounds(artifact.planned, steps_of(artifact.planned, artifact.plan.options.layout)).of
    layers = {layer.node.index: layer for layer in layers_of(artifact, nodes.nodes)}
    for node in nodes.nodes:
        if node.call.certificate.word is not None or not _has_constants(node.op, constants):
            continue
        report_progress(f"driving the steps of {node.op.name}")
        generator = np.random.default_rng(seed)
        layer = layers.get(node.index)
        yield (
            node,
            _beside_steps(node.op, constants, ends, generator) if layer is None else of_rounded_once(layer, generator),
        )


def _has_constants(op: Operator, constants: Mapping[str, Array]) -> bool:
    """Whether the constants that an operator reads are there in its shapes: of a few rows they are not."""
    return all(constants[x.name].shape == x.shape for x in inputs_of(op) if x.name in constants)


def _beside_steps(
    op: Operator, constants: Mapping[str, Array], ends: Ends, generator: np.random.Generator
) -> Iterator[Driven]:
    """Inputs beside the steps of an operator; none for those that have none."""
    match op:
        case Quantize():
            yield from of_quantize(op, generator)
        case Dequantize() | Convert():
            yield from of_conversion(op, generator)
        case IntegerUnary():
            yield from of_every_code(op)
        case Lookup():
            yield from of_lookup(op, generator)
        case ChannelLookup():
            yield from of_channel_lookup(op)
        case QuantizedBinary():
            yield from of_wide_pairs(op, constants, generator) if op.is_wide else of_pairs(op, constants)
        case Reduce(requantize=Requantize()):
            yield from of_reduce(op, generator)
        case AveragePool() if op.x.dtype.is_quantized:
            yield from of_average_pool(op, generator)
        case MatMul(epilogue=Requantize()):
            yield from of_product(op, constants, ends, generator)
        case Softmax():
            yield from of_softmax(op, generator)
        case LayerNorm() | InstanceNorm() if op.x.dtype.is_quantized:
            yield from of_normalization(op, generator)
        case _:
            return


def _steps(nodes: Nodes, node: CalledNode, every: Iterator[Driven]) -> NodeSteps:
    inputs = sides = sides_of = 0
    wrong: WrongValue | None = None
    for each in every:
        [got] = nodes.call(node, each.xs)
        inputs, sides, sides_of = inputs + len(got), sides + each.sides, sides_of + each.sides_of
        wrong = wrong or _first_wrong(node, each, _expected(nodes, node, each), got)
    return NodeSteps(node.op.name, inputs, sides, sides_of, wrong)


def _expected(nodes: Nodes, node: CalledNode, driven: Driven) -> Array:
    """The outputs (count, ...) that must come."""
    if driven.expected is not None:
        return driven.expected
    count, constants, given = len(driven.xs[0]), nodes.artifact.planned.constants, iter(driven.xs)
    operands = [[constants[x.name]] * count if x.name in constants else next(given) for x in inputs_of(node.op)]
    return np.stack([evaluate_operator(node.op, *each) for each in zip(*operands, strict=True)])


def _first_wrong(node: CalledNode, driven: Driven, expected: Array, got: Array) -> WrongValue | None:
    """The first output that differs; floats are the same if they are equal, or have the same bits."""
    words = f"u{got.dtype.itemsize}"
    wanted = np.ascontiguousarray(expected)
    same = (wanted == got) | (wanted.view(words) == np.ascontiguousarray(got).view(words))
    if same.all():
        return None
    first = np.unravel_index(int((~same).argmax()), same.shape)
    index, pair = tuple(int(i) for i in first[1:]), (wanted[first].item(), got[first].item())
    return WrongValue(node.op.name, node.op.op_type, driven.what, index, *pair)
