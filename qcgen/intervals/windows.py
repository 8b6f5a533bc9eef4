"""Which taps of a window lie inside the image, for every kind of window that an operator has."""

from __future__ import annotations

import numpy as np

from qcgen.ir.program import ConvGeometry, Int64s, Tensor
from qcgen.ir.types import Bools, Layout


def axis_spans(g: ConvGeometry, axis: int) -> Int64s:
    """The distinct windows along one spatial axis, (P, 2): the taps from the first on, up to the second, lie inside.

    A window that lies wholly in padding has (0, 0). Taps enter and leave the image one by one, so that only the
    first window and those at which one does so can differ from the window before: few are looked at in large images.
    """
    size, stride, dilation = g.input[axis], g.strides[axis], g.dilations[axis]
    reach = np.arange(g.kernel[axis] + 1, dtype=np.int64) * dilation
    changes = [-(-(g.pads_begin[axis] + end - reach) // stride) for end in (0, size)]
    outputs = np.unique(np.concatenate([[0], *changes]))
    starts = outputs[(outputs >= 0) & (outputs < g.output[axis])] * stride - g.pads_begin[axis]
    first, end = (np.clip(-((starts - edge) // dilation), 0, g.kernel[axis]) for edge in (0, size))
    inside = np.stack([first, end], axis=1)
    inside[first >= end] = 0
    return np.unique(inside, axis=0)


def window_kinds(g: ConvGeometry) -> int:
    """How many distinct windows there are; 1 if none of them meets padding."""
    return int(np.prod([len(axis_spans(g, axis)) for axis in range(g.rank)], dtype=object))


def all_meet_image(g: ConvGeometry) -> bool:
    """Whether every window has a tap inside the image."""
    return all(bool(axis_spans(g, axis)[:, 1].all()) for axis in range(g.rank))


def window_patterns(g: ConvGeometry) -> Bools:
    """The distinct windows (P, K), K taps in the order of the weights: whether each tap lies inside the image.

    A convolution whose windows never meet padding has one pattern, all true.
    """
    patterns = np.ones((1, 1), np.bool_)
    for axis in range(g.rank):
        spans, taps = axis_spans(g, axis), np.arange(g.kernel[axis])
        inside = (taps >= spans[:, :1]) & (taps < spans[:, 1:])
        both = patterns[:, None, :, None] & inside[None, :, None, :]
        patterns = both.reshape(len(patterns) * len(inside), -1)
    return patterns


def window_sums(g: ConvGeometry, taps: Int64s) -> Int64s:
    """What the taps inside the image add up to, (M, P) for taps (M, K): one sum for each distinct window.

    The taps inside are neighbours along every axis, so sums of all taps up to each one give them by subtraction.
    """
    sums = taps.reshape(-1, *g.kernel)
    for axis in range(g.rank):
        spans = axis_spans(g, axis)
        before = np.insert(sums.cumsum(axis=axis + 1), 0, 0, axis=axis + 1)
        sums = before.take(spans[:, 1], axis=axis + 1) - before.take(spans[:, 0], axis=axis + 1)
    return sums.reshape(len(taps), -1)


def image_channel_axis(tensor: Tensor) -> int:
    """The axis of the channels of what a convolution or a pooling reads or writes; of matrices it is the last."""
    return 1 if tensor.layout is Layout.CHANNELS_FIRST else len(tensor.shape) - 1


def window_numbers(g: ConvGeometry, axis: int) -> tuple[int, ...]:
    """For each position along one spatial axis, which of the distinct windows of ``axis_spans`` it has."""
    spans = axis_spans(g, axis)
    starts = np.arange(g.output[axis]) * g.strides[axis] - g.pads_begin[axis]
    first, end = (np.clip(-((starts - edge) // g.dilations[axis]), 0, g.kernel[axis]) for edge in (0, g.input[axis]))
    inside = np.stack([first, end], axis=1)
    inside[first >= end] = 0
    return tuple(int(number) for number in (inside[:, None] == spans).all(axis=2).argmax(axis=1))
