"""arm_dsp/winograd_in_ram: tiles whose weights are transformed when the layer runs; flash holds them as bytes.

All are transformed first, or those of a block of output channels for each group of tiles, as memory has room.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from qcgen.ir.program import Conv, ConvGeometry, Int64s, Operator
from qcgen.kernels.arm_dsp.tile import Tile
from qcgen.kernels.arm_dsp.winograd import (
    WIDTHS,
    Group,
    WinogradContext,
    cost_of_tiles,
    counted,
    pack_taps,
    padded_channels,
    prepare_tiles,
    serving_tiles,
    taps_of,
    tile_count,
    why_no_tiles,
    why_too_little,
)
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting, TileWeights
from qcgen.kernels.packing import Packed
from qcgen.kernels.reasons import why_wraps
from qcgen.kernels.text import divided

MOST_CYCLES = 1.05  # of the fastest way to transform weights in RAM: so many are taken if that saves memory


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves the same layers where --flash has no room for their transformed weights but the arena has some."""
    reason = why_no_tiles(op, setting)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    if setting.tile_weights is TileWeights.IN_FLASH:
        return "flash has room for transformed weights"
    if setting.tile_weights is TileWeights.NONE:
        return "transforming its weights gains too little, or takes memory that the arena does not have"
    if setting.in_rows:
        return "weights would be transformed for every row"
    packed = pack_taps(op, setting)
    if packed.wraps:
        return why_wraps(packed)
    if packed.weights.min() < -128 or packed.weights.max() > 127:
        return "its weights less their zero point do not fit a byte"
    group = _group(op, packed, setting.tile_scratch)
    return why_too_little(op, setting, None if group is None else _cost_in_ram(op.geometry, group))


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Weights [blocks of channels][fours of input channels][channels of a block][taps][4], as bytes plus 128."""
    assert isinstance(op, Conv)
    packed = pack_taps(op, setting)
    group = _group(op, packed, setting.tile_scratch)
    assert group is not None, "why_not accepted the operator"
    meaning = "the weights, plus 128, so that two are widened without a sign: [blocks of output channels]"
    meaning += "[fours of input channels][output channels of a block][taps][4]."
    table = Constants("weights", "uint8_t", _bytes(taps_of(packed, op.geometry)), meaning)
    weights = Scratch(_weight_bytes(op.geometry, group), 4)
    prepared = prepare_tiles(op, setting, packed, group.tile, table, group, weights)
    return counted(prepared, setting, _cost_in_ram(op.geometry, group))


def _group(op: Conv, packed: Packed, scratch: int) -> Group | None:
    """What takes the least memory of all that is nearly as fast as the fastest within so many bytes."""
    g = op.geometry
    groups = [group for tile in serving_tiles(op, packed) for group in _groups(g, tile)]
    costs = {group: _cost_in_ram(g, group) for group in groups if _group_bytes(g, group) <= scratch}
    fast = [group for group, cost in costs.items() if cost <= MOST_CYCLES * min(costs.values())]
    return min(fast, key=lambda group: (_group_bytes(g, group), costs[group]), default=None)


def _groups(g: ConvGeometry, tile: Tile) -> Iterator[Group]:
    yield Group(tile, 2, is_whole=True)
    yield from (Group(tile, tiles, is_whole=False) for tiles in range(2, tile_count(g, tile) + 1, 2))


def _cost_in_ram(g: ConvGeometry, group: Group) -> float:
    """The same, and all weights transformed for each group."""
    quads = padded_channels(g) // 4 * g.out_channels
    times = 1 if group.is_whole else -(-tile_count(g, group.tile) // group.tiles)
    return cost_of_tiles(g, group.tile) + times * quads * group.tile.weight_cost


def _group_bytes(g: ConvGeometry, group: Group) -> int:
    """Of the factors of a group and of the transformed weights."""
    return 2 * group.tile.products * padded_channels(g) * group.tiles + _weight_bytes(g, group)


def _weight_bytes(g: ConvGeometry, group: Group) -> int:
    """Of the transformed weights that are there at the same time."""
    channels = g.out_channels if group.is_whole else min(WIDTHS[0], g.out_channels)
    return 2 * group.tile.products * padded_channels(g) * channels


def _bytes(taps: Int64s) -> Int64s:
    """(n,) uint8: weights (M, C, kH, kW) in the order in which they are transformed."""
    outputs, inputs, *kernel = taps.shape
    padded = np.zeros((outputs, -(-inputs // 4) * 4, prod(kernel)), np.int64)
    padded[:, :inputs] = taps.reshape(outputs, inputs, -1)
    quads = padded.reshape(outputs, -1, 4, prod(kernel)).transpose(1, 0, 3, 2) + 128
    return np.concatenate([quads[:, first:beyond].reshape(-1) for first, beyond in _each_block(outputs)])


def _each_block(out_channels: int) -> Iterator[tuple[int, int]]:
    """The first channel of each block, and that behind its last."""
    for width, first, beyond in divided(out_channels, WIDTHS):
        yield from ((m, m + width) for m in range(first, beyond, width))


WINOGRAD_IN_RAM = Kernel("arm_dsp/winograd_in_ram", WinogradContext, frozenset({"dsp"}), why_not, prepare)
