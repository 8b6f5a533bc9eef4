/* A matrix times vectors of int8_t on cores without SIMD; for those of uint8_t functions have u8 in place of s8. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "scalar.h"

/* Elements less `shift` as words, so many of which are in a `round` of the loop. */
static QCGEN_INLINE void qcgen_scalar_elements_s8(
    const int8_t *x, int32_t count, int32_t shift, int32_t *elements, int32_t round)
{
    const int32_t rest = count % round;

    for (int32_t k = 0; k < count / round; k++) {
        QCGEN_UNROLLED
        for (int32_t i = 0; i < round; i++) {
            elements[i] = x[i] - shift;
        }
        x += round;
        elements += round;
    }
    QCGEN_UNROLLED
    for (int32_t i = 0; i < rest; i++) {
        elements[i] = x[i] - shift;
    }
}

/* The same as packed1 or packed2 reads them: in groups of one or two, behind where their sums start. That is HALF, less
   what the 128 that is added to each weight adds. A 0 makes the elements even in number. */
static QCGEN_INLINE void qcgen_scalar_packed_elements_s8(
    const int8_t *x, int32_t count, int32_t shift, int32_t *elements, int32_t size)
{
    for (int32_t k = 0; k < count / 2; k++) {
        elements = qcgen_scalar_pack(x[0] - shift, x[1] - shift, size, elements);
        x += 2;
    }
    if (count % 2 != 0) {
        (void)qcgen_scalar_pack(x[0] - shift, 0, size, elements);
    }
}

/* A matrix by `blocks` of four channels, whose weights are so many `words`: one or two blocks at a time. */
struct qcgen_scalar_matrix {
    int32_t channels, blocks, words;
};

/* The sums of one or two blocks. */
typedef void qcgen_scalar_matrix_sums(const int32_t *weights, const void *elements, qcgen_scalar_sums *sums);

/* Adds what the weights of a block lack; returns where the next block's `outliers` begin. */
typedef const int32_t *qcgen_scalar_matrix_rest(const int32_t *outliers, const void *elements, qcgen_scalar_sums *sums);

/* Stores the output of channel m; `own` is what a layer has for itself. */
typedef void qcgen_scalar_store(const void *own, int32_t acc, int32_t m, void *y);

/* Stores the outputs of up to four channels. */
static QCGEN_INLINE void qcgen_scalar_store_block(const qcgen_scalar_sums *sums, int32_t channels, const int32_t *bias,
    const void *own, qcgen_scalar_store *store, int32_t m, void *y)
{
    store(own, (int32_t)((uint32_t)bias[m] + sums->total_a - (sums->high_a << 16)), m, y);
    if (channels > 1) {
        store(own, (int32_t)((uint32_t)bias[m + 1] + sums->high_a), m + 1, y);
    }
    if (channels > 2) {
        store(own, (int32_t)((uint32_t)bias[m + 2] + sums->total_b - (sums->high_b << 16)), m + 2, y);
    }
    if (channels > 3) {
        store(own, (int32_t)((uint32_t)bias[m + 3] + sums->high_b), m + 3, y);
    }
}

/* The next so many channels; returns where the next outliers are. */
static QCGEN_INLINE const int32_t *qcgen_scalar_matrix_block(const struct qcgen_scalar_matrix *matrix, int32_t channels,
    const int32_t *weights, const int32_t *outliers, const int32_t *bias, const void *elements, qcgen_scalar_sums *sums,
    qcgen_scalar_matrix_sums *sum_up, qcgen_scalar_matrix_rest *add, const void *own, qcgen_scalar_store *store,
    int32_t m, void *y)
{
    sum_up(weights, elements, sums);
    if (add != 0) {
        outliers = add(outliers, elements, &sums[0]);
    }
    if (add != 0 && matrix->blocks > 1) {
        outliers = add(outliers, elements, &sums[1]);
    }
    qcgen_scalar_store_block(&sums[0], channels, bias, own, store, m, y);
    if (channels > 4) {
        qcgen_scalar_store_block(&sums[1], channels - 4, bias, own, store, m + 4, y);
    }
    return outliers;
}

/* The outputs of a vector; `add` is 0 where weights lack nothing. */
static QCGEN_INLINE void qcgen_scalar_times_vector(const struct qcgen_scalar_matrix *matrix, const int32_t *weights,
    const int32_t *outliers, const int32_t *bias, const void *elements, qcgen_scalar_sums *sums,
    qcgen_scalar_matrix_sums *sum_up, qcgen_scalar_matrix_rest *add, const void *own, qcgen_scalar_store *store,
    void *y)
{
    const int32_t width = 4 * matrix->blocks, rest = matrix->channels % width, whole = matrix->channels - rest;

#if QCGEN_IS_THUMB1
    QCGEN_MOVED(weights); /* no constant to the function of the sums: its assembly leaves none within reach */
#endif
    QCGEN_ROLLED
    for (int32_t m = 0; m < whole; m += width) {
        outliers = qcgen_scalar_matrix_block(
            matrix, width, weights, outliers, bias, elements, sums, sum_up, add, own, store, m, y);
        weights += matrix->blocks * matrix->words;
    }
    if (rest > 0) {
        (void)qcgen_scalar_matrix_block(
            matrix, rest, weights, outliers, bias, elements, sums, sum_up, add, own, store, whole, y);
    }
}
