"""What the integer kernels share that sum windows of taps against one output channel after the other."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from qcgen.ir.program import Conv, ConvGeometry
from qcgen.ir.types import Layout
from qcgen.kernels.kernel import Constants, Scratch, Setting
from qcgen.kernels.packing import Packed, names_of_conv
from qcgen.kernels.text import counted, window_shape

SUMMED = 15
"""Up to so many products of four windows gcc -O3 writes out in every case; at 16 it depends on their types."""

MAX_BLOCK = 4  # with more windows at a time compilers run out of registers on every target tried


@dataclass(frozen=True)
class Loop:
    """A counting loop of the generated C: for ``variable`` < ``count_name``, ``step`` elements apart.

    ``remark`` is a comment on these steps.
    """

    variable: str
    count_name: str
    count: int
    step_name: str
    step: int
    indent: str
    remark: str = ""


def block_size(g: ConvGeometry) -> int:
    """How many windows share each weight that is read: 1, 2 or 4."""
    pixels = prod(g.output)
    return MAX_BLOCK if pixels >= MAX_BLOCK else min(pixels, 2)


def taps_scratch(g: ConvGeometry, block: int, setting: Setting) -> Scratch:
    """The buffer of a block's copied taps: bytes, or int16 with --optimize speed."""
    size = 2 if setting.optimize == "speed" else 1
    return Scratch(block * g.taps * size, size)


def shift_text(packed: Packed) -> str:
    """What a copied tap is the element plus, in C."""
    return f" + {packed.x_shift}" if packed.x_shift else ""


def tap_remark(packed: Packed) -> str:
    """What a copied tap is, in words."""
    if not packed.x_shift:
        return "A copied element: 0 to 255."
    return f"A copied element, x + {packed.x_shift}: 0 to 255. The sums' start values take the {packed.x_shift} back."


def weight_table(op: Conv, packed: Packed, layout: Layout) -> Constants:
    """The weights in the order of a copied window: [M][k...][C/group] for channels last, else [M][C/group][k...]."""
    g = op.geometry
    weights = packed.weights.reshape(g.out_channels, g.group_in, *g.kernel)
    if layout is Layout.CHANNELS_LAST:
        weights = weights.transpose(0, *range(2, weights.ndim), 1)
    meaning = f"weights {counted(g.out_channels, 'channel')}{window_shape(g, layout)}{packed.weights_remark}."
    return Constants("weights", "int8_t", weights.reshape(g.out_channels, g.taps), meaning)


def sum_context(op: Conv, packed: Packed, setting: Setting) -> dict[str, object]:
    """The names that templates/kernels/portable/window_sums.c.jinja uses."""
    g = op.geometry
    pixels, block = prod(g.output), block_size(g)
    y_is_last = setting.y_layout is Layout.CHANNELS_LAST
    x_is_last = setting.x_layout is Layout.CHANNELS_LAST
    return {
        **names_of_conv(op, packed),
        "pixels": pixels,
        "in_pixels": prod(g.input),
        "block": block,
        "lanes": range(block),
        "block_text": f"{block} windows" if block > 1 else "a window",
        # Cores of few registers: compilers for the host sum and requantize several windows side by side, in one piece.
        "sums_apart": g.taps > SUMMED and bool(setting.features),
        "has_overlap": pixels % block != 0,
        "is_split": g.batch > 1 or g.group > 1,
        "wraps": packed.wraps,
        "is_corrected": packed.is_corrected,
        "y_pixel": g.out_channels if y_is_last else 1,
        "y_channel": 1 if y_is_last else pixels,
        "x_image": g.in_channels * prod(g.input),
        "y_image": g.out_channels * pixels,
        "x_group": g.group_in * (1 if x_is_last else prod(g.input)),
    }
