"""scalar/depthwise: one filter per channel, on a copy of few channels of the image that has padding around it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.program import Conv, ConvGeometry, Int64s, Operator
from qcgen.kernels.access import bands, channel_by_channel, plane
from qcgen.kernels.fast_output import FastOutput, output_constants
from qcgen.kernels.images import Images, images
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Scratch, Setting
from qcgen.kernels.packing import IntegerConv, Packed, integer_conv, pack, unsigned_shift
from qcgen.kernels.reasons import why_no_depthwise, why_taps, why_wraps
from qcgen.kernels.scalar.output import certified, scalar_output
from qcgen.kernels.scalar.planes import Plane, RowGroups, Rows, SteppedAxis, Weight, core, rows_of
from qcgen.kernels.unroll import Unrolled, unrolled

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
