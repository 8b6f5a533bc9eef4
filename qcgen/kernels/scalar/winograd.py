"""scalar/winograd: 3x3 convolutions of stride 1 by Winograd's F(2x2, 3x3), exact in integers."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from qcgen.ir.program import Conv, ConvGeometry, Int64s, Operator
from qcgen.kernels.access import in_pixels, tiles
from qcgen.kernels.fast_output import output_constants
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.packing import Packed, names_of_conv, pack
from qcgen.kernels.reasons import why_channels_apart, why_groups, why_no_integer_conv
from qcgen.kernels.scalar.output import certified, output_support, scalar_output
from qcgen.kernels.unroll import Unrolled, divided, unrolled

WIDTHS = (4, 2, 1)  # output channels at a time, each with the sums of two tiles
ARM_UNROLL = 16  # copies of a step of the sums over input channels, at most
UNROLL = 2  # the same for RISC-V, where gcc loads the elements of all copies first

G2 = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], np.int64)
"""Twice Winograd's G, so that it is whole; weights become four times G g Gt."""

ELEMENT_HIGH = 510
"""The largest magnitude of an element of Bt d B, but for the one that is a sum of four pixels: twice as much.

An output takes 9 of the 16, that one among them, which counts as two.
"""


@dataclass(frozen=True)
class Block:
    """Blocks of ``width`` output channels from ``first`` on, before ``beyond``."""

    width: int
    first: int
    beyond: int

    @property
    def channels(self) -> range:
        """The channels of a block."""
        return range(self.width)

    @property
    def sums(self) -> int:
        """Sums of one position: those of two tiles."""
        return 2 * self.width


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves 3x3 kernels of stride 1 without groups on images of two axes, for --optimize speed."""
    reason = why_no_integer_conv(op) or why_channels_apart(setting.x_layout, setting.y_layout)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    g = op.geometry
    if g.kernel != (3, 3) or set(g.strides) != {1}:
        return "not a 3x3 kernel of stride 1"
    if g.group > 1:
        return why_groups(g)
    if setting.optimize != "speed":
        return "its weights take 3.6 times the flash, which --optimize speed allows"
    if "no-wide-product" in setting.features:
        return "its products take more instructions on this core than those of two in a word"
    if g.output[0] < 2 * g.dilations[0] or g.output[1] < 4 * g.dilations[1]:
        return f"{g.output[0]}x{g.output[1]} outputs are less than two tiles of 2x2"
    packed = _packed(op, setting)
    if packed.wraps or 10 * ELEMENT_HIGH * np.abs(_transformed(packed, g)).sum(axis=2).max() >= 2**31:
        return "the sums of its transformed weights may leave int32"
    return None


def _packed(op: Conv, setting: Setting) -> Packed:
    return pack(op, setting.features, 0, whole_weights=True)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Weights [blocks of channels][16 positions][input channels][channels of a block], int16."""
    assert isinstance(op, Conv)
    g = op.geometry
    packed = _packed(op, setting)
    gathers_all = set(g.dilations) != {1}
    gathers = gathers_all or g.is_padded
    blocks = _blocks(g.out_channels)
    context = {
        **names_of_conv(op, packed),
        "fast": scalar_output(op, packed),
        "position": 2 * g.in_channels,
        "padding": packed.padding,
        "gathers": gathers,
        "gathers_all": gathers_all,
        "blocks": blocks,
        "steps": _steps(g, setting),
        "positions": tuple(tuple(range(4 * i, 4 * i + 4)) for i in range(4)),
        "out_column": g.out_channels * g.dilations[1],
        "out_row": g.out_channels * g.output[1] * g.dilations[0],
        "x_image": g.in_channels * prod(g.input),
        "y_image": g.out_channels * prod(g.output),
        "uses_string": gathers,
    }
    widths = " or ".join(str(block.width) for block in blocks)
    shape = f"[16 positions][{g.in_channels} input channels][{widths} output channels]"
    meaning = f"Winograd's 4 (G g Gt), of each block of channels {shape}."
    constants = (
        Constants("weights", "int16_t", _weights(packed, g, blocks), meaning),
        Constants("start", "int32_t", packed.start, "where each accumulator starts."),
        *output_constants(packed),
    )
    scratch = [Scratch(2 * 16 * 2 * g.in_channels, 2), Scratch(4 * 16 * blocks[0].sums, 4)]
    if gathers:
        scratch.append(Scratch(24 * g.in_channels, 1))
    access = in_pixels(op, setting, tiles(g, (2, 4), 1), gathers=True)
    return Prepared(
        constants, context, tuple(scratch), output_support(op, packed), certified(op, packed), access=access
    )


