"""portable/conv, pointwise: sums of windows of codes, against one output channel after the other.

portable/conv_float: any convolution of floats; the windows of two outputs against all channels of a group.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import ceil, isqrt, prod
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context, Struct
from qcgen.ir.plan import C_BYTES, Certificate
from qcgen.ir.program import Conv, ConvGeometry, Float32s, FloatActivation, Int64s, Operator
from qcgen.ir.types import DType, Layout
from qcgen.kernels.access import blocks, in_blocks_of_channels, in_pixels
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting, number
from qcgen.kernels.packing import (
    NIBBLE,
    IntegerConv,
    Packed,
    integer_conv,
    low_of,
    pack,
    packed_nibbles,
    unsigned_shift,
)
from qcgen.kernels.portable.float_pointwise import NumberFunction, number_function
from qcgen.kernels.reasons import why_no_conv_of_codes
from qcgen.kernels.text import counted, describe, window_shape
from qcgen.kernels.windows import CopyWindow, Images, OutputSteps, copy_window, images, output_steps

SUMMED = 15
"""Up to so many products of four windows gcc -O3 writes out in every case; at 16 it depends on their types."""

_KINDS = {f"{sign}int{bits}_t": f"{sign or 's'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}

MAX_BLOCK = 4  # with more windows at a time compilers run out of registers on every target tried

STEP = 4  # taps of floats that share one load and store of a sum
MAX_FLOAT_BLOCK = 2  # windows that share each weight that is read; more need more than 16 vector registers
WHOLE = 64  # up to so many taps are summed in one chain of additions

LEAST_NORMAL = 2.0**-14
"""The least float16 number that is not subnormal."""


@dataclass(frozen=True)
class PixelBlocks(Context):
    """The loops over the pixels of the output, some windows at a time, image by image and group by group."""

    images: Images
    steps: OutputSteps
    x_group: int  # from one group of channels to the next, in elements of x
    pixels: int  # of an output image
    block: int  # windows that share each weight that is read
    has_overlap: bool  # blocks do not divide the pixels: the last one ends with them
    is_split: bool  # there are several images or groups


@dataclass(frozen=True)
class ConvContext(Context):
    """An integer convolution: blocks of windows against one output channel after the other."""

    template: ClassVar[str] = "kernels/portable/conv.c.jinja"

    conv: IntegerConv
    loops: PixelBlocks
    copied: CopyWindow
    kinds: str  # of taps and sums, as names of the library end
    tap_type: str  # of C, "" for that of the library
    sum_type: str  # of C
    add: str  # the function of the library that adds products, without the kinds,
    weight_argument: int  # and what it is told of weights
    weight_type: str  # of C
    block_text: str  # the windows of a block, in words
    copies: str  # windows or pixels are copied; "": taps are read where they are
    shift: int  # what is added to a code that is copied
    padding: int  # the tap outside the image
    row: int  # elements of the table from one channel's weights to the next
    is_strided: bool  # pixels of x are left out
    sums_apart: bool  # a function of its own sums a block
    is_corrected: bool  # taps are summed, too


def block_size(g: ConvGeometry) -> int:
    """How many windows share each weight that is read: 1, 2 or 4."""
    pixels = prod(g.output)
    return MAX_BLOCK if pixels >= MAX_BLOCK else min(pixels, 2)


def taps_scratch(op: Conv, setting: Setting) -> Scratch:
    """The buffer of a block's copied taps: bytes, or int16 with --optimize speed; 16-bit codes as they are."""
    size = 2 if setting.optimize == "speed" or op.x.dtype.is_16_bit else 1
    return Scratch(block_size(op.geometry) * op.geometry.taps * size, size)


def weight_table(op: Conv, packed: Packed, layout: Layout) -> Constants:
    """The weights in the order of a copied window: [M][k...][C/group] for channels last, else [M][C/group][k...]."""
    g = op.geometry
    weights = packed.weights.reshape(g.out_channels, g.group_in, *g.kernel)
    if layout is Layout.CHANNELS_LAST:
        weights = weights.transpose(0, *range(2, weights.ndim), 1)
    rows = weights.reshape(g.out_channels, g.taps)
    meaning = f"weights {counted(g.out_channels, 'channel')}{window_shape(g, layout)}{packed.weights_remark}"
    if packed.is_nibbles:
        return Constants("weights", "uint8_t", packed_nibbles(rows), f"{meaning}; 4 bits each, two to a byte.", NIBBLE)
    return Constants("weights", packed.weights_type, rows, f"{meaning}.")


