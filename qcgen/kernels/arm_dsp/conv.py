"""arm_dsp/conv: convolutions of channels-last images, two windows at a time against blocks of output channels.

Layers of several sizes may share its function, which then reads them from a layer's struct.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import gcd, inf, prod
from typing import ClassVar, Literal

from qcgen.ir.context import Context, LayerField, Struct, own
from qcgen.ir.program import Conv, ConvGeometry, Operator
from qcgen.ir.types import Layout
from qcgen.kernels.access import blocks, in_pixels
from qcgen.kernels.arm_dsp.output import (
    BlockOutputs,
    Outputs,
    bias_text,
    block_outputs,
    certified,
    output_tail,
    pack_finely,
    parameter_text,
    times,
)
from qcgen.kernels.arm_dsp.segment import (
    GUARDED_BITS,
    Form,
    Segment,
    Tail,
    output_operations,
    segment_numbers,
    sized,
    step_operations,
)
from qcgen.kernels.arm_dsp.weights import PackedConstants, block_widths, form_of, may_pack, pack_constants
from qcgen.kernels.arm_dsp.window import (
    AXES,
    MAX_REMAINDER,
    MAX_UNROLL,
    PairedWindow,
    dsp_windows,
    window,
)
from qcgen.kernels.fast_output import exact_constants
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting, SizesPrice, number
from qcgen.kernels.packing import NIBBLE, Packed, pack
from qcgen.kernels.reasons import why_groups, why_no_byte_conv, why_no_pointwise
from qcgen.kernels.text import Described, described, divided, sized_loop, x_kind
from qcgen.kernels.windows import Images, any_at_border, axes, images, spatial_struct

WORD = 4  # elements
WINDOWS = "dsp_windows"  # of a layer: a struct of the library
MAX_COPIES = 4  # of the body of the loop that widens words
ROUND_COST = 3  # instructions of a round of the loop over a window
PIXELS_COST = 70  # instructions more for two pixels
FUNCTION_BYTES = 1300  # of a layer's own functions

ALONE_PAIRS = 8  # up to which int16 weights are faster: shared words save a cycle a pair, and cost 8 to part the sums
WORDS_AT_A_TIME = 8  # that a loop widens
WIDTHS = (4, 2, 1)  # output channels at a time: two windows of four have eight sums, and 14 registers are all


def _conv_numbers(g: ConvGeometry, padding: int) -> dict[str, int]:
    """What a layer has for itself, by the names of its struct."""
    numbers = {
        "out_channels": g.out_channels,
        "pixels": prod(g.output),
        "pair_words": 2 * _pairs(g),
        "padding": padding,
    }
    windows = asdict(dsp_windows(g, Layout.CHANNELS_LAST))
    return numbers | {f"{WINDOWS}.{name}": value for name, value in windows.items()}


def _copies_of(sizes: Sequence[ConvGeometry]) -> int:
    """How many words of a tap the body of the loop over them widens."""
    return gcd(MAX_COPIES, *(g.in_channels // WORD for g in sizes))


def _can_share(sizes: Sequence[ConvGeometry]) -> bool:
    """Whether layers of these sizes have pixels of whole words on one or two axes, and two outputs or more."""
    return all(
        g.rank <= 2 and g.batch == 1 and g.in_channels % WORD == 0 and set(g.dilations) == {1} and prod(g.output) > 1
        for g in sizes
    )


def _shown_segments(
    packed: PackedConstants, tail: Tail, sizes: Sequence[ConvGeometry], widths: tuple[int, ...]
) -> tuple[tuple[Segment, ...], dict[str, int]]:
    """The segments as the function shows them, and the layer's own numbers of them."""
    found = {segment.width: segment for segment in packed.segments}
    of_layers = [divided(g.out_channels, block_widths(packed.form, widths)) for g in sizes]
    shown: list[Segment] = []
    numbers: dict[str, int] = {}
    for width in sorted({width for each in of_layers for width, _, _ in each}, reverse=True):
        form = form_of(width, packed.form)
        steps = sized_loop(_unroll(sizes, form))
        empty = Segment(width, 0, 0, form, steps, 0, tail, is_outlined=True, for_speed=False, together=1)
        s = found.get(width, empty)
        factors = packed.element_factors if form == "nibbles" else ()
        numbers |= segment_numbers(s)
        shown.append(sized(replace(s, steps=steps, is_outlined=True, element_factors=factors)))
    return tuple(shown), numbers


