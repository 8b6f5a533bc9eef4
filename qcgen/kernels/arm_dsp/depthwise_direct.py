"""arm_dsp/depthwise_direct, depthwise_rows: one filter per channel on the image where it lies.

The first one's weights stay in registers; the second one takes one row of the kernel after the other.
Layers of several sizes may share its function, which copies each channel to a plane with padding, then convolves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, inf, prod
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context, Struct, own
from qcgen.ir.plan import C_BYTES
from qcgen.ir.program import Conv, ConvGeometry, Operator
from qcgen.ir.types import DType
from qcgen.kernels.access import channel_by_channel, output_by_output, parts_of_rows, plane
from qcgen.kernels.arm_dsp.output import KeptOutput, bias_table, certified, dsp_output, kept_output, pack_finely, times
from qcgen.kernels.arm_dsp.weights import KernelWords, kernel_words
from qcgen.kernels.fast_output import output_constants
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting, SizesPrice
from qcgen.kernels.packing import Packed, pack
from qcgen.kernels.reasons import why_all_outside, why_no_depthwise, why_taps, why_wraps
from qcgen.kernels.text import Described, described, x_kind
from qcgen.kernels.windows import Images, PlaneAxis, beyond_taps, first_taps, images, plane_axes

MAX_PLANE = 400  # elements of 16 bits, which the C function has on its stack where the arena has no room for them
PLANE_TAPS = 9  # whose words registers hold besides what loops need
MAX_COPIES = 3, 4  # of the bodies of the loops that fill a row of the plane, and that compute a row of outputs

ELEMENT_BYTES, WORD_BYTES = 2, 4  # of a plane, whose elements are loaded in pairs

COPY_OPERATIONS = 62  # of copying channels to planes
PLANE_OVERHEAD, PLANE_PRODUCT, PLANE_OUTPUT = 42, 2.2, 4  # of a channel, a product with its share of loads, a code

ELEMENT_COST = 4  # instructions more for an element of the image,
CHANNEL_COST = 70  # and for each channel, whose weights are packed
FUNCTION_BYTES = 2300  # of a layer's own functions: one of 1100, and one more where the common shift brings guard bands

MAX_ROWS, MAX_COLUMNS = 5, 3  # of a kernel
OVERHEAD = 45  # operations of loops, weights and the first outputs of rows
MAX_CUT = 2  # rows of windows that reach above the image, or below it

OUTPUTS = 4  # of a row that are summed at the same time, where one row of the kernel comes after the other,
MAX_OUTPUTS = 6  # or so many if they are the whole row
MAX_TAPS = 64
ROWS_OVERHEAD, ROWS_GROUP, ROWS_OUTPUT, ROWS_GUARDED = 20, 12, 10, 5  # operations of all, some, one, and of its tie


def _plane_struct(sizes: Sequence[ConvGeometry], weights: Constants, kept: KeptOutput) -> Struct:
    """How the function for layers of these sizes, all of which can share it (``_can_share``), sums a plane's rows."""
    height, width = plane_axes(sizes[0])
    kernel, outputs = _kernel(sizes), _outputs_together(sizes)
    numbers = {
        "pitch": _pitch(sizes),
        "kernel_rows": height.kernel,
        "kernel_columns": width.kernel,
        "row_stride": height.stride,
        "column_stride": width.stride,
        "column_dilation": 1,
        "weight_bits": 8 * C_BYTES[weights.c_type],
        "words": len(kernel.words),
        "even_pairs": kernel.even_pairs,
        "odd_pairs": kernel.odd_pairs,
        "lone": kernel.lone,
        "together": outputs,
        "on_stack": int(kept.keeps_own),
    }
    return Struct("dsp_planes", (), numbers, own={"channels": own("channels"), "out_columns": own("out_columns")})


def _copied_struct(sizes: Sequence[ConvGeometry], free_bytes: int) -> Struct:
    """How it copies channels: two at the same time if the arena, or the stack, has room for two planes."""
    elements = _elements(sizes)
    room = free_bytes // ELEMENT_BYTES if _in_arena(sizes, free_bytes) else MAX_PLANE
    numbers = {
        "together": 2 if 2 * elements <= room else 1,
        "copies": _copies(MAX_COPIES[0], [plane_axes(g)[1].input for g in sizes]),
        "elements": elements,
        "pitch": _pitch(sizes),
    }
    own_numbers = {name: own(name) for name in ("channels", "rows", "columns", "first", "zero_point")}
    return Struct("dsp_copied", (), numbers, own=own_numbers)


