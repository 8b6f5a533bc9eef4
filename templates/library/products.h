/* Products of matrices that are computed, tile by tile. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "float32.h"
#include "integers.h"

/* Where the elements of two matrices and of their product lie. Of floats `chunk` terms are summed by themselves; of
   codes sums begin at `start`. */
struct qcgen_matrices {
    int32_t rows, columns, terms, chunk, start, a_zero_point, b_zero_point;
    int32_t a_row, a_term, b_term, b_column, y_row, y_column, y_bytes;
};

/* A code of a matrix, a byte; what stores what becomes of a sum. */
typedef int32_t qcgen_matrix_code(const int8_t *code);
typedef void qcgen_matrix_store(int32_t sum, void *out);

static QCGEN_INLINE int32_t qcgen_matrix_code_s8(const int8_t *code)
{
    return *code;
}

static QCGEN_INLINE int32_t qcgen_matrix_code_u8(const int8_t *code)
{
    return *(const uint8_t *)code;
}

/* Where a tile of so many rows or columns begins: where tiles do not fill the matrix, the last ones end with it and
   compute some outputs once more. */
static QCGEN_INLINE int32_t qcgen_matrix_tile(int32_t next, int32_t count, int32_t size)
{
    return count % size ? qcgen_smaller(next, count - size) : next;
}

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

/* The product of two matrices, up to 2 x 2 outputs at a time. */
static QCGEN_INLINE void qcgen_float_product(
    const struct qcgen_matrices *m, const float *restrict a, const float *restrict b, float *restrict y)
{
    const int32_t rows = qcgen_smaller(m->rows, 2), columns = qcgen_smaller(m->columns, 2);

    for (int32_t next_row = 0; next_row < m->rows; next_row += rows) {
        const int32_t row = qcgen_matrix_tile(next_row, m->rows, rows);

        for (int32_t next = 0; next < m->columns; next += columns) {
            const int32_t column = qcgen_matrix_tile(next, m->columns, columns);

            qcgen_float_tile(m, rows, columns, a + row * m->a_row, b + column * m->b_column,
                y + (row * m->y_row + column * m->y_column));
        }
    }
}

/* Stores the outputs of a tile. */
static QCGEN_INLINE void qcgen_matrix_put(const struct qcgen_matrices *m, int32_t row, int32_t column,
    const int32_t *sums, void *y, qcgen_matrix_store *store)
{
    int8_t *const out = (int8_t *)y + m->y_bytes * (row * m->y_row + column * m->y_column);

    store(sums[0], out);
    if (m->columns > 1) {
        store(sums[1], out + m->y_bytes * m->y_column);
    }
    if (m->rows > 1) {
        store(sums[2], out + m->y_bytes * m->y_row);
    }
    if (m->rows > 1 && m->columns > 1) {
        store(sums[3], out + m->y_bytes * (m->y_row + m->y_column));
    }
}

/* The terms from `first` on join the sums of a tile, whose first row of a and column of b are given. */
static QCGEN_INLINE void qcgen_matrix_sums(const struct qcgen_matrices *m, int32_t first, const int8_t *a,
    qcgen_matrix_code *a_code, const int8_t *b, qcgen_matrix_code *b_code, int32_t *restrict sums)
{
    for (int32_t k = first; k < m->terms; k++) {
        const int32_t b_0 = b_code(b + k * m->b_term) - m->b_zero_point;
        const int32_t b_1 = m->columns > 1 ? b_code(b + (k * m->b_term + m->b_column)) - m->b_zero_point : 0;
        const int32_t a_0 = a_code(a + k * m->a_term) - m->a_zero_point;

        sums[0] += a_0 * b_0;
        sums[1] += a_0 * b_1;
        const int32_t a_1 = m->rows > 1 ? a_code(a + (k * m->a_term + m->a_row)) - m->a_zero_point : 0;
        sums[2] += a_1 * b_0;
        sums[3] += a_1 * b_1;
    }
}

/* The same product of codes. */
static QCGEN_INLINE void qcgen_matrix_product(const struct qcgen_matrices *m, const void *a, qcgen_matrix_code *a_code,
    const void *b, qcgen_matrix_code *b_code, void *y, qcgen_matrix_store *store)
{
    const int32_t rows = qcgen_smaller(m->rows, 2), columns = qcgen_smaller(m->columns, 2);

    for (int32_t next_row = 0; next_row < m->rows; next_row += rows) {
        const int32_t row = qcgen_matrix_tile(next_row, m->rows, rows);

        for (int32_t next = 0; next < m->columns; next += columns) {
            const int32_t column = qcgen_matrix_tile(next, m->columns, columns);
            const int8_t *const a_row = (const int8_t *)a + row * m->a_row;
            const int8_t *const b_column = (const int8_t *)b + column * m->b_column;
            int32_t sums[4] = { m->start, m->start, m->start, m->start };

            qcgen_matrix_sums(m, 0, a_row, a_code, b_column, b_code, sums);
            qcgen_matrix_put(m, row, column, sums, y, store);
        }
    }
}
