"""scalar/depthwise: one filter per channel, on a copy of few channels of the image that has padding around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import ClassVar

from qcgen.ir.context import Context, Struct
from qcgen.ir.program import Conv, ConvGeometry, Int64s, Operator
from qcgen.kernels.access import bands, channel_by_channel, plane
from qcgen.kernels.fast_output import FastOutput, output_constants
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.packing import IntegerConv, Packed, integer_conv, pack, unsigned_shift
from qcgen.kernels.reasons import why_no_depthwise, why_taps, why_wraps
from qcgen.kernels.scalar.sums import FEW, SOME, certified, scalar_output
from qcgen.kernels.text import Unrolled, unrolled
from qcgen.kernels.windows import Images, OutputGroups, PlaneAxis, images

PLANE_BYTES = 2048  # scratch that a band of rows may take, if more than one row fits


@dataclass(frozen=True)
class Core:
    """How the sums of a core are written.

    At most ``group`` outputs are summed at the same time, and those of at most ``columns`` elements of a row: what its
    registers hold. ``reloads``: an element is loaded again for each weight, because there is no register to keep it in.
    ``is_unsigned``: the core extends bytes without sign when it loads them, so codes of int8 are moved to 0..255.
    ``lanes`` channels are copied at a time.
    ``max_offset`` is the greatest offset that a load's instruction can hold, 0 where that does not matter.
    """

    group: int
    columns: int
    reloads: bool
    is_unsigned: bool
    lanes: int
    max_offset: int = 0


@dataclass(frozen=True)
class SteppedAxis(PlaneAxis):
    """``x_step`` and ``y_step`` are the distances in memory between neighbours on the axis.

    ``is_first``: the first of two axes.
    """

    x_step: int
    y_step: int
    is_first: bool


@dataclass(frozen=True)
class RowGroups(OutputGroups):
    """Neighbours of a row, whose sums are taken at the same time; ``step`` is in bytes."""

    @property
    def sums(self) -> tuple[tuple[str, str], ...]:
        """Each sum and where its code goes, in C: as many as outputs, which a template cannot collect in a list."""
        places = ("out", "out + COLUMN", *(f"out + {i} * COLUMN" for i in range(2, self.outputs)))
        return tuple((f"sums[{i}]", places[i]) for i in range(self.outputs))


def core(setting: Setting) -> Core:
    """What the registers of the core hold."""
    if setting.target.registers <= FEW:
        return Core(group=4, columns=16, reloads=True, is_unsigned=True, lanes=1, max_offset=31)
    if setting.target.registers <= SOME:
        return Core(group=6, columns=13, reloads=False, is_unsigned=False, lanes=4)
    return Core(group=3, columns=12, reloads=False, is_unsigned=False, lanes=1)


def stepped_axes(g: ConvGeometry, how: Core) -> tuple[SteppedAxis, SteppedAxis]:
    """The axes of the plane, rows first: its rows run along that axis of the image which leaves fewer loads."""
    found = [_axis(g, index) for index in range(g.rank)]
    if len(found) == 1:
        return SteppedAxis(1, 1, 1, 1, 1, 0, 0, 0, is_first=True), found[0]
    height, width = found
    loads = [
        _row_loads(along, _sizes(along, how)) / along.output * across.kernel
        for along, across in ((width, height), (height, width))
    ]
    return (height, width) if loads[0] <= loads[1] else (width, height)


def _axis(g: ConvGeometry, index: int) -> SteppedAxis:
    return SteppedAxis(
        input=g.input[index],
        output=g.output[index],
        kernel=g.kernel[index],
        stride=g.strides[index],
        dilation=g.dilations[index],
        pad=g.pads_begin[index],
        x_step=g.in_channels * prod(g.input[index + 1 :]),
        y_step=g.out_channels * prod(g.output[index + 1 :]),
        is_first=index + 1 < g.rank,
    )


def _sizes(width: SteppedAxis, how: Core) -> tuple[int, ...]:
    """The outputs of a row in groups: equal ones and perhaps a smaller last one, those that take the fewest loads."""
    choices = []
    for size in range(1, how.group + 1):
        if size == 1 or (size - 1) * width.stride + width.span <= how.columns:
            count, rest = divmod(width.output, size)
            choices.append((size,) * count + ((rest,) if rest else ()))
    return min(choices, key=lambda sizes: (_row_loads(width, sizes), len(set(sizes))))


def _row_loads(width: SteppedAxis, sizes: tuple[int, ...]) -> int:
    """Elements and weights that are loaded for the outputs of a row and one row of the kernel."""
    return sum((size - 1) * width.stride + width.span + width.kernel for size in sizes)


@dataclass(frozen=True)
class Plane:
    """How ``lanes`` channels lie in memory: rows of ``row`` bytes, which begin with ``pad`` bytes of padding.

    A row that is one group of outputs has none: its taps beyond the image are left out.
    """

    lanes: int
    row: int
    pad: int
    band: int
    bytes: int


@dataclass(frozen=True)
class Rows:
    """How the core ``how`` computes a depthwise convolution: ``groups`` of outputs, from rows of ``plane``."""

    how: Core
    height: SteppedAxis
    width: SteppedAxis
    groups: tuple[RowGroups, ...]
    plane: Plane

    @property
    def count(self) -> int:
        """The groups of a row."""
        return sum(group.count for group in self.groups)

    @property
    def has_padding(self) -> bool:
        """Whether windows meet padding in the plane: above or below, or beside if a row's is not left out."""
        beside = self.count > 1 and _is_padded(self.width)
        return beside or _is_padded(self.height)

    @property
    def rows_left(self) -> int:
        """Bytes from behind a row's last group to the next row of windows."""
        return self.height.stride * self.plane.row - sum(group.step * group.count for group in self.groups)


