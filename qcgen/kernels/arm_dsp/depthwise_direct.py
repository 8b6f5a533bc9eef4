"""arm_dsp/depthwise_direct: one filter per channel, whose weights stay in registers, on the image where it lies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from qcgen.ir.context import Context
from qcgen.ir.program import Conv, ConvGeometry, Int64s, Operator
from qcgen.kernels.access import channel_by_channel, output_by_output, plane
from qcgen.kernels.arm_dsp.column_steps import ColumnWords, Planner, Section, Value, alive, instructions
from qcgen.kernels.arm_dsp.depthwise_plane import (
    SIZES,
    PlaneSizes,
    can_share,
    plane_numbers,
    plane_sizes,
    plane_words,
    planes_of,
)
from qcgen.kernels.arm_dsp.output import KeptOutput, certified, dsp_output, kept_output
from qcgen.kernels.arm_dsp.scaled import bias_table, pack_finely, times
from qcgen.kernels.fast_output import output_constants
from qcgen.kernels.images import Images, images
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Setting
from qcgen.kernels.packing import Packed
from qcgen.kernels.plane import PlaneAxis, plane_axes
from qcgen.kernels.reasons import why_all_outside, why_no_depthwise, why_wraps
from qcgen.kernels.text import Described, described

MAX_WORDS = 8  # of weights: about as many as registers hold besides sums
MAX_SUMS = 6  # that grow at the same time
CODE = 3  # instructions of an output code
MAX_CODE = {"size": 800, "speed": 2400}  # instructions that are written out


@dataclass(frozen=True)
class DepthwiseDirectContext(Context):
    """A depthwise convolution whose weights stay in registers."""

    template: ClassVar[str] = "kernels/arm_dsp/depthwise_direct.c.jinja"

    conv: Described
    images: Images
    kept: KeptOutput
    y_type: str  # of C
    is_packed: bool  # weights are words of two in flash
    weight_type: str  # of C, if they are not
    scale: int  # times which sums are the operator's
    taps: int  # weights of a channel
    kernel_words: int  # words of two of them
    words: tuple[tuple[int, int, int | None], ...]  # those in use: number, taps in the lower and the upper half
    zero_points: str  # a pair of them, in C
    has_outside: bool  # sums hold products of taps outside the image
    height: PlaneAxis
    width: PlaneAxis
    sections: tuple[Section, ...]  # of the rows of the output
    reads_rows: bool  # some section reads beyond the first row of the image
    writes_rows: bool  # there is more than one row of outputs
    sums: tuple[str, ...]  # that grow at the same time, in C
    values: tuple[Value, ...]  # what is read of a column
    sizes: PlaneSizes | None  # of layers of several sizes, whose channels are copied first


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves depthwise convolutions of images of one or two axes with few taps."""
    reason = why_no_depthwise(op, setting)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    if prod(op.geometry.output) == 1:
        return "there is only one output pixel, so keeping the weights in registers would not pay"
    packed = _pack(op, setting)
    return (
        why_all_outside(op.geometry)
        or _why_not_registers(op.geometry)
        or why_wraps(packed)
        or _why_not_code(op, packed, setting)
    )


def _why_not_registers(g: ConvGeometry) -> str | None:
    height, width = plane_axes(g)
    words, sums = len(ColumnWords(height.kernel, width.kernel).words), alive(width)
    if words > MAX_WORDS:
        return f"{prod(g.kernel)} taps make {words} words, more than the {MAX_WORDS} that registers hold"
    if sums > MAX_SUMS:
        return f"a column of the image is part of {sums} sums, more than the {MAX_SUMS} that registers hold"
    return None


def _why_not_code(op: Conv, packed: Packed, setting: Setting) -> str | None:
    parts = [(section, part) for section in _planner(op, setting).sections() for part in section.parts]
    count = sum(instructions(section, part) + CODE * len(part.steps) for section, part in parts)
    count *= 2 if dsp_output(op, packed).has_windows else 1
    most = MAX_CODE[_aim(setting)]
    return f"its code would take about {count} instructions, more than {most}" if count > most else None


def _planner(op: Conv, setting: Setting) -> Planner:
    height, width = plane_axes(op.geometry)
    return Planner(height, width, op.x_zero_point != 0, _aim(setting))


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
    if setting.sizes and not setting.in_rows and can_share(setting.sizes):
        return _prepare_plane(op, setting)
    g, packed = op.geometry, _pack(op, setting)
    height, width = plane_axes(g)
    planner = _planner(op, setting)
    words, planned = planner.words, planner.sections()
    is_packed = _aim(setting) == "speed"
    dsp = dsp_output(op, packed)
    unscaled = packed.weights >> packed.bits
    context = DepthwiseDirectContext(
        conv=described(op),
        images=images(g),
        kept=kept_output(packed.epilogue.output, dsp),
        y_type=op.y.dtype.c,
        is_packed=is_packed,
        weight_type="int8_t" if unscaled.min() >= -128 and unscaled.max() <= 127 else "int16_t",
        scale=2**packed.bits,
        taps=prod(g.kernel),
        kernel_words=len(words.words),
        words=tuple(_tap_numbers(words, weight) for weight in _used_words(planned)),
        zero_points=_both(op.x_zero_point),
        has_outside=any(section.has_outside for section in planned),
        height=height,
        width=width,
        sections=planned,
        reads_rows=any(s.reads and (s.count > 1 or s.first or any(any(v.rows) for v in s.values)) for s in planned),
        writes_rows=height.output > 1,
        sums=tuple(f"sum{i}" for i in range(alive(width))),
        values=max((section.values for section in planned), key=len),
        sizes=None,
    )
    constants = (_weights(context, packed, words), bias_table(packed), *output_constants(packed))
    access = output_by_output(op, setting, [*_steps(planned, height, width)])
    return Prepared(constants, context, (), certified(op, packed), access=access)


