"""scalar/winograd: 3x3 convolutions of stride 1 by Winograd's F(2x2, 3x3), exact in integers."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context, Struct
from qcgen.ir.program import Conv, ConvGeometry, Int64s, Operator
from qcgen.kernels.access import in_pixels, tiles
from qcgen.kernels.fast_output import FastOutput, output_constants
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting, TileWeights
from qcgen.kernels.packing import IntegerConv, Packed, integer_conv, pack
from qcgen.kernels.reasons import why_channels_apart, why_groups, why_not_integer_conv
from qcgen.kernels.scalar.sums import certified, core_of, scalar_output
from qcgen.kernels.text import ChannelBlocks, Unrolled, divided, unrolled
from qcgen.kernels.windows import images
from qcgen.options import spelt

WIDTHS = (4, 2, 1)  # output channels at a time, each with the sums of two tiles
THUMB1_WIDTHS = (1,)  # registers for more there are not
ARM_UNROLL = 16  # copies of a step of the sums over input channels, at most
THUMB1_UNROLL = 8  # on Cortex-M0, whose copies are 13 lines for two: 16 save 2 to 4 % and make the C a fifth longer
UNROLL = 2  # the same for RISC-V, where gcc loads the elements of all copies first

G2 = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], np.int64)
"""Twice Winograd's G, so that it is whole; weights become four times G g Gt."""

ELEMENT_HIGH = 510
"""The largest magnitude of an element of Bt d B, but for the one that is a sum of four pixels: twice as much.

An output takes 9 of the 16, that one among them, which counts as two.
"""


MOST_COMPUTED = 1.4
"""Times the outputs that tiles may compute. 12x12, 8x8, 6x6 (1.33) outputs take 0.68 to 0.95 of the instructions of
scalar/conv on Cortex-M3 and rv32imc, 9x9 (1.48) 0.98 to 1.16, 5x5 (1.92) 1.13 to 1.19."""


MOST_COMPUTED_THUMB1, FEWEST_CHANNELS_THUMB1 = 1.2, 16
"""On Cortex-M0 the same, and the fewest input channels. 10x10 (1.2), 14x14 and 16x16 outputs of 16 to 64 channels take
0.69 to 0.97 of the instructions of scalar/conv, also where its groups have eight elements; 3 channels 1.08, 4 channels
1.00, 8 channels 0.85 to 1.05; 6x6 outputs 0.91 to 1.31."""


@dataclass(frozen=True)
class TileBlocks(ChannelBlocks):
    """Blocks of channels of two tiles."""

    @property
    def sums(self) -> int:
        """Sums of one position: those of two tiles."""
        return 2 * self.width


@dataclass(frozen=True)
class WinogradContext(Context):
    """A convolution by F(2x2, 3x3)."""

    template: ClassVar[str] = "kernels/scalar/winograd.c.jinja"

    conv: IntegerConv
    fast: FastOutput
    tiles: Struct
    gathers: bool  # the pixels of some tiles are collected
    blocks: tuple[TileBlocks, ...]  # of output channels
    out_column: int  # from one output of a tile to the next, in elements
    out_row: int  # from one row of a tile's outputs to the next


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves 3x3 kernels of stride 1 without groups on images of two axes, for --optimize speed."""
    reason = why_not_integer_conv(op) or why_channels_apart(setting.x_layout, setting.y_layout)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    g = op.geometry
    if g.kernel != (3, 3) or set(g.strides) != {1}:
        return "not a 3x3 kernel of stride 1"
    if g.group > 1:
        return why_groups(g)
    if setting.optimize != "speed":
        return f"its weights take 3.6 times the flash, which {spelt(optimize='speed')} allows"
    if setting.tile_weights is not TileWeights.IN_FLASH:
        return f"{spelt('flash')} spent the budget on layers with a better speed per byte"
    most_computed, fewest = _limits(setting)
    if g.in_channels < fewest:
        return f"{g.in_channels} input channels are too few for tiles to pay on this core"
    if g.output[0] < 2 * g.dilations[0] or g.output[1] < 4 * g.dilations[1]:
        return f"{g.output[0]}x{g.output[1]} outputs are less than two tiles of 2x2"
    computed = prod(_in_tiles(*axis) for axis in zip(g.output, g.dilations, (2, 4), strict=True))
    if computed > most_computed * prod(g.output):
        return f"two tiles at a time would compute {computed} outputs for {prod(g.output)}"
    packed = _packed(op, setting)
    if packed.wraps or 10 * ELEMENT_HIGH * np.abs(_transformed(packed, g)).sum(axis=2).max() >= 2**31:
        return "the sums of its transformed weights may leave int32"
    return None


def _limits(setting: Setting) -> tuple[float, int]:
    """Times the outputs that tiles may compute, and the fewest input channels."""
    if core_of(setting.target).is_thumb1:
        return MOST_COMPUTED_THUMB1, FEWEST_CHANNELS_THUMB1
    return MOST_COMPUTED, 1


def _in_tiles(size: int, dilation: int, tile: int) -> int:
    """The outputs along an axis that whole tiles compute, in each of the interleaved images that a dilation makes."""
    return sum(-(-len(range(first, size, dilation)) // tile) * tile for first in range(dilation))


def _packed(op: Conv, setting: Setting) -> Packed:
    return pack(op, setting, 0, whole_weights=True)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Weights [blocks of channels][16 positions][input channels][channels of a block], int16."""
    assert isinstance(op, Conv)
    g = op.geometry
    packed = _packed(op, setting)
    gathers = 2 if set(g.dilations) != {1} else int(g.is_padded)
    core = core_of(setting.target)
    blocks = _blocks(g.out_channels, THUMB1_WIDTHS if core.is_thumb1 else WIDTHS)
    context = WinogradContext(
        conv=integer_conv(op, packed),
        fast=scalar_output(op, packed),
        # Thumb's first instruction set loads several words by one instruction, but no int16 without an index.
        tiles=_tiles(
            g, padding=packed.padding, gathers=gathers, has_words=core.is_thumb1, copies=_most_copies(setting)
        ),
        gathers=gathers > 0,
        blocks=blocks,
        out_column=g.out_channels * g.dilations[1],
        out_row=g.out_channels * g.output[1] * g.dilations[0],
    )
    widths = " or ".join(str(block.width) for block in blocks)
    shape = f"[16 positions][{g.in_channels} input channels][{widths} output channels]"
    meaning = f"Winograd's 4 (G g Gt), of each block of channels {shape}."
    constants = (
        Constants("weights", "int16_t", _weights(packed, g, blocks), meaning),
        Constants("bias", "int32_t", packed.bias, "initial accumulators."),
        *output_constants(packed),
    )
    element_bytes = 4 if core.is_thumb1 else 2
    scratch = [Scratch(element_bytes * 16 * 2 * g.in_channels, element_bytes), Scratch(4 * 16 * blocks[0].sums, 4)]
    if gathers:
        scratch.append(Scratch(24 * g.in_channels, 1))
    access = in_pixels(op, setting, tiles(g, (2, 4), 1), gathers=True)
    return Prepared(
        constants, context, tuple(scratch), certified(op, packed), access=access, folded=_operations(context)
    )


