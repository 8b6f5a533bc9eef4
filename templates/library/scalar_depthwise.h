/* Depthwise convolutions on cores without SIMD, over planes of int8_t; those of uint8_t have u8 for s8. */
#pragma once
#include <stdint.h>
#include <string.h>
#include "compiler.h"
#include "scalar.h"

/* A depthwise convolution. `lanes` channels at a time are copied from the image to a plane with padding around it,
   where no tap needs a test and neighbours are near enough for the offsets of load instructions. The windows of
   neighbours are summed at the same time, every tap written out. They begin `pad` columns before a row of the plane,
   and what is not in its `columns` is `padding`. */
struct qcgen_scalar_plane {
    int32_t kernel_rows, kernel_columns, row_dilation, column_dilation, row_stride, stride;
    int32_t row, lanes; /* bytes of a row, and from a column to the next */
    int32_t pad, columns, padding;
    int32_t reloads;    /* an element is loaded anew for each weight, because there is no register to keep it in */
    int32_t max_offset; /* the greatest one that a load's instruction holds, 0 if that does not matter */
    int32_t channels, in_rows, out_rows;
    int32_t above, left;           /* rows before the image, and bytes of padding before a row */
    int32_t band, bytes;           /* rows of outputs that a plane serves, and its size, 0 if it has no padding */
    int32_t copied, copies, shift; /* columns of the image, in how many a round, and what is added to an element */
    int32_t x_row, x_column, y_row, y_bytes; /* the last two in bytes */
};

/* Computes channel m: `rows` rows of outputs; `own` is what a layer has for itself. */
typedef void qcgen_scalar_channel_s8(const void *own, const int8_t *plane, void *y, int32_t m, int32_t rows);

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

/* Copies pixels to a row of a plane: two at a time where registers are many, as cores wait to store what they have just
   loaded. */
static QCGEN_INLINE void qcgen_scalar_copy_pixels_s8(
    const struct qcgen_scalar_plane *p, const int8_t *x, int32_t count, int8_t *plane)
{
    const int32_t step = p->x_column, lanes = p->lanes;
    const int8_t shift = (int8_t)p->shift;

    QCGEN_UNROLLED
    for (int32_t i = 0; i < count; i++) {
        if (lanes > 1) {
            (void)memcpy(plane + i * lanes, x + i * step, (size_t)lanes);
        } else if (p->reloads || (i % 2 == 0 && i + 1 == count)) {
            plane[i] = (int8_t)(x[i * step] + shift);
        } else if (i % 2 == 0) {
            const int8_t a = (int8_t)(x[i * step] + shift), b = (int8_t)(x[(i + 1) * step] + shift);

            plane[i] = a;
            plane[i + 1] = b;
        }
    }
}

/* Copies `rows` rows of the image into a plane. */
static QCGEN_INLINE void qcgen_scalar_fill_s8(
    const struct qcgen_scalar_plane *p, const int8_t *x, int32_t rows, int8_t *plane)
{
    const int32_t rounds = p->copied / p->copies, rest = p->copied % p->copies;

    for (int32_t i = 0; i < rows; i++) {
        int32_t j = 0;

        do {
            qcgen_scalar_copy_pixels_s8(p, x, p->copies, plane);
            x += p->copies * p->x_column;
            plane += p->copies * p->lanes;
        } while (QCGEN_RARELY(++j < rounds)); /* else gcc takes one round for many */
        qcgen_scalar_copy_pixels_s8(p, x, rest, plane);
        x += p->x_row - rounds * p->copies * p->x_column;
        plane += p->row - rounds * p->copies * p->lanes;
    }
}

/* The outputs from row oy on that a plane serves; `near_ties` computes the channels of has_window, if any has one. */
static QCGEN_INLINE void qcgen_scalar_band_s8(
    const void *own, const struct qcgen_scalar_plane *p, const int8_t *x, void *y, int32_t oy, int8_t *plane,
    const uint8_t *has_window, qcgen_scalar_channel_s8 *channel, qcgen_scalar_channel_s8 *near_ties)
{
    const int32_t rows = p->out_rows - oy < p->band ? p->out_rows - oy : p->band;
    const int32_t begin = oy * p->row_stride - p->above;
    const int32_t end = begin + (rows - 1) * p->row_stride + (p->kernel_rows - 1) * p->row_dilation + 1;
    /* Those rows of the plane that lie on the image. */
    const int32_t first = begin < 0 ? 0 : begin, beyond = end > p->in_rows ? p->in_rows : end;
    const int8_t *const image = x + first * p->x_row;
    int8_t *const out = (int8_t *)y + oy * p->y_row;

    if (p->bytes > 0) {
        /* All of it, once for all channels: what does not lie on the image stays so. */
        (void)memset(plane, p->padding, (size_t)p->bytes);
    }
    for (int32_t each = 0; each < p->channels; each += p->lanes) {
        /* The last lanes end with the pixel; some of them are computed a second time. */
        const int32_t last = p->channels - p->lanes, m = p->channels % p->lanes != 0 && each > last ? last : each;

        qcgen_scalar_fill_s8(p, image + m, beyond - first, plane + (first - begin) * p->row + p->left);
        for (int32_t i = 0; i < p->lanes; i++) {
            if (has_window != 0 && has_window[m + i] != 0) {
                near_ties(own, plane + i, out + (m + i) * p->y_bytes, m + i, rows);
            } else {
                channel(own, plane + i, out + (m + i) * p->y_bytes, m + i, rows);
            }
        }
    }
}
