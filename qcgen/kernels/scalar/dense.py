"""scalar/dense: convolutions with a single window, the whole image; weights of two channels in the halves of words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qcgen.ir.program import Conv, Int64s, Operator
from qcgen.ir.types import DType
from qcgen.kernels.fast_output import output_constants
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.packing import Packed
from qcgen.kernels.reasons import why_channels_apart, why_no_dense
from qcgen.kernels.scalar.conv import ordered, packed_bytes
from qcgen.kernels.scalar.cost import DENSE as COSTS
from qcgen.kernels.scalar.cost import loop_instructions, output_instructions
from qcgen.kernels.scalar.groups import grouping
from qcgen.kernels.scalar.output import output_support, scalar_output
from qcgen.kernels.scalar.sums import Core, Loop, Segment, core_of, less_halves, loop_of, sums_support
from qcgen.kernels.text import describe
from qcgen.kernels.unroll import unrolled

BLOCK = 4  # channels at a time: two words of two
STEPS = 8  # of two elements in a round of the loop over bytes
BYTE_OFFSET = 128  # brings weights to 0..255, so that a mask parts the bytes of a word


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves kernels that are as large as the image, without padding."""
    return why_channels_apart(setting.x_layout, setting.y_layout) or why_no_dense(op, setting)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Weights of four channels in two words: two of 16 bits for an element, or four bytes for two of them."""
    assert isinstance(op, Conv)
    g = op.geometry
    packed = packed_bytes(op, setting)
    weights = padded(op, packed)
    wide = setting.optimize == "speed"
    core = core_of(setting.core)
    loop = loop_of(g.taps, grouping(weights, -128, 127, core.most[-1] if wide else 2), core)
    found = loop.grouping
    steps = unrolled(-(-g.taps // 2), STEPS)
    is_one = found.size == 1
    groups = loop.groups if wide else steps.total * (2 if is_one else 1)
    is_shifted = wide and op.x.dtype is DType.UINT8
    context = {
        "g": g,
        "description": describe(op),
        "x_type": op.x.dtype.c,
        "y_type": op.y.dtype.c,
        "output": packed.epilogue.output,
        "dsp": scalar_output(op, packed),
        "is_wide": wide,
        "is_shifted": is_shifted,
        "sums_of": _segment(core, loop) if wide else None,
        "grouping": found,
        "steps": steps,
        "is_one": is_one,
        "element_words": 4 if is_one else 3,
        "block_words": 2 * g.taps if wide else 2 * steps.total,
        "less_halves": less_halves(groups),
        "lanes": LANES,
        "rest": LANES[: g.out_channels % BLOCK],
        "whole": g.out_channels // BLOCK * BLOCK,
        "odd": g.taps % 2 == 1,
        "shift_text": f" - {-packed.x_shift}" if packed.x_shift else "",
    }
    text = "weights of blocks of four channels, a, b, c, d: for each element a + b * 2^16, c + d * 2^16."
    if not wide:
        text = "weights plus 128 of blocks of four channels, a, b, c, d: for two elements bytes a a b b, c c d d."
    constants = (
        Constants("weights", "int32_t", _pairs(weights) if wide else _bytes(weights), text),
        Constants("start", "int32_t", packed.start, "where each accumulator starts."),
        *output_constants(packed),
    )
    scratch = Scratch(4 * steps.total * (4 if is_one else 3), 4) if not wide else Scratch(g.taps, 1)
    called = sums_support((_segment(core, loop),)) if wide else (f"scalar_packed{1 if is_one else 2}",)
    support = ("scalar_sums", *called, "right_shift", *output_support(op, packed))
    return Prepared(constants, context, (scratch,) if is_shifted or not wide else (), support, packed.certificate)


def padded(op: Conv, packed: Packed) -> Int64s:
    """The weights (channels, taps) in the order of the image, channels up to a whole number of blocks."""
    weights = ordered(op, packed)
    return np.pad(weights, ((0, -len(weights) % BLOCK), (0, 0)))


def _segment(core: Core, loop: Loop) -> Segment:
    return Segment(1, 0, 0, core.by_channel, (loop,))


@dataclass(frozen=True)
class Lane:
    """A channel of a block, all in C: its number, the name of its accumulator, its sum, where its output is."""

    m: str
    acc: str
    sum: str
    out: str


LANES = (
    Lane("m", "acc_a", "sums.total_a - (sums.high_a << 16)", "y + m"),
    Lane("m + 1", "acc_b", "sums.high_a", "y + m + 1"),
    Lane("m + 2", "acc_c", "sums.total_b - (sums.high_b << 16)", "y + m + 2"),
    Lane("m + 3", "acc_d", "sums.high_b", "y + m + 3"),
)


def _pairs(weights: Int64s) -> Int64s:
    """(blocks, words): for each element the weights of two channels, then of the other two."""
    pairs = weights[0::2] + weights[1::2] * 2**16
    return pairs.reshape(-1, 2, weights.shape[1]).transpose(0, 2, 1).reshape(len(weights) // BLOCK, -1)


def _bytes(weights: Int64s) -> Int64s:
    """(blocks, words): for two elements those of two channels, then of the other two."""
    padded = np.pad(weights, ((0, 0), (0, weights.shape[1] % 2))) + BYTE_OFFSET
    even, odd = padded[:, 0::2], padded[:, 1::2]
    halves = even | odd << 8
    words = halves[0::2] | halves[1::2] << 16
    words = (words + 2**31) % 2**32 - 2**31
    return words.reshape(-1, 2, words.shape[1]).transpose(0, 2, 1).reshape(len(weights) // BLOCK, -1)


def cost(op: Operator, setting: Setting) -> float | None:
    """Instructions of one call on ``setting.core``; None where there are no figures."""
    assert isinstance(op, Conv)
    each = COSTS.get(setting.core)
    if each is None:
        return None
    g = op.geometry
    packed = packed_bytes(op, setting)
    weights, core = padded(op, packed), core_of(setting.core)
    if setting.optimize == "speed":
        loop = loop_of(g.taps, grouping(weights, -128, 127, core.most[-1]), core)
        words, elements = loop_instructions(setting.core, loop, 1), 0
    else:
        is_one = grouping(weights, -128, 127, 2).size == 1
        words, elements = each.packed * (1.5 if is_one else 1) * g.taps / 2, g.taps
    blocks = len(weights) / BLOCK * (words + each.block)
    outputs = g.out_channels * output_instructions(each.output, packed)
    windowed = packed.epilogue.guarded.size * each.windowed
    return float(g.batch * (blocks + elements * each.element + outputs + windowed))


DENSE = Kernel("scalar/dense", "kernels/scalar/dense.c.jinja", frozenset({"scalar"}), why_not, prepare, cost)
