"""arm_dsp/depthwise: one filter per channel, on planes of 16-bit elements that hold one channel each.

A plane's rows are summed by groups of outputs: which of its words are loaded and multiplied with which weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context, Struct
from qcgen.ir.program import Conv, Int64s, Operator
from qcgen.kernels.access import bands, channel_by_channel, plane
from qcgen.kernels.arm_dsp import depthwise_direct
from qcgen.kernels.arm_dsp.output import KeptOutput, bias_table, certified, dsp_output, kept_output, pack_finely, times
from qcgen.kernels.arm_dsp.weights import KernelWords, Tap, kernel_words
from qcgen.kernels.epilogue import Number, Output
from qcgen.kernels.fast_output import FastOutput, output_constants
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.packing import Packed
from qcgen.kernels.reasons import why_no_depthwise, why_taps, why_wraps
from qcgen.kernels.text import Described, described, x_kind
from qcgen.kernels.windows import Images, PlaneAxis, images, plane_axes
from qcgen.options import spelt

MAX_WORDS = 6  # words of weights that registers hold besides four sums, two words of the image and pointers
SUMS = 4  # outputs that are summed at the same time,
SPILLED_SUMS = 6  # or more where weights are loaded for each of their uses anyway
MAX_PARTS = 4  # up to so many times in a loop,
WHOLE_PARTS = 8  # or up to so many times if that saves the loop;
SPILLED_PARTS = 2  # so many at most if not all weights stay in registers

OVERHEAD, PRODUCT, OUTPUT = 42, 2.2, 4  # operations of a channel, of a product with its share of loads, of an output

QUAD = 4  # channels in a word of the image
MAX_TAPS = 64  # written out one by one
PLANES_BYTES = 4096  # scratch that a band of rows may take, if more than one row fits


@dataclass(frozen=True)
class Planes:
    """What the loops have in common: the kernel, its axes and the words of a plane's row."""

    kernel: KernelWords
    height: PlaneAxis
    width: PlaneAxis
    row_words: int


