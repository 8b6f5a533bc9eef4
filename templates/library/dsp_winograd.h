/* Winograd's and Toom-Cook's algorithms along an axis, modulo 2^32, for Cortex-M4, M7 and M33. */
#pragma once
#include <stdint.h>
#include <string.h>
#include "compiler.h"
#include "dsp.h"

/* Tiles of pixels, as many along each axis as there are points: one where the kernel has one tap. */
struct qcgen_dsp_tiles {
    int32_t rows, columns, in_channels, is_planar; /* of the image; its channels may come first */
    int32_t channels; /* up to a multiple of four: bytes of a pixel, words of a point */
    int32_t row_points, column_points, row_dilation, column_dilation;
    int32_t outside;                 /* an element outside the image: the zero point */
    int32_t pair_offset, value_bias; /* make elements 0 to 255, and keep values at points from being negative */
};

/* Four neighbours on an axis become what the weights' values at 0, 1, -1 and infinity are multiplied with. */
static QCGEN_INLINE void qcgen_dsp_evaluate_4(uint32_t *d)
{
    const uint32_t even = d[2], odd = d[1];

    d[0] = even - d[0];
    d[1] = even + odd;
    d[2] = even - odd;
    d[3] = d[3] - odd;
}

/* Six neighbours on an axis become what the weights' values at 0, 1, -1, 2, -2 and infinity are multiplied with. */
static QCGEN_INLINE void qcgen_dsp_evaluate_6(uint32_t *d)
{
    const uint32_t even1 = d[4] - (d[2] << 2), odd1 = d[3] - (d[1] << 2);
    const uint32_t even2 = d[4] - d[2], odd2 = d[3] - d[1];

    d[0] = even2 + ((d[0] - d[2]) << 2);
    d[5] = d[5] - d[3] - (odd2 << 2);
    d[1] = even1 + odd1;
    d[2] = even1 - odd1;
    d[3] = even2 + (odd2 << 1);
    d[4] = even2 - (odd2 << 1);
}

/* 2 or 3 neighbouring outputs, times 2, from the products at 4 points. */
static QCGEN_INLINE void qcgen_dsp_interpolate_4(uint32_t *t, int32_t outputs)
{
    const uint32_t even = t[1] + t[2], odd = t[1] - t[2];

    t[0] = t[0] + even;
    t[1] = outputs == 2 ? odd + t[3] : odd;
    if (outputs == 3) {
        t[2] = even + t[3];
    }
}

/* 2 to 5 neighbouring outputs, times 24, from the products at 6 points; that at infinity counts twice. */
static QCGEN_INLINE void qcgen_dsp_interpolate_6(uint32_t *t, int32_t outputs)
{
    const uint32_t even1 = t[1] + t[2], odd1 = t[1] - t[2];
    const uint32_t even2 = t[3] + t[4], odd2 = t[3] - t[4];

    t[0] = t[0] + even1 + even2;
    t[1] = odd1 + (odd2 << 1);
    if (outputs > 2) {
        t[2] = even1 + (even2 << 2);
    }
    if (outputs > 3) {
        t[3] = odd1 + (odd2 << 3);
    }
    if (outputs > 4) {
        t[4] = even1 + (even2 << 4);
    }
    t[outputs - 1] += t[5] << 1;
}

/* 2 or 3 neighbouring weights become twice their values at 4 points, as `interpolate` takes them. */
static QCGEN_INLINE void qcgen_dsp_transform_4(uint32_t *d, int32_t taps)
{
    const uint32_t even = taps > 2 ? d[0] + d[2] : d[0];
    const uint32_t odd = d[1];

    d[3] = 2 * d[taps - 1];
    d[0] = 0 - 2 * d[0];
    d[1] = even + odd;
    d[2] = even - odd;
}

/* 2 to 5 neighbouring weights become multiples of their values at 6 points, so that all are whole. */
static QCGEN_INLINE void qcgen_dsp_transform_6(uint32_t *d, int32_t taps)
{
    const uint32_t even1 = d[0] + (taps > 2 ? d[2] : 0) + (taps > 4 ? d[4] : 0);
    const uint32_t odd1 = d[1] + (taps > 3 ? d[3] : 0);
    const uint32_t even2 = d[0] + (taps > 2 ? d[2] << 2 : 0) + (taps > 4 ? d[4] << 4 : 0);
    const uint32_t odd2 = (d[1] << 1) + (taps > 3 ? d[3] << 3 : 0);

    d[5] = 12 * d[taps - 1];
    d[0] = 6 * d[0];
    d[1] = 0 - 4 * (even1 + odd1);
    d[2] = 0 - 4 * (even1 - odd1);
    d[3] = even2 + odd2;
    d[4] = even2 - odd2;
}

