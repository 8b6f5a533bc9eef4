"""scalar/depthwise: one filter per channel, on a copy of few channels of the image that has padding around it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.program import Conv, ConvGeometry, Int64s, Operator
from qcgen.kernels.access import bands, channel_by_channel, plane
from qcgen.kernels.fast_output import FastOutput, output_constants
from qcgen.kernels.images import Images, images
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.packing import IntegerConv, Packed, integer_conv, pack, unsigned_shift
from qcgen.kernels.plane import OutputGroups, PlaneAxis
from qcgen.kernels.reasons import why_no_depthwise, why_taps, why_wraps
from qcgen.kernels.scalar.output import certified, scalar_output
from qcgen.kernels.scalar.sums import FEW, SOME
from qcgen.kernels.unroll import Unrolled, unrolled

PLANE_BYTES = 2048  # scratch that a band of rows may take, if more than one row fits


@dataclass(frozen=True)
class Core:
    """How the sums of a core are written.

    At most ``group`` outputs are summed at the same time, and those of at most ``columns`` elements of a row: what its
    registers hold. ``reloads``: an element is loaded again for each weight, because there is no register to keep it in.
    ``is_fenced``: the compiler must be kept from loading everything at first. ``is_unsigned``: the core extends bytes
    without sign when it loads them, so codes of int8 are moved to 0..255. ``lanes`` channels are copied at a time.
    ``max_offset`` is the greatest offset that a load's instruction can hold, where that matters.
    """

    group: int
    columns: int
    reloads: bool
    is_fenced: bool
    is_unsigned: bool
    lanes: int
    max_offset: int | None = None


@dataclass(frozen=True)
class SteppedAxis(PlaneAxis):
    """``x_step`` and ``y_step`` are the distances in memory between neighbours on the axis.

    ``is_first``: the first of two axes.
    """

    x_step: int
    y_step: int
    is_first: bool


@dataclass(frozen=True)
class Weight:
    """A weight by its row and column in the kernel."""

    row: int
    column: int


@dataclass(frozen=True)
class Place:
    """An element of the plane, counted from where a group begins: rows, and bytes in the row."""

    row: int
    offset: int


@dataclass(frozen=True)
class Tap:
    """A tap of a group of windows: its weight, and for some outputs the place of the element in the plane.

    ``is_last``: the last of a row of the kernel. Behind it the pointer to the plane ``moves`` that many rows on; places
    are counted from where it is.
    """

    weight: Weight
    places: tuple[tuple[int, Place], ...]
    is_last: bool
    moves: int = 0


@dataclass(frozen=True)
class RowGroups(OutputGroups):
    """Neighbours of a row by the taps that are written out for them; ``step`` is in bytes.

    ``skipped`` are the weights of each output's taps that lie on padding in every row: these are left out.
    """

    taps: tuple[Tap, ...]
    skipped: tuple[tuple[Weight, ...], ...]

    @property
    def moved(self) -> int:
        """The rows that the pointer to the plane has moved on behind the last tap."""
        return sum(tap.moves for tap in self.taps)

    @property
    def has_rows(self) -> bool:
        """Whether some tap is not in the first row of the plane."""
        return self.moved > 0 or any(place.row for tap in self.taps for _, place in tap.places)

    @property
    def range(self) -> range:
        """The outputs."""
        return range(self.outputs)

    @property
    def sums(self) -> tuple[tuple[str, str], ...]:
        """Each sum and where its code goes, in C: as many as outputs, which a template cannot collect in a list."""
        places = ("out", "out + COLUMN", *(f"out + {i} * COLUMN" for i in self.range[2:]))
        return tuple((f"sum{i}", places[i]) for i in self.range)


def core(setting: Setting) -> Core:
    """What the registers of the core hold."""
    if setting.target.registers <= FEW:
        return Core(group=4, columns=16, reloads=True, is_fenced=False, is_unsigned=True, lanes=1, max_offset=31)
    if setting.target.registers <= SOME:
        return Core(group=6, columns=13, reloads=False, is_fenced=False, is_unsigned=False, lanes=4)
    return Core(group=3, columns=12, reloads=False, is_fenced=True, is_unsigned=False, lanes=1)


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
    groups = row_groups(height, width, how, lanes)
    plane = plane_of(height, width, lanes, sum(group.count for group in groups))
    if how.max_offset is not None:
        groups = tuple(moving(group, plane.row, how.max_offset) for group in groups)
    return Rows(how, height, width, groups, plane)


def plane_of(height: SteppedAxis, width: SteppedAxis, lanes: int, groups: int) -> Plane:
    """With as many rows as PLANE_BYTES admit: a ``band`` of rows of outputs is computed from one filling."""
    row = lanes * (max(width.copied, 1) if groups == 1 else width.reached)
    rows = (PLANE_BYTES // row - height.span) // height.stride + 1
    band = min(height.output, max(1, rows))
    pad = 0 if groups == 1 else lanes * width.pad
    return Plane(lanes, row, pad, band, row * ((band - 1) * height.stride + height.span))


def row_groups(height: SteppedAxis, width: SteppedAxis, how: Core, lanes: int) -> tuple[RowGroups, ...]:
    """The outputs of a row in groups of one size or two; a row that is one group leaves out what lies on padding."""
    sizes = _sizes(width, how)
    if len(sizes) == 1:
        return (_group(height, width, lanes, sizes[0], 1, is_row=True),)
    return tuple(_group(height, width, lanes, size, sizes.count(size), is_row=False) for size in dict.fromkeys(sizes))


def _group(height: SteppedAxis, width: SteppedAxis, lanes: int, outputs: int, count: int, *, is_row: bool) -> RowGroups:
    taps: list[Tap] = []
    skipped: list[list[Weight]] = [[] for _ in range(outputs)]
    for r, k in product(range(height.kernel), range(width.kernel)):
        weight = Weight(r, k)
        places = []
        for i in range(outputs):
            column = i * width.stride + k * width.dilation - (width.pad if is_row else 0)
            if is_row and not 0 <= column < width.copied:
                skipped[i].append(weight)
            else:
                places.append((i, Place(r * height.dilation, lanes * column)))
        taps.append(Tap(weight, tuple(places), is_last=k == width.kernel - 1 and r < height.kernel - 1))
    return RowGroups(outputs, count, lanes * outputs * width.stride, tuple(taps), tuple(map(tuple, skipped)))


def moving(group: RowGroups, row: int, max_offset: int) -> RowGroups:
    """The group with a pointer that moves on to rows of the kernel with elements beyond ``max_offset``."""
    taps, base = list(group.taps), 0
    for r in sorted({tap.weight.row for tap in taps})[1:]:
        [last] = [i for i, tap in enumerate(taps) if tap.is_last and tap.weight.row == r - 1]
        places = [place for tap in taps if tap.weight.row == r for _, place in tap.places]
        if any((place.row - base) * row + place.offset > max_offset for place in places):
            taps[last] = replace(taps[last], moves=places[0].row - base)
            base = places[0].row
        for i, tap in enumerate(taps):
            if tap.weight.row == r:
                moved = tuple((output, replace(place, row=place.row - base)) for output, place in tap.places)
                taps[i] = replace(tap, places=moved)
    return replace(group, taps=tuple(taps))


MAX_TAPS = 64  # written out one by one
MAX_COPIES = 16  # pixels of a row that are copied without a loop
LOOP_COPIES = 8  # at most, else, in each of at least two rounds


@dataclass(frozen=True)
class PlaneRows(Context):
    """The image, its copy in a plane and how outputs are grouped."""

    images: Images
    tap_type: str  # of C, of an element of the plane
    reloads: bool  # elements are loaded again for each weight
    is_fenced: bool  # loads are kept behind the products of the row before
    height: SteppedAxis  # the first axis of the plane
    width: SteppedAxis  # the axis of its rows
    groups: tuple[RowGroups, ...]  # of the outputs of a row
    plane: Plane
    is_row: bool  # a row is one group
    reads_rows: bool  # sums are taken from more than one row
    rows_left: int  # bytes from behind a row's last group to the next row of windows
    copies: Unrolled  # the loop that copies a row
    is_padded: bool  # the plane has padding
    has_rest: bool  # the channels are not a multiple of the plane's


@dataclass(frozen=True)
class DepthwiseContext(Context):
    """A depthwise convolution on planes of few channels."""

    template: ClassVar[str] = "kernels/scalar/depthwise.c.jinja"

    conv: IntegerConv
    rows: PlaneRows
    weight_type: str  # of C
    weights: tuple[tuple[int, Weight], ...]  # those that are read, each with its number
    taps: int  # weights of a channel
    fast: FastOutput
    shift: int  # what is added to a code in the plane
    padding: int  # what stands outside the image
    has_skipped: bool  # taps that lie on padding in every row are left out of sums


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves depthwise convolutions of images of one or two axes."""
    reason = why_no_depthwise(op, setting)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    reason = why_taps(prod(op.geometry.kernel), MAX_TAPS) or why_wraps(_packed(op, setting))
    if reason is not None:
        return reason
    is_beside = not _used(rows_of(op.geometry, core(setting)).groups, padding=0)
    return "none of its taps meets the image" if is_beside else None