def _in_arena(sizes: Sequence[ConvGeometry], free_bytes: int) -> bool:
    """Whether planes lie in the arena, so many bytes of which are free while the layers run; else on the stack."""
    return ELEMENT_BYTES * _elements(sizes) <= free_bytes


def _plane_numbers(g: ConvGeometry, sizes: Sequence[ConvGeometry], zero_point: int, scale: int) -> dict[str, int]:
    """What a layer has for itself, by the names of its struct."""
    height, width = plane_axes(g)
    return {
        "channels": g.in_channels,
        "rows": height.input,
        "columns": width.input,
        "out_rows": height.output,
        "out_columns": width.output,
        "first": height.pad * _pitch(sizes) + width.pad,
        "zero_point": zero_point,
        "scale": scale,
    }


def _can_share(sizes: Sequence[ConvGeometry]) -> bool:
    """Whether layers of these sizes have the same kernel and strides, and a plane that the stack has room for."""
    alike = {(g.kernel, g.strides, g.dilations, g.batch) for g in sizes}
    g = sizes[0]
    is_small = prod(g.kernel) <= PLANE_TAPS and set(g.dilations) == {1} and g.batch == 1
    return len(alike) == 1 and is_small and _elements(sizes) <= MAX_PLANE


def _copies(most: int, lengths: Sequence[int]) -> int:
    """How many copies the body of a loop has whose rounds divide all these lengths."""
    return max(n for n in range(1, most + 1) if gcd(*lengths) % n == 0)


def _pitch(sizes: Sequence[ConvGeometry]) -> int:
    return max(_length(plane_axes(g)[1]) for g in sizes)


def _elements(sizes: Sequence[ConvGeometry]) -> int:
    """Those of the plane: the last word of a window of an odd number of taps reads no further than its last tap."""
    return _pitch(sizes) * max(_length(plane_axes(g)[0]) for g in sizes)


def _length(axis: PlaneAxis) -> int:
    """Elements of the image with its padding."""
    return max(axis.pad + axis.input, axis.reached)


def _outputs_together(sizes: Sequence[ConvGeometry]) -> int:
    """How many outputs of a row are summed at the same time."""
    return _copies(MAX_COPIES[1], [plane_axes(g)[1].output for g in sizes])


def _kernel(sizes: Sequence[ConvGeometry]) -> KernelWords:
    """The taps in words, as the outputs that are summed at the same time meet them."""
    height, width = plane_axes(sizes[0])
    return kernel_words(height, replace(width, output=_outputs_together(sizes)))


def _more_instructions(g: ConvGeometry, sizes: Sequence[ConvGeometry]) -> float:
    """What copying takes, and loops without copies of their bodies; infinite if the layers cannot share."""
    if not _can_share(sizes):
        return inf
    return g.in_channels * (CHANNEL_COST + ELEMENT_COST * prod(g.input))


SIZES = SizesPrice(lambda _: FUNCTION_BYTES, _more_instructions)


