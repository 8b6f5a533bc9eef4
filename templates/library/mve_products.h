/* Products of two computed matrices for Helium: four columns of b are packed, which rows of a meet two at a time. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "helium.h"
#include "mve_blocks.h"
#include "mve_windows.h"

/* Two matrices of codes and their product. VMLADAV multiplies int8: codes of uint8 are taken less 128. */
struct qcgen_mve_product {
    int32_t steps, copies;                            /* of sums over the terms, in which zeros fill the last */
    int32_t rows, columns, terms;                     /* of a and y; of b and y; of a row and of a column */
    int32_t a_row, b_term, b_column, y_row, y_column; /* from one to the next */
    int32_t y_bytes;                                  /* of an output */
    int32_t a_is_unsigned, a_zero_point, b_is_unsigned, b_zero_point;
    int32_t start; /* of a sum */
};

/* Stores what becomes of four sums that lie side by side. */
typedef void qcgen_mve_product_store(void *y, qcgen_mve_s32 sums);

/* A code. */
static QCGEN_INLINE int32_t qcgen_mve_code_at(const int8_t *codes, int32_t is_unsigned, int32_t i)
{
    return is_unsigned ? ((const uint8_t *)codes)[i] : codes[i];
}

/* Packs four columns of b: in steps of sixteen terms of each, four terms in a word. Returns what the
   zero point of a takes from their sums. */
static QCGEN_OS_INLINE qcgen_mve_s32 qcgen_mve_packed_columns(
    const struct qcgen_mve_product *p, const int8_t *b, int32_t *words)
{
    const int32_t less = p->b_is_unsigned ? 128 : 0, zero_point = p->b_zero_point - less;
    int32_t taken[4];

    for (int32_t c = 0; c < 4; c++) {
        int32_t total = 0;

        for (int32_t k = 0; k < 16 * p->steps; k += 4) {
            uint32_t word = 0;

            for (int32_t i = 0; i < 4 && (p->terms % 16 == 0 || k + i < p->terms); i++) {
                const int32_t place = c * p->b_column + (k + i) * p->b_term;
                const int32_t code = qcgen_mve_code_at(b, p->b_is_unsigned, place) - less;

                total += code - zero_point;
                word |= ((uint32_t)code & 255) << 8 * i;
            }
            words[k / 16 * 16 + 4 * c + k % 16 / 4] = (int32_t)word;
        }
        taken[c] = ((p->a_is_unsigned ? 128 : 0) - p->a_zero_point) * total;
    }
    return qcgen_mve_load(taken);
}

/* A row of a, or of its copy, with zeros behind its terms. */
static QCGEN_INLINE const int8_t *qcgen_mve_row_of(
    const struct qcgen_mve_product *p, qcgen_mve_copied *copied, const int8_t *a, int32_t row, int8_t *copy)
{
    const int8_t *const from = a + row * p->a_row;

    if (!copied) {
        return from;
    }
    if (p->terms % 16 > 0) {
        qcgen_mve_fill(copy + 16 * (p->steps - 1), 0, 16);
    }
    (void)copied(copy, from, p->terms);
    return copy;
}

/* The product, two rows of four outputs at a time, or one if there are no more; the last ones repeat some of those
   before them. `words` are four packed columns, what rows add to their sums, and copies of rows. */
static QCGEN_INLINE void qcgen_mve_product_of(const struct qcgen_mve_product *p, qcgen_mve_sums_over *sums_over,
    qcgen_mve_copied *copied, qcgen_mve_product_store *store, const void *of, const void *by, void *y,
    int32_t *words)
{
    const int8_t *const a = (const int8_t *)of, *const b = (const int8_t *)by;
    const int32_t rows = p->rows, columns = p->columns, together = rows > 1 ? 2 : 1;
    const int32_t b_zero_point = p->b_zero_point - (p->b_is_unsigned ? 128 : 0);
    int32_t *const added = words + 16 * p->steps; /* where sums start, and what the zero point of b takes */
    int8_t *const copies = (int8_t *)(added + rows);

    for (int32_t row = 0; row < rows; row++) {
        int32_t total = p->a_is_unsigned ? -128 * p->terms : 0;

        for (int32_t k = 0; k < p->terms; k++) {
            total += qcgen_mve_code_at(a, p->a_is_unsigned, row * p->a_row + k);
        }
        added[row] = p->start - b_zero_point * total;
    }
    for (int32_t first_column = 0; first_column < columns; first_column += 4) {
        const int32_t column = columns % 4 == 0 || first_column < columns - 4 ? first_column : columns - 4;
        const qcgen_mve_s32 taken = qcgen_mve_packed_columns(p, b + column * p->b_column, words);

        for (int32_t first_row = 0; first_row < rows; first_row += together) {
            const int32_t row = rows % together == 0 || first_row < rows - 2 ? first_row : rows - 2;
            const int8_t *const row_a = qcgen_mve_row_of(p, copied, a, row, copies);
            const int8_t *row_b = row_a;
            int8_t *const out = (int8_t *)y + (row * p->y_row + column * p->y_column) * p->y_bytes;
            qcgen_mve_s32 sums_a, sums_b;

            if (together > 1) {
                row_b = qcgen_mve_row_of(p, copied, a, row + 1, copies + 16 * p->steps);
            }
            (void)sums_over(p->steps, p->copies, row_a, row_b, words, &sums_a, &sums_b);
            store(out, qcgen_mve_add_all(qcgen_mve_add(sums_a, taken), added[row]));
            if (together > 1) {
                sums_b = qcgen_mve_add_all(qcgen_mve_add(sums_b, taken), added[row + 1]);
                store(out + p->y_row * p->y_bytes, sums_b);
            }
        }
    }
}
