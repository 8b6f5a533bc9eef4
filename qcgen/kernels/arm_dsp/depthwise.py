"""arm_dsp/depthwise: one filter per channel, on planes of 16-bit elements that hold one channel each."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from qcgen.ir.program import Conv, ConvGeometry, Int64s, Operator
from qcgen.ir.types import Layout
from qcgen.kernels.arm_dsp.conv import x_kind
from qcgen.kernels.arm_dsp.output import dsp_output, output_constants, output_support
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.packing import Packed, pack
from qcgen.kernels.portable.window_sums import describe, why_no_integer_conv

QUAD = 4  # channels in a word of the image
MAX_TAPS = 64  # written out one by one
MAX_ALONE = 6  # outputs of a row that are summed at the same time if there are no more in the row
GROUP = 4  # else so many at a time, an even number
PLANES_BYTES = 2048  # scratch that a band of rows may take, if more than one row fits


@dataclass(frozen=True)
class Product:
    """``output`` of a group += the product of a word of the row with word ``weight``, by the primitive ``by``."""

    output: int
    by: str
    weight: int


@dataclass(frozen=True)
class Word:
    """A word of a plane's row, counted from where a group starts, and what it is multiplied with."""

    index: int
    products: tuple[Product, ...]


@dataclass(frozen=True)
class Group:
    """``outputs`` neighbours of a row, summed at the same time; ``count`` such groups, each ``step`` words on."""

    outputs: int
    count: int
    step: int
    words: tuple[Word, ...]

    @property
    def twos(self) -> tuple[tuple[Word, ...], ...]:
        """The words two by two where they lie side by side."""
        found: list[tuple[Word, ...]] = []
        for word in self.words:
            if found and len(found[-1]) == 1 and found[-1][0].index + 1 == word.index:
                found[-1] = (found[-1][0], word)
            else:
                found.append((word,))
        return tuple(found)

    @property
    def range(self) -> range:
        """The outputs."""
        return range(self.outputs)

    @property
    def sums(self) -> tuple[tuple[str, str], ...]:
        """Each sum and where its code goes, in C."""
        return tuple((f"sum{i}", f"out + {i} * CHANNELS" if i else "out") for i in self.range)


@dataclass(frozen=True)
class RowWeights:
    """A row of the kernel as words, each two taps (``low``, ``high``), None for a half that is zero."""

    words: tuple[tuple[int | None, int | None], ...]


@dataclass(frozen=True)
class PlaneAxis:
    """One axis of the image; rank 1 has a height of one."""

    input: int
    output: int
    kernel: int
    stride: int
    dilation: int
    pad: int

    @property
    def span(self) -> int:
        """Elements from a window's first to its last."""
        return (self.kernel - 1) * self.dilation + 1


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves depthwise convolutions of images of one or two axes with four channels or more."""
    reason = why_no_integer_conv(op)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    g = op.geometry
    if Layout.CHANNELS_FIRST in (setting.x_layout, setting.y_layout):
        return "the channels of a pixel do not lie side by side"
    if not g.group == g.in_channels == g.out_channels:
        return f"not depthwise: {g.group} groups, {g.in_channels} input and {g.out_channels} output channels"
    if g.in_channels < QUAD:
        return f"{g.in_channels} channels do not fill a word"
    if g.rank > 2:
        return f"the image has {g.rank} axes"
    _, width = _axes(g)
    if prod(g.kernel[:-1]) * width.span > MAX_TAPS:
        return f"{prod(g.kernel[:-1]) * width.span} taps are more than the {MAX_TAPS} that are written out"
    if pack(op, setting.features, 0, whole_weights=True).wraps:
        return "its sums may leave int32"
    return None


def _axes(g: ConvGeometry) -> tuple[PlaneAxis, PlaneAxis]:
    found = [
        PlaneAxis(*sizes)
        for sizes in zip(g.input, g.output, g.kernel, g.strides, g.dilations, g.pads_begin, strict=True)
    ]
    return (found[0], found[1]) if len(found) == 2 else (PlaneAxis(1, 1, 1, 1, 1, 0), found[0])


def _row_weights(width: PlaneAxis) -> RowWeights:
    """The words of a kernel row: neighbours from each even tap on, then from each odd one, if windows start there."""
    taps = width.span

    def tap(t: int) -> int | None:
        return t // width.dilation if t < taps and t % width.dilation == 0 else None

    even: list[tuple[int | None, int | None]] = [(tap(2 * j), tap(2 * j + 1)) for j in range(taps // 2)]
    odd: list[tuple[int | None, int | None]] = []
    if width.stride % 2 == 1 and width.output > 1 and taps > 1:
        odd = [(tap(2 * j + 1), tap(2 * j + 2)) for j in range((taps - 1) // 2)]
    elif taps % 2:
        odd = [(tap(taps - 1), None)]
    return RowWeights((*even, *odd))


def _products(width: PlaneAxis, start: int) -> list[tuple[int, str, int]]:
    """(word of the row, primitive, word of weights) of a window that starts at element ``start``."""
    taps, even = width.span, width.span // 2
    first = start // 2
    if start % 2 == 0:
        found = [(first + j, "dot", j) for j in range(even)]
        if taps % 2:
            has_pairs = width.stride % 2 == 1 and width.output > 1 and taps > 1
            last = even + (taps - 1) // 2 - 1 if has_pairs else even
            found.append((first + even, "low_by_high" if has_pairs else "dot", last))
        return found
    found = [(first, "high_by_low", 0)]
    found += [(first + 1 + j, "dot", even + j) for j in range((taps - 1) // 2)]
    if taps % 2 == 0:
        found.append((first + even, "low_by_high", even - 1))
    return found


def _group(width: PlaneAxis, outputs: int, count: int) -> Group:
    words: dict[int, list[Product]] = {}
    for output in range(outputs):
        for word, by, weight in _products(width, output * width.stride):
            words.setdefault(word, []).append(Product(output, by, weight))
    found = tuple(Word(word, tuple(words[word])) for word in sorted(words))
    return Group(outputs, count, outputs * width.stride // 2, found)


def _groups(width: PlaneAxis) -> tuple[Group, ...]:
    """The outputs of a row: all at once if they are few, else in groups and what these leave over."""
    if width.output <= MAX_ALONE:
        return (_group(width, width.output, 1),)
    groups = [_group(width, GROUP, width.output // GROUP)]
    if width.output % GROUP:
        groups.append(_group(width, width.output % GROUP, 1))
    return tuple(groups)


def _row_words(groups: tuple[Group, ...]) -> int:
    """The words of a plane's row that are read."""
    start, words = 0, 0
    for group in groups:
        words = max(words, start + group.step * (group.count - 1) + group.words[-1].index + 1)
        start += group.step * group.count
    return words


