/* Sums of products of codes: a block of up to four windows with the weights of one output channel. */
#pragma once
#include <stdint.h>
#include "compiler.h"

/* A sum; one modulo 2^32 is unsigned. */
typedef int32_t qcgen_wsums_s32;

/* A copied tap of 0 to 255: products of int16 vectorise best, but for compilers that sum products of bytes. */
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
typedef uint8_t qcgen_wsums_wide_tap;
#else
typedef int16_t qcgen_wsums_wide_tap;
#endif

/* Adds the products of the taps of a block of windows and weights of a byte or two to where their sums start. Those of
   bytes fit an int of 16 bits, too. */
static QCGEN_INLINE void qcgen_wsums_add_u8_s32(int32_t block, int32_t taps, const uint8_t *const *windows,
    const void *weights, int32_t weight_bytes, qcgen_wsums_s32 start, qcgen_wsums_s32 *sums)
{
    const uint8_t *const a = windows[0], *const b = block > 1 ? windows[1] : a;
    const uint8_t *const c = block > 2 ? windows[2] : a, *const d = block > 2 ? windows[3] : a;
    qcgen_wsums_s32 of_a = start, of_b = start, of_c = start, of_d = start;

    for (int32_t k = 0; k < taps; k++) {
        const int weight = weight_bytes == 1 ? ((const int8_t *)weights)[k] : ((const int16_t *)weights)[k];

        of_a += (qcgen_wsums_s32)(a[k] * weight);
        of_b += block > 1 ? (qcgen_wsums_s32)(b[k] * weight) : 0;
        of_c += block > 2 ? (qcgen_wsums_s32)(c[k] * weight) : 0;
        of_d += block > 2 ? (qcgen_wsums_s32)(d[k] * weight) : 0;
    }
    sums[block > 2 ? 3 : 0] = of_d; /* of fewer windows the first sum is written last */
    sums[block > 2 ? 2 : 0] = of_c;
    sums[block > 1 ? 1 : 0] = of_b;
    sums[0] = of_a;
}

/* The same for weights of 4 bits, the first of two in the lower half of a byte; those of 0 are `least`. */
static QCGEN_INLINE void qcgen_wsums_add_nibbles_u8_s32(int32_t block, int32_t taps, const uint8_t *const *windows,
    const void *weights, int32_t least, qcgen_wsums_s32 start, qcgen_wsums_s32 *sums)
{
    const unsigned char *const pairs = weights;
    const uint8_t *const a = windows[0], *const b = block > 1 ? windows[1] : a;
    const uint8_t *const c = block > 2 ? windows[2] : a, *const d = block > 2 ? windows[3] : a;
    qcgen_wsums_s32 of_a = start, of_b = start, of_c = start, of_d = start;

    for (int32_t k = 0; k < taps / 2; k++) {
        const int32_t even = (pairs[k] & 15) + least, odd = (pairs[k] >> 4) + least;

        of_a += (qcgen_wsums_s32)(a[2 * k] * even + a[2 * k + 1] * odd);
        of_b += block > 1 ? (qcgen_wsums_s32)(b[2 * k] * even + b[2 * k + 1] * odd) : 0;
        of_c += block > 2 ? (qcgen_wsums_s32)(c[2 * k] * even + c[2 * k + 1] * odd) : 0;
        of_d += block > 2 ? (qcgen_wsums_s32)(d[2 * k] * even + d[2 * k + 1] * odd) : 0;
    }
    if (taps % 2 > 0) {
        const int32_t last = (pairs[taps / 2] & 15) + least;

        of_a += (qcgen_wsums_s32)(a[taps - 1] * last);
        of_b += block > 1 ? (qcgen_wsums_s32)(b[taps - 1] * last) : 0;
        of_c += block > 2 ? (qcgen_wsums_s32)(c[taps - 1] * last) : 0;
        of_d += block > 2 ? (qcgen_wsums_s32)(d[taps - 1] * last) : 0;
    }
    sums[block > 2 ? 3 : 0] = of_d; /* of fewer windows the first sum is written last */
    sums[block > 2 ? 2 : 0] = of_c;
    sums[block > 1 ? 1 : 0] = of_b;
    sums[0] = of_a;
}

/* Adds taps themselves: a multiple of theirs joins sums of weights that lack a part. */
static QCGEN_INLINE void qcgen_wsums_total_u8_s32(
    int32_t block, int32_t taps, const uint8_t *const *windows, qcgen_wsums_s32 *sums)
{
    const uint8_t *const a = windows[0], *const b = block > 1 ? windows[1] : a;
    const uint8_t *const c = block > 2 ? windows[2] : a, *const d = block > 2 ? windows[3] : a;
    qcgen_wsums_s32 of_a = 0, of_b = 0, of_c = 0, of_d = 0;

    for (int32_t k = 0; k < taps; k++) {
        const int32_t tap_a = a[k], tap_b = b[k], tap_c = c[k], tap_d = d[k];

        of_a += (qcgen_wsums_s32)tap_a;
        of_b += (qcgen_wsums_s32)tap_b;
        of_c += (qcgen_wsums_s32)tap_c;
        of_d += (qcgen_wsums_s32)tap_d;
    }
    sums[block > 2 ? 3 : 0] = of_d; /* of fewer windows the first sum is written last */
    sums[block > 2 ? 2 : 0] = of_c;
    sums[block > 1 ? 1 : 0] = of_b;
    sums[0] = of_a;
}
