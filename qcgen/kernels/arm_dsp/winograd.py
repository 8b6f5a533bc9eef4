"""arm_dsp/winograd: convolutions of stride 1 tile by tile, by the algorithms of Toom-Cook and Winograd.

arm_dsp/winograd_in_ram transforms weights, which flash holds as bytes, when the layer runs: all of them first, or those
of a block of output channels for each group of tiles, as memory has room.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context
from qcgen.ir.program import Conv, ConvGeometry, Int64s, Operator
from qcgen.ir.types import Layout
from qcgen.kernels.access import in_pixels
from qcgen.kernels.access import tiles as tiles_of
from qcgen.kernels.arm_dsp.output import bias_text, certified, dsp_output, place
from qcgen.kernels.arm_dsp.tile import ELEMENT_HIGH, Tile, ToomCook, tiles
from qcgen.kernels.fast_output import FastOutput, output_constants
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting, TileWeights
from qcgen.kernels.packing import IntegerConv, Packed, integer_conv, pack, unsigned_shift
from qcgen.kernels.reasons import why_axes, why_groups, why_not_integer_conv, why_wraps
from qcgen.kernels.text import ChannelBlocks, Unrolled, divided, unrolled, x_kind
from qcgen.kernels.windows import Images, PlaneAxis, images, plane_axes
from qcgen.options import spelt

WIDTHS = (4, 2, 1)
LEAST_GAIN = 1.1  # in cycles over arm_dsp/conv: what flash and scratch for tiles must be paid with at the least
MAX_UNROLL = 15  # of the sums over input channels, besides the first product

MOST_CYCLES = 1.05  # of the fastest way to transform weights in RAM: so many are taken if that saves memory


@dataclass(frozen=True)
class TileSteps(Context):
    """The algorithms of a tile."""

    tile: Tile
    last_axis: ToomCook  # the algorithm of the last axis that has one
    has_two_axes: bool  # both axes have one that does something
    takes_row: bool  # rows of pixels are combined
    codes: tuple[tuple[str, str], ...]  # accumulators of its outputs and where their codes go, in C


@dataclass(frozen=True)
class Group:
    """Weights in RAM. ``is_whole``: all at once, tiles follow in pairs; else a block of channels for ``tiles``."""

    tile: Tile
    tiles: int
    is_whole: bool

    @property
    def pairs(self) -> int:
        """Two tiles are multiplied at a time."""
        return self.tiles // 2


@dataclass(frozen=True)
class TileLoops(Context):
    """The loops over the tiles of the output."""

    images: Images
    height: PlaneAxis
    width: PlaneAxis
    is_dilated: bool  # the outputs of a tile are not neighbours
    has_rest: bool  # tiles are not a whole number of pairs or groups: some are computed a second time
    out_column: int  # from one output of a tile to the next, in elements
    out_row: int  # from one row of a tile's outputs to the next


@dataclass(frozen=True)
class TileReading(Context):
    """Reading pixels: where they are, or collected where no run of bytes holds the row of a tile."""

    x_is_last: bool  # channels last
    is_run: bool  # the pixels of a tile's row lie side by side, in whole words
    gathers_all: bool  # the pixels of all tiles are collected,
    gathers: bool  # of some


@dataclass(frozen=True)
class WinogradContext(Context):
    """A convolution tile by tile."""

    template: ClassVar[str] = "kernels/arm_dsp/winograd.c.jinja"

    conv: IntegerConv
    steps: TileSteps
    loops: TileLoops
    reading: TileReading
    x_kind: str  # how the names of instructions end that read x
    dsp: FastOutput
    channels: int  # input channels up to a whole number of words
    pair_offset: str  # what makes two codes 0 to 255, in C; "" if they are
    padding: int  # the element outside the image
    pairs: int  # of input channels
    copies: int  # of the body of the loop over them
    segments: tuple[ChannelBlocks, ...]  # of output channels
    group: Group | None  # how weights are transformed when the layer runs; None: they lie transformed in flash


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves kernels of 2 to 5 taps along an axis, stride 1, without groups, for --optimize speed.

    Tiles take several times the flash and scratch: what gains less than LEAST_GAIN in cycles over arm_dsp/conv, which
    serves the same layers, is refused.
    """
    reason = _why_no_tiles(op, setting)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    if setting.tile_weights is not TileWeights.IN_FLASH:
        return f"{spelt('flash')} spent the budget on layers with a better speed per byte"
    packed = _pack_taps(op, setting)
    if packed.wraps:
        return why_wraps(packed)
    tile = _tile(op, packed)
    return _why_too_little(op, setting, None if tile is None else _cost_of_tiles(op.geometry, tile))


