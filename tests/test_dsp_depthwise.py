"""arm_dsp/depthwise_direct in C: every output sums every tap once, in every geometry that the kernel serves."""

import subprocess

import pytest
from tools import require

from qcgen import library
from qcgen.ir.program import ConvGeometry
from qcgen.kernels.arm_dsp.depthwise_direct import why_not_windows

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include "dsp_depthwise.h"

enum { CHANNELS = 2, MOST = 16 };
static const int8_t weights[] = { 3, -5, 7, -11, 13, -17, 19, -23, 29, -31, 37, -41, 43, -47, 53 };

static void store(const struct qcgen_dsp_depthwise_channel *channel, int32_t sum, void *out)
{
    *(int32_t *)out = sum + channel->offset;
}

static int32_t pixel(const struct qcgen_dsp_depthwise_layer *l, const int8_t *x, int32_t row, int32_t column)
{
    const int is_inside = row >= 0 && row < l->in_rows && column >= 0 && column < l->in_columns;
    const int8_t found = is_inside ? x[(row * l->in_columns + column) * CHANNELS] : 0;

    return !is_inside ? l->zero_point : l->is_unsigned ? (uint8_t)found : found;
}

static int is_right(const struct qcgen_dsp_depthwise_layer *l, qcgen_dsp_depthwise_outputs *outputs)
{
    const struct qcgen_dsp_depthwise_channel channel = { .bias = 1000, .offset = 5 };
    int8_t *const x = malloc((size_t)(l->in_rows * l->in_columns * CHANNELS)); /* the sanitizer knows its end */
    int32_t *const y = malloc((size_t)(l->out_rows * l->out_columns * CHANNELS) * sizeof *y);
    int good = 1;

    for (int32_t i = 0; i < l->in_rows * l->in_columns * CHANNELS; i++) {
        x[i] = (int8_t)(i * 37 + 11);
    }
    qcgen_dsp_depthwise_channel_of(l, &channel, weights, x, (int8_t *)y, outputs, store);
    for (int32_t i = 0; i < l->out_rows; i++) {
        for (int32_t j = 0; j < l->out_columns; j++) {
            int32_t sum = 1005;

            for (int32_t k = 0; k < l->rows * l->columns; k++) {
                const int32_t row = i * l->row_stride - l->above + k / l->columns * l->row_dilation;
                const int32_t column = j * l->column_stride - l->left + k % l->columns * l->column_dilation;

                sum += l->scale * weights[k] * pixel(l, x, row, column);
            }
            good = good && y[(i * l->out_columns + j) * CHANNELS] == sum;
        }
    }
    free(x);
    free(y);
    return good;
}

int main(void)
{
    struct qcgen_dsp_depthwise_layer l = { .channels = CHANNELS, .weight_bits = 8, .scale = 4, .y_bytes = 4 };
    int wrong = 0;

    while (scanf("%d %d %d %d %d %d %d %d %d %d %d", &l.in_rows, &l.in_columns, &l.out_rows, &l.out_columns, &l.rows,
               &l.columns, &l.row_stride, &l.column_stride, &l.above, &l.left, &l.row_dilation) == 11) {
        l.column_dilation = l.row_dilation;
        for (int form = 0; form < 8; form++) {
            l.zero_point = form & 1 ? 7 : 0;
            l.is_unsigned = form >> 1 & 1;
            l.turns = form & 4 ? 3 : 1;
            qcgen_dsp_depthwise_outputs *const of_two =
                l.column_stride == 1 ? qcgen_dsp_depthwise_outputs_two : qcgen_dsp_depthwise_outputs_both;
            qcgen_dsp_depthwise_outputs *const of_three =
                l.column_stride == 1 ? qcgen_dsp_depthwise_outputs_1 : qcgen_dsp_depthwise_outputs_2;
            qcgen_dsp_depthwise_outputs *const of_one = qcgen_dsp_depthwise_outputs_alone;

            if (!is_right(&l, l.columns == 1 ? of_one : l.columns == 2 ? of_two : of_three)) {
                wrong++;
                printf("%dx%d to %dx%d, kernel %dx%d, stride %dx%d, padding %dx%d, dilation %d, form %d\n", l.in_rows,
                    l.in_columns, l.out_rows, l.out_columns, l.rows, l.columns, l.row_stride, l.column_stride, l.above,
                    l.left, l.row_dilation, form);
            }
        }
    }
    return wrong != 0;
}
"""


def geometries(everything):
    """Those that the kernel serves, of kernels and images of all sizes up to some."""
    columns = [
        (k, n, s, p, q)
        for k, s in ((1, 1), (1, 3), (2, 1), (2, 2), (3, 1), (3, 2))
        for n in range(1, 26)
        for p in (0, 1)
        for q in (0, 1)
    ]
    rows = [
        (k, n, s, p, q) for k in range(1, 6) for s in (1, 2, 3) for n in range(1, 9) for p in range(4) for q in range(4)
    ]
    few = rows[::5] if everything else rows[::51]
    for k, n, s, p, q in columns:
        for height in few:
            sizes = list(zip(height, (k, n, s, p, q), strict=True))
            g = geometry(*sizes)
            if g is not None and why_not_windows(g) is None:
                yield g
    yield from dilated(everything)


def dilated(everything):
    """The same of kernels whose rows and columns lie apart."""
    columns = [(k, n, p, q) for k in (1, 2, 3) for n in range(1, 26) for p in range(5) for q in range(5)]
    rows = [(k, n, p, q) for k in range(1, 6) for n in range(1, 14) for p in range(9) for q in range(9)]
    for apart in (2, 3, 4):
        for k, n, p, q in columns:
            for height in rows[:: 41 if everything else 401]:
                kernel, image, before, behind = zip(height, (k, n, p, q), strict=True)
                g = geometry(kernel, image, (1, 1), before, behind, apart)
                if g is not None and why_not_windows(g) is None:
                    yield g


def geometry(kernel, sizes, strides, before, behind, apart=1):
    output = tuple(
        (n + p + q - (k - 1) * apart - 1) // s + 1
        for n, p, q, k, s in zip(sizes, before, behind, kernel, strides, strict=True)
    )
    if min(output) < 1:
        return None
    return ConvGeometry(1, 1, 1, 1, sizes, kernel, strides, (apart, apart), before, behind, output)


def numbers(g):
    """As the program reads them."""
    apart = max((d for d, k in zip(g.dilations, g.kernel, strict=True) if k > 1), default=1)
    return " ".join(map(str, (*g.input, *g.output, *g.kernel, *g.strides, *g.pads_begin, apart)))


@pytest.mark.all
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_every_output_sums_every_tap_once(compiler, tmp_path, pytestconfig):
    require(compiler)
    (tmp_path / "test.c").write_text(SOURCE)
    flags = ["-std=c99", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover", "-Wno-unused-function"]
    command = [compiler, *flags, f"-I{library.templates() / 'library'}", "test.c", "-o", "test"]
    subprocess.run(command, cwd=tmp_path, check=True)
    served = list(geometries(pytestconfig.getoption("--all")))
    assert len(served) > 1000
    assert sum(set(g.dilations) != {1} and g.kernel[1] == 3 for g in served) > 500
    given = map(numbers, served)
    found = subprocess.run([tmp_path / "test"], input="\n".join(given), capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
