"""The layers of a plan whose sums are taken in integers, and inputs under which sums are what they are wanted to be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

import numpy as np

from qcgen.artifact import Artifact
from qcgen.intervals import INT32_MIN, accumulator_interval, channel_ranges, weight_differences
from qcgen.ir.plan import SumWord
from qcgen.ir.program import (
    Conv,
    ConvGeometry,
    GlobalAveragePool,
    OrionConv,
    Program,
    Requantize,
    Reshape,
    Tensor,
    Transpose,
)
from qcgen.ir.types import Array, DType, Layout
from qcgen.kernels.kernel import Order
from qcgen.plan.arrange import Arranged, steps_of
from qcgen.reference.reduction import taps
from qcgen.requantize.lines import Staircase, staircase
from qcgen.verification.nodes import CalledNode

FEW = 32
"""Fewer columns than this make a product of matrices slow."""

CHUNK_BYTES = 2**22
"""Inputs that are made at a time."""

EXACT = 2**53
"""Float64 numbers below this add and multiply like integers."""


@dataclass(frozen=True)
class Layer:
    """A convolution, a product of matrices or a mean of images, as a convolution of whatever rank.

    ``weights`` (M, C/group, k...) float64 are those of the model less their zero points, ``bias`` (M,) int64. ``lo``
    and ``hi``, in the input's shape, are the codes that each element can have in the network. Where it is a part of a
    layer that computes some rows, ``padded`` are the numbers of rows above and below the image that its calls read.
    """

    node: CalledNode
    op: Conv | GlobalAveragePool
    geometry: ConvGeometry
    zero_point: int
    weights: Array
    bias: Array
    lo: Array
    hi: Array
    padded: tuple[tuple[int, int], ...] = ()

    @property
    def word(self) -> SumWord:
        """What the output step is given."""
        word = self.node.call.certificate.word
        assert word is not None, "a layer has sums"
        return word

    @property
    def together(self) -> int:
        """How many inputs and outputs there is memory for at a time."""
        return max(1, CHUNK_BYTES // max(self.node.x_bytes, self.node.y_bytes))

    @property
    def is_raw(self) -> bool:
        """Whether the layer's outputs are its sums."""
        return self.op.y.dtype is DType.INT32

    @cached_property
    def base(self) -> Array:
        """The input of zero points, or of what comes nearest to them in the network."""
        nearest: Array = np.clip(np.int64(self.zero_point), self.lo, self.hi).astype(self.op.x.dtype.numpy)
        return nearest

    @cached_property
    def stairs(self) -> Staircase | None:
        """The output codes by sums, None if sums are the output."""
        meaning = self.op.requantize if isinstance(self.op, GlobalAveragePool) else self.op.epilogue
        if not isinstance(meaning, Requantize):
            return None
        if isinstance(self.op, Conv):
            bounds = accumulator_interval(self.op)
            return staircase(meaning, bounds.lo, bounds.hi)
        ends = (np.array([self.op.pixels * (x - self.zero_point)]) for x in (int(self.lo.min()), int(self.hi.max())))
        return staircase(meaning, *ends)

    @cached_property
    def reached(self) -> tuple[Array, Array]:
        """The least and the greatest sum of each channel's widest window, (M,) each."""
        g, weights = self.geometry, self.weights
        lo, hi = (self.image(x[None]).astype(np.float64) - self.zero_point for x in (self.lo, self.hi))
        up, down = np.maximum(weights, 0), np.minimum(weights, 0)
        pixels = tuple(axis for axis in range(2 + g.rank) if axis != 1)
        least = (windows_sums(g, lo, up) + windows_sums(g, hi, down)).min(axis=pixels) + self.bias
        most = (windows_sums(g, hi, up) + windows_sums(g, lo, down)).max(axis=pixels) + self.bias
        return least, most

    def image(self, x: Array) -> Array:
        """Inputs (count, ...) as images (count * N, C, in...)."""
        g = self.geometry
        first = self._is_first(self.op.x)
        shape = (g.in_channels, *g.input) if first else (*g.input, g.in_channels)
        flat = x.reshape(-1, *shape)
        return flat if first else np.moveaxis(flat, -1, 1)

    def from_image(self, image: Array) -> Array:
        """Images (count * N, C, in...) as inputs (count, ...)."""
        moved = image if self._is_first(self.op.x) else np.moveaxis(image, 1, -1)
        return np.ascontiguousarray(moved).reshape(-1, *self.op.x.shape)

    def outputs(self, sums: Array) -> Array:
        """Something of each output, (count * N, M, out...), as outputs (count, ...)."""
        return (sums if self._is_first(self.op.y) else np.moveaxis(sums, 1, -1)).reshape(-1, *self.op.y.shape)

    def _is_first(self, tensor: Tensor) -> bool:
        """Whether channels come before pixels; where there is one pixel, both are the same."""
        if isinstance(self.op, GlobalAveragePool):
            return self.op.channel_axis == 1
        return tensor.layout is Layout.CHANNELS_FIRST

    def sums(self, x: Array) -> Array:
        """The sums (count * N, M, out...) int64 for inputs (count, ...), before anything wraps."""
        image = self.image(x).astype(np.float64) - self.zero_point
        return windows_sums(self.geometry, image, self.weights) + _column(self.bias, self.geometry)

    def words(self, x: Array) -> Array:
        """What the output steps must be given, (count, ...) uint32."""
        words = (self.sums(x) << self.word.bits) + _column(self.word.addend.astype(np.int64), self.geometry)
        return self.outputs(words % 2**32).astype(np.uint32)

    def codes(self, sums: Array) -> Array:
        """The output codes (count, ...) for sums (count * N, M, out...)."""
        assert self.stairs is not None, "sums become codes"
        wrapped = (sums - INT32_MIN) % 2**32 + INT32_MIN
        codes = self.stairs.at(np.moveaxis(wrapped, 1, 0))
        return self.outputs(np.moveaxis(codes, 0, 1)).astype(self.op.y.dtype.numpy)


