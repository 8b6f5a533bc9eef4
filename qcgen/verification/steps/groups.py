"""Codes that hang on many elements: on sums along axes, of windows, of products, and on whole rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import gcd, prod

import numpy as np

from qcgen import arithmetic
from qcgen.ir.program import (
    AveragePool,
    Float32s,
    GlobalAveragePool,
    InstanceNorm,
    LayerNorm,
    MatMul,
    Reduce,
    Requantize,
    RoundOnce,
    Softmax,
    Tensor,
)
from qcgen.ir.types import Array, DType, Layout
from qcgen.reference import evaluate_operator
from qcgen.reference.elementwise import quantization_of
from qcgen.verification.layers import Layer, Spot, Wanted, drives, solved, window_spot

# Inputs that lie beside steps, and how they are found where output codes never decrease from a number to the next.

MOST_ELEMENTS = 2**23
"""Of all inputs of a kind that are made for one node."""

Codes = Callable[[Array], Array]
"""Codes (n,) of ascending numbers (n,), which never decrease; numbers are integers, or stand for what is ordered."""


@dataclass(frozen=True)
class Driven:
    """Inputs beside steps: ``sides`` of steps are reached, of ``sides_of``; in words ``what`` they are.

    ``xs`` are (count, ...) for each input that is not a constant, in the model's own shapes. ``expected`` are the
    outputs (count, ...); None: the reference is asked for one input after the other.
    """

    what: str
    xs: Sequence[Array]
    expected: Array | None = None
    sides: int = 0
    sides_of: int = 0


def beside(code_of: Codes, low: int, high: int, codes: Array) -> tuple[Array, Array]:
    """The last number in [low, high] whose code is at most k, and the next one, for each k of ``codes`` (n,)."""
    below, above = np.full(len(codes), low, np.int64), np.full(len(codes), high, np.int64)
    while (above - below > 1).any():
        middle = (below + above) >> 1
        is_below = code_of(middle) <= codes
        below, above = np.where(is_below, middle, below), np.where(is_below, above, middle)
    return below, above


def sums_beside(code_of: Codes, low: int, high: int, most: int, generator: np.random.Generator) -> Array:
    """The sums in [low, high] on both sides of each step there, and both ends, ascending.

    Of more than ``most`` steps, the first, the last, and some of the others are taken.
    """
    first, last = (int(code_of(np.array([end], np.int64))[0]) for end in (low, high))
    codes = np.arange(first, last)
    if len(codes) > most:
        codes = np.concatenate([codes[[0, -1]], generator.choice(codes, most, replace=False)])
    return np.unique(np.concatenate([[low, high], *beside(code_of, low, high, codes)]))


def spread(values: Array, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    """Values (n, ...) over the elements of as many tensors as they fill, (count, *shape, ...), the last ones at random.

    There are at most MOST_ELEMENTS of them.
    """
    size = prod(shape)
    kept = values[: max(1, MOST_ELEMENTS // max(size, values[0].size)) * size]
    more = kept[generator.integers(0, len(kept), -len(kept) % size)]
    return np.concatenate([kept, more]).reshape(-1, *shape, *values.shape[1:])


# Codes that hang on many elements.

Ends = Callable[[Tensor], tuple[Array, Array]]
"""The lowest and the highest code that each element of a tensor can have, both in its shape."""

MOST_STEPS = 2**11  # of a node's; of more, some are chosen at random
MOVED = 64  # codes by which elements of a window are moved against each other, at most


def of_reduce(op: Reduce, generator: np.random.Generator) -> Iterator[Driven]:
    """Groups of elements with the sums on both sides of every step."""
    assert op.requantize is not None, "sums become codes"
    zero = op.x.zero_point or 0
    low, high = ((end - zero) * op.count for end in (op.x.dtype.low, op.x.dtype.high))
    sums = sums_beside(_codes_of(op.requantize), low, high, MOST_STEPS, generator)
    kept = [axis for axis in range(len(op.x.shape)) if axis not in op.axes]
    groups = spread(sums, tuple(op.x.shape[axis] for axis in kept), generator)[: max(1, MOST_ELEMENTS // op.x.size)]
    codes = _with_totals(groups.reshape(-1) + op.count * zero, op.count, op.x.dtype, generator)
    x = codes.reshape(*groups.shape, *(op.x.shape[axis] for axis in op.axes))
    back = np.argsort([*kept, *op.axes])
    x = np.ascontiguousarray(x.transpose(0, *(int(axis) + 1 for axis in back)))
    yield Driven("sums beside steps", (x,), None, int(np.isin(sums, groups).sum()), len(sums))


def _codes_of(by: Requantize) -> Codes:
    return lambda sums: arithmetic.codes(by, sums)


def _with_totals(totals: Array, count: int, dtype: DType, generator: np.random.Generator) -> Array:
    """Codes (n, count) with these totals (n,), at random about their means."""
    base, rest = np.divmod(totals - count * dtype.low, count)
    ranks = generator.random((len(totals), count)).argsort(axis=1)
    codes = dtype.low + base[:, None] + (ranks < rest[:, None])
    half = count // 2
    one, other = codes[:, :half], codes[:, half : 2 * half]
    up, down = np.minimum(dtype.high - one, other - dtype.low), np.minimum(one - dtype.low, dtype.high - other)
    moved = np.clip(generator.integers(-MOVED, MOVED + 1, one.shape), -down, up)
    codes[:, :half] += moved
    codes[:, half : 2 * half] -= moved
    return np.asarray(codes.astype(dtype.numpy))


def of_average_pool(op: AveragePool, generator: np.random.Generator) -> Iterator[Driven]:
    """Windows with sums on both sides of every step: of windows with as many taps in the image, those of one place."""
    g, zero = op.geometry, op.x.zero_point or 0
    axes = [[window_spot(g, axis, output) for output in range(g.output[axis])] for axis in range(g.rank)]
    places: dict[int, tuple[Spot, ...]] = {}
    for spots in product(*axes):
        places.setdefault(prod(spot.taps.stop - spot.taps.start for spot in spots), spots)
    for count, spots in places.items():
        if not count:
            continue
        divisor = prod(g.kernel) if op.count_include_pad else count
        low, high = (count * (end - zero) for end in (op.x.dtype.low, op.x.dtype.high))
        sums = sums_beside(_codes_of_means(op, divisor), low, high, MOST_STEPS, generator)
        wanted = spread(sums, (g.batch, g.in_channels), generator)[: max(1, MOST_ELEMENTS // op.x.size)]
        image = np.full((*wanted.shape, *g.input), zero, op.x.dtype.numpy)
        window = (slice(None), slice(None), slice(None), *(spot.pixels for spot in spots))
        codes = _with_totals(wanted.reshape(-1) + count * zero, count, op.x.dtype, generator)
        image[window] = codes.reshape(image[window].shape)
        x = np.ascontiguousarray(np.moveaxis(image, 2, -1) if op.x.layout is Layout.CHANNELS_LAST else image)
        yield Driven("means beside steps", (x,), None, int(np.isin(sums, wanted).sum()), len(sums))


def _codes_of_means(op: AveragePool, divisor: int) -> Codes:
    """The codes of sums as they were without the roundings on the way, which depend on more than the sum."""
    x_by, y_by = quantization_of(op.x), quantization_of(op.y)
    ratio = x_by.scale / (divisor * y_by.scale)

    def code_of(sums: Array) -> Array:
        return np.clip(np.rint(sums * ratio + y_by.zero_point), op.y.dtype.low, op.y.dtype.high).astype(np.int64)

    return code_of


def of_product(
    op: MatMul, constants: Mapping[str, Array], ends: Ends, generator: np.random.Generator
) -> Iterator[Driven]:
    """Rows of a that have, with one column of b, the sums on both sides of every step."""
    assert isinstance(op.epilogue, Requantize), "sums become codes"
    if op.a.name in constants or op.a.name == op.b.name:
        return
    b = constants[op.b.name] if op.b.name in constants else _columns(op, ends, generator)
    columns = b.reshape(-1, *b.shape[-2:])[0].T.astype(np.int64) - op.b_zero_point
    low, high = _narrow(ends(op.a))
    of_ends = np.sort([columns * (end - op.a_zero_point) for end in (low, high)], axis=0).sum(axis=-1)  # (2, N)
    best = int((of_ends[1] - of_ends[0]).argmax())
    least, most = map(int, of_ends[:, best])
    sums = sums_beside(_codes_of(op.epilogue), least, most, MOST_STEPS, generator)
    lows, highs = (np.full((1, op.terms), end) for end in (low, high))
    channels = np.zeros(len(sums), np.int64)
    rows, is_reached = solved(columns[best][None], lows, highs, channels, 1, sums, op.a_zero_point)
    a = spread(rows.astype(op.a.dtype.numpy), op.a.shape[:-1], generator)
    xs = [a] if op.b.name in constants else [a, np.broadcast_to(b, (len(a), *op.b.shape))]
    yield Driven("sums beside steps", xs, None, int(is_reached.sum()), len(sums))


def _columns(op: MatMul, ends: Ends, generator: np.random.Generator) -> Array:
    """b of random codes, the same in all matrices; the last ones of columns lie next to the zero point."""
    low, high = _narrow(ends(op.b))
    matrix = generator.integers(low, high + 1, op.b.shape[-2:])
    matrix[-1] = np.clip(op.b_zero_point + (1 if op.b_zero_point < high else -1), low, high)
    return np.broadcast_to(matrix.astype(op.b.dtype.numpy), op.b.shape)


def _narrow(ends: tuple[Array, Array]) -> tuple[int, int]:
    """The codes that all elements can have."""
    low, high = int(ends[0].max()), int(ends[1].min())
    return low, max(low, high)


def of_rounded_once(layer: Layer, generator: np.random.Generator) -> Iterator[Driven]:
    """Sums of activations of 16 bits on both sides of steps of each channel."""
    by = layer.op.requantize if isinstance(layer.op, GlobalAveragePool) else layer.op.epilogue
    if not isinstance(by, RoundOnce):
        return
    (least, most), count = layer.reached, layer.geometry.out_channels
    channels, sums = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for channel in range(count):
        low, high = int(least[channel]), int(most[channel])
        sums.append(sums_beside(_codes_rounded_once(by, channel), low, high, -(-MOST_STEPS // count), generator))
        channels.append(np.full(len(sums[-1]), channel))
    wanted = Wanted(np.concatenate(channels), np.concatenate(sums))
    for drive in drives(layer, wanted, layer.together):
        yield Driven("sums beside steps", (drive.x,), None, len(drive.wanted.sums))
    yield Driven("sums at zero points", (layer.base[None],), None, 0, len(wanted.sums))


def _codes_rounded_once(by: RoundOnce, channel: int) -> Codes:
    multiplier, shift = (each[[min(channel, len(each) - 1)]] for each in (by.multiplier, by.shift))
    own = replace(by, multiplier=multiplier, shift=shift)
    return lambda sums: arithmetic.round_once(sums, own)


# Operators whose outputs hang on whole rows of codes, softmax and normalizations: rows searched beside steps.

ROWS, WORK = 2**8, 2**17  # rows of each kind with which a search begins, and their elements, at most
MOVED_ELEMENTS, MOST_MOVED = 32, 16  # elements of a row that are moved to meet a step, and by less than how much


def of_softmax(op: Softmax, generator: np.random.Generator) -> Iterator[Driven]:
    """Rows with shares near steps and on them."""
    zero, high = op.y.zero_point or 0, op.y.dtype.high

    def values(rows: Array) -> Array:
        powers, total = arithmetic.softmax_powers(rows, op.table)
        return powers * op.factor / total + zero

    places = _softmax_rows(op.table, int(op.factor), op.x.shape[-1], generator)
    close = (places - 255 + op.x.dtype.high).astype(op.x.dtype.numpy)
    shares = values(close)
    tied = close[((shares - np.floor(shares) == 0.5) & (shares < high)).any(axis=1)]
    random = _random_rows(op.x, op.x.shape[-1], generator)
    nearest = _Nearest(op.y.dtype.low, min(high, zero + int(op.factor)))
    rows = _near_rows(values, np.concatenate([close, random]), random, nearest, generator)
    x = spread(np.concatenate([rows, tied]), op.x.shape[:-1], generator)
    yield Driven("rows near steps", (x,), evaluate_operator(op, x), *nearest.sides)


def of_normalization(op: LayerNorm | InstanceNorm, generator: np.random.Generator) -> Iterator[Driven]:
    """Rows with outputs near steps in float32; many of their codes are those whose meaning float32 rounds at a tie."""
    length = op.x.shape[-1] if isinstance(op, LayerNorm) else op.x.size
    rows = random = _random_rows(op.x, length, generator)
    by, sides = quantization_of(op.y) if op.y.dtype.is_quantized else None, (0, 0)
    if by is not None:
        scale, zero = np.float32(by.scale), by.zero_point

        def values(rows: Array) -> Array:
            return (_normalized(op, rows) / scale).astype(np.float64) + zero

        met = [_met(op, row, generator) for row in random[::2]] if isinstance(op, LayerNorm) else [random]
        some = generator.permutation(np.concatenate(met))[: 4 * WORK // length]
        nearest = _Nearest(op.y.dtype.low, op.y.dtype.high)
        rows = _near_rows(values, np.concatenate([random, some]), random, nearest, generator)
        sides = nearest.sides
    x = spread(rows, op.x.shape[:-1], generator) if isinstance(op, LayerNorm) else rows.reshape(-1, *op.x.shape)
    expected = _normalized(op, x.reshape(-1, length))
    if by is not None:
        expected = arithmetic.quantize(expected, by.scale, by.zero_point, op.y.dtype.low, op.y.dtype.high)
    yield Driven("rows near steps", (x,), expected.astype(op.y.dtype.numpy).reshape(x.shape), *sides)


def _normalized(op: LayerNorm | InstanceNorm, rows: Array) -> Array:
    """The float32 numbers (R, m) of rows of codes: those of x's last axis, or all elements of x."""
    x_by = quantization_of(op.x)
    numbers = arithmetic.dequantize(rows, x_by.scale, x_by.zero_point)
    if isinstance(op, LayerNorm):
        return arithmetic.layer_norm(numbers, op.scale, op.bias, op.epsilon)
    # Where a channel lies in memory matters to onnxruntime, by words of four: copies fill the places between.
    copies = 4 // gcd(4, op.x.size)
    images = np.repeat(numbers, copies, axis=0).reshape(-1, *op.x.shape[1:])
    first = np.moveaxis(images, -1, 1) if op.x.layout is Layout.CHANNELS_LAST else images
    normal = arithmetic.instance_norm(first, op.scale, op.bias, op.epsilon)
    own = np.moveaxis(normal, 1, -1) if op.x.layout is Layout.CHANNELS_LAST else normal
    return own.reshape(len(rows), copies, -1)[:, 0]