def _prepare_plane(op: Conv, setting: Setting) -> Prepared:
    """The function of layers of several sizes; planes on its stack or as scratch; weights [channels][taps]."""
    g, packed = op.geometry, _pack(op, setting)
    dsp = dsp_output(op, packed)
    unscaled = packed.weights >> packed.bits
    nowhere, sizes = PlaneAxis(1, 1, 1, 1, 1, 0), plane_sizes(setting.sizes, setting.free_bytes)
    context = DepthwiseDirectContext(
        conv=described(op),
        images=Images(0, 0),
        kept=kept_output(packed.epilogue.output, dsp),
        y_type=op.y.dtype.c,
        is_packed=False,
        weight_type="int8_t" if unscaled.min() >= -128 and unscaled.max() <= 127 else "int16_t",
        scale=1,
        taps=prod(g.kernel),
        kernel_words=0,
        words=plane_words(setting.sizes),
        zero_points="",
        has_outside=False,
        height=nowhere,
        width=nowhere,
        sections=(),
        reads_rows=False,
        writes_rows=False,
        sums=(),
        values=(),
        sizes=sizes,
    )
    words, planes = ColumnWords(*(axis.kernel for axis in plane_axes(g))), planes_of(sizes)
    constants = (_weights(context, packed, words), bias_table(packed), *output_constants(packed))
    return Prepared(
        constants,
        context,
        (planes,) if sizes.in_arena else (),
        certified(op, packed),
        access=channel_by_channel(op, setting, plane(g).reshape(1, -1), gathers=True),
        sizes=plane_numbers(g, setting.sizes, op.x_zero_point, 2**packed.bits),
        stack_bytes=0 if sizes.in_arena else planes.bytes,
    )


def _steps(planned: tuple[Section, ...], height: PlaneAxis, width: PlaneAxis) -> Iterator[tuple[int | None, int]]:
    """Of each output of a channel, in the order of the loops: the first pixel that is read for it, and its number."""
    for section in planned:
        for row in range(section.count):
            first = (section.first + row * height.stride) * width.input
            column, output = 0, (section.number + row) * width.output
            for part in section.parts:
                for _ in range(part.count):
                    for step in part.steps:
                        read = [c.index for c in step.columns if c.index is not None]
                        yield first + column + min(read) if read else None, output + step.output
                    column, output = column + part.columns, output + part.outputs


def _used_words(planned: tuple[Section, ...]) -> list[int]:
    """The words of weights that some output needs."""
    steps = [step for section in planned for part in section.parts for step in part.steps]
    used = {p.weight for step in steps for column in step.columns for p in column.products if p.by}
    return sorted(used | {weight for section in planned for _, weight in section.lost})


def _tap_numbers(words: ColumnWords, weight: int) -> tuple[int, int, int | None]:
    """A word of weights, and the numbers of the taps in its lower and in its upper half."""
    low, high = words.words[weight]
    return weight, low[0] * words.width + low[1], None if high is None else high[0] * words.width + high[1]


def _weights(context: DepthwiseDirectContext, packed: Packed, words: ColumnWords) -> Constants:
    channels = packed.bias.size
    if not context.is_packed:
        meaning = f"weights [{channels} channels][{packed.weights.shape[1]} taps]{packed.weights_remark}."
        return Constants("weights", context.weight_type, packed.weights >> packed.bits, meaning)
    taps = packed.weights.reshape(channels, words.height, words.width)

    def half(tap: tuple[int, int] | None) -> Int64s:
        return np.zeros_like(taps[:, 0, 0]) if tap is None else taps[:, tap[0], tap[1]]

    pairs = [(half(low) & 0xFFFF) | (half(high) & 0xFFFF) << 16 for low, high in words.words]
    values = (np.stack(pairs, axis=-1) + 2**31) % 2**32 - 2**31
    meaning = f"weights [{channels} channels], two taps in a word{times(packed.bits)}."
    return Constants("weights", "int32_t", values, meaning)


def _both(value: int) -> str:
    """A pair of the same number, in C."""
    return f"0x{(value & 0xFFFF) * 0x10001:08x}"


DEPTHWISE_DIRECT = Kernel(
    "arm_dsp/depthwise_direct", DepthwiseDirectContext, frozenset({"dsp"}), why_not, prepare, SIZES
)
