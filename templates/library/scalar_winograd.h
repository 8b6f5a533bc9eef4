/* Winograd's F(2x2, 3x3), exact in integers, on cores without SIMD; images of uint8_t have u8 in place of s8. */
#pragma once
#include <stdint.h>
#include <string.h>
#include "compiler.h"
#include "scalar.h"

/*
 * Winograd's F(2x2, 3x3), exact in integers: 16 products give 2x2 outputs, not 36. With d the 4x4 pixels that a tile of
 * outputs sees, g the 3x3 weights, Bt = [1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1], At = [1 1 1 0; 0 1 -1 -1] and
 * G = [2 0 0; 1 1 1; 1 -1 1; 0 0 2] / 2 (B, A and Gt: transposes), the outputs are At [(G g Gt) . (Bt d B)] A, summed
 * over the input channels, where "." multiplies element by element. The table holds 4 (G g Gt), which are integers, so
 * that outputs times 4 are computed. Elements of Bt d B are four pixels added or subtracted, and fit int16; no sum
 * leaves int32. Two tiles side by side are computed at the same time; their elements alternate.
 */
struct qcgen_scalar_winograd {
    int32_t rows, columns, channels; /* of the image */
    int32_t row_dilation, column_dilation;
    int32_t outside;   /* an element outside the image: the zero point */
    int32_t has_words; /* elements of Bt d B are words, else they have 16 bits */
};

/* Stores the elements of a channel of both tiles at a position. */
static QCGEN_INLINE void qcgen_scalar_store_elements(
    const struct qcgen_scalar_winograd *w, int32_t first, int32_t second, int32_t position, int16_t *v)
{
    const int32_t at = 2 * position * w->channels;

    if (w->has_words) {
        ((int32_t *)(void *)v)[at] = first;
        ((int32_t *)(void *)v)[at + 1] = second;
    } else {
        v[at] = (int16_t)first;
        v[at + 1] = (int16_t)second;
    }
}

/* A row of Bt d B of both tiles, one channel: two rows of pixels, p + q or p - q by `sign`, times B. */
static QCGEN_INLINE void qcgen_scalar_tile_row_s8(
    const struct qcgen_scalar_winograd *w, const int8_t *p, int32_t sign, const int8_t *q, int16_t *v)
{
    int32_t c[6];

    QCGEN_UNROLLED
    for (int32_t i = 0; i < 6; i++) {
        c[i] = p[i * w->channels] + sign * q[i * w->channels];
    }
    qcgen_scalar_store_elements(w, c[0] - c[2], c[2] - c[4], 0, v);
    qcgen_scalar_store_elements(w, c[1] + c[2], c[3] + c[4], 1, v);
    qcgen_scalar_store_elements(w, c[2] - c[1], c[4] - c[3], 2, v);
    qcgen_scalar_store_elements(w, c[1] - c[3], c[3] - c[5], 3, v);
}

/* Bt d B of two tiles: 4x6 pixels, rows of which are `row` bytes apart. */
static QCGEN_INLINE void qcgen_scalar_transform_s8(
    const struct qcgen_scalar_winograd *w, const int8_t *x, int32_t row, int16_t *v)
{
    const int32_t size = w->has_words ? 2 : 1, position = 2 * w->channels * size;
    const int8_t *const x1 = x + row, *const x2 = x1 + row, *const x3 = x2 + row;

    for (int32_t c = 0; c < w->channels; c++) {
        qcgen_scalar_tile_row_s8(w, x + c, -1, x2 + c, v);
        qcgen_scalar_tile_row_s8(w, x1 + c, 1, x2 + c, v + 4 * position);
        qcgen_scalar_tile_row_s8(w, x2 + c, -1, x1 + c, v + 8 * position);
        qcgen_scalar_tile_row_s8(w, x1 + c, -1, x3 + c, v + 12 * position);
        v += 2 * size;
    }
}