def _met(op: LayerNorm, row: Array, generator: np.random.Generator) -> Array:
    """Rows (R, n) like this one (n,), in which an output all but meets a step of its codes.

    One element is raised and another lowered by as much. That leaves the mean; the sum of squares, which is an integer,
    becomes the one that brings the output nearest to the step.
    """
    x_by, y_by = quantization_of(op.x), quantization_of(op.y)
    length, codes = len(row), row.astype(np.int64) - x_by.zero_point
    added = (0.0 if op.bias is None else op.bias.astype(np.float64)) / y_by.scale + y_by.zero_point + np.zeros(length)
    deviation = codes - codes.mean()
    spread = np.square(deviation).mean() + op.epsilon / x_by.scale**2
    normal = op.scale.astype(np.float64) / y_by.scale * deviation / np.sqrt(spread)
    moves, by_square = _moves(row, op.x.dtype, generator)
    if not len(moves):
        return np.empty((0, length), row.dtype)
    found = []
    for step in (np.floor(normal + added) - 0.5, np.floor(normal + added) + 0.5):
        wanted = step - added
        with np.errstate(divide="ignore", invalid="ignore"):
            square = length * spread * (np.square(normal / wanted) - 1)
        is_step = (step > op.y.dtype.low) & (step < op.y.dtype.high) & (normal * wanted > 0)
        is_step &= np.abs(square) < len(by_square) - 2
        outputs = np.flatnonzero(is_step)
        half = np.rint(square[outputs] / 2).astype(np.int64)
        slope = np.abs(wanted[outputs]) / (2 * length * spread)
        move = by_square[half + len(by_square) // 2]
        is_close = (move >= 0) & (np.abs(2 * half - square[outputs]) * slope < CLOSE)
        is_close &= (moves[move, :2] != outputs[:, None]).all(axis=1)
        changed = np.repeat(row[None], int(is_close.sum()), axis=0).astype(np.int64)
        each, (up, down, by) = np.arange(len(changed)), moves[move[is_close]].T
        changed[each, up] += by
        changed[each, down] -= by
        found.append(changed.astype(row.dtype))
    return np.concatenate(found)


def _moves(row: Array, dtype: DType, generator: np.random.Generator) -> tuple[Array, Array]:
    """Moves (R, 3): which element is raised, which is lowered, by how much. And a move for each change of the squares.

    The second is (n,): the number of a move that changes the sum of squares by 2 * (place - n // 2), or -1.
    """
    some = generator.permutation(len(row))[:MOVED_ELEMENTS]
    up, down, by = (each.reshape(-1) for each in np.meshgrid(some, some, np.arange(1, MOST_MOVED), indexing="ij"))
    codes = row.astype(np.int64)
    is_right = (up != down) & (codes[up] + by <= dtype.high) & (codes[down] - by >= dtype.low)
    moves = np.stack([up, down, by], axis=1)[is_right]
    half = moves[:, 2] * (codes[moves[:, 0]] - codes[moves[:, 1]] + moves[:, 2])
    reach = MOST_MOVED * (dtype.high - dtype.low + MOST_MOVED)
    by_square = np.full(2 * reach + 1, -1)
    by_square[half + reach] = np.arange(len(moves))
    return moves, by_square


def _random_rows(x: Tensor, length: int, generator: np.random.Generator) -> Array:
    """Rows (R, length) of codes: of all of them, of those about a mean, of two, of those whose meaning is a tie."""
    shape = (max(2, min(ROWS, WORK // length)), length)
    low, high = x.dtype.low, x.dtype.high
    mean, spread = generator.uniform(low, high, (shape[0], 1)), generator.uniform(0.5, 60, (shape[0], 1))
    one, other = generator.integers(low, high + 1, (2, shape[0], 1))
    kinds = (
        generator.integers(low, high + 1, shape),
        np.rint(generator.normal(mean, spread, shape)),
        np.where(generator.random(shape) < generator.random((shape[0], 1)), one, other),
        generator.choice(_tie_codes(x), shape),
    )
    rows: Array = np.clip(np.concatenate(kinds), low, high).astype(x.dtype.numpy)
    return rows


def _tie_codes(x: Tensor) -> Array:
    """The codes whose meaning is in the middle of two float32 numbers; all of them if there are none."""
    codes = np.arange(x.dtype.low, x.dtype.high + 1)
    exact = (codes - (x.zero_point or 0)) * float(np.float32(x.scale or 1))
    rounded = exact.astype(np.float32)
    other = np.nextafter(rounded, np.where(exact > rounded, np.inf, -np.inf).astype(np.float32))
    is_tie = (exact != rounded) & (np.abs(other.astype(np.float64) - exact) == np.abs(rounded - exact))
    return codes[is_tie] if is_tie.any() else codes


# Rows of codes whose outputs come as close as can be to the steps between codes: searched, as none can be computed.

NEAR = 2.0**-10
"""A side of a step counts as reached where an output comes so near to it, in codes."""

CLOSE, MOST_CLOSE = 2.0**-15, 2**12
"""Of rows with an output within so much of a step, in codes, so many are kept besides the nearest ones."""

ROUNDS = 6  # of the search
ROUND, MOST_OF_ROUND = 2**18, 2**20  # elements of the rows of a round: so many, or one change of each row up to so many
TRIALS = 2**19  # elements of the rows that are tried for ties

_Values = Callable[[Array], Array]
"""Outputs (rows, m) before they are rounded, zero points added, for rows (rows, n) of codes."""


@dataclass
class _Nearest:
    """Of all rows that were shown the nearest one to each side of each step between codes ``low`` and ``high``."""

    low: int
    high: int
    distances: Array = field(init=False)
    rows: dict[int, Array] = field(default_factory=dict)
    close: list[Array] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.distances = np.full(2 * (self.high - self.low), np.inf)

    def show(self, rows: Array, values: Array) -> None:
        """Rows (R, n) with their outputs (R, m)."""
        below = np.floor(values)
        apart = values - (below + 0.5)
        side = 2 * (below - self.low) + (apart >= 0)
        row, place = np.nonzero((below >= self.low) & (below < self.high))
        sides, away = side[row, place].astype(np.int64), np.abs(apart[row, place])
        missing = min(MOST_CLOSE, MOST_OF_ROUND // rows.shape[1]) - sum(map(len, self.close))
        self.close.append(rows[np.unique(row[away < CLOSE])[: max(missing, 0)]])
        closer = away < self.distances[sides]
        row, sides, away = row[closer], sides[closer], away[closer]
        order = np.lexsort((away, sides))
        first = order[np.unique(sides[order], return_index=True)[1]]
        kept = {int(at): rows[at].copy() for at in np.unique(row[first])}
        for at in first:
            self.distances[sides[at]] = away[at]
            self.rows[int(sides[at])] = kept[int(row[at])]

    def found(self, like: Array) -> Array:
        """The nearest rows, each once, in the type of others."""
        rows = {id(row): row for row in self.rows.values()}
        return np.array(list(rows.values()), like.dtype).reshape(-1, like.shape[1])

    @property
    def sides(self) -> tuple[int, int]:
        """How many sides an output came near, and how many have an output within half a code."""
        return int((self.distances < NEAR).sum()), len(self.rows)


def _near_rows(values: _Values, start: Array, kinds: Array, nearest: _Nearest, generator: np.random.Generator) -> Array:
    """Rows (R, n) near steps: the nearest of ``start``, then of their like with some elements changed, round by round.

    ``kinds`` (R', n) are rows from which changed elements are taken.
    """
    nearest.show(start, values(start))
    for _ in range(ROUNDS):
        parents = generator.permutation(nearest.found(start))[: max(1, MOST_OF_ROUND // start.shape[1])]
        if not len(parents):
            break
        children = _changed(np.repeat(parents, max(1, ROUND // parents.size), axis=0), kinds, generator)
        nearest.show(children, values(children))
    return np.unique(np.concatenate([start, nearest.found(start), *nearest.close]), axis=0)


def _changed(rows: Array, kinds: Array, generator: np.random.Generator) -> Array:
    """The rows (R, n) with one or two elements changed: by little, or to one of ``kinds``."""
    bounds, each = np.iinfo(rows.dtype), np.arange(len(rows))
    for _ in range(2):
        place = generator.integers(0, rows.shape[1], len(rows))
        other = kinds[generator.integers(0, len(kinds), len(rows)), place]
        step = rows[each, place] + generator.integers(-2, 3, len(rows))
        is_step = generator.integers(0, 2, len(rows)) == 0
        rows[each, place] = np.where(is_step, np.clip(step, bounds.min, bounds.max), other)
    return rows


def _softmax_rows(table: Float32s, factor: int, length: int, generator: np.random.Generator) -> Array:
    """Rows (R, length) of places in a table of exponentials, the last among them: close to ties, some of them on one.

    A share e * factor / s is in the middle of k and k + 1 where s = 2 * factor * e / (2 k + 1). For such sums s, half
    of them sums that float32 has, the other elements are chosen at random but for two, which are looked up in the sums
    of all pairs.
    """
    if length < 3:
        every = np.stack([np.arange(256), np.full(256, 255)], axis=1)[:, 2 - length :]
        return np.concatenate([every, every[:, ::-1]])
    powers = table.astype(np.float64)
    sums, own = _tie_sums(powers, factor, length, max(2, TRIALS // length), generator)
    rows = np.full((len(sums), length), 255)
    rows[:, 1] = own
    rest = sums - powers[255] - powers[own]
    for place in range(2, length - 2):
        most = np.maximum(rest, 0) / (length - place) * generator.uniform(0, 3, len(rest))
        rows[:, place] = _place(powers, np.minimum(most, rest))
        rest -= powers[rows[:, place]]
    ends = [np.arange(256)] if length == 3 else [end.reshape(-1) for end in np.indices((256, 256))]
    totals = np.asarray(sum(powers[end] for end in ends))
    order = np.argsort(totals, kind="stable")
    at = np.clip(np.searchsorted(totals[order], rest), 1, len(order) - 1)
    at -= generator.integers(0, 2, len(at))  # the pair below or the one above
    for place, end in zip(range(length - len(ends), length), ends, strict=True):
        rows[:, place] = end[order][at]
    return np.sort(rows, axis=1)  # so are the sums rounded least


def _place(powers: Array, most: Array) -> Array:
    """The places of the largest exponentials that are not larger than these numbers, or 0."""
    return np.maximum(np.searchsorted(powers, most, side="right") - 1, 0)


def _tie_sums(
    powers: Array, factor: int, length: int, count: int, generator: np.random.Generator
) -> tuple[Array, Array]:
    """Some sums of rows under which an element's share is a tie, and the element's place in the table."""
    doubled = 2 * np.arange(min(factor, 2**12)) + 1.0
    sums = 2.0 * factor * powers[:, None] / doubled
    is_sum = (sums >= powers[255] + powers[:, None]) & (sums <= length * powers[255])
    with np.errstate(over="ignore"):  # sums beyond float32 are none of a row
        is_exact = sums.astype(np.float32) * doubled == 2.0 * factor * powers[:, None]
    chosen = []
    for each in (is_sum & is_exact, is_sum):
        pairs = np.argwhere(each)
        if len(pairs):
            chosen.append(pairs[generator.integers(0, len(pairs), count // 2)])
    places, which = np.concatenate([np.zeros((0, 2), np.int64), *chosen]).T
    return sums[places, which], places
