"""Inputs under which sums are what they are wanted to be: the ends of their intervals, the sides of steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from qcgen.intervals import weight_differences
from qcgen.ir.program import Conv, ConvGeometry, OrionConv
from qcgen.ir.types import Array, Layout
from qcgen.verification.layers import Layer

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
    """Inputs ``x`` (count, ...) in the model's shape, aimed at ``wanted``, in the outputs at ``places`` (n, 2 + rank).

    A place is the input's number, the image's and the output's position; the channel comes from ``wanted``.
    """

    x: Array
    wanted: Wanted
    places: Array


def drives(layer: Layer, wanted: Wanted, most: int) -> Iterator[Drive]:
    """Inputs that aim at these sums, one of them for many: windows that do not overlap, groups that share windows.

    At ``most`` so many inputs come together. Sums that no attempt reaches are left out.
    """
    g = layer.geometry
    axes = [_axis_spots(g, axis) for axis in range(g.rank)]
    windows = [(n, window) for n in range(g.batch) for window in product(*axes)]
    taps = tuple(spot.taps for spot in windows[0][1])
    codes, is_reached = _solve(layer, wanted, taps)
    wanted, codes = Wanted(wanted.channels[is_reached], wanted.sums[is_reached]), codes[is_reached]
    group = wanted.channels // g.group_out
    number, window = np.divmod(_turns(group), len(windows))
    base = layer.image(layer.base[None]).reshape(1, g.batch, g.group, g.group_in, *g.input)
    for start in range(0, int(number.max(initial=-1)) + 1, most):
        chosen = np.flatnonzero((number >= start) & (number < start + most))
        image = np.repeat(base, int(number[chosen].max()) - start + 1, axis=0)
        places = np.zeros((len(chosen), 2 + g.rank), np.int64)
        places[:, 0] = number[chosen] - start
        for one in np.unique(window[chosen]):
            n, spots = windows[one]
            here = window[chosen] == one
            rows = chosen[here]
            index = (places[here, 0], n, group[rows], slice(None), *(spot.pixels for spot in spots))
            image[index] = codes[rows].reshape(image[index].shape)
            places[here, 1:] = (n, *(spot.output for spot in spots))
        some = Wanted(wanted.channels[chosen], wanted.sums[chosen])
        yield Drive(layer.from_image(image.reshape(-1, g.in_channels, *g.input)), some, places)


def _turns(group: Array) -> Array:
    """How many earlier ones are of the same group, for each."""
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], group[order])
    turns = np.empty(len(group), np.int64)
    turns[order] = np.arange(len(group)) - starts
    return turns


def _solve(layer: Layer, wanted: Wanted, taps: tuple[slice, ...]) -> tuple[Array, Array]:
    """Codes (n, taps) for windows whose sums are wanted, and where they are found, (n,)."""
    g = layer.geometry
    weights = layer.weights[(slice(None), slice(None), *taps)].reshape(g.out_channels, -1).astype(np.int64)
    if not weights.size:  # windows in padding alone: their sums are the biases
        return np.zeros((len(wanted.sums), 0), layer.op.x.dtype.numpy), wanted.sums == layer.bias[wanted.channels]
    lo, hi = _code_bounds(layer, weights.shape[1])
    found = np.zeros((len(wanted.sums), weights.shape[1]), layer.op.x.dtype.numpy)
    is_reached = np.zeros(len(wanted.sums), np.bool_)
    step = max(1, WORK // max(weights.shape[1], 1))
    for start in range(0, len(wanted.sums), step):
        part = slice(start, start + step)
        channels = wanted.channels[part]
        rest = wanted.sums[part] - layer.bias[channels]
        codes, is_right = solved(weights, lo, hi, channels, g.group_out, rest, layer.zero_point)
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


def solved(
    weights: Array, lo: Array, hi: Array, channels: Array, group_out: int, rest: Array, zero_point: int
) -> tuple[Array, Array]:
    """Codes (n, taps) with sum of (code - zero_point) * weight = ``rest`` (n,), and where that was managed.

    From the least sum on, the heaviest taps are raised as far as they go without going too far; then lighter ones.
    """
    order = np.argsort(-np.abs(weights), axis=1, kind="stable")
    groups = np.arange(len(weights)) // group_out
    own, lows, highs = (np.take_along_axis(each, order, axis=1) for each in (weights, lo[groups], hi[groups]))
    least = np.where(own > 0, lows, highs)
    taps = _Taps(np.abs(own), np.where(own != 0, highs - lows, 0))
    missing = rest - ((least - zero_point) * own).sum(axis=1)[channels]
    raised, left = _raised(taps, channels, missing)
    generator = np.random.default_rng(0)
    for _ in range(ATTEMPTS):
        again = np.flatnonzero((left != 0) & (missing >= 0))
        if not again.size:
            break
        raised[again], left[again] = _raised_at_random(taps, channels[again], missing[again], generator)
    codes = np.empty(raised.shape, np.int32)
    np.put_along_axis(codes, order[channels], (least[channels] + np.sign(own)[channels] * raised).astype(np.int32), 1)
    return codes, left == 0


@dataclass(frozen=True)
class _Taps:
    """By how much a step of each tap changes a sum, and how many steps there are: (M, taps), the heaviest first."""

    sizes: Array
    room: Array


def _raised(taps: _Taps, channels: Array, missing: Array) -> tuple[Array, Array]:
    """By how much each tap (n, taps) is raised, heavy ones first, and what is left of ``missing`` (n,).

    What comes next is looked up: how many taps go all the way, and behind them each time the next one that is not too
    heavy.
    """
    count = taps.sizes.shape[1]
    all_the_way = np.cumsum(taps.sizes * taps.room, axis=1)
    unit = int(max(all_the_way.max(), missing.max(initial=0), taps.sizes.max())) + 1
    rows = unit * np.arange(len(taps.sizes))[:, None]
    positive = np.maximum(missing, 0)
    at = np.searchsorted((all_the_way + rows).reshape(-1), positive + unit * channels, side="right") - count * channels
    raised = np.where(np.arange(count) < at[:, None], taps.room[channels], 0).astype(np.int32)
    left = missing - np.where(at > 0, all_the_way[channels, np.maximum(at, 1) - 1], 0)
    lightness = (unit - 1 - taps.sizes + rows).reshape(-1)
    active = np.flatnonzero((left > 0) & (at < count))
    while active.size:
        own, much = channels[active], np.minimum(left[active], unit - 1)
        fitting = np.searchsorted(lightness, unit - 1 - much + unit * own) - count * own
        at[active] = np.maximum(at[active], fitting)
        active = active[at[active] < count]
        own, tap = channels[active], at[active]
        sizes = taps.sizes[own, tap]
        by = np.minimum(left[active] // np.maximum(sizes, 1), taps.room[own, tap])
        raised[active, tap] = by
        left[active] -= by * sizes
        at[active] += 1
        active = active[(left[active] > 0) & (at[active] < count)]
    return raised, left


def _raised_at_random(
    taps: _Taps, channels: Array, missing: Array, generator: np.random.Generator
) -> tuple[Array, Array]:
    """As ``_raised``, but taps are raised by less at random, and what that leaves open is shared out once more."""
    raised, left = np.zeros((len(channels), taps.sizes.shape[1]), np.int32), missing.copy()
    for turn in range(2):
        for tap in range(taps.sizes.shape[1]):
            sizes = taps.sizes[channels, tap]
            by = np.minimum(left // np.maximum(sizes, 1), taps.room[channels, tap] - raised[:, tap])
            if turn == 0:
                by = np.maximum(by - generator.integers(0, 4, by.shape) * generator.integers(0, 2, by.shape), 0)
            raised[:, tap] += by.astype(np.int32)
            left -= by * sizes
    return raised, left


# Inputs under which the accumulators of a convolution reach both ends of their intervals.

MAX_INPUTS = 64
"""Inputs made for one operator; where they do not suffice, channels are left out."""

EVERY = slice(None)


@dataclass(frozen=True)
class DrivenNode:
    """``inputs`` in the model's shape and layout; ``reached`` output channels whose both ends they reach."""

    inputs: tuple[Array, ...]
    reached: int


