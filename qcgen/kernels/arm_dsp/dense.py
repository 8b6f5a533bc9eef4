"""arm_dsp/dense and arm_dsp/pointwise: convolutions whose windows are vectors without a gap, met by a matrix.

Products are formed by Winograd's identity for inner products (1968). A word of the image is two pairs, even
and odd, the weights of a channel for it are too. With pairs as vectors of two,

    even * w_even + odd * w_odd = (even + w_odd) * (odd + w_even) - even * odd - w_even * w_odd

where even * odd is the same for all channels, and w_even * w_odd is known: initial accumulators are that much lower.
One instruction adds two bytes to a pair, so that three instructions multiply and add four weights of one byte that lie
in one word:

* "bytes": a word holds the four weights of one channel for a word of the image.
* "shared": a word holds the weights of two channels for a pair, 256 * upper + lower in each half. Its products with the
  pair need no unpacking and give 256 * sum(upper) + sum(lower); the identity gives sum(lower). Two words take five
  instructions for eight weights.

For each word of the image there is one word of weights for each channel in both forms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context, LayerField, Struct, own
from qcgen.ir.program import Conv, ConvGeometry, Int64s, Operator
from qcgen.ir.types import Layout
from qcgen.kernels.access import blocks, in_blocks_of_channels
from qcgen.kernels.arm_dsp.conv import packed_constants
from qcgen.kernels.arm_dsp.output import BlockOutputs, Outputs, block_outputs, certified, output_tail
from qcgen.kernels.arm_dsp.segment import Form, Segment, Tail, output_operations, segment_numbers, sized
from qcgen.kernels.arm_dsp.weights import (
    WIDTH,
    PackedConstants,
    biases,
    byte_products,
    element_factors,
    form_of,
    int32,
    lowest,
    may_pack,
    may_share,
    pack_weights,
    starts,
)
from qcgen.kernels.arm_dsp.window import ZERO, in_whole_words, whole_image
from qcgen.kernels.fast_output import exact_constants
from qcgen.kernels.kernel import Kernel, Prepared, Setting, SizesPrice
from qcgen.kernels.packing import Packed, pack
from qcgen.kernels.reasons import why_no_dense, why_no_pointwise
from qcgen.kernels.text import Described, Unrolled, described, sized_loop, unrolled, x_kind
from qcgen.kernels.windows import axes, images

PAIR_PRODUCTS_UNROLL = 8  # words whose pairs are multiplied with each other
MAX_UNROLL = {"size": 8, "speed": 32}  # words of the image, of 20 instructions with six channels
WORD_BYTES = 80  # those instructions
WORD = 4  # elements

VECTOR_COST, CHANNEL_COST = 100, 1  # instructions more for each vector and each output where sizes are read
MOST_ZEROS = 256  # bytes of constants that fill words up to fours
ROUND_COST = 4  # of a round of the loop over a vector
FUNCTION_BYTES = 400  # of functions for blocks of one width, besides
COPY_BYTES = 70  # for each word that the body of the loop takes,
WIDTH_BYTES = 300  # for each other width of blocks,
LEFT_BYTES = 500  # and where the loops leave some elements over

WORD_OPERATIONS = {"bytes": (5, 3.1), "shared": (3, 3.7), "nibbles": (5, 2.3)}  # of a word, and of each channel for it
PRODUCTS_OPERATIONS = {False: 6.0, True: 11.0}  # of a word whose pairs are multiplied with each other; with elements
VECTORS_OPERATIONS = 4.0  # of loops over several vectors


@dataclass(frozen=True)
class Join:
    """A call by which elements from ``first`` on join sums: ``count`` of a kind, or as many a round until ``end``."""

    name: str  # of the library's function
    first: int
    end: int | LayerField | None
    count: int

    @property
    def words(self) -> int:
        """How many words it has copies for."""
        return {"left": 1, "twos_of_six": 2 * self.count, "rounds_of_six": 2 * self.count}.get(self.name, self.count)


def _joins(loop: Unrolled, left: int, first: int = 0, kind: str = "", *, is_sized: bool = False) -> Iterator[Join]:
    """A loop over words, or over two at a time for six channels, then ``left`` elements."""
    step = 2 * WORD if kind else WORD
    if loop.count > 1:
        end = first + step * loop.count * loop.unroll
        yield Join(f"rounds{kind}", first, own("elements") if is_sized else end, loop.unroll)
        first = end
    if loop.behind:
        yield Join(f"twos{kind}" if kind else "words", first, None, loop.behind)
    if left:
        yield Join("left", first + step * loop.behind, None, left)


@dataclass(frozen=True)
class DenseSegment(Segment):
    """Blocks of channels; the loop's ``steps`` take ``step_words`` words of the image each; one more may be left.

    ``finds_pair_products``: the only block also sums even * odd, which the blocks behind it need too.
    ``left``: elements that words of the image leave.
    """

    step_words: int
    is_word_left: bool
    left: int
    finds_pair_products: bool

    @property
    def found(self) -> int:
        """The sums of words of a block, and that of even * odd."""
        return self.width + int(self.finds_pair_products)

    @property
    def joins(self) -> tuple[Join, ...]:
        """How elements join the sums."""
        is_sized = self.sizes is not None
        if self.step_words == 1:
            return tuple(_joins(self.steps, self.left, is_sized=is_sized))
        whole = 2 * WORD * self.steps.total
        word = unrolled(int(self.is_word_left), 1)
        return (*_joins(self.steps, 0, kind="_of_six", is_sized=is_sized), *_joins(word, self.left, whole))


def _pack_dense_constants(
    op: Conv, packed: Packed, order: Int64s, tail: Tail, most: int, *, packs: bool = False, is_sized: bool = False
) -> PackedConstants:
    """The constants of a layer; ``order`` (slots,) says which weight each half pair multiplies, slots in fours.

    ``most``: how many words of the image the copies of a loop's body take at most. ``packs``: weights of four channels
    share words of 4 bits each. ``is_sized``: blocks have as few widths as can be, and elements fill words.
    """
    g = op.geometry
    taps = order.size if is_sized else g.taps
    slots = np.where(order[None, :] == ZERO, 0, packed.weights[:, order])
    form: Form = "nibbles" if packs else "shared" if may_share(op, packed) else "bytes"
    low = lowest(packed)
    words, segments, offset = [], [], 0
    for width, first, beyond in _divided(g.out_channels, form, is_sized=is_sized):
        own = form_of(width, form)
        blocks = _blocks(slots[first:beyond], width, own, low)
        bias = _biases(packed.bias[first:beyond], slots[first:beyond], own, low).reshape(-1, width)
        words.append(np.concatenate([bias, blocks, tail.words(first, beyond, width)], axis=1).reshape(-1))
        finds = first == 0 and beyond == width and width < 6 and not packs
        segments.append(_segment((width, first, beyond), own, offset, tail, taps, most, finds_pair_products=finds))
        offset += words[-1].size
    return PackedConstants(np.concatenate(words), tuple(segments), form)


def _shown_sizes(
    packed: PackedConstants, tail: Tail, words: int, unroll: int, channels: Sequence[int]
) -> tuple[tuple[Segment, ...], dict[str, int]]:
    """The segments as a function for layers of several sizes shows them, and the layer's own numbers by their names.

    ``words`` are those of a vector, of which a loop's body takes ``unroll``; ``channels`` are those of all layers.
    """
    shown: list[Segment] = []
    numbers: dict[str, int] = {}
    widths = {width for each in channels for width in _block_widths(each, packed.form)}
    found = {segment.width: segment for segment in packed.segments}
    for width in sorted(widths, key=_BLOCKS.index):
        form = form_of(width, packed.form)
        s = found.get(width) or _segment((width, 0, 0), form, 0, tail, 4 * words, unroll)
        assert isinstance(s, DenseSegment)
        numbers |= segment_numbers(s)
        shown.append(sized(replace(s, steps=sized_loop(unroll // s.step_words), finds_pair_products=False)))
    return tuple(shown), numbers


def _block_widths(channels: int, form: Form) -> set[int]:
    """Those of the blocks that a function for layers of several sizes divides so many channels into."""
    return {width for width, _, _ in _divided(channels, form, is_sized=True)}


_BLOCKS = (2, 4, 6, 1)
"""The widths of blocks in the order in which they follow each other."""


def _divided(channels: int, form: Form, *, is_sized: bool = False) -> Iterator[tuple[int, int, int]]:
    """Blocks as wide as registers allow, behind a narrower one: each width with where its blocks begin and end.

    >>> list(_divided(17, "shared")), list(_divided(6, "bytes"))
    ([(4, 0, 4), (6, 4, 16), (1, 16, 17)], [(2, 0, 2), (4, 2, 6)])
    """
    widest = 6 if form == "shared" else 4
    pairs = channels // 2 * 2
    narrow = pairs % widest
    if narrow:
        yield 2 if is_sized else narrow, 0, narrow
    if pairs > narrow:
        yield widest, narrow, pairs
    if channels > pairs:
        yield 1, pairs, channels


def _segment(
    place: tuple[int, int, int],
    form: Form,
    offset: int,
    tail: Tail,
    taps: int,
    most: int,
    *,
    finds_pair_products: bool = False,
) -> DenseSegment:
    width = place[0]
    step_words = 2 if width == 6 else 1
    total = taps // 4
    return DenseSegment(
        *place,
        form,
        steps=unrolled(total // step_words, most // step_words),
        offset=offset,
        tail=tail,
        is_outlined=False,
        for_speed=False,
        together=1,
        step_words=step_words,
        is_word_left=total % step_words == 1,
        left=taps % 4,
        finds_pair_products=finds_pair_products,
    )


def _blocks(slots: Int64s, width: int, form: Form, low: int) -> Int64s:
    """(channels, slots) to words (blocks, n): those for a word of the image side by side, channel by channel."""
    words = pack_weights(slots.reshape(-1, width, slots.shape[1]), form, low)
    if form != "shared":
        return words
    by_pairs = words.reshape(words.shape[0], -1, 2, width // 2)
    return by_pairs.transpose(0, 1, 3, 2).reshape(words.shape)


def _biases(bias: Int64s, slots: Int64s, form: Form, low: int) -> Int64s:
    """Initial accumulators: less the products of the weights with each other, where the identity gives the sum."""
    if form == "nibbles":
        blocks = slots.reshape(-1, WIDTH, slots.shape[1])
        return int32(starts(bias.reshape(-1, WIDTH)) - byte_products(blocks, low)).reshape(-1)
    even, odd = slots.reshape(slots.shape[0], -1, 2, 2).transpose(2, 0, 1, 3)
    pair_products = (even * odd).sum(axis=(1, 2))
    if form == "shared":
        pair_products[0::2] = 0
    return int32(biases(bias, form) - pair_products)


@dataclass(frozen=True)
class DenseContext(Context):
    """A matrix times a vector, or several."""

    template: ClassVar[str] = "kernels/arm_dsp/dense.c.jinja"

    conv: Described
    x_kind: str  # how the names of instructions end that read x
    outputs: BlockOutputs
    element_factors: tuple[int, ...]  # elements' share in the sums of four channels, to be subtracted; (): no 4 bits
    products: tuple[Join, ...]  # how elements join the products of pairs with each other, () if a block finds these
    vectors: int  # of all images; 2 stand for those of layers of several sizes
    rows: Struct | None  # where they lie, if not one behind the other, or in a layer of several sizes
    room: int  # elements of a copy of the last one, beyond which words of some layer reach; 0: none needs that


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves kernels that are as large as the image, without padding."""
    return why_no_dense(op, setting)


