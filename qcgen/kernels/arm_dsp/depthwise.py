"""arm_dsp/depthwise: one filter per channel, on planes of 16-bit elements that hold one channel each.

A plane's rows are summed by groups of outputs: which of its words are loaded and multiplied with which weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, prod
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context, Struct
from qcgen.ir.program import Conv, ConvGeometry, Int64s, Operator
from qcgen.kernels.access import bands, channel_by_channel, plane
from qcgen.kernels.arm_dsp import depthwise_direct
from qcgen.kernels.arm_dsp.output import KeptOutput, bias_table, certified, dsp_output, kept_output, pack_finely, times
from qcgen.kernels.arm_dsp.weights import KernelWords, Tap, kernel_words
from qcgen.kernels.fast_output import output_constants
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.packing import Packed
from qcgen.kernels.reasons import why_no_depthwise, why_taps, why_wraps
from qcgen.kernels.text import Described, described, x_kind
from qcgen.kernels.windows import Images, OutputGroups, PlaneAxis, images, plane_axes
from qcgen.options import spelt

MAX_WORDS = 6  # words of weights that registers hold besides four sums, two words of the image and pointers
SUMS = 4  # outputs that are summed at the same time,
SPILLED_SUMS = 6  # or more where weights are loaded for each of their uses anyway
MAX_PARTS = 4  # up to so many times in a loop,
WHOLE_PARTS = 8  # or up to so many times if that saves the loop;
SPILLED_PARTS = 2  # so many at most if not all weights stay in registers

QUAD = 4  # channels in a word of the image
MAX_TAPS = 64  # written out one by one
PLANES_BYTES = 4096  # scratch that a band of rows may take, if more than one row fits


@dataclass(frozen=True)
class Product:
    """``sum`` += the product of a word of the plane with word ``weight`` of the kernel, by the primitive ``by``."""

    sum: str
    by: str
    weight: int


@dataclass(frozen=True)
class Load:
    """Words of a plane that lie side by side, ``index`` words behind ``row_start``, and the products of each."""

    row_start: int
    index: int
    words: tuple[tuple[Product, ...], ...]


@dataclass(frozen=True)
class Part:
    """Outputs that are summed at the same time; ``sums`` is each sum and where its code goes, in C."""

    sums: tuple[tuple[str, str], ...]
    loads: tuple[Load, ...]

    @property
    def products(self) -> int:
        """How many multiplications there are."""
        return sum(len(word) for load in self.loads for word in load.words)


@dataclass(frozen=True)
class PartedGroups(OutputGroups):
    """Columns in ``parts``, one after the other; ``step`` is in words."""

    parts: tuple[Part, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that words are loaded to."""
        most = max(len(load.words) for part in self.parts for load in part.loads)
        return tuple(f"word{i}" for i in range(most))


@dataclass(frozen=True)
class RowLoops:
    """A row of outputs, in ``groups``; ``left`` words are left to the next row of windows."""

    groups: tuple[PartedGroups, ...]
    left: int


@dataclass(frozen=True)
class Planes:
    """What the loops have in common: the kernel, its axes and the words of a plane's row."""

    kernel: KernelWords
    height: PlaneAxis
    width: PlaneAxis
    row_words: int


def row_loops(planes: Planes) -> RowLoops:
    """The outputs of a row: all at once if they are few, else in groups and what these leave over."""
    outputs = planes.width.output
    if len(planes.kernel.words) <= MAX_WORDS:
        divided = _divided(outputs, SUMS, MAX_PARTS, WHOLE_PARTS)
    else:
        has_more = planes.width.stride == 1 or outputs <= SPILLED_SUMS
        divided = _divided(outputs, SPILLED_SUMS if has_more else SUMS, SPILLED_PARTS, SPILLED_PARTS)
    groups = tuple(_group(planes, columns, count) for columns, count in divided)
    read = sum(group.step * group.count for group in groups)
    return RowLoops(groups, planes.height.stride * planes.row_words - read)


def _divided(outputs: int, columns: int, most: int, whole: int) -> Iterable[tuple[list[int], int]]:
    """The columns of each part of a group, and how many groups there are: loops of up to ``most`` parts, or none."""
    wholes, rest = divmod(outputs, columns)
    parts = min(range(most, 1, -1), key=lambda n: wholes % n)
    looped = wholes // parts if wholes > whole else 0
    alone = [columns] * (wholes - looped * parts) + [rest] * (rest > 0)
    return [([columns] * parts, looped)] * (looped > 0) + [(alone, 1)] * (len(alone) > 0)


def _group(planes: Planes, sizes: list[int], count: int) -> PartedGroups:
    firsts = [sum(sizes[:i]) for i in range(len(sizes))]
    parts = tuple(_part(planes, range(first, first + n)) for first, n in zip(firsts, sizes, strict=True))
    return PartedGroups(sum(sizes), count, sum(sizes) * planes.width.stride // 2, parts)


def _part(planes: Planes, columns: range) -> Part:
    words: dict[tuple[int, int], list[Product]] = {}
    sums: list[tuple[str, str]] = []
    for column in columns:
        name = f"sum{column}"
        sums.append((name, f"out + {column} * CHANNELS" if column else "out"))
        for row in range(planes.height.kernel):
            for word, by, weight in planes.kernel.products(row, column * planes.width.stride):
                words.setdefault((row * planes.height.dilation, word), []).append(Product(name, by, weight))
    return Part(tuple(sums), tuple(_loads(planes, words)))


def _loads(planes: Planes, words: dict[tuple[int, int], list[Product]]) -> Iterable[Load]:
    """The words in the order in which they are loaded, two at a time where they lie side by side."""
    while words:
        y, first = min(words)
        together = [(y, word) for word in (first, first + 1) if (y, word) in words]
        yield Load(y * planes.row_words, first, tuple(tuple(words.pop(key)) for key in together))


@dataclass(frozen=True)
class DepthwiseContext(Context):
    """A depthwise convolution on planes of pairs."""

    template: ClassVar[str] = "kernels/arm_dsp/depthwise.c.jinja"

    conv: Described
    images: Images
    kept: KeptOutput
    planes: Struct  # how they are filled
    has_odd_channels: bool  # fours leave channels over: the last four end with the pixel
    x_kind: str  # how the names of instructions end that read x
    y_type: str  # of C
    height: PlaneAxis
    width: PlaneAxis
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
        planes=_layout(g, width, packed, planes.row_words, plane_words),
        has_odd_channels=g.in_channels % QUAD != 0,
        x_kind=x_kind(op),
        y_type=op.y.dtype.c,
        height=height,
        width=width,
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


def _layout(g: ConvGeometry, width: PlaneAxis, packed: Packed, row_words: int, plane_words: int) -> Struct:
    """How planes are filled: which words of a row lie wholly on the image, and what lies outside."""
    first = min(-(-width.pad // 2), row_words)
    numbers = {
        "rows": plane_axes(g)[0].input,
        "columns": width.input,
        "channels": g.in_channels,
        "pad": width.pad,
        "plane_words": plane_words,
        "row_words": row_words,
        "first": first,
        "beyond": max(min((width.input + width.pad) // 2, row_words), first),
        "outside": int.from_bytes(bytes([packed.padding & 0xFF] * QUAD), "little", signed=True),
    }
    return Struct("dsp_planes", (), numbers)


DEPTHWISE = Kernel("arm_dsp/depthwise", DepthwiseContext, frozenset({"dsp"}), why_not, prepare)
