"""Access orders of kernels that compute the windows of an image: in blocks of pixels, in tiles, or channel by channel.

Orders are told in numbers of pixels, of one image and, for kernels that go channel by channel, of one channel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import numpy as np

from qcgen.ir.plan import NOTHING, AccessOrder
from qcgen.ir.program import Conv, ConvGeometry, Int64s
from qcgen.ir.types import Layout
from qcgen.kernels.kernel import Setting


def in_pixels(op: Conv, setting: Setting, units: Int64s, *, gathers: bool) -> AccessOrder | None:
    """The order of a kernel that computes all channels of ``units`` (units, pixels), -1 where there is no pixel.

    None if the channels of an image do not lie side by side: then a pixel is in many places.
    """
    if not _is_channels_last(op.geometry, setting):
        return None
    return _in_bytes(op, _first_reads(op.geometry, units), units.max(axis=1) + 1, gathers=gathers)


def in_blocks_of_channels(op: Conv, setting: Setting, units: Int64s, ends: Iterable[int]) -> AccessOrder | None:
    """The same for a kernel that reads a unit's windows again for every block of output channels, then writes those.

    ``ends``: the channel behind each block.
    """
    g = op.geometry
    if not _is_channels_last(g, setting):
        return None
    missing = g.out_channels - np.array(list(ends))  # of the last pixel's channels, those of later blocks
    lowest, beyond = _first_reads(g, units).repeat(missing.size), (units.max(axis=1) + 1).repeat(missing.size)
    return _in_bytes(op, lowest, beyond, gathers=True, missing=np.tile(missing, len(units)))


def channel_by_channel(op: Conv, setting: Setting, units: Int64s, *, gathers: bool) -> AccessOrder | None:
    """The order of a depthwise kernel that computes ``units`` of one channel, or of a few, after those of the others.

    None where channels of the output do not lie as far apart as those of the input do.
    """
    if not _is_channels_last(op.geometry, setting) or not _has_alike_pixels(op):
        return None
    lowest, beyond = _first_reads(op.geometry, units), units.max(axis=1) + 1
    return _in_bytes(op, lowest, beyond, gathers=gathers, is_by_channel=True)


def output_by_output(op: Conv, setting: Setting, steps: Sequence[tuple[int | None, int]]) -> AccessOrder | None:
    """The same for a kernel that reads of each output's window only what it has not read before.

    ``steps``: the first pixel that is read for an output (None: nothing is), and the output.
    """
    if not _is_channels_last(op.geometry, setting) or not _has_alike_pixels(op):
        return None
    lowest = np.array([NOTHING if read is None else read for read, _ in steps])
    beyond = np.array([output + 1 for _, output in steps])
    return _in_bytes(op, lowest, beyond, gathers=True, is_by_channel=True)


def blocks(pixels: int, block: int) -> Int64s:
    """(units, block): pixels in blocks; the last block ends with the image and repeats some of those before it."""
    first = np.minimum(np.arange(0, pixels, block), max(pixels - block, 0))
    return first[:, None] + np.arange(min(block, pixels))


def plane(g: ConvGeometry) -> Int64s:
    """(rows, columns): the output pixels of an image; axes but the last are rows."""
    return np.arange(prod(g.output)).reshape(-1, g.output[-1])


def bands(pixels: Int64s, band: int, repeats: int = 1) -> Int64s:
    """(units, pixels): ``pixels`` (rows, columns) in bands of rows, each computed ``repeats`` times; -1 for none."""
    missing = np.full((-len(pixels) % band, pixels.shape[1]), -1)
    return np.concatenate([pixels, missing]).reshape(-1, band * pixels.shape[1]).repeat(repeats, axis=0)


def parts_of_rows(pixels: Int64s, part: int) -> Int64s:
    """(units, part): ``pixels`` (rows, columns), row by row in parts, of which the last may be shorter; -1 for none."""
    missing = np.full((len(pixels), -pixels.shape[1] % part), -1)
    return np.concatenate([pixels, missing], axis=1).reshape(-1, part)


def tiles(g: ConvGeometry, tile: Sequence[int], together: int) -> Int64s:
    """(units, pixels): tiles of outputs, ``together`` of them in a unit; the last ones of an axis end with the image.

    The outputs of a tile lie as far apart as the taps of the kernel, and tiles begin at each of the places in between.
    """
    firsts = [_tile_starts(*axis) for axis in zip(g.output, tile, g.dilations, strict=True)]
    steps = [np.arange(size) * dilation for size, dilation in zip(tile, g.dilations, strict=True)]
    places = _grid(firsts)[:, None] + _grid(steps)
    pixels = np.ravel_multi_index(tuple(np.moveaxis(places, -1, 0)), g.output)
    missing = np.full((-len(pixels) % together, pixels.shape[1]), -1)
    return np.concatenate([pixels, missing]).reshape(-1, together * pixels.shape[1])


def _grid(axes: Sequence[Int64s]) -> Int64s:
    """(places, axes): all combinations, the last axis fastest."""
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def _tile_starts(outputs: int, tile: int, dilation: int) -> Int64s:
    """Where tiles start on one axis, in the order of the loops."""
    starts = []
    for phase in range(dilation):
        size = -(-(outputs - phase) // dilation)
        starts += [phase + min(i, size - tile) * dilation for i in range(0, size, tile)]
    return np.array(starts, dtype=np.int64)


def _is_channels_last(g: ConvGeometry, setting: Setting) -> bool:
    x_is_last = setting.x_layout is Layout.CHANNELS_LAST or g.in_channels == 1 or prod(g.input) == 1
    return x_is_last and (setting.y_layout is Layout.CHANNELS_LAST or g.out_channels == 1 or prod(g.output) == 1)


def _has_alike_pixels(op: Conv) -> bool:
    return op.geometry.in_channels * op.x.dtype.bytes == op.geometry.out_channels * op.y.dtype.bytes


def _in_bytes(
    op: Conv,
    lowest: Int64s,
    beyond: Int64s,
    *,
    gathers: bool,
    is_by_channel: bool = False,
    missing: Int64s | int = 0,
) -> AccessOrder:
    """From pixels of one image to bytes, one image after the other.

    ``missing``: elements at the end of what ``beyond`` names that a unit leaves to later ones.
    """
    g = op.geometry
    x_pixel, y_pixel = g.in_channels * op.x.dtype.bytes, g.out_channels * op.y.dtype.bytes
    images, reads_any = np.arange(g.batch)[:, None], lowest != NOTHING
    reads = (np.where(reads_any, lowest, 0) + images * prod(g.input)) * x_pixel
    writes = (beyond + images * prod(g.output)) * y_pixel - missing * op.y.dtype.bytes
    return AccessOrder(
        reads=np.where(reads_any, reads, NOTHING).reshape(-1),
        writes=writes.reshape(-1),
        gathers=gathers,
        multiple=x_pixel if is_by_channel else 1,
    )


def _first_reads(g: ConvGeometry, units: Int64s) -> Int64s:
    """(units,): the first input pixel in the windows of each unit's outputs, NOTHING if they are on none."""
    firsts = []
    for output, size, kernel, stride, dilation, pad in zip(
        g.output, g.input, g.kernel, g.strides, g.dilations, g.pads_begin, strict=True
    ):
        begin = np.arange(output) * stride - pad
        tap = np.maximum(0, -(begin // dilation))  # the first that is not before the image
        place = begin + tap * dilation
        firsts.append(np.where((tap < kernel) & (place < size), place, -1))
    grid = np.stack(np.meshgrid(*firsts, indexing="ij"))
    numbers = np.ravel_multi_index(tuple(np.maximum(grid, 0)), g.input)
    found = np.where((grid >= 0).all(axis=0), numbers, NOTHING).reshape(-1)
    lowest: Int64s = np.append(found, NOTHING)[units].min(axis=1)  # -1 is the last of these
    return lowest
