"""Codes of sums: of elements along axes, of windows, of products of matrices, and of activations of 16 bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np

from qcgen import arithmetic
from qcgen.ir.program import AveragePool, GlobalAveragePool, MatMul, Reduce, Requantize, RoundOnce, Tensor
from qcgen.ir.types import Array, DType, Layout
from qcgen.reference.elementwise import quantization_of
from qcgen.verification.layers import Layer, Spot, Wanted, drives, solved, window_spot
from qcgen.verification.steps.driven import MOST_ELEMENTS, Codes, Driven, spread, sums_beside

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