def why_not_pointwise(op: Operator, setting: Setting) -> str | None:
    """Serves kernels of one pixel, for --optimize size."""
    if setting.optimize != "size":
        return "it unpacks a pixel for every block of channels, which takes more cycles than to widen it once"
    return why_no_pointwise(op, setting)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Weights as words in the order in which the image's words are unpacked; no scratch."""
    assert isinstance(op, Conv)
    g = op.geometry
    packed = pack(op, setting, 0)
    planned = whole_image(g, setting.x_layout)
    total = g.taps // 4
    most = min(MAX_UNROLL[setting.optimize], setting.target.loop_bytes // WORD_BYTES)
    is_sized = bool(setting.sizes) and _reads_sizes(g, setting)
    total = _words(g, setting.sizes) if is_sized else total
    order = in_whole_words(g, setting.x_layout, total) if is_sized else planned.order
    packs = may_pack(op, packed, setting)
    words = _pack_dense_constants(op, packed, order, output_tail(packed), most, packs=packs, is_sized=is_sized)
    segments, numbers = words.segments, {}
    pair_products, left = unrolled(total, PAIR_PRODUCTS_UNROLL), g.taps % WORD
    if is_sized:
        unroll, channels = _common_unroll(setting.sizes, most), [each.out_channels for each in setting.sizes]
        segments, places = _shown_sizes(words, output_tail(packed), total, unroll, channels)
        numbers = _numbers(g, setting) | places
        pair_products, left = sized_loop(unroll), 0
    is_found = any(s.finds_pair_products for s in segments if isinstance(s, DenseSegment))
    context = DenseContext(
        conv=described(op),
        x_kind=x_kind(op),
        outputs=block_outputs(op, packed, segments, Outputs(op.y.dtype.c, 1, None)),
        element_factors=element_factors(packed) if packs else (),
        products=() if is_found else tuple(_joins(pair_products, left, is_sized=is_sized)),
        vectors=2 if is_sized else g.batch * prod(g.output),
        rows=_shown_rows(numbers) if is_sized else _rows(op, setting) if _is_strided(g) else None,
        room=_room(setting.sizes) if is_sized else 0,
    )
    table = packed_constants(words, packed, less=", less the sum of v * w for sums that are found by the identity")
    ends = [end for s in words.segments for end in range(s.first + s.width, s.beyond + 1, s.width)]
    access = in_blocks_of_channels(op, setting, blocks(prod(g.output), 1), ends)
    constants = (table, *exact_constants(packed))
    return Prepared(
        constants,
        context,
        (),
        certified(op, packed),
        access=access,
        sizes=numbers,
        folded=_operations(context),
    )


def _operations(context: DenseContext) -> dict[str, float]:
    """What calls of the library's functions become, on average: so many words joining the sums of a block."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for s in context.outputs.segments:
        assert isinstance(s, DenseSegment)
        fixed, each = WORD_OPERATIONS[s.form]
        for join in s.joins:
            found[join.name].append(join.words * (fixed + each * s.width + 2 * s.finds_pair_products))
    for join in context.products:
        found[join.name].append(join.words * PRODUCTS_OPERATIONS[bool(context.element_factors)])
    joined = {f"dsp_{name}": sum(each) / len(each) for name, each in found.items()}
    joined |= {"dsp_rows_of_vectors": VECTORS_OPERATIONS}
    is_raw = context.outputs.output.kind == "raw"
    return joined if is_raw else joined | output_operations(context.outputs.segments, windows=1)


def _reads_sizes(g: ConvGeometry, setting: Setting) -> bool:
    """Whether a function for layers of several sizes can compute this one: if vectors lie on at most two axes.

    Words of a vector may reach into the next one, and no further.
    """
    is_strided = _is_strided(g)
    return 4 * _words(g, setting.sizes) <= 2 * g.taps and (
        not is_strided or (g.batch == 1 and g.rank <= 2 and _is_last(setting))
    )


def _is_last(setting: Setting) -> bool:
    return setting.x_layout is Layout.CHANNELS_LAST


def _words(g: ConvGeometry, sizes: Sequence[ConvGeometry]) -> int:
    """The words that a function for layers of these sizes reads of a vector, always two at a time.

    Four at a time where the zero weights that fill fours take few bytes: loops have more copies then.
    """
    more = sum(4 * (_filled(each, 4) - _filled(each, 2)) * each.out_channels for each in sizes)
    reach = all(4 * _filled(each, 4) <= 2 * each.taps for each in sizes)
    return _filled(g, 4 if reach and more <= MOST_ZEROS else 2)


def _filled(g: ConvGeometry, words: int) -> int:
    """The words of a vector, filled up to a multiple of ``words``."""
    return -(-g.taps // (4 * words)) * words


def _common_unroll(sizes: Sequence[ConvGeometry], most: int) -> int:
    """How many words the bodies of loops take that read sizes: as many as divide those of all layers."""
    return gcd(max(most // 2, 1) * 2, *(_words(g, sizes) for g in sizes))


def _is_strided(g: ConvGeometry) -> bool:
    return prod(g.kernel) == 1 and g.input != g.output


def _is_copied(g: ConvGeometry, sizes: Sequence[ConvGeometry]) -> bool:
    """Whether words reach beyond the last vector."""
    return 4 * _words(g, sizes) > g.taps


def _numbers(g: ConvGeometry, setting: Setting) -> dict[str, int]:
    """What a layer has for itself of a function for several sizes."""
    columns, (step, *more) = _apart(g, setting)
    numbers = {"elements": 4 * _words(g, setting.sizes), "in_elements": g.taps, "out_channels": g.out_channels}
    numbers["columns"] = columns
    if any(_is_copied(each, setting.sizes) for each in setting.sizes):
        numbers["is_last_short"] = int(_is_copied(g, setting.sizes))
    if any(map(_is_strided, setting.sizes)):
        rows = g.batch * prod(g.output) // columns
        numbers |= {"rows": rows, "step": step, "more": more[0] if more else 0}
    return numbers


def _shown_rows(numbers: Mapping[str, int]) -> Struct:
    """Where the C of a function for layers of several sizes has these numbers of the vectors."""
    places = {"columns": "columns", "step": "in_elements", "y_bytes": "out_channels"}
    if "is_last_short" in numbers:
        places |= {"elements": "in_elements", "read": "elements", "is_last_short": "is_last_short"}
    if "rows" in numbers:
        places |= {"rows": "rows", "step": "step", "more[0]": "more"}
    own_numbers = {field: own(name) for field, name in places.items()}
    return Struct("dsp_vectors", (), {} if "rows" in numbers else {"rows": 1}, own=own_numbers)


def _room(sizes: Sequence[ConvGeometry]) -> int:
    """The elements that are read of a vector of which a copy is read."""
    return max((4 * _words(g, sizes) for g in sizes if _is_copied(g, sizes)), default=0)


def _rows(op: Conv, setting: Setting) -> Struct:
    """Where vectors lie strides apart along the image's axes."""
    g = op.geometry
    columns, (step, *more) = _apart(g, setting)
    numbers = {
        "rows": g.batch * prod(g.output) // columns,
        "columns": columns,
        "step": step,
        "axes": max(len(more) - 1, 0),
        "y_bytes": g.out_channels * op.y.dtype.bytes,
    }
    arrays = {"count": g.output[-2::-1][: numbers["axes"]], "more": tuple(more)}
    return Struct("dsp_vectors", (), numbers, arrays={name: array for name, array in arrays.items() if array})


def _apart(g: ConvGeometry, setting: Setting) -> tuple[int, list[int]]:
    """The vectors of a row; from one to the next, then how much further that is behind the last one of each axis."""
    if not _is_strided(g):
        return g.batch * prod(g.output), [g.taps]
    more, behind = list[int](), 0
    spatial = [(axis.stride_step, axis.output) for axis in reversed(axes(g, setting.x_layout))]
    for step, count in (*spatial, *([(images(g).x_image, g.batch)] if g.batch > 1 else [])):
        more.append(step - behind)
        behind = step * count
    return g.output[-1], more


def _more_instructions(g: ConvGeometry, sizes: Sequence[ConvGeometry]) -> float:
    """What reading sizes takes: some for each vector and channel, for shorter loops, for words that are not full."""
    most = MAX_UNROLL["size"]
    rounds = _words(g, sizes) * (1 / _common_unroll(sizes, most) - 1 / most)
    blocks = g.out_channels / 5  # of four or of six
    beyond = (4 * _words(g, sizes) - g.taps) * g.out_channels
    per_vector = VECTOR_COST + CHANNEL_COST * g.out_channels + ROUND_COST * rounds * blocks + beyond
    return g.batch * prod(g.output) * per_vector


def _function_bytes(sizes: Sequence[ConvGeometry]) -> int:
    """What functions for layers of these sizes take, or those of a layer's own."""
    most = MAX_UNROLL["size"]
    widths = {width for g in sizes for width in _block_widths(g.out_channels, "shared")}
    is_alone = len(sizes) == 1
    copies = min(most, sizes[0].taps // WORD) if is_alone else _common_unroll(sizes, most)
    left = LEFT_BYTES if is_alone and sizes[0].taps % (2 * WORD) else 0
    return FUNCTION_BYTES + COPY_BYTES * copies + WIDTH_BYTES * (len(widths) - 1) + left


SIZES = SizesPrice(_function_bytes, _more_instructions)
DENSE = Kernel("arm_dsp/dense", DenseContext, frozenset({"dsp"}), why_not, prepare, SIZES)
POINTWISE = Kernel("arm_dsp/pointwise", DenseContext, frozenset({"dsp"}), why_not_pointwise, prepare, SIZES)