/* Elements of a line of pixels become values at its points. */
typedef void qcgen_dsp_values(uint32_t *d);

/* The factors of a tile of pixels. A word holds two channels, lower + 65536 * upper: sums and multiples of words are
   right for both if the lower half comes out as 0 to 65535, whatever it is on the way. The bias keeps it so: the lower
   halves of the last two pixels of both axes get it, from where every value has it once until it is subtracted. */
static QCGEN_INLINE void qcgen_dsp_evaluate_tile_s8(const struct qcgen_dsp_tiles *tiles, const int8_t *x, int32_t row,
    uint32_t *halves, int32_t *v, qcgen_dsp_values *column_values, qcgen_dsp_values *row_values)
{
    const int32_t rows = tiles->row_points, columns = tiles->column_points, point = tiles->channels;

    for (int32_t c = 0; c < tiles->channels; c += 4) {
        for (int32_t j = 0; j < columns; j++) {
            const int8_t *const pixel = x + j * tiles->channels;
            const int32_t last = j < columns - 2 ? tiles->pair_offset : tiles->pair_offset + tiles->value_bias;
            uint32_t d[6];

            QCGEN_UNROLLED
            for (int32_t half = 0; half < 2; half++) {
                QCGEN_UNROLLED
                for (int32_t i = 0; i < rows; i++) {
                    const int32_t word = qcgen_dsp_load_word(pixel + i * row);
                    const int32_t offset = i < rows - 2 ? tiles->pair_offset : last;

                    d[i] = (uint32_t)(half ? qcgen_dsp_add_odd_s8(offset, word) : qcgen_dsp_add_even_s8(offset, word));
                }
                column_values(d);
                QCGEN_UNROLLED
                for (int32_t i = 0; i < rows; i++) {
                    halves[(half * rows + i) * columns + j] = d[i];
                }
            }
        }
        for (int32_t half = 0; half < 2; half++) {
            for (int32_t i = 0; i < rows; i++) {
                const uint32_t *const row_points = halves + (half * rows + i) * columns;
                int32_t *const factors = v + i * columns * point + 2 * half;
                uint32_t d[6];

                QCGEN_UNROLLED
                for (int32_t j = 0; j < columns; j++) {
                    d[j] = row_points[j];
                }
                row_values(d);
                QCGEN_UNROLLED
                for (int32_t j = 0; j < columns; j++) {
                    factors[j * point] = qcgen_dsp_sub((int32_t)d[j], tiles->value_bias);
                }
            }
        }
        x += 4;
        v += 4;
    }
}

/* The same for a tile that is a line of pixels, `distance` bytes apart; its last two get the bias. */
static QCGEN_INLINE void qcgen_dsp_evaluate_line_s8(
    const struct qcgen_dsp_tiles *tiles, const int8_t *x, int32_t distance, int32_t *v, qcgen_dsp_values *values)
{
    const int32_t points = tiles->row_points * tiles->column_points, last = tiles->pair_offset + tiles->value_bias;

    for (int32_t c = 0; c < tiles->channels; c += 4) {
        uint32_t d[6];

        QCGEN_UNROLLED
        for (int32_t half = 0; half < 2; half++) {
            QCGEN_UNROLLED
            for (int32_t i = 0; i < points; i++) {
                const int32_t word = qcgen_dsp_load_word(x + i * distance);
                const int32_t offset = i < points - 2 ? tiles->pair_offset : last;

                d[i] = (uint32_t)(half ? qcgen_dsp_add_odd_s8(offset, word) : qcgen_dsp_add_even_s8(offset, word));
            }
            values(d);
            QCGEN_UNROLLED
            for (int32_t i = 0; i < points; i++) {
                v[i * tiles->channels + 2 * half] = qcgen_dsp_sub((int32_t)d[i], tiles->value_bias);
            }
        }
        x += 4;
        v += 4;
    }
}

/* Collects the pixels of the tile that starts at pixel (y, x0), whose rows are runs of bytes where they are on the
   image. */
static QCGEN_INLINE void qcgen_dsp_gather_runs_s8(
    const struct qcgen_dsp_tiles *tiles, const int8_t *x, int32_t y, int32_t x0, int8_t *pixels)
{
    const int32_t pixel = tiles->channels, row = tiles->column_points * pixel, behind = tiles->columns - x0;
    const int32_t first = x0 < 0 ? -x0 : 0;
    const int32_t beyond = behind < tiles->column_points ? behind : tiles->column_points;

    (void)memset(pixels, tiles->outside, (size_t)(tiles->row_points * row));
    for (int32_t i = 0; i < tiles->row_points; i++) {
        const int32_t iy = y + i * tiles->row_dilation;

        if (iy >= 0 && iy < tiles->rows && first < beyond) {
            const int8_t *const run = x + (iy * tiles->columns + x0 + first) * pixel;

            (void)memcpy(pixels + first * pixel, run, (size_t)(beyond - first) * (size_t)pixel);
        }
        pixels += row;
    }
}

