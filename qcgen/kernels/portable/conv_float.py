"""portable/conv_float: any convolution of floats; the windows of two outputs against all channels of a group."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isqrt, prod
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context
from qcgen.ir.plan import Certificate
from qcgen.ir.program import Conv, ConvGeometry, Float32s, FloatActivation, Operator
from qcgen.ir.types import DType, Layout
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.portable.conv import PixelBlocks, pixel_blocks
from qcgen.kernels.portable.float_pointwise import NumberFunction, number_function
from qcgen.kernels.text import Described, counted, described, window_shape
from qcgen.kernels.windows import CopyWindow, copy_window

STEP = 4  # taps that share one load and store of a sum
MAX_BLOCK = 2  # windows that share each weight that is read; more need more than 16 vector registers
WHOLE = 64  # up to so many taps are summed in one chain of additions


@dataclass(frozen=True)
class Chunks:
    """How ``taps`` products are summed: ``full`` of them in steps of STEP, the ``rest`` (less than STEP) at the end.

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
    def is_even(self) -> bool:
        """Whether all chunks have the same size."""
        return self.full % self.size == 0

    @property
    def depth(self) -> int:
        """Additions on the longest way of a product into its sum."""
        chunk = STEP - 1 + min(self.size, self.full) // STEP
        return chunk + (ceil(self.full / self.size) if self.is_chunked else 0) + min(self.rest, 1)


@dataclass(frozen=True)
class ConvFloatContext(Context):
    """A convolution of float or double."""

    template: ClassVar[str] = "kernels/portable/conv_float.c.jinja"

    conv: Described
    copy: CopyWindow
    loops: PixelBlocks
    is_grouped: bool  # there are several groups of channels
    chunks: Chunks  # how products are summed
    copies: bool  # windows are copied
    has_bias: bool  # sums start at a bias that is not zero
    number: str  # the type of C of inputs, sums and outputs
    zero: str  # of this type
    weight_type: str  # of C
    widens: str  # the function that gives the number of a weight of 16 bits, "" if weights have 32
    activation: NumberFunction  # of sums


def chunks(taps: int) -> Chunks:
    """The chunks of a sum of ``taps`` products: as many as each has steps."""
    steps, rest = divmod(taps, STEP)
    if taps <= WHOLE:
        return Chunks(steps * STEP, rest, max(steps, 1) * STEP)
    return Chunks(steps * STEP, rest, ceil(steps / isqrt(steps)) * STEP)


def why_not(op: Operator, _setting: Setting) -> str | None:
    """Serves every float convolution."""
    if isinstance(op, Conv) and isinstance(op.epilogue, FloatActivation):
        return None
    return "the convolution is not in float"


def prepare(op: Operator, setting: Setting) -> Prepared:
    """Weights [groups][taps][channels of the group], so that a step's weights of all channels lie side by side."""
    assert isinstance(op, Conv)
    assert isinstance(op.epilogue, FloatActivation)
    g = op.geometry
    has_bias = bool(op.bias.any())
    number = op.x.dtype.c
    bias = Constants("bias", number, op.bias, "where the sum of each channel starts.")
    sums = chunks(g.taps)
    copies = not _is_in_place(g, setting.x_layout)
    weights, widens = _weights(op, setting)
    context = ConvFloatContext(
        conv=described(op),
        copy=copy_window(g, setting.x_layout),
        loops=pixel_blocks(g, setting, _block(g)),
        is_grouped=g.group > 1,
        chunks=sums,
        copies=copies,
        has_bias=has_bias,
        number=number,
        zero="0.0" if number == "double" else "0.0f",
        weight_type=weights.c_type,
        widens=widens,
        activation=number_function(op.epilogue, op.x.dtype),
    )
    constants = (weights, *[bias] * has_bias)
    scratch = _scratch(g, sums, copies, op.x.dtype.bytes)
    return Prepared(constants, context, scratch, Certificate())


def _is_in_place(g: ConvGeometry, layout: Layout) -> bool:
    """Whether the taps of every output lie side by side in the image: 1x1, channels last."""
    return layout is Layout.CHANNELS_LAST and {*g.kernel, *g.strides} == {1} and not g.is_padded


LEAST_NORMAL = 2.0**-14
"""The least float16 number that is not subnormal."""


def _weights(op: Conv, setting: Setting) -> tuple[Constants, str]:
    """The weights, and the function that widens them: float16 numbers are stored as such, unless speed counts."""
    g, layout = op.geometry, setting.x_layout
    weights: Float32s = op.weights
    if layout is Layout.CHANNELS_LAST:
        weights = weights.transpose(0, *range(2, weights.ndim), 1)
    table = weights.reshape(g.group, g.group_out, g.taps).swapaxes(1, 2).reshape(g.group * g.taps, g.group_out)
    groups = counted(g.group, "group") if g.group > 1 else ""
    meaning = f"weights {groups}{window_shape(g, layout)}{counted(g.group_out, 'channel')}"
    if op.x.dtype is DType.FLOAT64:
        return Constants("weights", "double", table, f"{meaning}."), ""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        halves = table.astype(np.float16)
    if setting.optimize == "speed" or not np.array_equal(halves.astype(np.float32), table):
        return Constants("weights", "float", table, f"{meaning}."), ""
    is_plain = bool(np.all((table == 0) | ((np.abs(table) >= LEAST_NORMAL) & np.isfinite(table))))
    constants = Constants("weights", "uint16_t", halves.view(np.uint16), f"{meaning}, words of float16 numbers.")
    return constants, "from_normal_half" if is_plain else "from_half"


def _block(g: ConvGeometry) -> int:
    return min(MAX_BLOCK, prod(g.output))


def _scratch(g: ConvGeometry, sums: Chunks, copies: bool, size: int) -> tuple[Scratch, ...]:
    """Copied windows, the sums of all channels, and the sums of a chunk."""
    windows = Scratch(_block(g) * g.taps * size, size)
    channels = Scratch(_block(g) * g.group_out * size, size)
    return (windows,) * copies + (channels,) * (2 if sums.is_chunked else 1)


CONV_FLOAT = Kernel("portable/conv_float", ConvFloatContext, frozenset(), why_not, prepare)