@dataclass(frozen=True)
class Spot:
    """Where a window lies on one axis: the pixels it reads, the taps that read them, the ``output`` that is its sum."""

    pixels: slice
    taps: slice
    output: int


def driving_inputs(op: Conv | OrionConv, low: float, zero: float, high: float) -> DrivenNode:
    """For each output channel the input that is ``high`` where its weight is positive, else ``low``; and the opposite.

    One input serves many channels, each in a window of its own; channels of different groups share a window. The ends
    are reached only in windows without padding; if there are none, the least padded window is used.
    """
    g = op.geometry
    axes = [_axis_spots(g, axis) for axis in range(g.rank)]
    windows = [(n, spots) for n in range(g.batch) for spots in product(*axes)]
    chosen = _channels(_differences(op), MAX_INPUTS * len(windows) // 2)
    patterns = _patterns(op, chosen, low, high)
    inputs = []
    for start in range(0, len(patterns), len(windows)):
        image = np.full((g.batch, g.group, g.group_in, *g.input), zero, op.x.dtype.numpy)
        for (n, spots), pattern in zip(windows, patterns[start : start + len(windows)], strict=False):
            pixels: tuple[int | slice, ...] = (n, EVERY, EVERY, *(spot.pixels for spot in spots))
            taps: tuple[slice, ...] = (EVERY, EVERY, *(spot.taps for spot in spots))
            image[pixels] = pattern[taps]
        inputs.append(_in_layout(op, image))
    is_interior = all(spot.taps == slice(0, k) for spots, k in zip(axes, g.kernel, strict=True) for spot in spots)
    return DrivenNode(tuple(inputs), len(chosen) * g.group if is_interior else 0)


def _differences(op: Conv | OrionConv) -> Array:
    """Numbers with the signs of the weights' effects, (group, M/group, C/group, k...)."""
    g = op.geometry
    signs = weight_differences(op) if isinstance(op, Conv) and op.x.dtype.is_code else op.weights
    return signs.reshape(g.group, g.group_out, g.group_in, *g.kernel)


def _channels(weights: Array, room: int) -> list[int]:
    """Output channels within their groups: all of them, or as many as there is room for, the heaviest first."""
    weight = np.abs(weights.astype(np.float64)).sum(axis=tuple(range(2, weights.ndim))).max(axis=0)
    return [int(channel) for channel in np.argsort(-weight, kind="stable")[: max(room, 1)]]


def _patterns(op: Conv | OrionConv, channels: list[int], low: float, high: float) -> list[Array]:
    """What windows must hold: for each channel its highest accumulator, then its lowest; (group, C/group, k...)."""
    weights = _differences(op)
    patterns = []
    for channel in channels:
        positive = weights[:, channel] > 0
        patterns += [np.where(positive, high, low), np.where(positive, low, high)]
    return patterns


def _axis_spots(g: ConvGeometry, axis: int) -> list[Spot]:
    """Windows on one axis that do not overlap and need no padding; the least padded one if there are none."""
    extent = (g.kernel[axis] - 1) * g.dilations[axis] + 1
    every = [window_spot(g, axis, output) for output in range(g.output[axis])]
    found: list[Spot] = []
    free = 0
    for spot in every:
        start = spot.output * g.strides[axis] - g.pads_begin[axis]
        if start >= free and start + extent <= g.input[axis]:
            found.append(spot)
            free = start + extent
    return found or [max(every, key=lambda spot: spot.taps.stop - spot.taps.start)]


def window_spot(g: ConvGeometry, axis: int, output: int) -> Spot:
    """The window of an output, less its taps on padding."""
    start, dilation = output * g.strides[axis] - g.pads_begin[axis], g.dilations[axis]
    taps = [tap for tap in range(g.kernel[axis]) if 0 <= start + tap * dilation < g.input[axis]]
    if not taps:
        return Spot(slice(0, 0), slice(0, 0), output)
    first, last = taps[0], taps[-1]
    return Spot(slice(start + first * dilation, start + last * dilation + 1, dilation), slice(first, last + 1), output)


def _in_layout(op: Conv | OrionConv, image: Array) -> Array:
    """(N, group, C/group, ...) as the model holds it; a matrix has the channels in its rows."""
    first = image.reshape(op.geometry.batch, op.geometry.in_channels, *op.geometry.input)
    is_first = op.x.layout is Layout.CHANNELS_FIRST
    return np.ascontiguousarray(first if is_first else np.moveaxis(first, 1, -1)).reshape(op.x.shape)
