"""How depthwise kernels without scratch walk over the image: every output sums every tap once."""

from __future__ import annotations

from itertools import product

import pytest
from marks import share_at_first

from qcgen.kernels.arm_dsp.column_steps import ColumnWords, Planner, Section
from qcgen.kernels.arm_dsp.depthwise_rows import groups
from qcgen.kernels.plane import PlaneAxis

AXES = [
    (1, 1, 1),
    (2, 1, 1),
    (2, 2, 1),
    (3, 1, 1),
    (3, 2, 1),
    (3, 1, 2),
    (3, 3, 1),
    (2, 1, 3),
    (4, 2, 1),
    (5, 1, 1),
    (3, 2, 3),
]
SIZES = (1, 2, 3, 5, 7, 12, 20, 31)
Place = tuple[int, int] | None


def axis(kernel: int, stride: int, dilation: int, size: int, pad: int) -> PlaneAxis:
    span = (kernel - 1) * dilation + 1
    return PlaneAxis(size, (size + 2 * pad - span) // stride + 1, kernel, stride, dilation, pad)


def position(along: PlaneAxis, output: int, tap: int) -> int | None:
    place = output * along.stride - along.pad + tap * along.dilation
    return place if 0 <= place < along.input else None


def expected(height: PlaneAxis, width: PlaneAxis, oy: int, ox: int) -> dict[tuple[int, int], Place]:
    """Where each tap of a window lies on the image, None for those outside."""
    found: dict[tuple[int, int], Place] = {}
    for y, x in product(range(height.kernel), range(width.kernel)):
        row, column = position(height, oy, y), position(width, ox, x)
        found[y, x] = None if row is None or column is None else (row, column)
    return found


def row_sums(section: Section, words: ColumnWords, first: int) -> dict[int, dict[tuple[int, int], Place]]:
    """The taps of each output of one row, as the generated C sums them, the row's windows at row ``first``."""
    lost = {}
    for by, weight in section.lost:
        pair = words.words[weight]
        taken = {"dot": pair, "low_by_low": pair[:1], "low_by_high": pair[1:]}[by]
        lost |= {tap: None for tap in taken if tap is not None}
    rows = {value.name: [first + row for row in value.rows] for value in section.values}
    sums: dict[str, dict[tuple[int, int], Place]] = {"bias": lost}
    found, moved, written = {}, 0, 0
    for part in section.parts:
        for _ in range(part.count):
            for step in part.steps:
                for column in step.columns:
                    for p in column.products:
                        taps = _taps(p.by, words, p.weight)
                        places = rows[p.value] if p.by else []
                        at = None if column.index is None else column.index + moved
                        new = {t: None if at is None else (r, at) for t, r in zip(taps, places, strict=True)}
                        assert not new.keys() & sums[p.addend].keys(), "a tap is added twice"
                        sums[p.sum] = sums[p.addend] | new
                found[step.output + written] = sums[step.sum]
            moved += part.columns
            written += part.outputs
    return found


def _taps(by: str, words: ColumnWords, weight: int) -> list[tuple[int, int]]:
    low, high = words.words[weight]
    return [tap for tap in {"dot": (low, high), "low_by_low": (low,), "low_by_high": (high,), "": ()}[by] if tap]


@pytest.mark.parametrize("optimize", ["size", "speed"])
@pytest.mark.parametrize("along", AXES)
@pytest.mark.parametrize("across", share_at_first(AXES))
def test_each_output_sums_each_tap_once(across, along, optimize):
    for size, pad in product(SIZES, (0, 1, 2)):
        height, width = axis(*across, 9, min(pad, 1)), axis(*along, size, pad)
        if width.output < 1:
            continue
        sections = Planner(height, width, True, optimize).sections()
        assert sum(section.count for section in sections) == height.output
        oy = 0
        for section in sections:
            for row in range(section.count):
                first = section.first + row * height.stride
                found = row_sums(section, ColumnWords(height.kernel, width.kernel), first)
                assert found == {ox: expected(height, width, oy, ox) for ox in range(width.output)}
                oy += 1


@pytest.mark.parametrize("along", AXES)
def test_nothing_outside_is_added_where_the_zero_point_is_0(along):
    height, width = axis(3, 1, 1, 5, 1), axis(*along, 12, 1)
    oy = 0
    for section in Planner(height, width, False, "size").sections():
        for row in range(section.count):
            found = row_sums(section, ColumnWords(3, width.kernel), section.first + row)
            for ox, taps in found.items():
                inside = {t: place for t, place in expected(height, width, oy, ox).items() if place is not None}
                assert taps == inside
            oy += 1


def test_rows_in_a_loop_are_written_once():
    [section] = Planner(axis(3, 1, 1, 9, 0), axis(3, 1, 1, 100, 0), True, "size").sections()
    assert section.count == 7
    assert section.is_looped
    assert sum(len(part.steps) for part in section.parts) <= 8


def test_words_hold_two_rows_and_of_a_last_one_two_columns():
    assert ColumnWords(3, 3).words == (
        *(((0, k), (1, k)) for k in range(3)),
        ((2, 0), (2, 1)),
        ((2, 2), None),
    )


@pytest.mark.parametrize("has_zero_point", [True, False])
@pytest.mark.parametrize("along", [*AXES, (7, 1, 1), (9, 2, 1)])
def test_each_output_of_a_group_meets_each_weight_once(along, has_zero_point):
    for size, pad in product(SIZES, (0, 1, 3)):
        width = axis(*along, size, pad)
        if width.output < 1:
            continue
        first = 0
        for group in groups(width, has_zero_point):
            for number in range(group.count):
                base = group.first + number * group.step
                found = {
                    (first + s.sum, s.weight): None if s.column is None else base + s.column
                    for s in group.statements
                    if s.sum is not None
                }
                wanted = {
                    (ox, k): position(width, ox, k)
                    for ox in range(first, first + group.outputs)
                    for k in range(width.kernel)
                }
                assert found == {key: place for key, place in wanted.items() if has_zero_point or place is not None}
                first += group.outputs
        assert first == width.output


def test_what_is_multiplied_was_loaded_before_and_once():
    for group in groups(axis(5, 1, 1, 16, 2), True):
        loads = [
            ("weight", s.weight) if s.column is None else ("column", s.column)
            for s in group.statements
            if s.sum is None
        ]
        assert len(loads) == len(set(loads))
        known = set()
        for s in group.statements:
            if s.sum is None:
                known.add(("weight", s.weight) if s.column is None else ("column", s.column))
            else:
                assert ("weight", s.weight) in known
                assert s.column is None or ("column", s.column) in known