@dataclass(frozen=True)
class DepthwiseDirectContext(Context):
    """A depthwise convolution whose weights stay in registers."""

    template: ClassVar[str] = "kernels/arm_dsp/depthwise_direct.c.jinja"

    conv: Described
    images: Images
    kept: KeptOutput
    y_type: str  # of C
    x_kind: str  # how the names of functions end that read x
    channel_weights: int  # elements of the table that a channel has
    layer: Struct  # of several sizes: how the rows of planes are summed,
    copied: Struct | None  # to which channels are copied first,
    on_stack: int  # and how many elements of planes are on the stack
    outputs: str  # the library's function for a row of outputs, "" for that of depthwise_rows


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves depthwise convolutions of images of one or two axes with few taps."""
    reason = why_no_depthwise(op, setting)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    if prod(op.geometry.output) == 1:
        return "there is only one output pixel, so keeping the weights in registers would not pay"
    packed = _pack(op, setting)
    return why_all_outside(op.geometry) or why_not_windows(op.geometry) or why_wraps(packed)


def why_not_windows(g: ConvGeometry) -> str | None:
    """Which windows the functions of templates/library/dsp_depthwise.h do not serve, None if these are others."""
    height, width = plane_axes(g)
    if height.kernel > MAX_ROWS or width.kernel > MAX_COLUMNS:
        return f"its kernel is {'x'.join(map(str, g.kernel))}, more than {MAX_ROWS} rows or {MAX_COLUMNS} columns"
    if width.kernel > 1 and width.stride > 2:
        return f"its windows are {width.stride} columns apart, more than 2"
    apart = max(g.dilations)
    is_even = all(axis.dilation == apart for axis in (height, width) if axis.kernel > 1)
    if apart > 1 and not (is_even and set(g.strides) == {1}):
        return "its kernel is dilated, and its axes differ in that, or a stride is not 1"
    if apart > 1 and height.input + 1 < height.span:
        return "its kernel is dilated, and windows reach above the image and below it"
    if not _serves_columns(width):
        return "windows reach more than one column beyond the image"
    tops, ends = list(first_taps(height)), list(beyond_taps(height))
    above, below = -(-height.pad // height.stride), sum(end < height.kernel for end in ends)
    if min(end - top for top, end in zip(tops, ends, strict=True)) <= 0:
        return "a row of windows lies outside the image"
    if max(above, below) > min(MAX_CUT * apart, len(tops)):
        return f"more than {MAX_CUT * apart} rows of windows reach above the image or below it"
    return None


def _serves_columns(width: PlaneAxis) -> bool:
    """Whether a window has one column at most before or behind the image; of one column there is none to lose."""
    behind, apart = width.reached - width.pad - width.input, width.dilation
    if width.kernel == 1:
        return max(width.pad, behind) <= 0
    if max(width.pad, behind) > apart or width.pad % apart:
        return False
    return width.stride > 1 or (width.input // apart + width.pad // apart >= width.kernel and width.output >= apart)


def _outputs(width: PlaneAxis) -> str:
    """The library's name for rows of outputs."""
    match width.kernel:
        case 1:
            return "alone"
        case 2:
            return "two" if width.stride == 1 else "both"
    return str(width.stride)


