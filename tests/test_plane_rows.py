"""How the depthwise kernel for DSP extensions sums outputs: each tap of each window once, whatever the shape."""

import re
import subprocess
from math import ceil

import numpy as np
import pytest

from qcgen.kernels.arm_dsp.depthwise import Planes, row_loop
from qcgen.kernels.arm_dsp.weights import kernel_words
from qcgen.kernels.windows import PlaneAxis
from qcgen.library import templates

AXES = [
    (kernel, stride, dilation)
    for kernel in range(1, 8)
    for stride in (1, 2, 3)
    for dilation in (1, 2, 3)
    if kernel > 1 or dilation == 1
]
WIDTHS = (*range(1, 14), 16, 17, 24, 40, 49)
ROWS = 2  # of outputs
LIBRARY = templates() / "library"
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include "dsp_plane_sums.h"

static void store(const struct qcgen_dsp_depthwise_channel *channel, int32_t sum, void *out)
{
    (void)channel;
    *(int32_t *)out = sum;
}

static int32_t *numbers(int32_t count)
{
    int32_t *const found = malloc((size_t)count * sizeof *found);

    for (int32_t i = 0; i < count; i++) {
        if (scanf("%d", &found[i]) != 1) {
            exit(1);
        }
    }
    return found;
}

int main(void)
{
    const struct qcgen_dsp_depthwise_channel channel = { .bias = 1000 };
    int32_t rows;

    while (scanf("%d", &rows) == 1) {
        struct qcgen_dsp_planes *const layer = (void *)numbers((int32_t)(sizeof *layer / sizeof rows));
        int32_t *const weights = numbers(layer->words), *const plane = numbers(layer->plane_words);
        int32_t *const y = malloc((size_t)(rows * layer->out_columns) * sizeof *y);

        qcgen_dsp_planes_channel_of(layer, &channel, weights, plane, (int8_t *)y, rows, store);
        for (int32_t i = 0; i < rows * layer->out_columns; i++) {
            printf("%d ", y[i]);
        }
        free(layer);
        free(weights);
        free(plane);
        free(y);
    }
    return 0;
}
"""
"""Reads layers with their weights and planes, and prints their outputs; reads beyond a plane end it."""


def axis(kernel: int, stride: int = 1, dilation: int = 1, output: int = 8) -> PlaneAxis:
    return PlaneAxis((output - 1) * stride + (kernel - 1) * dilation + 1, output, kernel, stride, dilation, 0)


def planes(height: PlaneAxis, width: PlaneAxis) -> Planes:
    return Planes(kernel_words(height, width), height, width, ceil(width.reached / 2))


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("planes") / "sums"
    flags = ["-std=c99", "-Wall", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{LIBRARY}"]
    subprocess.run(["gcc", *flags, "-x", "c", "-", "-o", path], input=PROGRAM, text=True, check=True)
    return path


def words(low, high):
    return (np.asarray(low) & 0xFFFF | np.asarray(high) << 16).astype(np.int32)


def layer(of_rows: Planes) -> list[int]:
    """The struct of the library."""
    kernel, height, width = of_rows.kernel, of_rows.height, of_rows.width
    numbers = {
        "channels": 1,
        "y_bytes": 4,
        "plane_words": height.input * of_rows.row_words,
        "row_words": of_rows.row_words,
        "kernel_rows": height.kernel,
        "kernel_columns": width.kernel,
        "row_stride": height.stride,
        "column_stride": width.stride,
        "row_dilation": height.dilation,
        "column_dilation": width.dilation,
        "out_columns": width.output,
        "words": len(kernel.words),
        "even_pairs": kernel.even_pairs,
        "odd_pairs": kernel.odd_pairs,
        "lone": kernel.lone,
        **row_loop(of_rows),
    }
    [body] = re.findall(r"struct qcgen_dsp_planes \{(.*?)\};", (LIBRARY / "dsp_planes.h").read_text(), re.DOTALL)
    fields = re.findall(r"(\w+)[,;]", re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL))
    assert numbers.keys() <= {*fields}
    return [numbers.get(field, 0) for field in fields]


@pytest.mark.parametrize(("kernel", "stride", "dilation"), AXES)
def test_each_output_sums_each_tap_once(program, kernel, stride, dilation):
    rng = np.random.default_rng(0)
    text, expected = [], []
    for output in WIDTHS:
        of_rows = planes(axis(3, stride, output=ROWS), axis(kernel, stride, dilation, output))
        taps = rng.integers(-900, 900, (3, kernel))
        x = rng.integers(-128, 128, (of_rows.height.input, 2 * of_rows.row_words))
        found = [[tap and taps[tap] for tap in pair] for pair in of_rows.kernel.words]
        weights = words(*([half or 0 for half in halves] for halves in zip(*found, strict=True)))
        text += [ROWS, *layer(of_rows), *weights, *words(x[:, 0::2], x[:, 1::2]).flat]
        expected += [
            1000 + (taps * x[stride * y :, stride * column :: dilation][:3, :kernel]).sum()
            for y in range(ROWS)
            for column in range(output)
        ]
    run = subprocess.run([program], input=" ".join(map(str, text)), capture_output=True, text=True, check=True)
    assert [int(number) for number in run.stdout.split()] == expected


@pytest.mark.parametrize(("kernel", "stride", "dilation"), AXES)
def test_products_are_those_of_each_tap(kernel, stride, dilation):
    width = axis(kernel, stride, dilation)
    kernel = kernel_words(axis(3), width)
    for start in (0, stride):
        for row in range(3):
            found = []
            for word, halves, weight in kernel.products(row, start):
                each = ((0, 0), (1, 1)) if halves is None else (halves,)
                found += [(2 * word + mine - start, kernel.words[weight][other]) for mine, other in each]
            assert sorted(found) == [(t * dilation, (row, t)) for t in range(width.kernel)]


def test_last_taps_of_two_rows_share_a_word_where_windows_start_at_even_elements():
    words = kernel_words(axis(3, 2), axis(3, 2)).words
    assert words == (((0, 0), (0, 1)), ((1, 0), (1, 1)), ((2, 0), (2, 1)), ((0, 2), (1, 2)), ((2, 2), None))


def test_rows_have_words_for_windows_at_odd_elements_too():
    assert kernel_words(axis(1), axis(3)).words == (((0, 0), (0, 1)), ((0, 1), (0, 2)))


def test_gaps_of_dilation_take_no_word():
    assert kernel_words(axis(1), axis(2, 1, 4)).words == (((0, 0), (0, 1)),)


def test_few_outputs_take_no_loop_and_many_do():
    few, many = (planes(axis(3), axis(3, output=n)) for n in (8, 48))
    for of_rows, takes_loop in ((few, False), (many, True)):
        loop = row_loop(of_rows)
        assert (loop["together"] * loop["parts"] < of_rows.width.output) == takes_loop