def _tiles(g: ConvGeometry, *, padding: int, gathers: int, has_words: bool, copies: int) -> Struct:
    """What the library knows of the images."""
    sizes = images(g)
    numbers = {"batch": g.batch, "x_image": sizes.x_image, "y_image": sizes.y_image}
    numbers |= {"rows": g.input[0], "columns": g.input[1], "channels": g.in_channels}
    numbers |= {"out_rows": g.output[0], "out_columns": g.output[1], "out_channels": g.out_channels}
    numbers |= {"row_pad": g.pads_begin[0], "column_pad": g.pads_begin[1]}
    numbers |= {"row_dilation": g.dilations[0], "column_dilation": g.dilations[1]}
    numbers |= {"outside": padding, "gathers": gathers, "has_words": int(has_words), "round": _steps(g, copies).unroll}
    return Struct("scalar_winograd", (), numbers)


def _operations(context: WinogradContext) -> dict[str, float]:
    """What calls of the library's functions become: fitted to what gcc -O2 makes of 38 layers for three cores.

    A step of the sums is a product for each sum of a block. Cortex-M0 has few registers and needs more moves.
    """
    numbers = context.tiles.numbers
    channels = numbers["round"] + numbers["channels"] % numbers["round"]
    products = [block.sums * channels for block in context.blocks]
    has_words = numbers["has_words"]
    return {
        "scalar_transform": 290.0 if has_words else 115.0,
        "scalar_gather": 40.0,
        "scalar_multiply": 15.0 + (6.6 * channels if has_words else 2.2 * sum(products) / len(products)),
        "scalar_tile_outputs": 27.0,
        "scalar_all_tiles": 50.0,
    }


def _most_copies(setting: Setting) -> int:
    if core_of(setting.target).is_thumb1:
        return THUMB1_UNROLL
    return ARM_UNROLL if "multiply-add" in setting.features else UNROLL


def _steps(g: ConvGeometry, most: int) -> Unrolled:
    steps = unrolled(g.in_channels, most)
    return steps if steps.count > 1 or not steps.rest else unrolled(g.in_channels, g.in_channels // 2)


def _blocks(out_channels: int, widths: tuple[int, ...]) -> tuple[TileBlocks, ...]:
    return tuple(TileBlocks(*place) for place in divided(out_channels, widths))


def _transformed(packed: Packed, g: ConvGeometry) -> Int64s:
    """(16, M, C): 4 G g Gt, at most 1152 in magnitude, or 2295 where weights have nine bits."""
    taps = packed.weights.reshape(g.out_channels, g.in_channels, 3, 3)
    transformed: Int64s = np.einsum("ia,mcab,jb->ijmc", G2, taps, G2).reshape(16, g.out_channels, g.in_channels)
    return transformed


def _weights(packed: Packed, g: ConvGeometry, blocks: tuple[TileBlocks, ...]) -> Int64s:
    """(n,): the transformed weights in the order of the loops."""
    transformed = _transformed(packed, g)
    parts = []
    for block in blocks:
        part = transformed[:, block.first : block.beyond].reshape(16, -1, block.width, g.in_channels)
        parts.append(part.transpose(1, 0, 3, 2).reshape(-1))
    return np.concatenate(parts)


WINOGRAD = Kernel("scalar/winograd", WinogradContext, frozenset({"scalar"}), why_not, prepare)
