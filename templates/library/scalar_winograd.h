/* Winograd's F(2x2, 3x3), exact in integers, on cores without SIMD; images of uint8_t have u8 in place of s8. */
#pragma once
#include <stdint.h>
#include <string.h>
#include "compiler.h"
#include "scalar.h"
#include "scalar_sums.h"

/*
 * Winograd's F(2x2, 3x3), exact in integers: 16 products give 2x2 outputs, not 36. With d the 4x4 pixels that a tile of
 * outputs sees, g the 3x3 weights, Bt = [1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1], At = [1 1 1 0; 0 1 -1 -1] and
 * G = [2 0 0; 1 1 1; 1 -1 1; 0 0 2] / 2 (B, A and Gt: transposes), the outputs are At [(G g Gt) . (Bt d B)] A, summed
 * over the input channels, where "." multiplies element by element. The table holds 4 (G g Gt), which are integers, so
 * that outputs times 4 are computed. Elements of Bt d B are four pixels added or subtracted, and fit int16; no sum
 * leaves int32. Two tiles side by side are computed at the same time; their elements alternate.
 */
struct qcgen_scalar_winograd {
    int32_t batch, x_image, y_image; /* images, and elements from one to the next */
    int32_t rows, columns, channels; /* of an image, */
    int32_t out_rows, out_columns, out_channels; /* and of its outputs */
    int32_t row_pad, column_pad;
    int32_t row_dilation, column_dilation; /* so far apart are the outputs of a tile */
    int32_t outside;   /* an element outside the image: the zero point */
    int32_t gathers;   /* the pixels of some tiles are collected, if 2 those of all */
    int32_t has_words; /* elements of Bt d B are words, else they have 16 bits */
    int32_t round;     /* input channels in a round of the loop over them */
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
    const struct qcgen_scalar_winograd *w, const int8_t *x, int32_t row, void *elements)
{
    const int32_t size = w->has_words ? 2 : 1, position = 2 * w->channels * size;
    int16_t *v = elements;
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

        if (iy >= 0 && iy < w->rows) {
            const int8_t *const row = x + iy * w->columns * w->channels;

            for (int32_t j = 0; j < 6; j++) {
                const int32_t ix = x0 + j * w->column_dilation;

                if (ix >= 0 && ix < w->columns) {
                    (void)memcpy(pixels + j * w->channels, row + ix * w->channels, (size_t)w->channels);
                }
            }
        }
        pixels += 6 * w->channels;
    }
}

#if QCGEN_IS_THUMB1 && !defined(QCGEN_KEEP_R9)
/* Macros of the assembler. Elements of both tiles are words, which are loaded by one instruction. */
#define QCGEN_SCALAR_TILE_TIMES(a, b) /* the next weight */ \
    "ldrh %[w], [%[weights], #.Lat]\n\tsxth %[w], %[w]\n\t" \
    ".set .Lat, .Lat + 2\n\t" \
    "muls " a ", %[w], " a "\n\tmuls " b ", %[w], " b "\n\t"
#define QCGEN_SCALAR_TILE_CHANNELS /* .channels: adds the products of so many input channels */ \
    ".macro .channels count\n\t" \
    ".set .Lat, 0\n\t" \
    ".rept \\count / 2\n\t" \
    "ldmia %[v]!, {r2, r3, r4, r5}\n\t" \
    QCGEN_SCALAR_TILE_TIMES("r2", "r3") QCGEN_SCALAR_TILE_TIMES("r4", "r5") \
    "add r8, r2\n\tadd r9, r3\n\tadd r8, r4\n\tadd r9, r5\n\t" \
    ".endr\n\t" \
    ".rept \\count & 1\n\t" \
    "ldmia %[v]!, {r2, r3}\n\t" QCGEN_SCALAR_TILE_TIMES("r2", "r3") "add r8, r2\n\tadd r9, r3\n\t" \
    ".endr\n\t" \
    ".if \\count\n\tadds %[weights], #.Lat\n\t.endif\n\t" \
    ".endm\n\t"
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
#endif

/* At each of the 16 positions: products with the weights of `width` output channels, summed over the input channels.
   Returns where the next weights are. */
