"""The order in which the elements of a window are widened to pairs of 16 bits."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import prod

import numpy as np

from qcgen.ir.context import Struct
from qcgen.ir.program import ConvGeometry, Int64s
from qcgen.ir.types import Layout
from qcgen.kernels.windows import PlaneAxis, plane_axes

MAX_GATHERED = 256  # elements of a window at the border that the C function collects on its stack
MAX_REMAINDER = 64  # elements left over by whole words that are written out pair by pair
MAX_UNROLL = 10  # copies of a loop's body: the loop itself then costs 3 instructions in 120
MAX_WHOLE = 16  # copies where there is no loop then

AXES = 2  # that windows of the library have

ZERO = -1
"""In an order: a half of a pair that no element fills; its weights are zero."""


@dataclass(frozen=True)
class PairedWindow:
    """A window as ``runs`` of ``run`` elements that lie side by side in the image, each widened word by word.

    ``order`` (slots,): which weight of a channel, as ONNX counts them, belongs to each half pair; words of all runs
    come first. ``is_rows``: runs are rows of taps, else single taps.
    ``is_gathered``: at the border, rows that leave the image are collected on the stack; taps leave it as a whole.
    """

    runs: int
    run: int
    order: Int64s
    is_rows: bool
    is_gathered: bool
    has_zero_pair: bool

    @property
    def pairs(self) -> int:
        """Pairs of one window; an even number."""
        return self.order.size // 2

    @property
    def remainder(self) -> int:
        """Elements that whole words leave over."""
        return self.runs * (self.run % 4)


@dataclass(frozen=True)
class DspWindows:
    """The fields of ``struct qcgen_dsp_windows`` in templates/library/dsp_windows.h, which says what they mean."""

    planes: int
    rows: int
    columns: int
    channels: int
    out_rows: int
    out_columns: int
    kernel_rows: int
    kernel_columns: int
    row_stride: int
    column_stride: int
    row_dilation: int
    column_dilation: int
    row_pad: int
    column_pad: int

    @property
    def struct(self) -> Struct:
        """The values of the struct."""
        return Struct("dsp_windows", (), asdict(self))


def dsp_windows(g: ConvGeometry, layout: Layout) -> DspWindows:
    """The windows of an image of up to two axes; pixels of one tap that follow each other are a single row."""
    is_planar = layout is Layout.CHANNELS_FIRST
    rows, columns = plane_axes(g)
    if not is_planar and prod(g.kernel) == 1 and not g.is_padded and set(g.strides) == {1}:
        pixels = prod(g.input)
        rows, columns = PlaneAxis(1, 1, 1, 1, 1, 0), PlaneAxis(pixels, pixels, 1, 1, 1, 0)
    return DspWindows(
        planes=g.in_channels if is_planar else 1,
        rows=rows.input,
        columns=columns.input,
        channels=1 if is_planar else g.in_channels,
        out_rows=rows.output,
        out_columns=columns.output,
        kernel_rows=rows.kernel,
        kernel_columns=columns.kernel,
        row_stride=rows.stride,
        column_stride=columns.stride,
        row_dilation=rows.dilation,
        column_dilation=columns.dilation,
        row_pad=rows.pad,
        column_pad=columns.pad,
    )


def window(g: ConvGeometry, layout: Layout, *, has_border: bool) -> PairedWindow:
    """The window of an image in rows of taps where that serves, else tap by tap.

    With channels first a window has rows in the plane of every channel, and a tap is one element.
    """
    pixel = g.in_channels if layout is Layout.CHANNELS_LAST else 1
    planes = g.in_channels // pixel
    is_row = g.dilations[-1] == 1 and g.group == 1
    is_gathered = is_row and has_border and g.taps <= MAX_GATHERED and (pixel % 4 != 0 or pixel < 16)
    is_rows = is_row and (is_gathered or not has_border)
    if is_rows:
        found = _window(planes * prod(g.kernel[:-1]), pixel * g.kernel[-1])
    else:
        found = _window(planes * prod(g.kernel), pixel)
    return replace(found, order=_weights_of(found.order, g, layout), is_rows=is_rows, is_gathered=is_gathered)


def whole_image(g: ConvGeometry, layout: Layout) -> PairedWindow:
    """A window that lies in the image without a gap."""
    found = _window(1, g.taps)
    return replace(found, order=_weights_of(found.order, g, layout))


def in_whole_words(g: ConvGeometry, layout: Layout, words: int) -> Int64s:
    """The order of a window that lies in the image without a gap, read in so many words: beyond it weights are zero."""
    order = np.arange(4 * words).reshape(-1, 2, 2).transpose(0, 2, 1).reshape(-1)
    return _weights_of(np.where(order < g.taps, order, ZERO), g, layout)


def _weights_of(order: Int64s, g: ConvGeometry, layout: Layout) -> Int64s:
    """The weights of elements that are counted as they lie in the image; ONNX counts [channel][k...]."""
    if layout is Layout.CHANNELS_FIRST:
        return order
    return np.where(order == ZERO, ZERO, order % g.in_channels * prod(g.kernel) + order // g.in_channels)


def _window(runs: int, run: int) -> PairedWindow:
    whole = run // 4 * 4
    words = np.arange(whole).reshape(-1, 2, 2).transpose(0, 2, 1).reshape(-1)  # 0, 2 and 1, 3 of each word
    first = np.arange(runs)[:, None] * run
    left = (first + np.arange(whole, run)).reshape(-1)
    zeros = -left.size % 4
    order = np.concatenate([(first + words).reshape(-1), left, np.full(zeros, ZERO)])
    return PairedWindow(runs, run, order, False, False, has_zero_pair=zeros > 1)
