"""arm_dsp/winograd: 3x3 convolutions of stride 1 by Winograd's F(2x2, 3x3), exact in integers."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from qcgen.ir.program import Conv, ConvGeometry, Int64s, Operator
from qcgen.kernels.arm_dsp.conv import why_no_dsp, x_kind
from qcgen.kernels.arm_dsp.output import dsp_output, output_constants, output_support
from qcgen.kernels.arm_dsp.weights import LANES
from qcgen.kernels.arm_dsp.window import Unrolled, unrolled
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.packing import Packed, pack
from qcgen.kernels.portable.window_sums import describe

WIDTHS = (4, 2, 1)
MAX_UNROLL = 15  # of the sums over input channels, besides the first product

G2 = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], np.int64)
"""Twice Winograd's G, so that it is whole; weights become four times G g Gt."""


TILE_CODES = tuple(
    (f"start + ({place}_{tile} >> 2)", f"y + {offset}" if offset else "y")
    for tile, right in (("a", ""), ("b", "2 * COLUMN"))
    for place, below in (
        ("upper_left", ""),
        ("upper_right", "COLUMN"),
        ("lower_left", "ROW"),
        ("lower_right", "ROW + COLUMN"),
    )
    for offset in (" + ".join(filter(None, (right, below))),)
)
"""The accumulators of two tiles and where their codes go, in C."""


