/* Sums of depthwise convolutions on cores without SIMD, over planes of int8_t; those of uint8_t have u8 for s8. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "scalar.h"

/* How windows of neighbouring outputs lie in the rows of a plane. They begin `pad` columns before the row, and what is
   not in its `columns` is `padding`. */
struct qcgen_scalar_plane {
    int32_t kernel_rows, kernel_columns, row_dilation, column_dilation, stride;
    int32_t row, lanes; /* bytes of a row, and from a column to the next */
    int32_t pad, columns, padding;
    int32_t reloads;    /* an element is loaded anew for each weight, because there is no register to keep it in */
    int32_t max_offset; /* the greatest one that a load's instruction holds, 0 if that does not matter */
};

/* The column under tap k of output i. */
static QCGEN_INLINE int32_t qcgen_scalar_column(const struct qcgen_scalar_plane *p, int32_t i, int32_t k)
{
    return i * p->stride + k * p->column_dilation - p->pad;
}

/* Adds a tap of output i, whose row of the plane is at `row`, unless it is padding. */
static QCGEN_INLINE void qcgen_scalar_add_tap_s8(
    const struct qcgen_scalar_plane *p, const int8_t *row, int32_t i, int32_t k, int32_t weight, int32_t *sums)
{
    const int32_t column = qcgen_scalar_column(p, i, k);

    if (column < 0 || column >= p->columns) {
        return;
    }
    if (p->reloads) {
        sums[i] = qcgen_scalar_multiply_add(sums[i], *(const volatile int8_t *)(row + column * p->lanes), weight);
    } else {
        sums[i] += row[column * p->lanes] * weight;
        QCGEN_SUMMED(sums[i]);
    }
}

/* Where the sum of output i begins: with the taps that are padding in every row. */
static QCGEN_INLINE int32_t qcgen_scalar_initial(
    const struct qcgen_scalar_plane *p, const int32_t *weights, int32_t bias, int32_t i)
{
    int32_t skipped = 0;

    QCGEN_UNROLLED
    for (int32_t tap = 0; tap < p->kernel_rows * p->kernel_columns; tap++) {
        const int32_t column = qcgen_scalar_column(p, i, tap % p->kernel_columns);

        skipped += column < 0 || column >= p->columns ? weights[tap] : 0;
    }
    return bias + p->padding * skipped;
}

/* The sums of up to six neighbouring outputs whose windows begin at `row`, every tap written out. The pointer moves
   with the rows of the kernel; returns how far it then is before the next windows. */
static QCGEN_INLINE int32_t qcgen_scalar_plane_sums_s8(
    const struct qcgen_scalar_plane *p, const int8_t **row, const int32_t *weights, int32_t bias, int32_t outputs,
    int32_t *sums)
{
    const int32_t columns = p->kernel_columns, taps = p->kernel_rows * columns, step = p->row_dilation * p->row;
    const int32_t last = qcgen_scalar_column(p, outputs - 1, columns - 1);
    const int32_t reach = (last < p->columns ? last : p->columns - 1) * p->lanes;
    int32_t at = 0; /* of the row of taps, behind the pointer */
    int32_t moved = 0;

    QCGEN_UNROLLED
    for (int32_t i = 0; i < outputs; i++) {
        sums[i] = qcgen_scalar_initial(p, weights, bias, i);
    }
    QCGEN_UNROLLED
    for (int32_t tap = 0; tap < taps; tap++) {
        const int32_t k = tap % columns;

        qcgen_scalar_add_tap_s8(p, *row + at, 0, k, weights[tap], sums);
        if (outputs > 1) {
            qcgen_scalar_add_tap_s8(p, *row + at, 1, k, weights[tap], sums);
        }
        if (outputs > 2) {
            qcgen_scalar_add_tap_s8(p, *row + at, 2, k, weights[tap], sums);
        }
        if (outputs > 3) {
            qcgen_scalar_add_tap_s8(p, *row + at, 3, k, weights[tap], sums);
        }
        if (outputs > 4) {
            qcgen_scalar_add_tap_s8(p, *row + at, 4, k, weights[tap], sums);
        }
        if (outputs > 5) {
            qcgen_scalar_add_tap_s8(p, *row + at, 5, k, weights[tap], sums);
        }
        if (k == columns - 1 && tap < taps - 1) {
            at += step;
            if (p->max_offset > 0 && at + reach > p->max_offset) {
                *row += at;
                moved += at;
                at = 0;
                QCGEN_MOVED(*row);
            }
        }
    }
    return outputs * p->stride * p->lanes - moved;
}