/* The same pixel by pixel: they lie apart, or do not fill whole words. */
static QCGEN_INLINE void qcgen_dsp_gather_pixels_s8(
    const struct qcgen_dsp_tiles *tiles, const int8_t *x, int32_t y, int32_t x0, int8_t *pixels)
{
    (void)memset(pixels, tiles->outside, (size_t)(tiles->row_points * tiles->column_points * tiles->channels));
    for (int32_t i = 0; i < tiles->row_points; i++) {
        const int32_t iy = y + i * tiles->row_dilation;

        for (int32_t j = 0; j < tiles->column_points; j++) {
            const int32_t ix = x0 + j * tiles->column_dilation;

            if (iy >= 0 && iy < tiles->rows && ix >= 0 && ix < tiles->columns) {
                for (int32_t c = 0; tiles->is_planar && c < tiles->in_channels; c++) {
                    pixels[c] = x[(c * tiles->rows + iy) * tiles->columns + ix];
                }
                if (!tiles->is_planar) {
                    const int8_t *const pixel = x + (iy * tiles->columns + ix) * tiles->in_channels;

                    (void)memcpy(pixels, pixel, (size_t)tiles->in_channels);
                }
            }
            pixels += tiles->channels;
        }
    }
}

/* Of the weights of four input channels numbers half and half + 2, as lower + 65536 * upper; bytes are 128 larger. */
static QCGEN_INLINE uint32_t qcgen_dsp_weights_of(const uint8_t *four, int32_t half)
{
    const uint32_t word = (uint32_t)qcgen_dsp_load_word(four) >> (8 * half);

    return (uint32_t)qcgen_dsp_even_u8((int32_t)word) - UINT32_C(0x800080);
}

/* lower + 65536 * upper, both within 16 bits, as a pair. */
static QCGEN_INLINE int32_t qcgen_dsp_pair_of(uint32_t two)
{
    return (int32_t)((two + UINT32_C(0x8000)) ^ UINT32_C(0x8000));
}

/* Adds the products of a pair of two tiles with the weights of 1, 2 or 4 output channels, or begins with them. */
static QCGEN_INLINE void qcgen_dsp_tile_step(
    const int32_t **v, const int32_t **weights, int32_t width, int32_t is_first, int32_t *a, int32_t *b)
{
    int32_t x, z, w[2];

    qcgen_dsp_load_two(v, &x, &z);
    w[0] = width == 1 ? *(*weights)++ : 0;
    QCGEN_UNROLLED
    for (int32_t c = 0; c < width; c++) {
        if (width > 1 && c % 2 == 0) {
            qcgen_dsp_load_two(weights, &w[0], &w[1]);
        }
        a[c] = is_first ? qcgen_dsp_product(x, w[c % 2]) : qcgen_dsp_dot(x, w[c % 2], a[c]);
        b[c] = is_first ? qcgen_dsp_product(z, w[c % 2]) : qcgen_dsp_dot(z, w[c % 2], b[c]);
    }
}

/* The products of two tiles with the weights of so many output channels, summed over pairs of input channels, at each
   point; a loop has so many copies of its body. Returns where the next weights are. */
static QCGEN_INLINE const int32_t *qcgen_dsp_multiply_tiles(const int32_t *v, const int32_t *weights, int32_t points,
    int32_t pairs, int32_t copies, int32_t width, uint32_t *sums)
{
    const int32_t rounds = (pairs - 1) / copies, rest = (pairs - 1) % copies;
    const uint32_t *const end = sums + points * 2 * width;

    do {
        int32_t a[4], b[4];

        qcgen_dsp_tile_step(&v, &weights, width, 1, a, b);
        QCGEN_UNROLLED
        for (int32_t k = 0; k < rest; k++) {
            qcgen_dsp_tile_step(&v, &weights, width, 0, a, b);
        }
        for (int32_t i = 0; i < rounds; i++) {
            QCGEN_UNROLLED
            for (int32_t k = 0; k < copies; k++) {
                qcgen_dsp_tile_step(&v, &weights, width, 0, a, b);
            }
        }
        QCGEN_UNROLLED
        for (int32_t c = 0; c < width; c++) {
            sums[c] = (uint32_t)a[c];
            sums[width + c] = (uint32_t)b[c];
        }
        sums += 2 * width;
    } while (sums != end);
    return weights;
}
