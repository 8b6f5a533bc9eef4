/* Rows of int8_t that are interleaved for Helium; those of uint8_t, which become int8, have u8 in place of s8. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "helium.h"

/* Rows of an image, or of a kernel, of which four at a time are interleaved: a word holds one channel of four pixels,
   one below the other. Four such words, of neighbouring pixels, are a window of 4 x 4 taps. */
struct qcgen_mve_rows {
    int32_t bytes, step;        /* of a row, sixteen at a time; bytes from sixteen to the next */
    int32_t row, apart;         /* bytes from a row to the next; rows from one of the four to the next */
    int32_t count, left, other; /* rows; words that the result has before them; what fills up the last sixteen */
};

/* A row and how far its sixteens are apart; outside there are sixteen bytes, again and again. */
static QCGEN_INLINE const int8_t *qcgen_mve_row_s8(
    const struct qcgen_mve_rows *rows, const int8_t *x, int32_t y, const int8_t *outside, int32_t *step)
{
    const int is_inside = (uint32_t)y < (uint32_t)rows->count; /* and not below 0 */

    *step = is_inside ? rows->step : 0;
    return is_inside ? x + y * rows->row : outside;
}

/* Interleaves row `top` and those below it, any of which may lie outside. They are found one by one: gcc 12 turns
   conditions in loops over four words into predicates of vectors, and {1, 0, 0, 0} into {1, 1, 1, 1}. */
static QCGEN_INLINE void qcgen_mve_rows_s8(
    const struct qcgen_mve_rows *rows, const int8_t *x, int32_t top, const int8_t *outside, int32_t *words)
{
    int32_t step0, step1, step2, step3;
    const int8_t *row0 = qcgen_mve_row_s8(rows, x, top, outside, &step0);
    const int8_t *row1 = qcgen_mve_row_s8(rows, x, top + rows->apart, outside, &step1);
    const int8_t *row2 = qcgen_mve_row_s8(rows, x, top + 2 * rows->apart, outside, &step2);
    const int8_t *row3 = qcgen_mve_row_s8(rows, x, top + 3 * rows->apart, outside, &step3);

    words += rows->left;
    for (uint32_t i = (uint32_t)rows->bytes / 16; i > 0; i--) {
        qcgen_mve_interleave_s8(words, row0, row1, row2, row3, 16, 0);
        row0 += step0;
        row1 += step1;
        row2 += step2;
        row3 += step3;
        words += 16;
    }
    if (rows->bytes % 16 > 0) {
        qcgen_mve_interleave_s8(words, row0, row1, row2, row3, (uint32_t)rows->bytes % 16, (int8_t)rows->other);
    }
}