def _packed(op: Conv, setting: Setting) -> Packed:
    shift = unsigned_shift(op) if core(setting).is_unsigned else 0
    return pack(op, setting, shift, whole_weights=True)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """A plane as scratch; weights [channels][taps]."""
    assert isinstance(op, Conv)
    packed, planned = _packed(op, setting), rows_of(op.geometry, core(setting))
    context = DepthwiseContext(
        conv=integer_conv(op, packed),
        rows=_plane_rows(op, planned),
        weight_type=packed.weights_type,
        weights=_used(planned.groups, packed.padding),
        taps=prod(op.geometry.kernel),
        fast=scalar_output(op, packed),
        shift=packed.x_shift,
        padding=packed.padding,
        has_skipped=packed.padding != 0 and any(any(group.skipped) for group in planned.groups),
    )
    return Prepared(
        _constants(op, packed, planned),
        context,
        (Scratch(planned.plane.bytes, 1),),
        certified(op, packed),
        access=channel_by_channel(op, setting, _units(op.geometry, planned), gathers=True),
    )


def _units(g: ConvGeometry, planned: Rows) -> Int64s:
    """The outputs that the plane serves at a time, of one channel.

    Where channels are not a multiple of the plane's, the last ones are computed a second time, from the same rows.
    """
    pixels = plane(g).T if planned.width.is_first else plane(g)
    return bands(pixels, planned.plane.band, repeats=2 if g.in_channels % planned.plane.lanes else 1)


def _plane_rows(op: Conv, planned: Rows) -> PlaneRows:
    how, width = planned.how, planned.width
    return PlaneRows(
        images=images(op.geometry),
        tap_type="uint8_t" if how.is_unsigned else op.x.dtype.c,
        reloads=how.reloads,
        is_fenced=how.is_fenced,
        height=planned.height,
        width=width,
        groups=planned.groups,
        plane=planned.plane,
        is_row=planned.count == 1,
        reads_rows=planned.count == 1 or any(group.has_rows for group in planned.groups),
        rows_left=planned.rows_left,
        copies=unrolled(width.copied, MAX_COPIES if width.copied <= MAX_COPIES else LOOP_COPIES),
        is_padded=planned.has_padding,
        has_rest=op.geometry.in_channels % planned.plane.lanes != 0,
    )


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


def _used(groups: tuple[RowGroups, ...], padding: int) -> tuple[tuple[int, Weight], ...]:
    """The weights that the C reads, each with its number."""
    taps = groups[0].taps
    return tuple((i, tap.weight) for i, tap in enumerate(taps) if tap.places or padding)


DEPTHWISE = Kernel("scalar/depthwise", DepthwiseContext, frozenset({"scalar"}), why_not, prepare)