def pixel_blocks(g: ConvGeometry, setting: Setting, block: int) -> PixelBlocks:
    """The loops in blocks of ``block`` windows."""
    pixels = prod(g.output)
    return PixelBlocks(
        images=images(g),
        steps=output_steps(g, setting.y_layout),
        x_group=g.group_in * (1 if setting.x_layout is Layout.CHANNELS_LAST else prod(g.input)),
        pixels=pixels,
        block=block,
        has_overlap=pixels % block != 0,
        is_split=g.batch > 1 or g.group > 1,
    )


def conv_context(op: Conv, packed: Packed, setting: Setting, copies: str) -> ConvContext:
    """An integer convolution that copies windows or pixels, or nothing."""
    g, x_type = op.geometry, op.x.dtype
    block = block_size(g)
    tap_type = "uint8_t" if packed.x_shift else x_type.c
    sum_type = "uint32_t" if packed.wraps else "int64_t" if packed.is_long else "int32_t"
    is_wide = bool(copies) and setting.optimize == "speed" and not x_type.is_16_bit
    weight_type = "uint8_t" if packed.is_nibbles else packed.weights_type
    return ConvContext(
        conv=integer_conv(op, packed),
        loops=pixel_blocks(g, setting, block),
        copied=copy_window(g, setting.x_layout, x_type.bytes),
        kinds=f"{'wide' if is_wide else _KINDS[tap_type]}_{_KINDS[sum_type]}",
        tap_type="" if is_wide else tap_type,
        sum_type=sum_type,
        add="wsums_add_nibbles" if packed.is_nibbles else "wsums_add",
        weight_argument=low_of(packed.weights) if packed.is_nibbles else C_BYTES[weight_type],
        weight_type=weight_type,
        block_text=f"{block} windows" if block > 1 else "a window",
        copies=copies,
        shift=packed.x_shift,
        padding=packed.padding,
        row=(g.taps + 1) // 2 if packed.is_nibbles else g.taps,
        is_strided=set(g.strides) != {1},
        # Cores of few registers: compilers for the host sum and requantize several windows side by side, in one piece.
        sums_apart=g.taps > SUMMED and setting.target.is_small,
        is_corrected=packed.is_corrected,
    )


def why_not_conv(op: Operator, _setting: Setting) -> str | None:
    """Serves every integer convolution."""
    return why_no_conv_of_codes(op)


def prepare_conv(op: Operator, setting: Setting) -> Prepared:
    """Weights [M][taps] in the order in which a window is copied, taps shifted to 0..255."""
    assert isinstance(op, Conv)
    g = op.geometry
    packed = pack(op, setting, unsigned_shift(op), unpacks=True)
    context = conv_context(op, packed, setting, "windows")
    constants = (weight_table(op, packed, setting.x_layout), *packed.constants())
    if setting.is_free and context.copied.has_border:
        constants += (number("padding", "uint8_t", packed.padding, "a tap outside."),)
    scratch = taps_scratch(op, setting)
    access = in_pixels(op, setting, blocks(prod(g.output), block_size(g)), gathers=True) if g.group == 1 else None
    return Prepared(constants, context, (scratch,), packed.certificate, access=access, folded=context.copied.operations)


CONV = Kernel("portable/conv", ConvContext, frozenset(), why_not_conv, prepare_conv)


def why_not_pointwise(op: Operator, setting: Setting) -> str | None:
    """Serves kernels of one tap without padding; with channels first, stride 1 only."""
    reason = why_no_conv_of_codes(op)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    g = op.geometry
    if set(g.kernel) != {1}:
        return "the kernel has more than one tap"
    if g.is_padded:
        return "the image is padded"
    if setting.x_layout is Layout.CHANNELS_FIRST and set(g.strides) != {1}:
        return "the stride is not 1, so neighbouring outputs are not computed from neighbouring inputs"
    return None


