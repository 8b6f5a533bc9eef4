/* Planes of 16-bit elements, one for each channel of an image of int8_t; those of uint8_t have u8 in place of s8. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "dsp.h"

/* Planes of four channels of a channels-last image, with padding around them; a word holds two neighbours of a row. */
struct qcgen_dsp_planes {
    int32_t rows, columns, channels; /* of the image */
    int32_t pad;                     /* columns before the image, 0 or more */
    int32_t plane_words, row_words;  /* of a plane, and of a row of it */
    int32_t first, beyond;           /* words of a row from `first` on and before `beyond` lie wholly on the image */
    int32_t outside;                 /* four times what is outside the image */
};

/* Puts two neighbours of four channels into the planes. */
static QCGEN_INLINE void qcgen_dsp_planes_put_s8(
    const struct qcgen_dsp_planes *layer, int32_t first, int32_t second, int32_t *planes)
{
    /* Two channels of both: those of the first in the lower half, those of the second in the upper one. */
    const int32_t lower = qcgen_dsp_pair(first, second);
    const int32_t upper = qcgen_dsp_pair_high(first, second);

    planes[0] = qcgen_dsp_even_s8(lower);
    planes[layer->plane_words] = qcgen_dsp_odd_s8(lower);
    planes[2 * layer->plane_words] = qcgen_dsp_even_s8(upper);
    planes[3 * layer->plane_words] = qcgen_dsp_odd_s8(upper);
}

/* Puts the pixels of words i and i + 1 of a plane's row there; all lie on the image. They are loaded before any is
   stored: loads in a row take less time. */
static QCGEN_INLINE void qcgen_dsp_planes_put_two_s8(
    const struct qcgen_dsp_planes *layer, const int8_t *row, int32_t i, int32_t *planes)
{
    const int8_t *const pixels = row + (2 * i - layer->pad) * layer->channels;
    const int32_t first = qcgen_dsp_load_word(pixels);
    const int32_t second = qcgen_dsp_load_word(pixels + layer->channels);
    const int32_t third = qcgen_dsp_load_word(pixels + 2 * layer->channels);
    const int32_t fourth = qcgen_dsp_load_word(pixels + 3 * layer->channels);

    qcgen_dsp_planes_put_s8(layer, first, second, planes + i);
    qcgen_dsp_planes_put_s8(layer, third, fourth, planes + i + 1);
}

/* Four channels of the pixel in a column, which may lie outside the image. */
static QCGEN_INLINE int32_t qcgen_dsp_planes_pixel_s8(
    const struct qcgen_dsp_planes *layer, const int8_t *row, int32_t column)
{
    if (column < 0 || column >= layer->columns) {
        return layer->outside;
    }
    return qcgen_dsp_load_word(row + column * layer->channels);
}

/* Puts the pixels of word i there, which may lie outside the image. */
static QCGEN_INLINE void qcgen_dsp_planes_put_pixels_s8(
    const struct qcgen_dsp_planes *layer, const int8_t *row, int32_t i, int32_t *planes)
{
    const int32_t first = qcgen_dsp_planes_pixel_s8(layer, row, 2 * i - layer->pad);
    const int32_t second = qcgen_dsp_planes_pixel_s8(layer, row, 2 * i - layer->pad + 1);

    qcgen_dsp_planes_put_s8(layer, first, second, planes + i);
}

/* Fills the planes of four channels with the image's rows from `begin` on; x is the first of the four. */
static QCGEN_INLINE void qcgen_dsp_planes_fill_s8(
    const struct qcgen_dsp_planes *layer, const int8_t *x, int32_t begin, int32_t rows, int32_t *planes)
{
    const int32_t rest = (layer->beyond - layer->first) % 4;

    for (int32_t y = begin; y < begin + rows; y++) {
        if (y < 0 || y >= layer->rows) {
            for (int32_t i = 0; i < layer->row_words; i++) {
                qcgen_dsp_planes_put_s8(layer, layer->outside, layer->outside, planes + i);
            }
        } else {
            const int8_t *const row = x + y * layer->columns * layer->channels;

            for (int32_t i = 0; i < layer->first; i++) {
                qcgen_dsp_planes_put_pixels_s8(layer, row, i, planes);
            }
            for (int32_t i = layer->first; i < layer->beyond - rest; i += 4) {
                qcgen_dsp_planes_put_two_s8(layer, row, i, planes);
                qcgen_dsp_planes_put_two_s8(layer, row, i + 2, planes);
            }
            if (rest >= 2) {
                qcgen_dsp_planes_put_two_s8(layer, row, layer->beyond - rest, planes);
            }
            if (rest % 2) {
                qcgen_dsp_planes_put_pixels_s8(layer, row, layer->beyond - 1, planes);
            }
            for (int32_t i = layer->beyond; i < layer->row_words; i++) {
                qcgen_dsp_planes_put_pixels_s8(layer, row, i, planes);
            }
        }
        planes += layer->row_words;
    }
}