def _column(values: Array, g: ConvGeometry) -> Array:
    """Numbers of channels, or one for all, to be added to (N, M, out...)."""
    return values.reshape(-1, *[1] * g.rank)


def windows_sums(g: ConvGeometry, image: Array, weights: Array) -> Array:
    """Sums of products (N, M, out...) int64 of float64 images (N, C, in...) and weights (M, C/group, k...), exactly.

    The reference sums in int64; products of float64 matrices are many times faster.
    """
    assert np.abs(image).max(initial=0) * np.abs(weights).reshape(len(weights), -1).sum(axis=1).max() < EXACT
    grouped = weights.reshape(g.group, g.group_out, g.group_in, -1)
    sums = np.zeros((len(image), g.group, g.group_out, prod(g.output)))
    for index, seen in enumerate(taps(g, image)):
        part = seen.reshape(len(image), g.group, g.group_in, -1)
        own = grouped[..., index]
        sums += own * part if g.group_in == g.group_out == 1 else _products(own, part)
    return sums.reshape(len(image), g.out_channels, *g.output).astype(np.int64)


def _products(weights: Array, part: Array) -> Array:
    """weights (group, M/group, C/group) times part (count, group, C/group, pixels), as one product for few pixels."""
    count, group, channels, pixels = part.shape
    if pixels >= FEW:
        return np.asarray(np.matmul(weights, part))
    together = part.transpose(1, 2, 0, 3).reshape(group, channels, count * pixels)
    products: Array = np.matmul(weights, together)
    return products.reshape(group, -1, count, pixels).transpose(2, 0, 1, 3)