static QCGEN_INLINE const int16_t *qcgen_scalar_multiply(const struct qcgen_scalar_winograd *w, const void *elements,
    const int16_t *weights, int32_t width, int32_t *sums)
{
#if QCGEN_IS_THUMB1 && !defined(QCGEN_KEEP_R9)
    int32_t factor;

    /* LDM of four words, and sums in r8 and r9: compilers generate neither here. */
    __asm__ volatile(
        ".syntax unified\n\t"
        QCGEN_SCALAR_NUMBER QCGEN_SCALAR_TILE_CHANNELS
        "movs r2, #%c[bytes]\n\tadd r2, %[sums]\n\tmov r10, r2\n"
        "1:\n\t"
        ".number (%c[rounds]*%c[round])\n\tlsls r2, r2, #3\n\tadds r2, r2, %[v]\n\tmov lr, r2\n\t"
        "movs r2, #0\n\tmov r8, r2\n\tmov r9, r2\n"
        "2:\n\t"
        ".channels %c[round]\n\t"
        "cmp %[v], lr\n\tbne 2b\n\t"
        ".channels %c[rest]\n\t"
        "mov r2, r8\n\tmov r3, r9\n\t"
        "mov %[w], %[sums]\n\tstmia %[w]!, {r2, r3}\n\tmov %[sums], %[w]\n\tcmp %[w], r10\n\tbne 1b\n\t"
        ".purgem .number\n\t.purgem .channels"
        : [v] "+l"(elements), [weights] "+l"(weights), [w] "=&l"(factor), [sums] "+h"(sums)
        : [bytes] "i"(16 * 2 * 4 * width), [round] "i"(w->round), [rounds] "i"(w->channels / w->round),
          [rest] "i"(w->channels % w->round)
        : "r2", "r3", "r4", "r5", "r8", "r9", "r10", "lr", "cc", "memory");
#else
    const int32_t size = w->has_words ? 4 : 2, rest = w->channels % w->round;
    const int16_t *v = elements;
    const int32_t *const end = sums + 16 * 2 * width;

    do {
        const int16_t *const v_end = v + (w->channels - rest) * size;
        int32_t a[4] = { 0, 0, 0, 0 }, b[4] = { 0, 0, 0, 0 };

        do {
            QCGEN_UNROLLED
            for (int32_t c = 0; c < w->round; c++) {
                qcgen_scalar_multiply_channel(w, v + c * size, weights + c * width, width, a, b);
            }
            v += w->round * size;
            weights += w->round * width;
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
#endif
    return weights;
}

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

/* The steps of a layer: Bt d B, pixels where they do not lie side by side, and all channels of tiles. */
typedef void qcgen_scalar_transforms(const void *x, int32_t row, void *elements);
typedef void qcgen_scalar_gathers(const void *x, int32_t y, int32_t x0, void *pixels);
typedef void qcgen_scalar_multiplies(const void *own, const void *elements, int32_t *sums, void *y, int32_t at);

/* Two tiles of an image, the first output of which is (oy, ox). */
static QCGEN_INLINE void qcgen_scalar_two_tiles(const struct qcgen_scalar_winograd *w, const uint8_t *x, int32_t oy,
    int32_t ox, void *elements, void *pixels, qcgen_scalar_transforms *transform, qcgen_scalar_gathers *gather)
{
    const int32_t y = oy - w->row_pad, x0 = ox - w->column_pad;

    if (w->gathers == 0
        || (w->gathers == 1 && y >= 0 && y + 4 <= w->rows && x0 >= 0 && x0 + 6 <= w->columns)) {
        transform(x + (y * w->columns + x0) * w->channels, w->columns * w->channels, elements);
    } else {
        gather(x, y, x0, pixels);
        transform(pixels, 6 * w->channels, elements);
    }
}

/* All tiles of all images. */
static QCGEN_INLINE void qcgen_scalar_all_tiles(const struct qcgen_scalar_winograd *w, const void *own, const void *x,
    void *y, void *elements, int32_t *sums, void *pixels, qcgen_scalar_transforms *transform,
    qcgen_scalar_gathers *gather, qcgen_scalar_multiplies *multiply)
{
    for (int32_t n = 0; n < w->batch; n++) {
        for (int32_t y0 = 0; y0 < w->row_dilation; y0++) {
            const int32_t height = (w->out_rows - y0 + w->row_dilation - 1) / w->row_dilation;

            for (int32_t i = 0; i < height; i += 2) {
                /* The last tiles end with the image; they compute some outputs a second time. */
                const int32_t oy = y0 + (i < height - 2 ? i : height - 2) * w->row_dilation;

                for (int32_t x0 = 0; x0 < w->column_dilation; x0++) {
                    const int32_t width = (w->out_columns - x0 + w->column_dilation - 1) / w->column_dilation;

                    for (int32_t j = 0; j < width; j += 4) {
                        const int32_t ox = x0 + (j < width - 4 ? j : width - 4) * w->column_dilation;

                        qcgen_scalar_two_tiles(
                            w, (const uint8_t *)x + n * w->x_image, oy, ox, elements, pixels, transform, gather);
                        multiply(own, elements, sums, y,
                            n * w->y_image + (oy * w->out_columns + ox) * w->out_channels);
                    }
                }
            }
        }
    }
}