def _pairs(g: ConvGeometry) -> int:
    """Of a window, when it is widened."""
    return g.taps // 2


def _unroll(sizes: Sequence[ConvGeometry], form: Form) -> int:
    """How many steps the body of the loop over a window takes: as many as divide those of all layers."""
    steps = gcd(*map(_pairs, sizes)) // (2 if form == "bytes" else 1)
    return max(n for n in range(1, MAX_UNROLL + 1) if steps % n == 0)


def _more_instructions(g: ConvGeometry, sizes: Sequence[ConvGeometry]) -> float:
    """What reading sizes takes for every two pixels, and shorter loops; infinite if the layers cannot share."""
    if not _can_share(sizes):
        return inf
    rounds = _pairs(g) * (1 / _unroll(sizes, "shared") - 1 / _unroll([g], "shared"))
    blocks = g.out_channels / 4
    return -(-prod(g.output) // 2) * (PIXELS_COST + ROUND_COST * rounds * blocks)


SIZES = SizesPrice(lambda _: FUNCTION_BYTES, _more_instructions)


@dataclass(frozen=True)
class FoundWindow(Context):
    """How a window is found and widened."""

    way: Literal["pixels", "rows", "words", "runs"]  # that follow each other, of taps, of each tap, in a list
    windows: Struct | None  # None where each layer has its own
    how: str  # the arguments of the library's function that tell how it widens words or runs
    stacked: int  # elements that it has on the stack
    is_inlined: bool  # for both pixels


@dataclass(frozen=True)
class PixelsByTwo(Context):
    """The loops over the pixels of the output, two at a time."""

    images: Images
    y_pixel: int | LayerField  # from one pixel to the next, in elements
    pixels: int | LayerField  # of an output image
    second: int  # from a pixel to the one that is computed at the same time, 0 if there is one
    overlaps: bool  # they are odd in number: the last two compute one a second time
    is_split: bool  # there are several images


@dataclass(frozen=True)
class ConvContext(Context):
    """A convolution of windows widened to pairs."""

    template: ClassVar[str] = "kernels/arm_dsp/conv.c.jinja"

    conv: Described
    windows: FoundWindow
    image: PixelsByTwo
    outputs: BlockOutputs
    x_kind: str  # how the names of instructions end that read x
    padding_byte: int | LayerField  # the element outside the image
    copied_words: int  # constants that are copied to scratch memory first


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves convolutions without groups, and with channels first those of few channels."""
    reason = why_no_byte_conv(op, setting)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    g = op.geometry
    if g.group > 1:
        return why_groups(g)
    if setting.optimize == "size" and why_no_pointwise(op, setting) is None:
        return "arm_dsp/pointwise does this without a scratch buffer"
    remainder = window(g, setting.x_layout, has_border=_has_border(op, setting)).remainder
    if remainder > MAX_REMAINDER:
        return f"words of four leave {remainder} elements of a window over; at most {MAX_REMAINDER} are written out"
    return None


def _has_border(op: Conv, setting: Setting) -> bool:
    return any_at_border(axes(op.geometry, setting.x_layout))


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Weights as words in the order of the widened pairs; two windows of pairs as scratch."""
    assert isinstance(op, Conv)
    if setting.sizes and _can_share(setting.sizes) and _is_channels_last(setting):
        return _prepare_sized(op, setting)
    has_border = _has_border(op, setting)
    planned = window(op.geometry, setting.x_layout, has_border=has_border)
    wide = setting.optimize == "speed"
    packed = pack_finely(op, setting, planned.pairs) if wide else pack(op, setting, 0)
    shares = not wide or (planned.pairs > ALONE_PAIRS and not packed.bits)
    loop_bytes = setting.target.loop_bytes if wide else 0
    words = pack_constants(
        op,
        packed,
        planned.order,
        output_tail(packed),
        WIDTHS,
        wide=wide,
        shares=shares,
        packs=may_pack(op, packed, setting),
        loop_bytes=loop_bytes,
    )
    context = ConvContext(
        conv=described(op),
        windows=_found_window(op.geometry, setting, planned),
        image=_pixels_by_two(op, setting),
        outputs=block_outputs(op, packed, words.segments, _outputs(op, setting)),
        x_kind=x_kind(op),
        padding_byte=packed.padding,
        copied_words=0,
    )
    constants = [packed_constants(words, packed)]
    if has_border and setting.is_free:
        constants.append(number("padding_byte", "int32_t", packed.padding, "a tap outside."))
    constants += exact_constants(packed)
    scratch = Scratch(2 * 4 * planned.pairs, 4)
    access = in_pixels(op, setting, blocks(prod(op.geometry.output), 2), gathers=True)
    certificate = certified(op, packed)
    return Prepared(
        tuple(constants),
        context,
        (scratch,),
        certificate,
        access=access,
        folded=_operations(context),
        passes=passes_by_two(op.geometry),
        copying=replace(context, copied_words=words.words.size),
    )


def _operations(context: ConvContext) -> dict[str, float]:
    """What calls of functions become that compilers unroll, on average."""
    steps, segments = step_operations(context.outputs.segments), context.outputs.segments
    return steps if context.outputs.output.kind == "raw" else steps | output_operations(segments)


def _is_channels_last(setting: Setting) -> bool:
    return setting.x_layout is setting.y_layout is Layout.CHANNELS_LAST


def _prepare_sized(op: Conv, setting: Setting) -> Prepared:
    """The function of layers of several sizes, whose windows are whole words."""
    g, packed = op.geometry, pack(op, setting, 0)
    planned = window(g, setting.x_layout, has_border=True)
    tail = output_tail(packed)
    packs = may_pack(op, packed, setting)
    words = pack_constants(op, packed, planned.order, tail, WIDTHS, wide=False, packs=packs)
    segments, places = _shown_segments(words, tail, setting.sizes, WIDTHS)
    context = ConvContext(
        conv=described(op),
        windows=FoundWindow("words", None, str(_copies_of(setting.sizes)), 0, is_inlined=False),
        image=PixelsByTwo(Images(0, 0), own("out_channels"), own("pixels"), 1, overlaps=True, is_split=False),
        outputs=block_outputs(op, packed, segments, Outputs(op.y.dtype.c, 1, own("out_channels"))),
        x_kind=x_kind(op),
        padding_byte=own("padding"),
        copied_words=0,
    )
    return Prepared(
        (packed_constants(words, packed), *exact_constants(packed)),
        context,
        (Scratch(2 * 4 * planned.pairs, 4),),
        certified(op, packed),
        access=in_pixels(op, setting, blocks(prod(g.output), 2), gathers=True),
        sizes=_conv_numbers(g, packed.padding) | places,
        folded=_operations(context),
        passes=passes_by_two(g),
    )


def _found_window(g: ConvGeometry, setting: Setting, planned: PairedWindow) -> FoundWindow:
    way = _way(g, planned, is_planar=setting.x_layout is Layout.CHANNELS_FIRST)
    stacked = g.taps if planned.is_gathered else planned.remainder if way == "runs" else 0
    how = {"words": str(WORDS_AT_A_TIME), "runs": f"{planned.runs}, {'taps' if stacked else '0'}"}.get(way, "")
    windows = _runs(g, setting.x_layout, planned) if way == "runs" else dsp_windows(g, setting.x_layout).struct
    is_inlined = way == "rows" or (way == "pixels" and g.in_channels <= WORD * WORDS_AT_A_TIME)
    return FoundWindow(way, windows, how, stacked, is_inlined)


def _runs(g: ConvGeometry, layout: Layout, planned: PairedWindow) -> Struct:
    """The windows of any image."""
    is_planar = layout is Layout.CHANNELS_FIRST
    planes, pixel = (g.in_channels, 1) if is_planar else (1, g.in_channels)
    numbers = {"planes": planes, "plane_step": prod(g.input) if is_planar else 0, "pixel": pixel, "row": planned.run}
    return spatial_struct(axes(g, layout), numbers)


def _way(g: ConvGeometry, planned: PairedWindow, *, is_planar: bool) -> Literal["pixels", "rows", "words", "runs"]:
    is_whole = not is_planar and g.in_channels % WORD == 0
    if is_whole and prod(g.kernel) == 1 and not g.is_padded and set(g.strides) == {1}:
        return "pixels"
    if g.rank > AXES:
        return "runs"
    if is_whole and (planned.is_gathered or not planned.is_rows):
        return "words"
    return "rows" if planned.is_rows else "runs"


def _y_pixel(g: ConvGeometry, setting: Setting) -> int:
    return 1 if setting.y_layout is Layout.CHANNELS_FIRST else g.out_channels


def _outputs(op: Conv, setting: Setting) -> Outputs:
    pixels, is_planar = prod(op.geometry.output), setting.y_layout is Layout.CHANNELS_FIRST
    return Outputs(op.y.dtype.c, pixels if is_planar else 1, 0 if pixels == 1 else _y_pixel(op.geometry, setting))


def _pixels_by_two(op: Conv, setting: Setting) -> PixelsByTwo:
    g = op.geometry
    pixels = prod(g.output)
    return PixelsByTwo(
        images=images(g),
        y_pixel=_y_pixel(g, setting),
        pixels=pixels,
        second=int(pixels > 1),
        overlaps=pixels % 2 == 1 and pixels > 1,
        is_split=g.batch > 1,
    )


def passes_by_two(g: ConvGeometry) -> int:
    """How often constants are read by a kernel that computes two pixels at a time."""
    return g.batch * -(-prod(g.output) // 2)


def packed_constants(words: PackedConstants, packed: Packed, less: str = "") -> Constants:
    """The table of the constants of all blocks; ``less``: what the comment on initial accumulators says they lack."""
    texts = {
        "int16": "two of a channel in a word",
        "shared": "four in a word, 256 * upper + lower in each half: those of a channel and of the next one",
        "bytes": "four of a channel in a word",
        "nibbles": "4 bits each, two of each of four channels in a word",
    }
    parts = [f"initial accumulators, {bias_text(packed)}{less}"]
    parts[0] += " (of two channels that share words 256 * upper + lower, then lower)" if words.form == "shared" else ""
    parts.append(f"weights, {texts[words.form]}" + times(packed.bits))
    tail = words.segments[0].tail
    parts += [f"multipliers, {parameter_text(packed, 'multiplier')}"] if tail.has_multipliers else []
    parts += [f"offsets, {parameter_text(packed, 'offset')}"] if tail.has_offsets else []
    parts += [_channel_text(tail)] if tail.has_channel else []
    bits = NIBBLE if words.form == "nibbles" else None
    return Constants("constants", "int32_t", words.words, f"of each block of channels: {'; '.join(parts)}.", bits)


def _channel_text(tail: Tail) -> str:
    if tail.tells_guarded:
        word = f"{1 << GUARDED_BITS} times the first channel and 2^c for each channel c of the block"
        return f"{word} that has a guard band, -1 if none has"
    return "the first channel, -1 if its output step needs none"


CONV = Kernel("arm_dsp/conv", ConvContext, frozenset({"dsp"}), why_not, prepare, SIZES)