def _why_no_tiles(op: Operator, setting: Setting) -> str | None:
    """What speaks against tiles, wherever weights lie."""
    reason = why_not_integer_conv(op)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    g = op.geometry
    if setting.y_layout is Layout.CHANNELS_FIRST:
        return "the channels of an output pixel do not lie side by side"
    if g.rank > 2:
        return why_axes(g)
    if max(g.kernel) > 5 or max(g.kernel) == 1 or set(g.strides) != {1}:
        return "not a kernel of 2 to 5 taps along an axis, of stride 1"
    if g.group > 1:
        return why_groups(g)
    if setting.optimize != "speed":
        return f"its weights take several times the flash, which {spelt(optimize='speed')} allows"
    return None


def _why_too_little(op: Conv, setting: Setting, cost: float | None) -> str | None:
    """What speaks against tiles that take so many cycles; None: there are none."""
    g = op.geometry
    if cost is None:
        return "no tile of its outputs fits the image and its weights 16 bits"
    if LEAST_GAIN * cost > _direct_cost(g, setting.x_layout):
        return f"{g.in_channels} and {g.out_channels} channels are too few to pay for the transforms"
    return None


def _pack_taps(op: Conv, setting: Setting) -> Packed:
    """Taps are 0 to ELEMENT_HIGH."""
    return pack(op, setting, unsigned_shift(op), whole_weights=True)


def _tile(op: Conv, packed: Packed) -> Tile | None:
    """The cheapest tile that serves."""
    return min(_serving_tiles(op, packed), key=lambda tile: _cost_of_tiles(op.geometry, tile), default=None)


def _serving_tiles(op: Conv, packed: Packed) -> Iterator[Tile]:
    """All tiles that serve."""
    return (tile for tile in tiles(*plane_axes(op.geometry)) if _serves(tile, op.geometry, packed))


def _serves(tile: Tile, g: ConvGeometry, packed: Packed) -> bool:
    """Whether there are two tiles at least, weights fit int16, and multiples of sums fit int32.

    All but the last steps are exact modulo 2^32; the last divides 2^shift times a sum by 2^shift.
    """
    largest = ELEMENT_HIGH * int(np.abs(packed.weights).sum(axis=1).max())
    transformed = tile.weights(_taps_of(packed, g))
    return (
        _tile_count(g, tile) >= 2
        and transformed.min() >= -(2**15)
        and transformed.max() < 2**15
        and largest << tile.shift < 2**31
    )


def _taps_of(packed: Packed, g: ConvGeometry) -> Int64s:
    """Weights (M, C, kH, kW)."""
    height, width = plane_axes(g)
    return packed.weights.reshape(g.out_channels, g.in_channels, height.kernel, width.kernel)


