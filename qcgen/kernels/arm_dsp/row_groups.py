"""How rows of depthwise outputs are summed row by row of the kernel: a few outputs at a time share what is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from qcgen.kernels.plane import OutputGroups, PlaneAxis

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
