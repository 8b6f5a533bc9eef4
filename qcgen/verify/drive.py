"""Inputs under which a layer's sums are what they are wanted to be: the ends of their intervals, the sides of steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from qcgen.ir.types import Array
from qcgen.verify.ends import axis_spots
from qcgen.verify.layers import Layer

ATTEMPTS = 24
"""How often a sum that was missed is tried again, with some taps set at random."""

WORK = 2**24  # numbers that the search has in memory at a time


@dataclass(frozen=True)
class Wanted:
    """Sums to reach: channel ``channels[i]`` shall have the sum ``sums[i]``, both (n,) int64."""

    channels: Array
    sums: Array


@dataclass(frozen=True)
class Drive:
    """``x`` (...) an input in the model's shape that aims at ``wanted``, in the outputs at ``places`` (n, 1 + rank).

    A place is the image's number and the output's position; the channel comes from ``wanted``.
    """

    x: Array
    wanted: Wanted
    places: Array


def drives(layer: Layer, wanted: Wanted) -> Iterator[Drive]:
    """Inputs that aim at these sums, one of them for many: windows that do not overlap, groups that share windows.

    Sums that no attempt reaches are left out.
    """
    g = layer.geometry
    axes = [axis_spots(g, axis) for axis in range(g.rank)]
    windows = [(n, window) for n in range(g.batch) for window in product(*axes)]
    taps = tuple(spot.taps for spot in windows[0][1])
    codes, is_reached = _solve(layer, wanted, taps)
    wanted, codes = Wanted(wanted.channels[is_reached], wanted.sums[is_reached]), codes[is_reached]
    if not is_reached.any():
        return
    group, turn = wanted.channels // g.group_out, np.zeros(len(codes), np.int64)
    for one in range(g.group):
        turn[group == one] = np.arange((group == one).sum())
    order = np.argsort(turn, kind="stable")
    starts = np.arange(0, int(turn.max()) + 1, len(windows))
    base = layer.image(layer.base[None]).reshape(g.batch, g.group, g.group_in, *g.input)
    for start, chosen in zip(starts, np.split(order, np.searchsorted(turn[order], starts[1:])), strict=True):
        image = base.copy()
        places = np.zeros((len(chosen), 1 + g.rank), np.int64)
        for row, index in enumerate(chosen):
            n, window = windows[turn[index] - start]
            pixels = tuple(spot.pixels for spot in window)
            part = image[(n, group[index], slice(None), *pixels)]
            image[(n, group[index], slice(None), *pixels)] = codes[index].reshape(part.shape)
            places[row] = (n, *(spot.output for spot in window))
        some = Wanted(wanted.channels[chosen], wanted.sums[chosen])
        yield Drive(layer.from_image(image.reshape(g.batch, g.in_channels, *g.input))[0], some, places)


def _solve(layer: Layer, wanted: Wanted, taps: tuple[slice, ...]) -> tuple[Array, Array]:
    """Codes (n, taps) for windows whose sums are wanted, and where they are found, (n,)."""
    g = layer.geometry
    weights = layer.weights[(slice(None), slice(None), *taps)].reshape(g.out_channels, -1).astype(np.int64)
    lo, hi = _code_bounds(layer, weights.shape[1])
    found = np.zeros((len(wanted.sums), weights.shape[1]), layer.op.x.dtype.numpy)
    is_reached = np.zeros(len(wanted.sums), np.bool_)
    step = max(1, WORK // max(weights.shape[1], 1))
    for start in range(0, len(wanted.sums), step):
        part = slice(start, start + step)
        channels = wanted.channels[part]
        rest = wanted.sums[part] - layer.bias[channels]
        codes, is_right = _greedy(weights, lo, hi, channels, g.group_out, rest, layer.zero_point)
        found[part], is_reached[part] = codes, is_right
    return found, is_reached


def _code_bounds(layer: Layer, taps: int) -> tuple[Array, Array]:
    """The codes that all pixels of a channel may have, for each tap: (group, taps) each."""
    g = layer.geometry
    pixels = tuple(axis for axis in range(2 + g.rank) if axis != 1)
    lo, hi = layer.image(layer.lo[None]).max(axis=pixels), layer.image(layer.hi[None]).min(axis=pixels)
    hi = np.maximum(lo, hi)
    each = taps // g.group_in
    low, high = (np.repeat(codes.reshape(g.group, g.group_in), each, axis=1) for codes in (lo, hi))
    return low.astype(np.int64), high.astype(np.int64)


def _greedy(
    weights: Array, lo: Array, hi: Array, channels: Array, group_out: int, rest: Array, zero_point: int
) -> tuple[Array, Array]:
    """Codes (n, taps) with sum of (code - zero_point) * weight = ``rest`` (n,), and where that was managed.

    From the least sum on, the heaviest taps are raised as far as they go without going too far; then lighter ones.
    """
    lows, highs = lo[channels // group_out], hi[channels // group_out]
    order = np.argsort(-np.abs(weights), axis=1, kind="stable")
    own = weights[channels]
    least = np.where(own > 0, lows, highs)
    missing = rest - ((least - zero_point) * own).sum(axis=1)
    room = highs - lows
    raised, left = _raised(np.abs(own), order[channels], room, missing, None)
    generator = np.random.default_rng(0)
    for _ in range(ATTEMPTS):
        again = np.flatnonzero((left != 0) & (missing >= 0))
        if not again.size:
            break
        some, some_left = _raised(np.abs(own[again]), order[channels[again]], room[again], missing[again], generator)
        raised[again], left[again] = some, some_left
    codes = np.where(own > 0, least + raised, least - raised)
    return codes, left == 0


def _raised(
    sizes: Array, order: Array, room: Array, missing: Array, generator: np.random.Generator | None
) -> tuple[Array, Array]:
    """By how much each tap (n, taps) is raised, and what is left of ``missing`` (n,)."""
    rows = np.arange(len(missing))
    raised, left = np.zeros(sizes.shape, np.int64), missing.copy()
    for index in order.T:
        size = np.maximum(sizes[rows, index], 1)
        by = np.clip(left // size, 0, room[rows, index])
        if generator is not None:
            by = np.maximum(by - generator.integers(0, 4, by.shape) * generator.integers(0, 2, by.shape), 0)
        by[sizes[rows, index] == 0] = 0
        raised[rows, index], left = by, left - by * sizes[rows, index]
    if generator is not None:  # what the random taps have left open
        for index in order.T:
            size = np.maximum(sizes[rows, index], 1)
            by = np.clip(left // size, 0, room[rows, index] - raised[rows, index])
            by[sizes[rows, index] == 0] = 0
            raised[rows, index] += by
            left = left - by * sizes[rows, index]
    return raised, left
