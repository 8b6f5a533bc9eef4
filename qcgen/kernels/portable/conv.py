"""portable/conv, pointwise: sums of windows of codes, against one output channel after the other.

portable/conv_float: any convolution of floats; the windows of two outputs against all channels of a group.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import ceil, isqrt, prod
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context, Struct
from qcgen.ir.plan import Certificate
from qcgen.ir.program import Conv, ConvGeometry, Float32s, FloatActivation, Int64s, Operator
from qcgen.ir.types import DType, Layout
from qcgen.kernels.access import blocks, in_blocks_of_channels, in_pixels
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting, number
from qcgen.kernels.packing import (
    NIBBLE,
    IntegerConv,
    Nibbles,
    Packed,
    integer_conv,
    nibbles,
    pack,
    packed_nibbles,
    unsigned_shift,
)
from qcgen.kernels.portable.float_pointwise import NumberFunction, number_function
from qcgen.kernels.reasons import why_no_conv_of_codes
from qcgen.kernels.text import counted, describe, window_shape
from qcgen.kernels.windows import Axis, CopyWindow, Images, OutputSteps, axes, copy_window, images, output_steps

SUMMED = 15
"""Up to so many products of four windows gcc -O3 writes out in every case; at 16 it depends on their types."""

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
    lanes: range  # their numbers
    has_overlap: bool  # blocks do not divide the pixels: the last one ends with them
    is_split: bool  # there are several images or groups


@dataclass(frozen=True)
class WindowSums(Context):
    """The names that templates/kernels/portable/window_sums.c.jinja uses: blocks of windows against each channel."""

    conv: IntegerConv
    loops: PixelBlocks
    block_text: str  # the windows of a block, in words
    sums_apart: bool  # a function of its own sums a block
    has_scratch: bool  # taps are copied
    wraps: bool  # sums are taken modulo 2^32
    is_corrected: bool  # taps are summed, too
    is_long: bool  # sums are taken in int64
    product_cast: str  # before a tap in C, where an int may have only 16 bits
    weight_type: str  # of C
    nibbles: Nibbles | None  # weights lie two to a byte; None: one


@dataclass(frozen=True)
class CopiedTaps(Context):
    """The taps of windows that are copied: codes made 0 to 255."""

    shift_text: str  # what is added to a code, in C, such as " + 128"
    tap_remark: str  # the comment on the type of taps
    wide_taps: bool  # int16, not bytes
    tap_type: str  # of C, that of 16-bit codes; "" for 8-bit codes


def block_size(g: ConvGeometry) -> int:
    """How many windows share each weight that is read: 1, 2 or 4."""
    pixels = prod(g.output)
    return MAX_BLOCK if pixels >= MAX_BLOCK else min(pixels, 2)


def taps_scratch(op: Conv, setting: Setting) -> Scratch:
    """The buffer of a block's copied taps: bytes, or int16 with --optimize speed; 16-bit codes as they are."""
    size = 2 if setting.optimize == "speed" or op.x.dtype.is_16_bit else 1
    return Scratch(block_size(op.geometry) * op.geometry.taps * size, size)


def copied_taps(op: Conv, packed: Packed, setting: Setting) -> CopiedTaps:
    """The type of copied taps and what they are the elements plus."""
    shift = f" + {packed.x_shift}" if packed.x_shift else ""
    own = op.x.dtype.c if op.x.dtype.is_16_bit else ""
    return CopiedTaps(shift, "A copied element." if own else _tap_remark(packed), setting.optimize == "speed", own)


def _tap_remark(packed: Packed) -> str:
    """What a copied tap is, in words."""
    if not packed.x_shift:
        return "A copied element: 0 to 255."
    return f"A copied element, x + {packed.x_shift}: 0 to 255. The biases take the {packed.x_shift} back."


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
        lanes=range(block),
        has_overlap=pixels % block != 0,
        is_split=g.batch > 1 or g.group > 1,
    )


