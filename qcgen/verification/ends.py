"""Inputs under which the accumulators of a convolution reach both ends of their intervals."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from qcgen.intervals import weight_differences
from qcgen.ir.program import Conv, ConvGeometry, OrionConv
from qcgen.ir.types import Array, Layout

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
    axes = [axis_spots(g, axis) for axis in range(g.rank)]
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


def axis_spots(g: ConvGeometry, axis: int) -> list[Spot]:
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
