/* Products of matrices of codes, two products in an instruction. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "dsp.h"
#include "integers.h"
#include "products.h"

/* Widens bytes 0 and 2 of a word, or 1 and 3. */
typedef int32_t qcgen_dsp_widen(int32_t word);

/* Four terms of a column of b become pairs, which meet those of a: terms 0 and 2, then 1 and 3. Returns their sum. */
static QCGEN_INLINE int32_t qcgen_dsp_matrix_pairs(
    const struct qcgen_matrices *m, const int8_t *b, qcgen_matrix_code *b_code, int32_t *pairs)
{
    const int32_t b_0 = b_code(b) - m->b_zero_point, b_1 = b_code(b + m->b_term) - m->b_zero_point;
    const int32_t b_2 = b_code(b + 2 * m->b_term) - m->b_zero_point;
    const int32_t b_3 = b_code(b + 3 * m->b_term) - m->b_zero_point;

    pairs[0] = qcgen_dsp_pair(b_0, b_2);
    pairs[1] = qcgen_dsp_pair(b_1, b_3);
    return b_0 + b_1 + b_2 + b_3;
}

/* Four terms of up to two rows of a join the sums with those of columns of b. */
static QCGEN_INLINE void qcgen_dsp_matrix_terms(const struct qcgen_matrices *m, const int8_t *a, qcgen_dsp_widen *even,
    qcgen_dsp_widen *odd, const int32_t **pairs, int32_t *sums)
{
    const int32_t a_0 = qcgen_dsp_load_word(a);
    const int32_t a_1 = m->rows > 1 ? qcgen_dsp_load_word(a + m->a_row) : 0;
    const int32_t even_0 = even(a_0), odd_0 = odd(a_0), even_1 = even(a_1), odd_1 = odd(a_1);
    const int32_t columns = qcgen_smaller(m->columns, 2);

    QCGEN_UNROLLED
    for (int32_t c = 0; c < columns; c++) {
        int32_t b_even, b_odd;

        qcgen_dsp_load_two(pairs, &b_even, &b_odd);
        sums[c] = qcgen_dsp_dot(odd_0, b_odd, qcgen_dsp_dot(even_0, b_even, sums[c]));
        if (m->rows > 1) {
            sums[c + 2] = qcgen_dsp_dot(odd_1, b_odd, qcgen_dsp_dot(even_1, b_even, sums[c + 2]));
        }
    }
}

/* Outputs of up to two columns: `pairs` has those of b, `starts` where their sums start; the last terms are read from
   b. The terms of a row of a lie side by side. */
typedef void qcgen_dsp_matrix_rows(
    const void *a, const int8_t *b, const int32_t *pairs, const int32_t *starts, int32_t column, void *y);

static QCGEN_INLINE void qcgen_dsp_matrix_rows_of(const struct qcgen_matrices *m, const void *a,
    qcgen_matrix_code *a_code, qcgen_dsp_widen *even, qcgen_dsp_widen *odd, const int8_t *b, qcgen_matrix_code *b_code,
    const int32_t *pairs, const int32_t *starts, int32_t column, void *y, qcgen_matrix_store *store)
{
    const int32_t rows = qcgen_smaller(m->rows, 2), whole = m->terms - m->terms % 4;

    for (int32_t next = 0; next < m->rows; next += rows) {
        const int32_t row = qcgen_matrix_tile(next, m->rows, rows);
        const int8_t *a_row = (const int8_t *)a + row * m->a_row;
        const int32_t *from = pairs;
        int32_t sums[4] = { starts[0], starts[1], starts[0], starts[1] };

        for (int32_t k = 0; k < whole; k += 4) {
            qcgen_dsp_matrix_terms(m, a_row, even, odd, &from, sums);
            a_row += 4;
        }
        qcgen_matrix_sums(m, whole, a_row - whole, a_code, b, b_code, sums);
        qcgen_matrix_put(m, row, column, sums, y, store);
    }
}

/* The product, up to two columns at a time: without their zero point they are put into `pairs`; the zero point of a is
   taken from where sums start. `outputs` computes them, a function of its own: registers are short. */
static QCGEN_INLINE void qcgen_dsp_matrix_product(const struct qcgen_matrices *m, const void *a, const void *b,
    qcgen_matrix_code *b_code, void *y, qcgen_dsp_matrix_rows *outputs, int32_t *pairs)
{
    const int32_t columns = qcgen_smaller(m->columns, 2), whole = m->terms - m->terms % 4;

    for (int32_t next = 0; next < m->columns; next += columns) {
        const int32_t column = qcgen_matrix_tile(next, m->columns, columns);
        const int8_t *const b_column = (const int8_t *)b + column * m->b_column;
        int32_t starts[2] = { m->start, m->start };
        int32_t *to = pairs;

        for (int32_t k = 0; k < whole; k += 4) {
            const int8_t *const at = b_column + k * m->b_term;

            starts[0] -= m->a_zero_point * qcgen_dsp_matrix_pairs(m, at, b_code, to);
            if (columns > 1) {
                starts[1] -= m->a_zero_point * qcgen_dsp_matrix_pairs(m, at + m->b_column, b_code, to + 2);
            }
            to += 2 * columns;
        }
        outputs(a, b_column, pairs, starts, column, y);
    }
}