/* Collects the 4x6 pixels of two tiles, the first of which is (y, x0), where they do not lie side by side. */
static QCGEN_INLINE void qcgen_scalar_gather_s8(
    const struct qcgen_scalar_winograd *w, const int8_t *x, int32_t y, int32_t x0, int8_t *pixels)
{
    (void)memset(pixels, w->outside, (size_t)(24 * w->channels));
    for (int32_t i = 0; i < 4; i++) {
        const int32_t iy = y + i * w->row_dilation;

        for (int32_t j = 0; j < 6; j++) {
            const int32_t ix = x0 + j * w->column_dilation;

            if (iy >= 0 && iy < w->rows && ix >= 0 && ix < w->columns) {
                (void)memcpy(pixels, x + (iy * w->columns + ix) * w->channels, (size_t)w->channels);
            }
            pixels += w->channels;
        }
    }
}

#if QCGEN_IS_THUMB1 && !defined(QCGEN_KEEP_R9)
/* The sums of products are assembly. */
#else
/* Adds the products of a channel of both tiles with its weights of 1, 2 or 4 output channels. */
static QCGEN_INLINE void qcgen_scalar_multiply_channel(
    const struct qcgen_scalar_winograd *w, const int16_t *v, const int16_t *weights, int32_t width, int32_t *a,
    int32_t *b)
{
    const int32_t x = w->has_words ? ((const int32_t *)(const void *)v)[0] : v[0];
    const int32_t z = w->has_words ? ((const int32_t *)(const void *)v)[1] : v[1];

    a[0] += x * weights[0];
    b[0] += z * weights[0];
    QCGEN_SUMMED(a[0]);
    QCGEN_SUMMED(b[0]);
    if (width > 1) {
        a[1] += x * weights[1];
        b[1] += z * weights[1];
        QCGEN_SUMMED(a[1]);
        QCGEN_SUMMED(b[1]);
    }
    if (width > 2) {
        a[2] += x * weights[2];
        b[2] += z * weights[2];
        QCGEN_SUMMED(a[2]);
        QCGEN_SUMMED(b[2]);
        a[3] += x * weights[3];
        b[3] += z * weights[3];
        QCGEN_SUMMED(a[3]);
        QCGEN_SUMMED(b[3]);
    }
}

/* At each of the 16 positions: products with the weights of `width` output channels, summed over the input channels,
   so many of which are in a `round` of the loop. Returns where the next weights are. */
static QCGEN_INLINE const int16_t *qcgen_scalar_multiply(
    const struct qcgen_scalar_winograd *w, const int16_t *v, const int16_t *weights, int32_t round, int32_t width,
    int32_t *sums)
{
    const int32_t size = w->has_words ? 4 : 2, rest = w->channels % round;
    const int32_t *const end = sums + 16 * 2 * width;

    do {
        const int16_t *const v_end = v + (w->channels - rest) * size;
        int32_t a[4] = { 0, 0, 0, 0 }, b[4] = { 0, 0, 0, 0 };

        do {
            QCGEN_UNROLLED
            for (int32_t c = 0; c < round; c++) {
                qcgen_scalar_multiply_channel(w, v + c * size, weights + c * width, width, a, b);
            }
            v += round * size;
            weights += round * width;
        } while (v != v_end);
        QCGEN_UNROLLED
        for (int32_t c = 0; c < rest; c++) {
            qcgen_scalar_multiply_channel(w, v + c * size, weights + c * width, width, a, b);
        }
        v += rest * size;
        weights += rest * width;
        QCGEN_UNROLLED
        for (int32_t m = 0; m < width; m++) {
            *sums++ = a[m];
            *sums++ = b[m];
        }
    } while (sums != end);
    return weights;
}
#endif

/* The four outputs of a tile, row by row, times 4: At (sums) A, of sums that lie `step` apart. */
static QCGEN_INLINE void qcgen_scalar_tile_outputs(const int32_t *sums, int32_t step, int32_t *outputs)
{
    QCGEN_UNROLLED
    for (int32_t j = 0; j < 4; j++) {
        const int32_t p0 = sums[j * step], p1 = sums[(4 + j) * step];
        const int32_t p2 = sums[(8 + j) * step], p3 = sums[(12 + j) * step];
        const int32_t upper = p0 + p1 + p2, lower = p1 - p2 - p3;

        if (j < 3) {
            outputs[0] = j == 0 ? upper : outputs[0] + upper;
            outputs[2] = j == 0 ? lower : outputs[2] + lower;
        }
        if (j > 0) {
            outputs[1] = j == 1 ? upper : outputs[1] - upper;
            outputs[3] = j == 1 ? lower : outputs[3] - lower;
        }
    }
}
