"""arm_dsp/depthwise: one filter per channel, on planes of 16-bit elements that hold one channel each."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context
from qcgen.ir.program import Conv, ConvGeometry, Int64s, Operator
from qcgen.kernels.access import bands, channel_by_channel, plane
from qcgen.kernels.arm_dsp import depthwise_direct
from qcgen.kernels.arm_dsp.kernel_words import KernelWords, Tap, kernel_words
from qcgen.kernels.arm_dsp.output import KeptOutput, bias_table, certified, dsp_output, kept_output, pack_finely, times
from qcgen.kernels.arm_dsp.plane_rows import MAX_WORDS, Planes, RowLoops, row_loops
from qcgen.kernels.fast_output import output_constants
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.packing import Packed
from qcgen.kernels.reasons import why_no_depthwise, why_taps, why_wraps
from qcgen.kernels.text import Described, described, x_kind
from qcgen.kernels.windows import Images, PlaneAxis, images, plane_axes
from qcgen.options import spelt

QUAD = 4  # channels in a word of the image
MAX_TAPS = 64  # written out one by one
FILLED = 4  # words of a row that are parted in one round
PLANES_BYTES = 4096  # scratch that a band of rows may take, if more than one row fits


@dataclass(frozen=True)
class Parting:
    """Words of a plane's row from ``word`` on that the C function ``by`` fills."""

    word: int
    by: str

    @property
    def pixel(self) -> int:
        """Where the pixels of the word lie on the image."""
        return 2 * self.word


@dataclass(frozen=True)
class FilledPlanes(Context):
    """Filling the planes: the words of a row that lie wholly on the image, and what lies outside."""

    has_odd_channels: bool  # fours leave channels over: the last four end with the pixel
    first_whole: int  # the first word of a row that does
    beyond_whole: int  # what follows the last
    has_whole: bool  # there are some
    whole_rounds: int  # the loop over them,
    whole_step: Parting  # what a round of it moves on,
    whole_copies: tuple[Parting, ...]  # what a round fills,
    whole_rest: tuple[Parting, ...]  # and what is filled behind it
    parts_single: bool  # words are filled one by one,
    parts_two: bool  # or two by two
    outside: str  # a word of four elements outside the image, in C


@dataclass(frozen=True)
class DepthwiseContext(Context):
    """A depthwise convolution on planes of pairs."""

    template: ClassVar[str] = "kernels/arm_dsp/depthwise.c.jinja"

    conv: Described
    images: Images
    kept: KeptOutput
    filled: FilledPlanes
    x_kind: str  # how the names of instructions end that read x
    y_type: str  # of C
    height: PlaneAxis
    width: PlaneAxis
    plane_words: int  # of one channel
    row_words: int  # of a row of it
    band: int  # rows of outputs that the planes serve
    loops: RowLoops  # through a row of outputs
    words: range  # of the kernel of a channel
    keeps_bias: bool  # registers hold the initial accumulators besides them,
    keeps_multiplier: bool  # and the multiplier


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
    band, loops = _band(planes), row_loops(planes)
    plane_words = ((band - 1) * height.stride + height.span) * planes.row_words
    words = len(planes.kernel.words)
    context = DepthwiseContext(
        conv=described(op),
        images=images(g),
        kept=kept_output(packed.epilogue.output, dsp_output(op, packed)),
        filled=_filled_planes(g, width, packed, planes.row_words),
        x_kind=x_kind(op),
        y_type=op.y.dtype.c,
        height=height,
        width=width,
        plane_words=plane_words,
        row_words=planes.row_words,
        band=band,
        loops=loops,
        words=range(words),
        keeps_bias=words <= MAX_WORDS - 1,
        keeps_multiplier=words <= MAX_WORDS - 2,
    )
    meaning = f"weights [{g.out_channels} channels], two taps in a word{times(packed.bits)}."
    weights = Constants("weights", "int32_t", _words(packed, height, width, planes.kernel), meaning)
    constants = (weights, bias_table(packed), *output_constants(packed))
    # The last four channels end with the pixel: some are computed a second time, from the same rows.
    units = bands(plane(g), band, repeats=2 if g.in_channels % QUAD else 1)
    access = channel_by_channel(op, setting, units, gathers=True)
    scratch = (Scratch(4 * QUAD * plane_words, 4),)
    return Prepared(constants, context, scratch, certified(op, packed), access=access)


def _filled_planes(g: ConvGeometry, width: PlaneAxis, packed: Packed, row_words: int) -> FilledPlanes:
    """The words of a row that lie wholly on the image are filled in a loop of copies, and what it leaves over."""
    first = min(-(-width.pad // 2), row_words)
    beyond = max(min((width.input + width.pad) // 2, row_words), first)
    words = beyond - first
    rounds = words // FILLED if words > FILLED else 0
    copies, rest = _partings(FILLED if rounds else 0), _partings(words - rounds * FILLED)
    found = {copy.by for copy in (*copies, *rest)}
    return FilledPlanes(
        has_odd_channels=g.in_channels % QUAD != 0,
        first_whole=first,
        beyond_whole=beyond,
        has_whole=words > 0,
        whole_rounds=rounds,
        whole_step=Parting(FILLED, ""),
        whole_copies=copies,
        whole_rest=rest,
        parts_single="part" in found,
        parts_two="part_two" in found,
        outside=_four(packed.padding),
    )


def _partings(words: int) -> tuple[Parting, ...]:
    """Words two by two, and a single one."""
    return tuple(Parting(word, "part_two" if word + 1 < words else "part") for word in range(0, words, 2))


def _four(padding: int) -> str:
    """A word of four elements that are padding, in C."""
    return f"0x{(padding & 0xFF) * 0x01010101:08x}"


DEPTHWISE = Kernel("arm_dsp/depthwise", DepthwiseContext, frozenset({"dsp"}), why_not, prepare)
