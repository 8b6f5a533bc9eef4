/* Products of matrices that are computed, tile by tile. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "float32.h"
#include "integers.h"

/* Where the elements of two matrices and of their product lie; `chunk` terms are summed by themselves. */
struct qcgen_matrices {
    int32_t rows, columns, terms, chunk;
    int32_t a_row, a_term, b_term, b_column, y_row, y_column;
};

/* A tile of outputs, which share the elements that they need: up to two rows and columns. */
static QCGEN_INLINE void qcgen_float_tile(
    const struct qcgen_matrices *m, int32_t rows, int32_t columns, const float *restrict a, const float *restrict b,
    float *restrict y)
{
    float sums[4] = { 0.0f, 0.0f, 0.0f, 0.0f };

    for (int32_t first = 0; first < m->terms; first += m->chunk) {
        const int32_t end = m->terms % m->chunk ? qcgen_smaller(first + m->chunk, m->terms) : first + m->chunk;
        float parts[4] = { 0.0f, 0.0f, 0.0f, 0.0f };

        for (int32_t k = first; k < end; k++) {
            const float a_0 = a[k * m->a_term], a_1 = rows > 1 ? a[k * m->a_term + m->a_row] : 0.0f;
            const float b_0 = b[k * m->b_term], b_1 = columns > 1 ? b[k * m->b_term + m->b_column] : 0.0f;

            parts[0] = qcgen_fused_any(a_0, b_0, parts[0]);
            parts[1] = columns > 1 ? qcgen_fused_any(a_0, b_1, parts[1]) : 0.0f;
            parts[2] = rows > 1 ? qcgen_fused_any(a_1, b_0, parts[2]) : 0.0f;
            parts[3] = rows > 1 && columns > 1 ? qcgen_fused_any(a_1, b_1, parts[3]) : 0.0f;
        }
        QCGEN_UNROLLED
        for (int32_t i = 0; i < 4; i++) {
            sums[i] = m->chunk < m->terms ? sums[i] + parts[i] : parts[i];
        }
    }
    QCGEN_UNROLLED
    for (int32_t i = 0; i < rows; i++) {
        QCGEN_UNROLLED
        for (int32_t j = 0; j < columns; j++) {
            y[i * m->y_row + j * m->y_column] = sums[2 * i + j];
        }
    }
}

/* The product of two matrices, up to 2 x 2 outputs at a time. Where tiles do not fill it, the last ones end with it
   and compute some outputs once more. */
static QCGEN_INLINE void qcgen_float_product(
    const struct qcgen_matrices *m, const float *restrict a, const float *restrict b, float *restrict y)
{
    const int32_t rows = qcgen_smaller(m->rows, 2), columns = qcgen_smaller(m->columns, 2);

    for (int32_t next_row = 0; next_row < m->rows; next_row += rows) {
        const int32_t row = m->rows % rows ? qcgen_smaller(next_row, m->rows - rows) : next_row;

        for (int32_t next = 0; next < m->columns; next += columns) {
            const int32_t column = m->columns % columns ? qcgen_smaller(next, m->columns - columns) : next;

            qcgen_float_tile(m, rows, columns, a + row * m->a_row, b + column * m->b_column,
                y + (row * m->y_row + column * m->y_column));
        }
    }
}
