/* Means of images of int8_t, four channels at a time; those of uint8_t have u8 in place of s8. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "dsp.h"
#include "integers.h"
#include "means.h"

/* Widens four channels of a pixel and adds them in pairs. */
static QCGEN_INLINE void qcgen_dsp_means_pixel_s8(const int8_t *pixel, int32_t *even, int32_t *odd)
{
    const int32_t word = qcgen_dsp_load_word(pixel);

    *even = qcgen_dsp_add_even_s8(*even, word);
    *odd = qcgen_dsp_add_odd_s8(*odd, word);
}

/* Adds up to 256 pixels to four sums: so many fit the 16 bits of half a pair. */
static QCGEN_INLINE void qcgen_dsp_means_add_s8(
    const int8_t *pixel, int32_t pixels, int32_t channels, int32_t *restrict sums)
{
    const int32_t left = pixels % 4;
    int32_t even = 0, odd = 0;

    for (int32_t i = 0; i < pixels / 4; i++) {
        qcgen_dsp_means_pixel_s8(pixel, &even, &odd);
        qcgen_dsp_means_pixel_s8(pixel + channels, &even, &odd);
        qcgen_dsp_means_pixel_s8(pixel + 2 * channels, &even, &odd);
        qcgen_dsp_means_pixel_s8(pixel + 3 * channels, &even, &odd);
        pixel += 4 * channels;
    }
    QCGEN_UNROLLED
    for (int32_t i = 0; i < left; i++) {
        qcgen_dsp_means_pixel_s8(pixel + i * channels, &even, &odd);
    }
    sums[0] += qcgen_dsp_half_s8(even);
    sums[1] += qcgen_dsp_half_s8(odd);
    sums[2] += qcgen_dsp_half_s8(even >> 16);
    sums[3] += qcgen_dsp_half_s8(odd >> 16);
}

/* The means of each channel of each image. The last four end with the pixel: some may be computed a second time. */
static QCGEN_INLINE void qcgen_dsp_means_s8(
    const struct qcgen_code_means *layer, const int8_t *x, void *y, qcgen_code_means_store *store)
{
    const int32_t channels = layer->channels, last = (layer->pixels - 1) % 256 + 1;

    for (int32_t n = 0; n < layer->batch; n++) {
        for (int32_t quad = 0; quad < channels; quad += 4) {
            const int32_t c = channels % 4 ? qcgen_smaller(quad, channels - 4) : quad;
            const int32_t at = n * layer->y_image + c * layer->y_channel;
            const int8_t *pixel = x + n * layer->x_image + c;
            int32_t sums[4] = { layer->start, layer->start, layer->start, layer->start };

            for (int32_t done = 0; done < layer->pixels - last; done += 256) {
                qcgen_dsp_means_add_s8(pixel, 256, channels, sums);
                pixel += 256 * channels;
            }
            qcgen_dsp_means_add_s8(pixel, last, channels, sums);
            store(sums[0], y, at); /* four calls: in a loop there is one, which gcc -Os inlines before it unrolls */
            store(sums[1], y, at + layer->y_channel);
            store(sums[2], y, at + 2 * layer->y_channel);
            store(sums[3], y, at + 3 * layer->y_channel);
        }
    }
}
