"""How arm_dsp/depthwise_rows sums rows of outputs: every output sums every tap once."""

from __future__ import annotations

from itertools import product

import pytest

from qcgen.kernels.arm_dsp.depthwise_rows import groups
from qcgen.kernels.windows import PlaneAxis

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


def axis(kernel: int, stride: int, dilation: int, size: int, pad: int) -> PlaneAxis:
    span = (kernel - 1) * dilation + 1
    return PlaneAxis(size, (size + 2 * pad - span) // stride + 1, kernel, stride, dilation, pad)


def position(along: PlaneAxis, output: int, tap: int) -> int | None:
    place = output * along.stride - along.pad + tap * along.dilation
    return place if 0 <= place < along.input else None


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