def prepare_pointwise(op: Operator, setting: Setting) -> Prepared:
    """Weights [M][C/group]; with channels first, the pixels of a block are transposed into the arena."""
    assert isinstance(op, Conv)
    g = op.geometry
    is_last = setting.x_layout is Layout.CHANNELS_LAST
    packed = pack(op, setting, 0 if is_last else unsigned_shift(op), unpacks=True)
    context = conv_context(op, packed, setting, "" if is_last else "pixels")
    scratch = () if is_last else (taps_scratch(op, setting),)
    constants = (weight_table(op, packed, setting.x_layout), *packed.constants())
    units = blocks(prod(g.output), block_size(g))
    access = in_blocks_of_channels(op, setting, units, range(1, g.out_channels + 1)) if g.group == 1 else None
    return Prepared(constants, context, scratch, packed.certificate, access=access)


POINTWISE = Kernel("portable/pointwise", ConvContext, frozenset(), why_not_pointwise, prepare_pointwise)


@dataclass(frozen=True)
class Chunks:
    """How ``taps`` products in any order are summed: ``full`` of them in steps of STEP, the ``rest`` at the end.

    Rounding errors grow with the number of additions that a product passes through, ``depth`` at most. Where there are
    many, chunks of ``size`` taps are summed by themselves: that makes it about the square root of the taps.
    """

    full: int
    rest: int
    size: int

    @property
    def is_chunked(self) -> bool:
        """Whether there is more than one chunk."""
        return self.size < self.full

    @property
    def depth(self) -> int:
        """Additions on the longest way of a product into its sum."""
        chunk = STEP - 1 + min(self.size, self.full) // STEP
        return chunk + (ceil(self.full / self.size) if self.is_chunked else 0) + (self.rest + 1) // 2


@dataclass(frozen=True)
class ConvFloatContext(Context):
    """A convolution of float or double."""

    template: ClassVar[str] = "kernels/portable/conv_float.c.jinja"

    description: str  # the comment above the node's function
    copy: CopyWindow
    layer: Struct
    copies: bool  # windows are copied
    is_chunked: bool  # chunks of products are summed by themselves
    is_ordered: bool  # taps are summed in an order of their own
    has_bias: bool  # of other numbers than zero
    x_type: str  # the type of C of inputs, sums and outputs
    weight: str  # the function that reads a weight
    join: str  # the function of the library that adds a product to a sum
    activation: NumberFunction  # of sums


def chunks(taps: int) -> Chunks:
    """The chunks of a sum of ``taps`` products: as many as each has steps."""
    steps, rest = divmod(taps, STEP)
    if taps <= WHOLE:
        return Chunks(steps * STEP, rest, max(steps, 1) * STEP)
    return Chunks(steps * STEP, rest, ceil(steps / isqrt(steps)) * STEP)


def why_not_conv_float(op: Operator, _setting: Setting) -> str | None:
    """Serves every float convolution."""
    if isinstance(op, Conv) and isinstance(op.epilogue, FloatActivation):
        return None
    return "the convolution is not in float"


def prepare_conv_float(op: Operator, setting: Setting) -> Prepared:
    """Weights [groups][taps][channels of the group], so that a step's weights of all channels lie side by side."""
    assert isinstance(op, Conv)
    assert isinstance(op.epilogue, FloatActivation)
    g = op.geometry
    has_bias = bool(op.bias.any())
    number = op.x.dtype.c
    bias = Constants("bias", number, op.bias, "added to the sums.")
    copies, taken = not _is_in_place(g, setting.x_layout), _order(op, setting.x_layout)
    is_ordered, chunk = bool(np.any(taken != np.arange(g.taps))), _chunk(op)
    order = Constants("order", "uint16_t", taken, "the taps as they are summed.")
    weights, weight = _float_weights(op, setting, taken)
    loops = pixel_blocks(g, setting, _float_block(g))
    numbers = {"batch": g.batch, "groups": g.group, "pixels": loops.pixels, "channels": g.group_out, "taps": g.taps}
    numbers |= {
        "chunk": chunk,
        "is_fused": int(op.sums is not None and op.sums.is_fused),
        "is_ordered": int(is_ordered),
        "block": loops.block,
        "next": g.taps if copies else g.in_channels,
    }
    numbers |= {"copies": int(copies), "has_bias": int(has_bias), "weight_bytes": weights.values.itemsize}
    numbers |= {"x_group": loops.x_group, **asdict(loops.images), **asdict(loops.steps)}
    context = ConvFloatContext(
        description=describe(op),
        copy=copy_window(g, setting.x_layout, op.x.dtype.bytes),
        layer=Struct("fp_conv", (), numbers),
        copies=copies,
        is_chunked=chunk < g.taps,
        is_ordered=is_ordered,
        has_bias=has_bias,
        x_type=number,
        weight=weight,
        join=_join(op),
        activation=number_function(op.epilogue, op.x.dtype),
    )
    constants = (weights, *[order] * is_ordered, *[bias] * has_bias)
    scratch = _float_scratch(g, chunk < g.taps, copies, op.x.dtype.bytes)
    folded = context.copy.operations if copies else {}
    return Prepared(constants, context, scratch, Certificate(), folded=folded)