def window_sums(op: Conv, packed: Packed, setting: Setting, *, has_scratch: bool) -> WindowSums:
    """How the windows of an integer convolution are summed; ``has_scratch``: their taps are copied."""
    g = op.geometry
    block = block_size(g)
    return WindowSums(
        conv=integer_conv(op, packed),
        loops=pixel_blocks(g, setting, block),
        block_text=f"{block} windows" if block > 1 else "a window",
        # Cores of few registers: compilers for the host sum and requantize several windows side by side, in one piece.
        sums_apart=g.taps > SUMMED and setting.target.is_small,
        has_scratch=has_scratch,
        wraps=packed.wraps,
        is_corrected=packed.is_corrected,
        is_long=packed.is_long,
        product_cast="(int32_t)" if op.x.dtype.is_16_bit else "",
        weight_type="uint8_t" if packed.is_nibbles else packed.weights_type,
        nibbles=nibbles(packed.weights) if packed.is_nibbles else None,
    )


@dataclass(frozen=True)
class ConvContext(Context):
    """An integer convolution whose windows are copied."""

    template: ClassVar[str] = "kernels/portable/conv.c.jinja"

    sums: WindowSums
    copy: CopyWindow
    taps: CopiedTaps
    padding: int  # the tap outside the image


def why_not_conv(op: Operator, _setting: Setting) -> str | None:
    """Serves every integer convolution."""
    return why_no_conv_of_codes(op)


def prepare_conv(op: Operator, setting: Setting) -> Prepared:
    """Weights [M][taps] in the order in which a window is copied, taps shifted to 0..255."""
    assert isinstance(op, Conv)
    g = op.geometry
    packed = pack(op, setting, unsigned_shift(op), unpacks=True)
    context = ConvContext(
        sums=window_sums(op, packed, setting, has_scratch=True),
        copy=copy_window(g, setting.x_layout, op.x.dtype.bytes),
        taps=copied_taps(op, packed, setting),
        padding=packed.padding,
    )
    constants = (weight_table(op, packed, setting.x_layout), *packed.constants())
    if setting.is_free and context.copy.has_border:
        constants += (number("padding", "uint8_t", packed.padding, "a tap outside."),)
    scratch = taps_scratch(op, setting)
    access = in_pixels(op, setting, blocks(prod(g.output), block_size(g)), gathers=True) if g.group == 1 else None
    return Prepared(constants, context, (scratch,), packed.certificate, access=access, folded=context.copy.operations)


CONV = Kernel("portable/conv", ConvContext, frozenset(), why_not_conv, prepare_conv)


@dataclass(frozen=True)
class PointwiseContext(Context):
    """A 1x1 convolution."""

    template: ClassVar[str] = "kernels/portable/pointwise.c.jinja"

    sums: WindowSums
    taps: CopiedTaps
    channels_last: bool  # pixels are read where they are
    is_strided: bool  # pixels of x are left out
    in_pixels: int  # of an image of x
    axes: tuple[Axis, ...]  # the spatial ones, outermost first


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
    context = PointwiseContext(
        sums=window_sums(op, packed, setting, has_scratch=not is_last),
        taps=copied_taps(op, packed, setting),
        channels_last=is_last,
        is_strided=set(g.strides) != {1},
        in_pixels=prod(g.input),
        axes=axes(g, setting.x_layout),
    )
    scratch = () if is_last else (taps_scratch(op, setting),)
    constants = (weight_table(op, packed, setting.x_layout), *packed.constants())
    units = blocks(prod(g.output), block_size(g))
    access = in_blocks_of_channels(op, setting, units, range(1, g.out_channels + 1)) if g.group == 1 else None
    return Prepared(constants, context, scratch, packed.certificate, access=access)


POINTWISE = Kernel("portable/pointwise", PointwiseContext, frozenset(), why_not_pointwise, prepare_pointwise)


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