def _of_one_image(width: PlaneAxis) -> PlaneAxis:
    """The columns of the first of the images that the windows of a dilated kernel see."""
    apart = width.dilation
    return PlaneAxis(
        -(-width.input // apart), -(-width.output // apart), width.kernel, width.stride, 1, width.pad // apart
    )


def _aim(setting: Setting) -> str:
    """What code and weights are for; those of a few rows, which are read for every row of the image, for speed.

    Visual wake words in the least arena takes 1.2 % more instructions than whole then, 3.3 % else, for 2.4 % of flash.
    """
    return "speed" if setting.in_rows else setting.optimize


def _pack(op: Conv, setting: Setting) -> Packed:
    return pack_finely(op, setting, 0, whole_weights=True)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """No scratch; weights [channels][words of two taps] or, to save flash, [channels][taps]."""
    assert isinstance(op, Conv)
    if setting.sizes and not setting.in_rows and _can_share(setting.sizes):
        return _prepare_plane(op, setting)
    g, packed = op.geometry, _pack(op, setting)
    height, width = plane_axes(g)
    weights = _weights(packed, height, width, is_packed=_aim(setting) == "speed")
    turns = _turns(_of_one_image(width), _aim(setting))
    context = context_of(
        op,
        weights,
        kept_output(packed.epilogue.output, replace(dsp_output(op, packed), is_exact_alone=False)),
        f"dsp_depthwise_outputs_{_outputs(width)}",
        row_dilation=max(g.dilations),
        column_dilation=max(g.dilations),
        scale=2**packed.bits,
        turns=turns,
    )
    constants = (weights, bias_table(packed), *output_constants(packed))
    access = output_by_output(op, setting, [*_steps(height, width)])
    count = _operations(height, _of_one_image(width), turns) * (2 if context.kept.dsp.has_windows else 1)
    return Prepared(constants, context, (), certified(op, packed), access=access, operations=count)


def context_of(
    op: Conv, weights: Constants, kept: KeptOutput, outputs: str, **own_numbers: int
) -> DepthwiseDirectContext:
    """Of an image that is read where it lies; ``own_numbers`` of the layer are those that not every one has."""
    g = op.geometry
    height, width = plane_axes(g)
    numbers = {
        "channels": g.in_channels,
        "in_rows": height.input,
        "in_columns": width.input,
        "out_rows": height.output,
        "out_columns": width.output,
        "rows": height.kernel,
        "columns": width.kernel,
        "row_stride": height.stride,
        "column_stride": width.stride,
        "above": height.pad,
        "left": width.pad,
        "zero_point": op.x_zero_point,
        "is_unsigned": int(op.x.dtype is DType.UINT8),
        "weight_bits": 8 * C_BYTES[weights.c_type],
        "y_bytes": op.y.dtype.bytes,
        **own_numbers,
    }
    return DepthwiseDirectContext(
        conv=described(op),
        images=images(g),
        kept=kept,
        y_type=op.y.dtype.c,
        x_kind=x_kind(op),
        channel_weights=weights.values.size // g.out_channels,
        layer=Struct("dsp_depthwise_layer", (), {name: number for name, number in numbers.items() if number}),
        copied=None,
        on_stack=0,
        outputs=outputs,
    )


def _turns(width: PlaneAxis, aim: str) -> int:
    """A loop of two rounds of one turn would take a sixth more for its registers than what is written out."""
    is_short = width.kernel == 3 and width.stride == 1 and (width.input + width.pad - width.kernel) // 3 == 2
    return 3 if aim == "speed" or is_short else 1


def _operations(height: PlaneAxis, width: PlaneAxis, turns: int) -> float:
    """Instructions, about, of a channel's outputs, without what loops and weights take."""
    sections = dict.fromkeys(zip(first_taps(height), beyond_taps(height), strict=True))
    return OVERHEAD + _written(width, turns) * sum(_per_output(top, end, width) for top, end in sections)


def _per_output(top: int, end: int, width: PlaneAxis) -> int:
    """Of rows of windows whose rows from ``top`` to ``end`` - 1 are on the image: loads, pairs, products, the code."""
    pairs = sum(top <= row and row + 1 < end for row in range(0, end, 2))
    return min(width.kernel, width.stride) * (end - top + pairs) + width.kernel * (end - top - pairs) + 3


def _written(width: PlaneAxis, turns: int) -> int:
    """How many outputs of a row are written out in a loop and outside."""
    if width.kernel == 1:
        turn, looped = 3, width.output
    else:
        inside = (width.input + width.pad - width.kernel) // width.stride + 1
        turn, looped = (3, inside - 1) if width.stride == 1 else (4, inside)
        turn, looped = (2 // width.stride, inside) if width.kernel == 2 else (turn, looped)
        turns = turns if width.kernel == 2 or width.stride == 1 else (turns + 1) // 2
    found = turn * turns * (looped >= turn * turns) + turn * (looped // turn % turns > 0) + looped % turn
    return found + width.output - looped


def _prepare_plane(op: Conv, setting: Setting) -> Prepared:
    """The function of layers of several sizes; planes on its stack or as scratch; weights [channels][taps]."""
    g, packed = op.geometry, _pack(op, setting)
    weights, sizes, in_arena = unpaired(packed), setting.sizes, _in_arena(setting.sizes, setting.free_bytes)
    copied = _copied_struct(sizes, setting.free_bytes)
    elements = copied.numbers["together"] * copied.numbers["elements"]
    planes = Scratch(ELEMENT_BYTES * elements, WORD_BYTES)
    kept = kept_output(packed.epilogue.output, replace(dsp_output(op, packed), is_exact_alone=False))
    context = DepthwiseDirectContext(
        conv=described(op),
        images=Images(0, 0),
        kept=kept,
        y_type=op.y.dtype.c,
        x_kind=x_kind(op),
        channel_weights=prod(g.kernel),
        layer=_plane_struct(sizes, weights, kept),
        copied=copied,
        on_stack=0 if in_arena else elements,
        outputs="",
    )
    constants = (weights, bias_table(packed), *output_constants(packed))
    return Prepared(
        constants,
        context,
        (planes,) if in_arena else (),
        certified(op, packed),
        access=channel_by_channel(op, setting, plane(g).reshape(1, -1), gathers=True),
        sizes=_plane_numbers(g, sizes, op.x_zero_point, 2**packed.bits),
        stack_bytes=0 if in_arena else planes.bytes,
        folded={"dsp_planes_channel_by_taps": _plane_operations(sizes), "dsp_by_planes": COPY_OPERATIONS},
    )


def _plane_operations(sizes: Sequence[ConvGeometry]) -> float:
    """What the library's function for a channel becomes: the products and codes of outputs that are summed together."""
    height, width = plane_axes(sizes[0])
    kernel, outputs = _kernel(sizes), range(_outputs_together(sizes))
    products = height.kernel * sum(len(kernel.products(0, output * width.stride)) for output in outputs)
    return PLANE_OVERHEAD + PLANE_PRODUCT * products + PLANE_OUTPUT * len(outputs)


def _steps(height: PlaneAxis, width: PlaneAxis) -> Iterator[tuple[int | None, int]]:
    """Of each output of a channel, in the order of the loops: the first pixel that is read for it, and its number."""
    apart = width.dilation
    for (row, top), image in product(enumerate(first_taps(height)), range(apart)):
        first, behind = (row * height.stride - height.pad + top * height.dilation) * width.input, 0
        for column in range(image, width.output, apart):
            begin = column * width.stride - width.pad
            places = [place for place in range(begin, begin + width.span, apart) if behind <= place < width.input]
            behind = places[-1] + 1 if places else behind
            yield first + places[0] if places else None, row * width.output + column


def _weights(packed: Packed, height: PlaneAxis, width: PlaneAxis, *, is_packed: bool) -> Constants:
    """A channel's: for speed two rows in a word, then of a last odd row two columns; to save flash one by one."""
    if not is_packed:
        return unpaired(packed)
    taps = packed.weights.reshape(-1, height.kernel, width.kernel)
    taps = np.pad(taps, ((0, 0), (0, 0), (0, 1)))  # the last odd row ends with half a word
    twos = height.kernel // 2 * 2
    low = taps[:, 0:twos:2, :-1], taps[:, twos:, 0:-1:2]
    high = taps[:, 1:twos:2, :-1], taps[:, twos:, 1::2]
    both = [np.concatenate([part.reshape(len(taps), -1) for part in half], axis=1) for half in (low, high)]
    values = ((both[0] & 0xFFFF | (both[1] & 0xFFFF) << 16) + 2**31) % 2**32 - 2**31
    meaning = f"weights [{len(taps)} channels], two taps in a word{times(packed.bits)}."
    return Constants("weights", "int32_t", values, meaning)


def unpaired(packed: Packed) -> Constants:
    """A channel's weights one by one."""
    unscaled = packed.weights >> packed.bits
    meaning = f"weights [{len(unscaled)} channels][{unscaled.shape[1]} taps]{packed.weights_remark}."
    c_type = "int8_t" if unscaled.min() >= -128 and unscaled.max() <= 127 else "int16_t"
    return Constants("weights", c_type, unscaled, meaning)


DEPTHWISE_DIRECT = Kernel(
    "arm_dsp/depthwise_direct", DepthwiseDirectContext, frozenset({"dsp"}), why_not, prepare, SIZES
)


# Larger kernels: one row after the other.


def why_not_rows(op: Operator, setting: Setting) -> str | None:
    """Serves depthwise convolutions of images of one or two axes."""
    reason = why_no_depthwise(op, setting)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    return (
        why_taps(prod(op.geometry.kernel), MAX_TAPS)
        or why_all_outside(op.geometry)
        or why_wraps(pack(op, setting, 0, whole_weights=True))
    )


def prepare_rows(op: Operator, setting: Setting) -> Prepared:
    """No scratch; weights [channels][taps]."""
    assert isinstance(op, Conv)
    g, packed = op.geometry, pack(op, setting, 0, whole_weights=True)
    (height, width), weights = plane_axes(g), unpaired(packed)
    dsp, together = dsp_output(op, packed), width.output if width.output <= MAX_OUTPUTS else OUTPUTS
    context = context_of(
        op,
        weights,
        kept_output(packed.epilogue.output, dsp),
        "",
        row_dilation=height.dilation,
        column_dilation=width.dilation,
        scale=1,
    )
    constants = (weights, bias_table(packed), *output_constants(packed))
    access = channel_by_channel(op, setting, parts_of_rows(plane(g), together), gathers=True)
    count = _operations_of_rows(width, together, ROWS_OUTPUT + (ROWS_GUARDED if dsp.has_windows else 0))
    return Prepared(
        constants, context, (), certified(op, packed), access=access, folded={"dsp_depthwise_by_rows": count}
    )


def _operations_of_rows(width: PlaneAxis, together: int, output: int) -> float:
    """What the library's function becomes: outputs that are summed at the same time once if their windows are alike."""
    written = set[tuple[int, int, int]]()
    for first in range(0, width.output, together):
        outputs, begin = min(together, width.output - first), first * width.stride - width.pad
        end = begin + (outputs - 1) * width.stride + width.span
        written.add((outputs, max(-begin, 0), max(end - width.input, 0)))
    return ROWS_OVERHEAD + sum(ROWS_GROUP + outputs * (output + width.kernel) for outputs, _, _ in written)


DEPTHWISE_ROWS = Kernel(
    "arm_dsp/depthwise_rows", DepthwiseDirectContext, frozenset({"dsp"}), why_not_rows, prepare_rows
)
