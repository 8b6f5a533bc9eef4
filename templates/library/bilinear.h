/* Images resized bilinearly: those of int8_t, functions for uint8_t have u8 for s8. */
#pragma once
#include <stdint.h>
#include "compiler.h"

/* An image; steps are from one to the next, in elements. */
struct qcgen_bilinear {
    const int32_t *rows, *columns;           /* where in x the row and the column before each of y begin */
    const int16_t *row_parts, *column_parts; /* how far behind them it lies, in 1024ths */
    int32_t images, y_rows, y_columns, channels;
    int32_t x_image, x_row, x_column, x_channel, y_image, y_row, y_column, y_channel;
    int32_t truncates; /* what is between two codes goes toward 0, not to the nearer one */
};

static QCGEN_INLINE void qcgen_bilinear_row_s8(const struct qcgen_bilinear *p, const int8_t *upper, const int8_t *lower,
    int32_t down, int8_t *out)
{
    for (int32_t column = 0; column < p->y_columns; column++) {
        const int32_t across = p->column_parts[column];
        const int32_t left = p->columns[column];
        const int32_t right = across > 0 ? left + p->x_column : left;

        for (int32_t c = 0; c < p->channels; c++) {
            const int32_t l = left + c * p->x_channel, r = right + c * p->x_channel;
            const int32_t above = upper[l] * (1024 - across) + upper[r] * across;
            const int32_t below = lower[l] * (1024 - across) + lower[r] * across;
            const int32_t sum = above * (1024 - down) + below * down; /* in units of 2^-20 */
            const int32_t half = p->truncates ? 0 : sum > 0 ? INT32_C(1) << 19 : -(INT32_C(1) << 19);

            out[column * p->y_column + c * p->y_channel] = (int8_t)((sum + half) / (INT32_C(1) << 20));
        }
    }
}

static QCGEN_INLINE void qcgen_bilinear_s8(const struct qcgen_bilinear *p, const int8_t *x, int8_t *y)
{
    for (int32_t image = 0; image < p->images; image++) {
        for (int32_t row = 0; row < p->y_rows; row++) {
            const int32_t down = p->row_parts[row];
            const int8_t *const upper = x + (image * p->x_image + p->rows[row]);

            qcgen_bilinear_row_s8(p, upper, down > 0 ? upper + p->x_row : upper, down,
                y + (image * p->y_image + row * p->y_row));
        }
    }
}
