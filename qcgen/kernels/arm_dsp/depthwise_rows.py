"""arm_dsp/depthwise_rows: one filter per channel, one row of the kernel after the other, on the image where it lies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod
from typing import ClassVar

from qcgen.ir.context import Context
from qcgen.ir.program import Conv, Operator
from qcgen.kernels.access import channel_by_channel, parts_of_rows, plane
from qcgen.kernels.arm_dsp.output import KeptOutput, bias_table, certified, dsp_output, kept_output
from qcgen.kernels.fast_output import output_constants
from qcgen.kernels.kernel import Constants, Kernel, Prepared, Setting
from qcgen.kernels.packing import Packed, pack
from qcgen.kernels.reasons import why_all_outside, why_no_depthwise, why_taps, why_wraps
from qcgen.kernels.text import Described, described
from qcgen.kernels.windows import Images, OutputGroups, PlaneAxis, beyond_taps, first_taps, images, plane_axes

# How rows of depthwise outputs are summed row by row of the kernel: a few outputs at a time share what is loaded.

OUTPUTS = 4  # of a row that are summed at the same time
MAX_OUTPUTS = 6  # or so many if they are the whole row
KEPT_WEIGHTS = 5  # of a row of the kernel that stay in registers


@dataclass(frozen=True)
class Statement:
    """One instruction: column ``column`` or weight ``weight`` is loaded or, if ``sum`` is given, both are multiplied.

    Columns count from the first one that the group reads; None is one of zero points outside.
    """

    sum: int | None
    weight: int | None
    column: int | None


@dataclass(frozen=True)
class LoadedGroups(OutputGroups):
    """Outputs by what is done for each row of the kernel; ``step`` is in columns of the image.

    ``first`` is the first column that is read; ``statements`` are what is done for each row of the kernel.
    """

    first: int
    statements: tuple[Statement, ...]

    @property
    def reads(self) -> bool:
        """Whether anything is read of the image."""
        return any(statement.column is not None for statement in self.statements)

    @property
    def has_outside(self) -> bool:
        """Whether sums hold products of columns outside the image."""
        return any(statement.sum is not None and statement.column is None for statement in self.statements)


def groups(width: PlaneAxis, has_zero_point: bool) -> tuple[LoadedGroups, ...]:
    """All outputs of a row; ``has_zero_point``: what lies outside contributes to sums."""
    most = group_size(width)
    ranges = [range(o, min(o + most, width.output)) for o in range(0, width.output, most)]
    found = [_group(width, outputs, has_zero_point) for outputs in ranges]
    alike = [list(run) for _, run in groupby(found, key=lambda group: (group.outputs, group.statements))]
    return tuple(replace(run[0], count=len(run)) for run in alike)


def group_size(width: PlaneAxis) -> int:
    """How many outputs of a row are summed at the same time; the last ones may be fewer."""
    return width.output if width.output <= MAX_OUTPUTS else OUTPUTS


def _group(width: PlaneAxis, outputs: range, has_zero_point: bool) -> LoadedGroups:
    """The products in the order of columns, if all weights stay in registers, else in the order of weights."""

    def column(output: int, tap: int) -> int:
        return output * width.stride - width.pad + tap * width.dilation

    products = [(i, k, column(o, k)) for k in range(width.kernel) for i, o in enumerate(outputs)]
    if width.kernel <= KEPT_WEIGHTS:
        products.sort(key=lambda product: (product[2], product[0]))
    inside = [(i, k, c if 0 <= c < width.input else None) for i, k, c in products]
    first = min((c for _, _, c in inside if c is not None), default=0)
    relative = [(i, k, None if c is None else c - first) for i, k, c in inside if has_zero_point or c is not None]
    return LoadedGroups(len(outputs), 1, len(outputs) * width.stride, first, tuple(_statements(relative)))


def _statements(products: list[tuple[int, int, int | None]]) -> Iterator[Statement]:
    """Loads where something is used first."""
    weights, columns = set[int](), set[int | None]([None])
    for output, weight, column in products:
        if weight not in weights:
            yield Statement(None, weight, None)
        if column not in columns:
            yield Statement(None, None, column)
        weights.add(weight)
        columns.add(column)
        yield Statement(output, weight, column)


MAX_TAPS = 64


@dataclass(frozen=True)
class DepthwiseRowsContext(Context):
    """A depthwise convolution, row by row of the kernel."""

    template: ClassVar[str] = "kernels/arm_dsp/depthwise_rows.c.jinja"

    conv: Described
    images: Images
    kept: KeptOutput
    y_type: str  # of C
    weight_type: str  # of C
    taps: int  # weights of a channel
    zero_point: int  # of x
    height: PlaneAxis
    is_cut_before: bool  # some window begins above the image
    is_cut_behind: bool  # some window ends below it
    has_empty: bool  # some window has no row on it
    width: PlaneAxis
    groups: tuple[LoadedGroups, ...]  # of the outputs of a row
    has_outside: bool  # sums hold products of taps outside the image


def why_not(op: Operator, setting: Setting) -> str | None:
    """Serves depthwise convolutions of images of one or two axes."""
    reason = why_no_depthwise(op, setting)
    if reason is not None:
        return reason
    assert isinstance(op, Conv)
    return why_taps(prod(op.geometry.kernel), MAX_TAPS) or why_all_outside(op.geometry) or why_wraps(_pack(op, setting))


def _pack(op: Conv, setting: Setting) -> Packed:
    return pack(op, setting, 0, whole_weights=True)


def prepare(op: Operator, setting: Setting) -> Prepared:
    """No scratch; weights [channels][taps]."""
    assert isinstance(op, Conv)
    g, packed = op.geometry, _pack(op, setting)
    height, width = plane_axes(g)
    dsp, row_groups = dsp_output(op, packed), groups(width, op.x_zero_point != 0)
    is_cut_before, is_cut_behind = max(first_taps(height)) > 0, min(beyond_taps(height)) < height.kernel
    context = DepthwiseRowsContext(
        conv=described(op),
        images=images(g),
        kept=kept_output(packed.epilogue.output, dsp),
        y_type=op.y.dtype.c,
        weight_type=packed.weights_type,
        taps=prod(g.kernel),
        zero_point=op.x_zero_point,
        height=height,
        is_cut_before=is_cut_before,
        is_cut_behind=is_cut_behind,
        has_empty=any(a >= b for a, b in zip(first_taps(height), beyond_taps(height), strict=True)),
        width=width,
        groups=row_groups,
        has_outside=is_cut_before or is_cut_behind or any(group.has_outside for group in row_groups),
    )
    meaning = f"weights [{g.out_channels} channels][{prod(g.kernel)} taps]{packed.weights_remark}."
    weights = Constants("weights", packed.weights_type, packed.weights, meaning)
    constants = (weights, bias_table(packed), *output_constants(packed))
    access = channel_by_channel(op, setting, parts_of_rows(plane(g), group_size(width)), gathers=True)
    return Prepared(constants, context, (), certified(op, packed), access=access)


DEPTHWISE_ROWS = Kernel("arm_dsp/depthwise_rows", DepthwiseRowsContext, frozenset({"dsp"}), why_not, prepare)