def _is_in_place(g: ConvGeometry, layout: Layout) -> bool:
    """Whether the taps of every output lie side by side in the image: 1x1, channels last."""
    return layout is Layout.CHANNELS_LAST and {*g.kernel, *g.strides} == {1} and not g.is_padded


def _order(op: Conv, layout: Layout) -> Int64s:
    """The taps of a copied window in the order in which they are summed."""
    g = op.geometry
    stored = np.arange(g.taps).reshape(g.group_in, -1)
    if layout is Layout.CHANNELS_LAST:
        stored = np.arange(g.taps).reshape(-1, g.group_in).T
    return np.arange(g.taps) if op.sums is None else stored.reshape(-1)[op.sums.taps(g)]


def _chunk(op: Conv) -> int:
    """So many taps are summed by themselves; sums of four products are added up anyway."""
    taps = op.geometry.taps
    if op.sums is not None:
        return min(op.sums.chunk, taps) if op.sums.is_fused else taps
    split = chunks(taps)
    return split.size if split.is_chunked else taps


def _join(op: Conv) -> str:
    if op.sums is None:
        return f"fp_plain_join_{op.x.dtype.c}"
    return "fused_any" if op.sums.is_fused else "rounded_twice"


def _float_weights(op: Conv, setting: Setting, order: Int64s) -> tuple[Constants, str]:
    """The weights, and the function that reads one: float16 numbers are stored as such, unless speed counts."""
    g, layout = op.geometry, setting.x_layout
    weights: Float32s = op.weights
    if layout is Layout.CHANNELS_LAST:
        weights = weights.transpose(0, *range(2, weights.ndim), 1)
    in_order = weights.reshape(g.group, g.group_out, g.taps)[:, :, order]
    table = in_order.swapaxes(1, 2).reshape(g.group * g.taps, g.group_out)
    groups = counted(g.group, "group") if g.group > 1 else ""
    meaning = f"weights {groups}{window_shape(g, layout)}{counted(g.group_out, 'channel')}"
    if op.x.dtype is DType.FLOAT64:
        return Constants("weights", "double", table, f"{meaning}."), "whole_weight"
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        halves = table.astype(np.float16)
    if setting.optimize == "speed" or not np.array_equal(halves.astype(np.float32), table):
        return Constants("weights", "float", table, f"{meaning}."), "whole_weight"
    is_plain = bool(np.all((table == 0) | ((np.abs(table) >= LEAST_NORMAL) & np.isfinite(table))))
    constants = Constants("weights", "uint16_t", halves.view(np.uint16), f"{meaning}, words of float16 numbers.")
    return constants, "normal_half_weight" if is_plain else "half_weight"


def _float_block(g: ConvGeometry) -> int:
    return min(MAX_FLOAT_BLOCK, prod(g.output))


def _float_scratch(g: ConvGeometry, is_chunked: bool, copies: bool, size: int) -> tuple[Scratch, ...]:
    """Copied windows, the sums of all channels, and the sums of a chunk."""
    windows = Scratch(_float_block(g) * g.taps * size, size)
    channels = Scratch(_float_block(g) * g.group_out * size, size)
    return (windows,) * copies + (channels,) * (2 if is_chunked else 1)


CONV_FLOAT = Kernel("portable/conv_float", ConvFloatContext, frozenset(), why_not_conv_float, prepare_conv_float)
