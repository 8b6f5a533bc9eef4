"""How the depthwise kernel for DSP extensions sums outputs: each tap of each window once, whatever the shape."""

import re
from collections import Counter
from collections.abc import Iterator
from math import ceil

import pytest

from qcgen.kernels.arm_dsp.depthwise import PartedGroups, Planes, Product, RowLoops, row_loops
from qcgen.kernels.arm_dsp.weights import KernelWords, kernel_words
from qcgen.kernels.windows import PlaneAxis

AXES = [
    (kernel, stride, dilation)
    for kernel in range(1, 8)
    for stride in (1, 2, 3)
    for dilation in (1, 2, 3)
    if kernel > 1 or dilation == 1
]
WIDTHS = (*range(1, 14), 16, 17, 24, 40, 49)
HALVES = {"dot": ((0, 0), (1, 1)), "low_by_low": ((0, 0),), "low_by_high": ((0, 1),), "high_by_low": ((1, 0),)}
"""Which half of a word of the image meets which half of a word of weights."""


def axis(kernel: int, stride: int = 1, dilation: int = 1, output: int = 8) -> PlaneAxis:
    return PlaneAxis((output - 1) * stride + (kernel - 1) * dilation + 1, output, kernel, stride, dilation, 0)


def planes(height: PlaneAxis, width: PlaneAxis) -> Planes:
    return Planes(kernel_words(height, width), height, width, ceil(width.reached / 2))


def summed(kernel: KernelWords, element: int, product: Product) -> Iterator[tuple[int, tuple[int, int]]]:
    """The elements of a plane, counted from its start, and the taps that they are multiplied with."""
    for mine, other in HALVES[product.by]:
        tap = kernel.words[product.weight][other]
        if tap is not None:
            yield element + mine, tap


def group_sums(of_rows: Planes, group: PartedGroups, row: int) -> Iterator[dict[str, Counter]]:
    """What each sum of a part holds, for a group that begins at word ``row``."""
    for part in group.parts:
        sums = {name: Counter() for name, _ in part.sums}
        for load in part.loads:
            for i, products in enumerate(load.words):
                for product in products:
                    element = 2 * (row + load.row_start + load.index + i)
                    sums[product.sum].update(summed(of_rows.kernel, element, product))
        yield {place: sums[name] for name, place in part.sums}


def position(place: str) -> int:
    """The column that the C of a place says."""
    columns = re.search(r"(\d+) \* CHANNELS", place)
    return int(columns[1]) if columns else 0


def loop_sums(of_rows: Planes, loops: RowLoops) -> tuple[dict[int, Counter], int]:
    """What is summed for each column of the outputs, and the word behind the loops."""
    found: dict[int, Counter] = {}
    row = column = 0
    for group in loops.groups:
        for _ in range(group.count):
            for sums in group_sums(of_rows, group, row):
                for place, held in sums.items():
                    assert column + position(place) not in found
                    found[column + position(place)] = held
            row += group.step
            column += group.outputs
    return found, row + loops.left


def expected(of_rows: Planes, column: int) -> Counter:
    height, width = of_rows.height, of_rows.width
    return Counter(
        (2 * r * height.dilation * of_rows.row_words + column * width.stride + t * width.dilation, (r, t))
        for r in range(height.kernel)
        for t in range(width.kernel)
    )


@pytest.mark.parametrize(("kernel", "stride", "dilation"), AXES)
def test_each_output_sums_each_tap_once(kernel, stride, dilation):
    for output in WIDTHS:
        of_rows = planes(axis(3, stride), axis(kernel, stride, dilation, output))
        found, end = loop_sums(of_rows, row_loops(of_rows))
        assert found == {column: expected(of_rows, column) for column in range(output)}
        assert end == stride * of_rows.row_words


@pytest.mark.parametrize(("kernel", "stride", "dilation"), AXES)
def test_no_word_beyond_a_row_of_the_plane_is_read(kernel, stride, dilation):
    for output in WIDTHS:
        of_rows = planes(axis(2), axis(kernel, stride, dilation, output))
        words, start = set(), 0
        for group in row_loops(of_rows).groups:
            loads = [load for part in group.parts for load in part.loads]
            last = start + (group.count - 1) * group.step
            words |= {
                first + load.index + i for first in (start, last) for load in loads for i in range(len(load.words))
            }
            start += group.count * group.step
        assert max(words) == of_rows.row_words - 1


def test_last_taps_of_two_rows_share_a_word_where_windows_start_at_even_elements():
    words = kernel_words(axis(3, 2), axis(3, 2)).words
    assert words == (((0, 0), (0, 1)), ((1, 0), (1, 1)), ((2, 0), (2, 1)), ((0, 2), (1, 2)), ((2, 2), None))


def test_rows_have_words_for_windows_at_odd_elements_too():
    assert kernel_words(axis(1), axis(3)).words == (((0, 0), (0, 1)), ((0, 1), (0, 2)))


def test_gaps_of_dilation_take_no_word():
    assert kernel_words(axis(1), axis(2, 1, 4)).words == (((0, 0), None), (None, (0, 1)))


def test_few_outputs_take_no_loop_and_many_do():
    few, many = (row_loops(planes(axis(3), axis(3, output=n))) for n in (8, 48))
    assert [group.count for group in few.groups] == [1]
    assert many.groups[0].count > 1