def _cost_of_tiles(g: ConvGeometry, tile: Tile) -> float:
    """Cycles, roughly; two tiles at a time, their pixels collected one by one if not row by row."""
    collected = 0 if g.in_channels % 4 == 0 and g.dilations[-1] == 1 else 16 * tile.products
    return -(-_tile_count(g, tile) // 2) * 2 * (tile.cost(g.in_channels, g.out_channels) + collected)


def _tile_count(g: ConvGeometry, tile: Tile) -> int:
    """Of all images."""
    return g.batch * tile.count(*plane_axes(g))


def _direct_cost(g: ConvGeometry, x_layout: Layout) -> float:
    """The same outputs from arm_dsp/conv."""
    window = 2 if x_layout is Layout.CHANNELS_LAST else 7
    return g.batch * prod(g.output) * (g.out_channels * (1.14 * g.taps + 12) + window * g.taps)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Weights [blocks of channels][products][pairs of input channels][channels of a block], int16 in pairs."""
    assert isinstance(op, Conv)
    packed = _pack_taps(op, setting)
    tile = _tile(op, packed)
    assert tile is not None, "why_not accepted the operator"
    channels = _padded_channels(op.geometry)
    blocks = _blocks(op.geometry.out_channels)
    meaning = f"the weights' values at {tile.products} points, two in a word: [blocks of output channels][points]"
    meaning += "[pairs of input channels: 0 and 2, 1 and 3 of each four][output channels of a block]."
    words = _weights(tile.weights(_taps_of(packed, op.geometry)), channels, blocks)
    prepared = _prepare_tiles(op, setting, packed, tile, Constants("weights", "int32_t", words, meaning))
    return _counted(prepared, setting, _cost_of_tiles(op.geometry, tile))


def _counted(prepared: Prepared, setting: Setting, cycles: float) -> Prepared:
    """With its cycles, which are those of cores that issue one instruction at a time."""
    return prepared if "mve" in setting.features else replace(prepared, cycles=cycles)


def _prepare_tiles(
    op: Conv,
    setting: Setting,
    packed: Packed,
    tile: Tile,
    table: Constants,
    group: Group | None = None,
    weights: Scratch | None = None,
) -> Prepared:
    """Tiles with the weights of ``table``, which are transformed for ``group`` into ``weights`` if there is one."""
    g = op.geometry
    channels = _padded_channels(g)
    blocks, loop = _blocks(g.out_channels), unrolled(channels // 2 - 1, MAX_UNROLL)
    reading = _tile_reading(g, setting)
    together = 2 if group is None else group.tiles
    context = WinogradContext(
        conv=integer_conv(op, packed),
        steps=_tile_steps(tile),
        loops=_tile_loops(g, tile, together),
        reading=reading,
        x_kind=x_kind(op),
        dsp=dsp_output(op, packed),
        channels=channels,
        pair_offset=f"0x{packed.x_shift * 0x10001:08x}" if packed.x_shift else "",
        padding=op.x_zero_point,
        pairs=channels // 2,
        copies=loop.unroll,
        segments=blocks,
        group=group,
    )
    bias = Constants("bias", "int32_t", packed.bias, f"added to each sum: {bias_text(packed)}.")
    scratch = [Scratch(2 * tile.products * channels * together, 4), Scratch(4 * tile.products * 2 * blocks[0].width, 4)]
    if weights is not None:
        scratch.append(weights)
    if reading.gathers:
        scratch.append(Scratch(tile.products * channels, 1))
    sizes = (tile.height.outputs, tile.width.outputs)[-g.rank :]
    access = in_pixels(op, setting, tiles_of(g, sizes, together), gathers=True)
    return Prepared(
        (table, bias, *output_constants(packed)),
        context,
        tuple(scratch),
        certified(op, packed),
        access=access,
        operations=_operations(context, loop),
    )


def _operations(context: WinogradContext, loop: Unrolled) -> float:
    """Instructions, about: of loops, of the points on the axes, of products as they are written out, of codes."""
    axes, steps = sum(each.size for each in context.steps.tile.axes), 1 + loop.unroll + loop.rest
    widths = [block.width for block in context.segments]
    products = sum(steps * (1 + (width + 1) // 2 + 2 * width) + 2 * width for width in widths)
    codes = len(widths) * len(context.steps.codes) * (2 if context.dsp.has_windows else 1)
    transformed = 0 if context.group is None else len(widths) * axes
    return 70 + 19 * axes + 2 * products + 22 * codes + 7 * transformed


def _padded_channels(g: ConvGeometry) -> int:
    """Input channels up to a whole number of words."""
    return -(-g.in_channels // 4) * 4


def _tile_steps(tile: Tile) -> TileSteps:
    return TileSteps(
        tile=tile,
        last_axis=tile.axes[-1],
        has_two_axes=len(tile.axes) == 2,
        takes_row=not tile.height.is_trivial,
        codes=_codes(tile),
    )


def _tile_loops(g: ConvGeometry, tile: Tile, together: int) -> TileLoops:
    height, width = plane_axes(g)
    return TileLoops(
        images=images(g),
        height=height,
        width=width,
        is_dilated=set(g.dilations) != {1},
        has_rest=_tile_count(g, tile) % together > 0,
        out_column=g.out_channels * width.dilation,
        out_row=g.out_channels * width.output * height.dilation,
    )


def _tile_reading(g: ConvGeometry, setting: Setting) -> TileReading:
    height, width = plane_axes(g)
    x_is_last = setting.x_layout is not Layout.CHANNELS_FIRST
    is_run = x_is_last and _padded_channels(g) == g.in_channels and width.dilation == 1
    gathers_all = not is_run or height.dilation != 1
    return TileReading(x_is_last, is_run, gathers_all, gathers=gathers_all or g.is_padded)


def _codes(tile: Tile) -> tuple[tuple[str, str], ...]:
    """The accumulators of the last axis's outputs and where their codes go, in C."""
    step = "ROW" if tile.width.is_trivial else "COLUMN"
    return tuple((f"acc{i}", place("y", i, step)) for i in tile.axes[-1].numbers)


def _blocks(out_channels: int) -> tuple[ChannelBlocks, ...]:
    return tuple(ChannelBlocks(*place) for place in divided(out_channels, WIDTHS))


def _weights(transformed: Int64s, channels: int, blocks: tuple[ChannelBlocks, ...]) -> Int64s:
    """(n,) int32: pairs in the order of the loops."""
    products, outputs, inputs = transformed.shape
    padded = np.zeros((products, outputs, channels), np.int64)
    padded[:, :, :inputs] = transformed
    quads = padded.reshape(products, outputs, channels // 4, 4)
    order = quads[..., [0, 2, 1, 3]].reshape(products, outputs, channels // 2, 2)
    words = (order[..., 0] & 0xFFFF) | (order[..., 1] & 0xFFFF) << 16
    words = (words + 2**31) % 2**32 - 2**31
    parts = []
    for block in blocks:
        part = words[:, block.first : block.beyond].reshape(products, -1, block.width, channels // 2)
        parts.append(part.transpose(1, 0, 3, 2).reshape(-1))
    return np.concatenate(parts)


WINOGRAD = Kernel("arm_dsp/winograd", WinogradContext, frozenset({"dsp"}), why_not, prepare)


def why_not_in_ram(op: Operator, setting: Setting) -> str | None:
    """Serves the same layers where --flash has no room for their transformed weights but the arena has some."""
    reason = _why_no_tiles(op, setting)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    if setting.tile_weights is TileWeights.IN_FLASH:
        return "flash has room for transformed weights"
    if setting.tile_weights is TileWeights.NONE:
        return "transforming its weights gains too little, or takes memory that the arena does not have"
    if setting.in_rows:
        return "weights would be transformed for every row"
    packed = _pack_taps(op, setting)
    if packed.wraps:
        return why_wraps(packed)
    if packed.weights.min() < -128 or packed.weights.max() > 127:
        return "its weights less their zero point do not fit a byte"
    group = _group(op, packed, setting.tile_scratch)
    return _why_too_little(op, setting, None if group is None else _cost_in_ram(op.geometry, group))


def prepare_in_ram(op: Operator, setting: Setting) -> Prepared:
    """Weights [blocks of channels][fours of input channels][channels of a block][taps][4], as bytes plus 128."""
    assert isinstance(op, Conv)
    packed = _pack_taps(op, setting)
    group = _group(op, packed, setting.tile_scratch)
    assert group is not None, "why_not accepted the operator"
    meaning = "the weights, plus 128, so that two are widened without a sign: [blocks of output channels]"
    meaning += "[fours of input channels][output channels of a block][taps][4]."
    table = Constants("weights", "uint8_t", _weights_in_ram(_taps_of(packed, op.geometry)), meaning)
    weights = Scratch(_weight_bytes(op.geometry, group), 4)
    prepared = _prepare_tiles(op, setting, packed, group.tile, table, group, weights)
    return _counted(prepared, setting, _cost_in_ram(op.geometry, group))


def _group(op: Conv, packed: Packed, scratch: int) -> Group | None:
    """What takes the least memory of all that is nearly as fast as the fastest within so many bytes."""
    g = op.geometry
    groups = [group for tile in _serving_tiles(op, packed) for group in _groups_of(g, tile)]
    costs = {group: _cost_in_ram(g, group) for group in groups if _group_bytes(g, group) <= scratch}
    fast = [group for group, cost in costs.items() if cost <= MOST_CYCLES * min(costs.values())]
    return min(fast, key=lambda group: (_group_bytes(g, group), costs[group]), default=None)


def _groups_of(g: ConvGeometry, tile: Tile) -> Iterator[Group]:
    yield Group(tile, 2, is_whole=True)
    yield from (Group(tile, tiles, is_whole=False) for tiles in range(2, _tile_count(g, tile) + 1, 2))


def _cost_in_ram(g: ConvGeometry, group: Group) -> float:
    """Cycles of tiles whose weights are all transformed, for each group if not at once."""
    quads = _padded_channels(g) // 4 * g.out_channels
    times = 1 if group.is_whole else -(-_tile_count(g, group.tile) // group.tiles)
    return _cost_of_tiles(g, group.tile) + times * quads * group.tile.weight_cost


def _group_bytes(g: ConvGeometry, group: Group) -> int:
    """Of the factors of a group and of the transformed weights."""
    return 2 * group.tile.products * _padded_channels(g) * group.tiles + _weight_bytes(g, group)


def _weight_bytes(g: ConvGeometry, group: Group) -> int:
    """Of the transformed weights that are there at the same time."""
    channels = g.out_channels if group.is_whole else min(WIDTHS[0], g.out_channels)
    return 2 * group.tile.products * _padded_channels(g) * channels


def _weights_in_ram(taps: Int64s) -> Int64s:
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


WINOGRAD_IN_RAM = Kernel("arm_dsp/winograd_in_ram", WinogradContext, frozenset({"dsp"}), why_not_in_ram, prepare_in_ram)