def _band(height: PlaneAxis, row_words: int) -> int:
    """How many rows of outputs are computed from one filling of the planes."""
    rows = PLANES_BYTES // (4 * QUAD * row_words)
    return min(height.output, max(1, (rows - height.span) // height.stride + 1))


def _words(packed: Packed, height: PlaneAxis, width: PlaneAxis, row: RowWeights) -> Int64s:
    """(M, words) int32: the weights of a channel as pairs."""
    taps = packed.weights.reshape(-1, height.kernel, width.kernel)
    zero = np.zeros_like(taps[:, :, 0])
    pairs = [[zero if t is None else taps[:, :, t] for t in word] for word in row.words]
    values = [(low & 0xFFFF) | (high & 0xFFFF) << 16 for low, high in pairs]
    stacked = np.stack(values, axis=-1).reshape(packed.weights.shape[0], -1)
    return (stacked + 2**31) % 2**32 - 2**31


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Planes of four channels as scratch; weights [channels][words] or, to save flash, [channels][taps]."""
    assert isinstance(op, Conv)
    g = op.geometry
    packed = pack(op, setting.features, 0, whole_weights=True)
    height, width = _axes(g)
    row, groups = _row_weights(width), _groups(width)
    row_words = _row_words(groups)
    band = _band(height, row_words)
    plane_rows = (band - 1) * height.stride + height.span
    is_packed = setting.optimize == "speed"
    dsp = dsp_output(op, packed)
    context = {
        "g": g,
        "description": describe(op),
        "x_type": op.x.dtype.c,
        "x_kind": x_kind(op),
        "y_type": op.y.dtype.c,
        "output": packed.epilogue.output,
        "dsp": dsp,
        "height": height,
        "width": width,
        "row_weights": row.words,
        "is_packed": is_packed,
        "taps": prod(g.kernel),
        "kernel_rows": range(height.kernel),
        "weight_type": _byte_type(packed),
        "groups": groups,
        "row_words": row_words,
        "plane_words": plane_rows * row_words,
        "kernel_words": height.kernel * len(row.words),
        "tap_rows": tuple(r * height.dilation * row_words for r in range(height.kernel)),
        "tap_weights": tuple(r * width.kernel for r in range(height.kernel)),
        "word_weights": tuple(r * len(row.words) for r in range(height.kernel)),
        "rows_left": height.stride * row_words - sum(group.step * group.count for group in groups),
        "band": band,
        "has_odd_channels": g.in_channels % QUAD != 0,
        "first_whole": min(-(-width.pad // 2), row_words),
        "beyond_whole": max(min((width.input + width.pad) // 2, row_words), min(-(-width.pad // 2), row_words)),
        "outside": _four(packed.padding),
        "x_image": g.in_channels * prod(g.input),
        "y_image": g.out_channels * prod(g.output),
        "uses_string": True,
    }
    words = _words(packed, height, width, row)
    if is_packed:
        weights = Constants("weights", "int32_t", words, f"weights [{g.out_channels} channels], two taps in a word.")
    else:
        meaning = f"weights [{g.out_channels} channels][{prod(g.kernel)} taps]{packed.weights_remark}."
        weights = Constants("weights", _byte_type(packed), packed.weights, meaning)
    start = Constants("start", "int32_t", packed.start, "where each accumulator starts.")
    constants = (weights, start, *output_constants(packed))
    scratch = Scratch(4 * QUAD * plane_rows * row_words, 4)
    return Prepared(constants, context, (scratch,), _support(op, packed, groups), packed.certificate)


def _support(op: Conv, packed: Packed, groups: tuple[Group, ...]) -> tuple[str, ...]:
    """The C functions that the text calls."""
    products = {f"dsp_{product.by}" for group in groups for word in group.words for product in word.products}
    loads = {"dsp_two_at" for group in groups for two in group.twos if len(two) == 2}
    parting = {"dsp_load_word", f"dsp_even_{x_kind(op)}", f"dsp_odd_{x_kind(op)}", "dsp_pair", "dsp_pair_high"}
    return ("dsp", *sorted(products | loads | parting), *output_support(op, packed))


def _four(padding: int) -> int:
    """A word of four elements that are padding, as int32."""
    word = (padding & 0xFF) * 0x01010101
    return word - 2**32 if word >= 2**31 else word


def _byte_type(packed: Packed) -> str:
    """int16 where weights less their zero point need it."""
    return "int8_t" if packed.weights.min() >= -128 and packed.weights.max() <= 127 else "int16_t"


DEPTHWISE = Kernel("arm_dsp/depthwise", "kernels/arm_dsp/depthwise.c.jinja", frozenset({"dsp"}), why_not, prepare)