def _is_padded(axis: SteppedAxis) -> bool:
    return axis.pad > 0 or axis.reached - axis.pad > axis.input


def rows_of(g: ConvGeometry, how: Core) -> Rows:
    """The rows of an image of one or two axes."""
    height, width = stepped_axes(g, how)
    lanes = min(how.lanes, g.in_channels)
    groups = row_groups(width, how, lanes)
    plane = plane_of(height, width, lanes, sum(group.count for group in groups))
    return Rows(how, height, width, groups, plane)


def plane_of(height: SteppedAxis, width: SteppedAxis, lanes: int, groups: int) -> Plane:
    """With as many rows as PLANE_BYTES admit: a ``band`` of rows of outputs is computed from one filling."""
    row = lanes * (max(width.copied, 1) if groups == 1 else width.reached)
    rows = (PLANE_BYTES // row - height.span) // height.stride + 1
    band = min(height.output, max(1, rows))
    pad = 0 if groups == 1 else lanes * width.pad
    return Plane(lanes, row, pad, band, row * ((band - 1) * height.stride + height.span))


def row_groups(width: SteppedAxis, how: Core, lanes: int) -> tuple[RowGroups, ...]:
    """The outputs of a row in groups of one size or two."""
    sizes = _sizes(width, how)
    return tuple(RowGroups(size, sizes.count(size), lanes * size * width.stride) for size in dict.fromkeys(sizes))


MAX_TAPS = 64  # written out one by one
MAX_COPIES = 16  # pixels of a row that are copied without a loop
LOOP_COPIES = 8  # at most, else, in each of at least two rounds


@dataclass(frozen=True)
class DepthwiseContext(Context):
    """A depthwise convolution on planes of few channels."""

    template: ClassVar[str] = "kernels/scalar/depthwise.c.jinja"

    conv: IntegerConv
    images: Images
    plane: Struct
    tap_type: str  # of C, of an element of the plane,
    kind: str  # as the library's functions have it in their names
    reloads: bool  # elements are loaded again for each weight
    groups: tuple[RowGroups, ...]  # of the outputs of a row
    rows_left: int  # bytes from behind a row's last group to the next row of windows
    weight_type: str  # of C
    taps: int  # weights of a channel
    height: SteppedAxis  # the first axis of the plane
    width: SteppedAxis  # the axis of its rows
    fast: FastOutput


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves depthwise convolutions of images of one or two axes."""
    reason = why_no_depthwise(op, setting)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    reason = why_taps(prod(op.geometry.kernel), MAX_TAPS) or why_wraps(_packed(op, setting))
    if reason is not None:
        return reason
    planned = rows_of(op.geometry, core(setting))
    return None if planned.count > 1 or _is_met(planned.width) else "none of its taps meets the image"


def _is_met(width: SteppedAxis) -> bool:
    """Whether a tap of a row lies on the image."""
    taps = product(range(width.output), range(width.kernel))
    return any(0 <= i * width.stride + k * width.dilation - width.pad < width.copied for i, k in taps)


def _packed(op: Conv, setting: Setting) -> Packed:
    shift = unsigned_shift(op) if core(setting).is_unsigned else 0
    return pack(op, setting, shift, whole_weights=True)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """A plane as scratch; weights [channels][taps]."""
    assert isinstance(op, Conv)
    packed, planned = _packed(op, setting), rows_of(op.geometry, core(setting))
    tap_type = "uint8_t" if planned.how.is_unsigned else op.x.dtype.c
    context = DepthwiseContext(
        conv=integer_conv(op, packed),
        images=images(op.geometry),
        plane=_struct(op, packed, planned),
        tap_type=tap_type,
        kind="u8" if tap_type == "uint8_t" else "s8",
        reloads=planned.how.reloads,
        groups=planned.groups,
        rows_left=planned.rows_left,
        weight_type=packed.weights_type,
        taps=prod(op.geometry.kernel),
        height=planned.height,
        width=planned.width,
        fast=scalar_output(op, packed),
    )
    return Prepared(
        _constants(op, packed, planned),
        context,
        (Scratch(planned.plane.bytes, 1),),
        certified(op, packed),
        access=channel_by_channel(op, setting, _units(op.geometry, planned), gathers=True),
        folded={"scalar_plane_sums": _operations(planned), "scalar_band": _band_operations(planned)},
    )


def _operations(planned: Rows) -> float:
    """What the sums of a group of outputs become, on average: 2.5 for a product.

    Fitted to what gcc -O2 makes of 36 layers for three cores. Taps that are padding in every row are left out.
    """
    begin, columns = _row_in_plane(planned)
    products = sum(0 <= at - begin < columns for group in planned.groups for at in _taps_of(group, planned.width))
    return 5.0 + 2.5 * planned.height.kernel * products / len(planned.groups)


def _band_operations(planned: Rows) -> float:
    """What the loops over channels and the copies of a row become."""
    copies, once = _copies(planned), 26.0 if planned.how.reloads else 36.0
    return once + (2.2 if planned.plane.lanes > 1 else 3.0) * (copies.unroll + copies.rest) + 4.0 * (copies.count > 1)


def _copies(planned: Rows) -> Unrolled:
    """The loop that copies a row."""
    copied = planned.width.copied
    return unrolled(copied, MAX_COPIES if copied <= MAX_COPIES else LOOP_COPIES)


def _taps_of(group: RowGroups, width: SteppedAxis) -> Iterator[int]:
    """The column under each tap of each output of a group, from where the first window begins."""
    return (i * width.stride + k * width.dilation for i, k in product(range(group.outputs), range(width.kernel)))


def _row_in_plane(planned: Rows) -> tuple[int, int]:
    """How many columns windows begin before a row of the plane, and those of a row."""
    width = planned.width
    return (width.pad, width.copied) if planned.count == 1 else (0, width.reached)


def _units(g: ConvGeometry, planned: Rows) -> Int64s:
    """The outputs that the plane serves at a time, of one channel.

    Where channels are not a multiple of the plane's, the last ones are computed a second time, from the same rows.
    """
    pixels = plane(g).T if planned.width.is_first else plane(g)
    return bands(pixels, planned.plane.band, repeats=2 if g.in_channels % planned.plane.lanes else 1)


def _struct(op: Conv, packed: Packed, planned: Rows) -> Struct:
    """What the library is told of it."""
    g, how, height, width, plane = op.geometry, planned.how, planned.height, planned.width, planned.plane
    y_bytes = op.y.dtype.bytes
    row_pad, row_columns = _row_in_plane(planned)
    numbers = {
        "kernel_rows": height.kernel,
        "kernel_columns": width.kernel,
        "row_dilation": height.dilation,
        "column_dilation": width.dilation,
        "row_stride": height.stride,
        "stride": width.stride,
        "row": plane.row,
        "lanes": plane.lanes,
        "pad": row_pad,
        "columns": row_columns,
        "padding": packed.padding,
        "reloads": int(how.reloads),
        "max_offset": how.max_offset,
        "channels": g.out_channels,
        "in_rows": height.input,
        "out_rows": height.output,
        "above": height.pad,
        "left": plane.pad,
        "band": plane.band,
        "bytes": plane.bytes if planned.has_padding else 0,
        "copied": width.copied,
        "copies": _copies(planned).unroll,
        "shift": packed.x_shift,
        "x_row": height.x_step,
        "x_column": width.x_step,
        "y_row": height.y_step * y_bytes,
        "y_bytes": y_bytes,
    }
    return Struct("scalar_plane", (), {name: number for name, number in numbers.items() if number})


def _constants(op: Conv, packed: Packed, planned: Rows) -> tuple[Constants, ...]:
    """The weights in the order of the plane's rows, initial accumulators, and the tables of the output step."""
    g = op.geometry
    taps = packed.weights.reshape(g.out_channels, *g.kernel)
    weights = taps.transpose(0, 2, 1) if planned.width.is_first else taps
    meaning = f"weights [{g.out_channels} channels][{prod(g.kernel)} taps]{packed.weights_remark}."
    return (
        Constants("weights", packed.weights_type, weights.reshape(g.out_channels, -1), meaning),
        Constants("bias", "int32_t", packed.bias, "initial accumulators."),
        *output_constants(packed),
    )


DEPTHWISE = Kernel("scalar/depthwise", DepthwiseContext, frozenset({"scalar"}), why_not, prepare)