def row_loop(planes: Planes) -> dict[str, int]:
    """How a row of outputs is summed: written out if they are few, else in a loop; at its end what that leaves over."""
    outputs = planes.width.output
    if len(planes.kernel.words) <= MAX_WORDS:
        columns, most, whole = SUMS, MAX_PARTS, WHOLE_PARTS
    else:
        has_more = planes.width.stride == 1 or outputs <= SPILLED_SUMS
        columns, most, whole = SPILLED_SUMS if has_more else SUMS, SPILLED_PARTS, SPILLED_PARTS
    wholes = max(outputs // columns, 1)
    parts = wholes if wholes <= whole else max(n for n in range(1, most + 1) if wholes % n == 0)
    return {"together": min(columns, outputs), "parts": parts}


@dataclass(frozen=True)
class DepthwiseContext(Context):
    """A depthwise convolution on planes of pairs."""

    template: ClassVar[str] = "kernels/arm_dsp/depthwise.c.jinja"

    conv: Described
    images: Images
    output: Output
    dsp: FastOutput
    shared_offset: Number  # that of all channels, if there is one
    planes: Struct  # how they are filled
    has_odd_channels: bool  # fours leave channels over: the last four end with the pixel
    x_kind: str  # how the names of instructions end that read x
    y_type: str  # of C
    height: PlaneAxis
    width: PlaneAxis
    band: int  # rows of outputs that the planes serve


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves kernels of so many taps that registers do not hold them, for --optimize speed."""
    reason = why_no_depthwise(op, setting)
    if reason is not None:
        return reason
    if setting.optimize != "speed":
        return f"its planes take scratch, which {spelt(optimize='speed')} allows"
    assert isinstance(op, Conv)
    g = op.geometry
    if g.in_channels < QUAD:
        return f"{g.in_channels} channels do not fill a word"
    if depthwise_direct.why_not(op, setting) is None:
        return "arm_dsp/depthwise_direct reads the image where it lies, in fewer cycles and without scratch"
    if prod(g.output) == 1:
        return "there is one output pixel: its window is read as fast where it lies, without a copy"
    height, width = plane_axes(g)
    too_many = why_taps(height.kernel * width.span, MAX_TAPS)
    return too_many or why_wraps(_pack(op, setting))


def _pack(op: Conv, setting: Setting) -> Packed:
    """Weights as words of pairs, times 2^bits."""
    return pack_finely(op, setting, 0, whole_weights=True)


def _band(planes: Planes) -> int:
    """How many rows of outputs are computed from one filling of the planes: bands of one size, if they can be."""
    height = planes.height
    rows = PLANES_BYTES // (4 * QUAD * planes.row_words)
    most = min(height.output, max(1, (rows - height.span) // height.stride + 1))
    return ceil(height.output / ceil(height.output / most))


def _words(packed: Packed, height: PlaneAxis, width: PlaneAxis, kernel: KernelWords) -> Int64s:
    """(M, words) int32: the weights of a channel as pairs."""
    taps = packed.weights.reshape(-1, height.kernel, width.kernel)

    def half(tap: Tap | None) -> Int64s:
        return np.zeros_like(taps[:, 0, 0]) if tap is None else taps[:, tap[0], tap[1]]

    values = [(half(low) & 0xFFFF) | (half(high) & 0xFFFF) << 16 for low, high in kernel.words]
    return (np.stack(values, axis=-1) + 2**31) % 2**32 - 2**31


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Planes of four channels as scratch; weights [channels][words]."""
    assert isinstance(op, Conv)
    g = op.geometry
    packed = _pack(op, setting)
    height, width = plane_axes(g)
    planes = Planes(kernel_words(height, width), height, width, ceil(width.reached / 2))
    band = _band(planes)
    plane_words = ((band - 1) * height.stride + height.span) * planes.row_words
    kept = kept_output(packed.epilogue.output, dsp_output(op, packed))
    context = DepthwiseContext(
        conv=described(op),
        images=images(g),
        output=kept.output,
        dsp=kept.dsp,
        shared_offset=kept.shared_offset,
        planes=_layout(op, planes, packed, plane_words, kept),
        has_odd_channels=g.in_channels % QUAD != 0,
        x_kind=x_kind(op),
        y_type=op.y.dtype.c,
        height=height,
        width=width,
        band=band,
    )
    meaning = f"weights [{g.out_channels} channels], two taps in a word{times(packed.bits)}."
    weights = Constants("weights", "int32_t", _words(packed, height, width, planes.kernel), meaning)
    constants = (weights, bias_table(packed), *output_constants(packed))
    # The last four channels end with the pixel: some are computed a second time, from the same rows.
    units = bands(plane(g), band, repeats=2 if g.in_channels % QUAD else 1)
    access = channel_by_channel(op, setting, units, gathers=True)
    scratch = (Scratch(4 * QUAD * plane_words, 4),)
    folded = {"dsp_planes_channel_of": _operations(planes)}
    return Prepared(constants, context, scratch, certified(op, packed), access=access, folded=folded)


def _operations(planes: Planes) -> float:
    """What the function of a channel becomes: products and the codes of the outputs that are written out."""
    loop, outputs = row_loop(planes), planes.width.output
    written = loop["parts"] * loop["together"] + outputs % loop["together"]
    found = [len(planes.kernel.products(0, column * planes.width.stride)) for column in range(written)]
    return OVERHEAD + PRODUCT * planes.height.kernel * sum(found) + OUTPUT * written


def _layout(op: Conv, planes: Planes, packed: Packed, plane_words: int, kept: KeptOutput) -> Struct:
    """How planes are filled and read: which words of a row lie wholly on the image, and what lies outside."""
    height, width, row_words = planes.height, planes.width, planes.row_words
    first = min(-(-width.pad // 2), row_words)
    numbers = {
        "rows": height.input,
        "columns": width.input,
        "channels": op.geometry.in_channels,
        "row_pad": height.pad,
        "column_pad": width.pad,
        "plane_words": plane_words,
        "row_words": row_words,
        "first": first,
        "beyond": max(min((width.input + width.pad) // 2, row_words), first),
        "outside": int.from_bytes(bytes([packed.padding & 0xFF] * QUAD), "little", signed=True),
        "kernel_rows": height.kernel,
        "kernel_columns": width.kernel,
        "row_stride": height.stride,
        "column_stride": width.stride,
        "row_dilation": height.dilation,
        "column_dilation": width.dilation,
        "out_columns": width.output,
        "y_bytes": op.y.dtype.bytes,
        "even_pairs": planes.kernel.even_pairs,
        "odd_pairs": planes.kernel.odd_pairs,
        "lone": planes.kernel.lone,
        **row_loop(planes),
        "words": len(planes.kernel.words),
        "on_stack": (1 + kept.keeps_own + kept.keeps_offset) * (len(planes.kernel.words) > MAX_WORDS - 2),
    }
    return Struct("dsp_planes", (), {name: number for name, number in numbers.items() if number})


DEPTHWISE = Kernel("arm_dsp/depthwise", DepthwiseContext, frozenset({"dsp"}), why_not, prepare)