COST = {
    "cortex-m3": (1.05, 153, 2.24, 1.07, 20.8, 0),
    "rv32imc": (2.01, 386, 0, 1.64, 18.3, 154),
}
"""Instructions for each of what ``_work`` counts, fitted to measurements with gcc -O3."""


def cost(op: Operator, setting: Setting) -> float | None:
    """Instructions of one call with gcc -O3; None for cores that were not measured."""
    if setting.core not in COST:
        return None
    assert isinstance(op, Conv)
    return sum(each * count for each, count in zip(COST[setting.core], _work(op, _packed(op, setting)), strict=True))


def _work(op: Conv, packed: Packed) -> tuple[float, ...]:
    """Elements collected for them, elements transformed, blocks of sums, loads and multiply-adds, outputs.

    Last the outputs of channels with tie windows.
    """
    g = op.geometry
    tiles = g.batch * _tiles(g.output[0], g.dilations[0], 2) * _tiles(g.output[1], g.dilations[1], 4)
    collected = tiles * _collected(g)
    blocks = _blocks(g.out_channels)
    block_sums = sum((b.beyond - b.first) // b.width for b in blocks)
    steps = sum((b.beyond - b.first) // b.width * (2 + 3 * b.width) for b in blocks)
    outputs = 8 * tiles * g.out_channels
    return (
        collected * (24 * 12 + 24 * g.in_channels / 2),
        tiles * g.in_channels,
        tiles * 16 * block_sums,
        tiles * 16 * steps * g.in_channels,
        outputs,
        outputs * packed.epilogue.guarded.size / g.out_channels,
    )


def _tiles(size: int, dilation: int, tile: int) -> int:
    """Tiles along an axis: those of each of the interleaved images that a dilation makes."""
    return sum(-(-((size - first + dilation - 1) // dilation) // tile) for first in range(dilation))


def _collected(g: ConvGeometry) -> float:
    """The part of the tiles whose pixels are collected."""
    if set(g.dilations) != {1}:
        return 1.0
    inside = 1.0
    for size, output, begin, tile in zip(g.input, g.output, g.pads_begin, (2, 4), strict=True):
        starts = [min(i, output - tile) - begin for i in range(0, output, tile)]
        inside *= sum(start >= 0 and start + tile + 2 <= size for start in starts) / len(starts)
    return 1 - inside


def _steps(g: ConvGeometry, setting: Setting) -> Unrolled:
    most = ARM_UNROLL if "multiply-add" in setting.features else UNROLL
    steps = unrolled(g.in_channels, most)
    return steps if steps.count > 1 or not steps.rest else unrolled(g.in_channels, g.in_channels // 2)


def _blocks(out_channels: int) -> tuple[Block, ...]:
    return tuple(Block(*place) for place in divided(out_channels, WIDTHS))


def _transformed(packed: Packed, g: ConvGeometry) -> Int64s:
    """(16, M, C): 4 G g Gt, at most 1152 in magnitude, or 2295 where weights have nine bits."""
    taps = packed.weights.reshape(g.out_channels, g.in_channels, 3, 3)
    transformed: Int64s = np.einsum("ia,mcab,jb->ijmc", G2, taps, G2).reshape(16, g.out_channels, g.in_channels)
    return transformed


def _weights(packed: Packed, g: ConvGeometry, blocks: tuple[Block, ...]) -> Int64s:
    """(n,): the transformed weights in the order of the loops."""
    transformed = _transformed(packed, g)
    parts = []
    for block in blocks:
        part = transformed[:, block.first : block.beyond].reshape(16, -1, block.width, g.in_channels)
        parts.append(part.transpose(1, 0, 3, 2).reshape(-1))
    return np.concatenate(parts)


WINOGRAD = Kernel("scalar/winograd", "kernels/scalar/winograd.c.jinja", frozenset({"scalar"}), why_not, prepare, cost)