@dataclass(frozen=True)
class Block:
    """Blocks of ``width`` output channels from ``first`` on, before ``beyond``; ``steps`` after the first product."""

    width: int
    first: int
    beyond: int
    steps: Unrolled

    @property
    def channels(self) -> range:
        """The channels of a block."""
        return range(self.width)

    @property
    def word_twos(self) -> tuple[tuple[int, int], ...]:
        """They two by two, as their words are loaded."""
        return tuple((c, c + 1) for c in range(0, self.width - 1, 2))

    @property
    def is_odd(self) -> bool:
        """Whether there is but one."""
        return self.width == 1

    @property
    def sums(self) -> int:
        """Sums of one position: those of two tiles."""
        return 2 * self.width


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves 3x3 kernels of stride 1 without groups on images of two axes, for --optimize speed."""
    reason = why_no_dsp(op, setting)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    g = op.geometry
    if g.kernel != (3, 3) or set(g.strides) != {1}:
        return "not a 3x3 kernel of stride 1"
    if g.group > 1:
        return f"there are {g.group} groups of channels"
    if setting.optimize != "speed":
        return "its weights take 3.6 times the flash, which --optimize speed allows"
    if g.output[0] < 2 * g.dilations[0] or g.output[1] < 4 * g.dilations[1]:
        return f"{g.output[0]}x{g.output[1]} outputs are less than two tiles of 2x2"
    if _cost(g) > _direct_cost(g):
        return f"{g.in_channels} and {g.out_channels} channels are too few to pay for the transforms"
    packed = pack(op, setting.features, 0)
    # Elements of Bt d B are at most 510 in magnitude; an output takes 9 of the 16 positions.
    if packed.wraps or 9 * 510 * np.abs(_transformed(packed, g)).sum(axis=2).max() >= 2**31:
        return "the sums of its transformed weights may leave int32"
    return None


def _cost(g: ConvGeometry) -> float:
    """Instructions for two tiles, roughly: both transforms and the products."""
    quads = -(-g.in_channels // 4)
    return 400 * quads + 16 * g.out_channels / 4 * (2 * quads * 11.5 + 16) + 130 * g.out_channels


def _direct_cost(g: ConvGeometry) -> float:
    """The same outputs from arm_dsp/conv."""
    return 8 * g.out_channels * (9 * g.in_channels * 0.71 + 8) + 8 * 9 * g.in_channels * 1.3


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Weights [blocks of channels][16 positions][pairs of input channels][channels of a block], int16 in pairs."""
    assert isinstance(op, Conv)
    g = op.geometry
    packed = pack(op, setting.features, 0)
    channels = -(-g.in_channels // 4) * 4
    position = channels  # words: pairs of two tiles
    gathers_all = g.in_channels % 4 != 0 or set(g.dilations) != {1}
    gathers = gathers_all or g.is_padded
    blocks = _blocks(g.out_channels, channels // 2)
    context = {
        "g": g,
        "description": describe(op),
        "x_type": op.x.dtype.c,
        "x_kind": x_kind(op),
        "y_type": op.y.dtype.c,
        "output": packed.epilogue.output,
        "dsp": dsp_output(op, packed),
        "channels": channels,
        "pixel_step": channels if gathers_all else g.in_channels,
        "position": position,
        "padding": packed.padding,
        "gathers": gathers,
        "gathers_all": gathers_all,
        "segments": blocks,
        "lanes": LANES,
        "loop_word": (0, 1, 0, 1),
        "positions": tuple(tuple(range(4 * i, 4 * i + 4)) for i in range(4)),
        "tile_codes": TILE_CODES,
        "out_column": g.out_channels * g.dilations[1],
        "out_row": g.out_channels * g.output[1] * g.dilations[0],
        "x_image": g.in_channels * prod(g.input),
        "y_image": g.out_channels * prod(g.output),
        "uses_string": True,
    }
    meaning = "four times G g Gt [16 positions], two input channels in a word, in the order of the loops."
    constants = [
        Constants("weights", "int32_t", _weights(packed, g, channels, blocks), meaning),
        Constants("start", "int32_t", packed.start, "where each accumulator starts."),
        *output_constants(packed),
    ]
    scratch = [Scratch(4 * 16 * position, 4), Scratch(4 * 16 * blocks[0].sums, 4)]
    if gathers:
        scratch.append(Scratch(24 * channels, 1))
    names = (
        "load_word",
        "load_two",
        "two_at",
        f"even_{x_kind(op)}",
        f"odd_{x_kind(op)}",
        "add",
        "sub",
        "product",
        "dot",
    )
    support = ("dsp", *(f"dsp_{name}" for name in names), *output_support(op, packed))
    return Prepared(tuple(constants), context, tuple(scratch), support, packed.certificate)


def _blocks(out_channels: int, pairs: int) -> tuple[Block, ...]:
    found, first = [], 0
    for width in WIDTHS:
        beyond = first + (out_channels - first) // width * width
        if beyond > first:
            found.append(Block(width, first, beyond, unrolled(pairs - 1, MAX_UNROLL)))
        first = beyond
    return tuple(found)


def _transformed(packed: Packed, g: ConvGeometry) -> Int64s:
    """(16, M, C): 4 G g Gt, at most 1152 in magnitude."""
    taps = packed.weights.reshape(g.out_channels, g.in_channels, 3, 3)
    transformed: Int64s = np.einsum("ia,mcab,jb->ijmc", G2, taps, G2).reshape(16, g.out_channels, g.in_channels)
    return transformed


def _weights(packed: Packed, g: ConvGeometry, channels: int, blocks: tuple[Block, ...]) -> Int64s:
    """(n,) int32: pairs in the order of the loops."""
    transformed = _transformed(packed, g)
    padded = np.zeros((16, g.out_channels, channels), np.int64)
    padded[:, :, : g.in_channels] = transformed
    quads = padded.reshape(16, g.out_channels, channels // 4, 4)
    order = quads[..., [0, 2, 1, 3]].reshape(16, g.out_channels, channels // 2, 2)
    words = (order[..., 0] & 0xFFFF) | (order[..., 1] & 0xFFFF) << 16
    words = (words + 2**31) % 2**32 - 2**31
    parts = []
    for block in blocks:
        part = words[:, block.first : block.beyond].reshape(16, -1, block.width, channels // 2)
        parts.append(part.transpose(1, 0, 3, 2).reshape(-1))
    return np.concatenate(parts)


WINOGRAD = Kernel("arm_dsp/winograd", "kernels/arm_dsp/winograd.c.jinja", frozenset({"dsp"}), why_not, prepare)