def layers_of(artifact: Artifact, nodes: tuple[CalledNode, ...]) -> Iterator[Layer]:
    """Every call of the plan whose sums are taken in integers, those of codes of 16 bits, which have no word, too."""
    steps = steps_of(artifact.planned, artifact.plan.options.layout)
    bounds = Bounds(artifact.planned, steps)
    for node in nodes:
        op = node.op
        if isinstance(op, Conv) and op.x.dtype.is_code:
            assert isinstance(node.call.op, Conv), "a part of a convolution is one"
            lo, hi = (
                _rows(ends, op.x.shape, end)
                for ends, end in zip(bounds.of(node.call.op.x), (np.min, np.max), strict=True)
            )
            weights = weight_differences(op).reshape(op.weights.shape).astype(np.float64)
            padded = _padded(node.call.op.geometry, op.geometry)
            yield Layer(node, op, op.geometry, op.x_zero_point, weights, op.bias.astype(np.int64), lo, hi, padded)
        elif isinstance(op, GlobalAveragePool) and op.requantize is not None:
            lo, hi = bounds.of(op.x)
            g = _geometry_of_mean(op)
            weights = np.ones((g.out_channels, 1, *g.kernel))
            yield Layer(node, op, g, op.x.zero_point or 0, weights, np.zeros(g.out_channels, np.int64), lo, hi)


def _rows(ends: Array, shape: tuple[int, ...], end: Callable[..., Array]) -> Array:
    """Ends of all elements as those of some rows, ``shape``: for each, the least or greatest of all rows."""
    shorter = tuple(axis for axis, (size, part) in enumerate(zip(ends.shape, shape, strict=True)) if size != part)
    return np.broadcast_to(end(ends, axis=shorter, keepdims=True), shape)


def _padded(whole: ConvGeometry, part: ConvGeometry) -> tuple[tuple[int, int], ...]:
    """How many rows above and below the image the calls of a part read, where they read any."""
    if part == whole:
        return ()
    calls = whole.output[0] // part.output[0]
    firsts = (call * part.output[0] * whole.strides[0] - whole.pads_begin[0] for call in range(calls))
    outside = ((max(-first, 0), max(first + part.input[0] - whole.input[0], 0)) for first in firsts)
    return tuple(dict.fromkeys(pair for pair in outside if any(pair)))


def _geometry_of_mean(op: GlobalAveragePool) -> ConvGeometry:
    """A mean as a depthwise convolution whose window is the image."""
    channels = op.x.shape[op.channel_axis]
    image = tuple(size for axis, size in enumerate(op.x.shape) if axis not in (0, op.channel_axis))
    one, none = (1,) * len(image), (0,) * len(image)
    return ConvGeometry(op.x.shape[0], channels, channels, channels, image, image, one, one, none, none, one)


class Bounds:
    """The codes that the elements of tensors can have, as the arranged operators see these tensors."""

    def __init__(self, program: Program, steps: tuple[Arranged, ...]) -> None:
        self._ranges = dict(channel_ranges(program))
        copies = [step.op for step in steps if isinstance(step.op, Transpose)]
        for copy in copies:
            for one, other in ((copy.x.name, copy.y.name), (copy.y.name, copy.x.name)):
                if one in self._ranges and other not in self._ranges:  # what only changes the order in memory
                    self._ranges[other] = self._ranges[one]
        # Views that keep the order in memory of what they view, although it is not the model's.
        self._views = {step.op.y.name: (step.op, step.xs[0]) for step in steps if isinstance(step.op, Reshape)}
        self._is_view = {step.op.y.name for step in steps if step.is_view}

    def of(self, tensor: Tensor) -> tuple[Array, Array]:
        """The lowest and the highest code of each element."""
        view = self._views.get(tensor.name)
        if tensor.name in self._is_view and view is not None:
            op, order = view
            lo, hi = self._ranges[op.x.name].elements(op.x.shape)
            return _in_memory(lo, order, tensor), _in_memory(hi, order, tensor)
        return self._ranges[tensor.name].elements(tensor.shape)


def _in_memory(elements: Array, order: Order, view: Tensor) -> Array:
    return elements.transpose(order).reshape(view.shape)


# Inputs under which sums are what they are wanted to be: the ends of their intervals, the sides of steps.

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
