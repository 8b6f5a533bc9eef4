/* Planes of 16-bit elements, one for each channel of an image of int8_t; those of uint8_t have u8 in place of s8. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "dsp.h"

/* A convolution of planes of four channels of a channels-last image; a word of them holds two neighbours of a row. */
struct qcgen_dsp_planes {
    int32_t rows, columns, channels; /* of the image */
    int32_t row_pad, column_pad;     /* rows and columns before the image where the first window begins, 0 or more */
    int32_t plane_words, row_words;  /* of a plane, and of a row of it, which begins with that window */
    int32_t first, beyond;           /* words of a row from `first` on and before `beyond` lie wholly on the image */
    int32_t outside, pitch;          /* four times what is outside the image; elements of a row that begins anywhere */
    int32_t kernel_rows, kernel_columns, row_stride, column_stride, row_dilation, column_dilation, weight_bits;
    int32_t out_columns, y_bytes, words; /* words of weights of a channel: of each row neighbouring taps, */
    int32_t even_pairs, odd_pairs, lone; /* so many from even ones on, from odd ones; others behind all rows */
    int32_t together, parts;         /* outputs summed at the same time, and how often in a round of a loop */
    int32_t on_stack;                /* how many of bias, multiplier and offset are read from the stack */
};

/* Puts four channels of the pixels of up to three words of a plane's row there, from word i on: all inside the image or
   of a row with so many columns on it. They are loaded before any is stored, which takes less time. */
static QCGEN_INLINE void qcgen_dsp_planes_put_s8(const struct qcgen_dsp_planes *layer, const int8_t *row, int32_t i,
    int32_t words, int is_inside, int32_t columns, int32_t *planes)
{
    int32_t pixels[6];

    QCGEN_UNROLLED
    for (int32_t k = 0; k < 2 * words; k++) {
        const int32_t column = 2 * i + k - layer->column_pad;
        const int is_on_image = is_inside || (column >= 0 && column < columns);

        pixels[k] = is_on_image ? qcgen_dsp_load_word(row + column * layer->channels) : layer->outside;
    }
    QCGEN_UNROLLED
    for (int32_t k = 0; k < words; k++) {
        /* Two channels of two pixels: those of the first in the lower half, those of the second in the upper one. */
        const int32_t lower = qcgen_dsp_pair(pixels[2 * k], pixels[2 * k + 1]);
        const int32_t upper = qcgen_dsp_pair_high(pixels[2 * k], pixels[2 * k + 1]);

        planes[i + k] = qcgen_dsp_even_s8(lower);
        planes[layer->plane_words + i + k] = qcgen_dsp_odd_s8(lower);
        planes[2 * layer->plane_words + i + k] = qcgen_dsp_even_s8(upper);
        planes[3 * layer->plane_words + i + k] = qcgen_dsp_odd_s8(upper);
    }
}

/* Fills the planes of four channels for `rows` rows of outputs from row `oy` on; x is the first of the four. */
static QCGEN_INLINE void qcgen_dsp_planes_fill_s8(
    const struct qcgen_dsp_planes *layer, const int8_t *x, int32_t oy, int32_t rows, int32_t *planes)
{
    const int32_t rest = (layer->beyond - layer->first) % 4, whole = layer->beyond - rest;
    const int32_t begin = oy * layer->row_stride - layer->row_pad;
    const int32_t end = begin + (rows - 1) * layer->row_stride + (layer->kernel_rows - 1) * layer->row_dilation;

    for (int32_t y = begin; y <= end; y++) {
        const int8_t *const row = x + y * layer->columns * layer->channels;

        if (y < 0 || y >= layer->rows) {
            for (int32_t i = 0; i < layer->row_words; i++) {
                qcgen_dsp_planes_put_s8(layer, row, i, 1, 0, 0, planes);
            }
        } else {
            for (int32_t i = 0; i < layer->first; i++) {
                qcgen_dsp_planes_put_s8(layer, row, i, 1, 0, layer->columns, planes);
            }
            for (int32_t i = layer->first; i < whole; i += 4) {
                qcgen_dsp_planes_put_s8(layer, row, i, 2, 1, 0, planes);
                qcgen_dsp_planes_put_s8(layer, row, i + 2, 2, 1, 0, planes);
            }
            qcgen_dsp_planes_put_s8(layer, row, whole, rest, 1, 0, planes);
            for (int32_t i = layer->beyond; i < layer->row_words; i++) {
                qcgen_dsp_planes_put_s8(layer, row, i, 1, 0, layer->columns, planes);
            }
        }
        planes += layer->row_words;
    }
}

/* How channels of an image are copied to planes, one or two at a time, `copies` of their columns in a round of a loop:
   they begin at element `first`, their rows are `pitch` apart, and around them is the zero point. */
struct qcgen_dsp_copied {
    int32_t channels, rows, columns, together, copies;
    int32_t elements, pitch, first, zero_point; /* of a plane */
};

/* Computes all outputs of channel m, whose plane is given; y is the first of them, of one byte each. */
typedef void qcgen_dsp_plane_outputs(const void *own, const int16_t *plane, void *y, int32_t m);

/* Copies channels whose first elements are x[0] and, of two, x[second]. */
static QCGEN_INLINE void qcgen_dsp_copy_to_planes_s8(
    const struct qcgen_dsp_copied *c, const int8_t *x, int32_t second, int16_t *planes)
{
    int16_t *to = planes + c->first;
    int32_t rows = c->rows;

    do {
        int32_t columns = c->columns;

        do {
            QCGEN_UNROLLED
            for (int32_t i = 0; i < c->copies; i++) {
                if (c->together > 1) {
                    to[c->elements] = x[second];
                }
                *to++ = *x;
                x += c->channels;
                QCGEN_FENCE; /* else the compiler joins stores of halves by more instructions */
            }
            columns -= c->copies;
        } while (columns != 0);
        to += c->pitch - c->columns;
        rows--;
    } while (rows != 0);
}

/* Copies and computes all channels. */
static QCGEN_INLINE void qcgen_dsp_by_planes_s8(const void *own, const struct qcgen_dsp_copied *c,
    qcgen_dsp_plane_outputs *outputs, const int8_t *x, void *y, int16_t *planes)
{
    for (int32_t i = 0; i < c->together * c->elements; i++) {
        planes[i] = (int16_t)c->zero_point;
    }
    for (int32_t m = 0; m < c->channels; m += c->together) {
        const int32_t second = c->together > 1 && m + 1 < c->channels; /* of an odd number the last is copied twice */

        qcgen_dsp_copy_to_planes_s8(c, x + m, second, planes);
        for (int32_t i = 0; i <= second; i++) {
            outputs(own, planes + i * c->elements, (int8_t *)y + m + i, m + i);
        }
    }
}
