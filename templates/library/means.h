/* Means of images: of int8_t, functions for uint8_t, int16_t and uint16_t have u8, s16 and u16 for s8; and of float. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "integers.h"

/* Images whose channels lie side by side, and where their means go: elements from one to the next. */
struct qcgen_code_means {
    int32_t batch, channels, pixels, x_image, x_channel, y_image, y_channel;
    int32_t start; /* of a sum */
    int32_t width; /* pixels of a row that comes alone */
};

/* Stores what becomes of a sum at some distance from y. */
typedef void qcgen_code_means_store(int32_t sum, void *y, int32_t at);

/* Adds up a few channels, which lie side by side, over all pixels. On its own the loop keeps its sums in registers. */
static QCGEN_NOINLINE void qcgen_code_means_add_s8(
    const int8_t *restrict pixel, int32_t pixels, int32_t channels, int32_t lanes, int32_t *restrict sums)
{
    for (int32_t i = 0; i < pixels; i++) {
        QCGEN_UNROLLED
        for (int32_t j = 0; j < lanes; j++) {
            sums[j] += pixel[j];
        }
        pixel += channels;
    }
}

/* Channels that lie side by side. The last ones end with the pixel: some may be computed a second time. */
static QCGEN_INLINE void qcgen_code_means_of_lanes_s8(const struct qcgen_code_means *layer, const int8_t *x, void *y,
    int32_t lanes, int32_t *sums, qcgen_code_means_store *store)
{
    const int32_t channels = layer->channels;

    for (int32_t n = 0; n < layer->batch; n++) {
        for (int32_t lane = 0; lane < channels; lane += lanes) {
            const int32_t c = channels % lanes ? qcgen_smaller(lane, channels - lanes) : lane;

            for (int32_t j = 0; j < lanes; j++) {
                sums[j] = layer->start;
            }
            qcgen_code_means_add_s8(x + (n * layer->x_image + c), layer->pixels, channels, lanes, sums);
            for (int32_t j = 0; j < lanes; j++) {
                store(sums[j], y, n * layer->y_image + (c + j) * layer->y_channel);
            }
        }
    }
}

/* The same of four channels at a time: every core has registers for their sums. */
static QCGEN_INLINE void qcgen_code_means_by_fours_s8(
    const struct qcgen_code_means *layer, const int8_t *x, void *y, qcgen_code_means_store *store)
{
    int32_t sums[4];

    qcgen_code_means_of_lanes_s8(layer, x, y, 4, sums, store);
}

/* The same of up to 32 channels, of whose sums compilers make vectors. */
static QCGEN_INLINE void qcgen_code_means_by_vectors_s8(
    const struct qcgen_code_means *layer, const int8_t *x, void *y, qcgen_code_means_store *store)
{
    int32_t sums[32];

    qcgen_code_means_of_lanes_s8(layer, x, y, qcgen_smaller(layer->channels, 32), sums, store);
}

/* An image whose rows come one by one: each call adds one, the last one divides. `sums` end with the number of rows. */
static QCGEN_INLINE void qcgen_code_means_of_rows_s8(
    const struct qcgen_code_means *layer, const int8_t *x, void *y, int32_t *sums, qcgen_code_means_store *store)
{
    const int32_t channels = layer->channels, rows = layer->pixels / layer->width;

    for (int32_t c = 0; c < channels; c++) {
        int32_t sum = sums[c];

        for (int32_t i = 0; i < layer->width; i++) {
            sum += x[i * channels + c];
        }
        sums[c] = sum;
    }
    sums[channels]++;
    if (sums[channels] == rows) {
        for (int32_t c = 0; c < channels; c++) {
            store(layer->start + sums[c], y, c * layer->y_channel);
        }
    }
}

/* Images of float, and where their means go: elements from one to the next. */
struct qcgen_float_mean {
    int32_t batch, channels, pixels;
    int32_t sums;  /* of a channel side by side: 1 or 4 */
    int32_t width; /* pixels of a row that comes alone */
    int32_t x_image, x_channel, y_image, y_channel;
    int32_t size[4], step[4]; /* of axes of pixels, the outermost first */
};

/* A pixel of a channel. */
static QCGEN_INLINE float qcgen_float_means_pixel(const struct qcgen_float_mean *layer, const float *x, int32_t i)
{
    const int32_t *const size = layer->size, *const step = layer->step;
    const int32_t row = i / size[3], plane = row / size[2];

    return x[plane / size[1] * step[0] + plane % size[1] * step[1] + row % size[2] * step[2] + i % size[3] * step[3]];
}

/* The mean of each channel in onnxruntime's order: one pixel after the other, or four sums side by side. */
static QCGEN_INLINE void qcgen_float_means(const struct qcgen_float_mean *layer, const float *x, float *y)
{
    const int32_t pixels = layer->pixels, fours = layer->sums == 4 ? pixels / 4 * 4 : 0;

    for (int32_t n = 0; n < layer->batch; n++) {
        for (int32_t c = 0; c < layer->channels; c++) {
            const float *const from = x + (n * layer->x_image + c * layer->x_channel);
            float sum0 = 0.0f, sum1 = 0.0f, sum2 = 0.0f, sum3 = 0.0f;
            float sum;

            for (int32_t i = 0; i < fours; i += 4) {
                sum0 += qcgen_float_means_pixel(layer, from, i);
                sum1 += qcgen_float_means_pixel(layer, from, i + 1);
                sum2 += qcgen_float_means_pixel(layer, from, i + 2);
                sum3 += qcgen_float_means_pixel(layer, from, i + 3);
            }
            sum = (sum0 + sum2) + (sum1 + sum3);
            for (int32_t i = fours; i < pixels; i++) {
                sum += qcgen_float_means_pixel(layer, from, i);
            }
            y[n * layer->y_image + c * layer->y_channel] = sum / (float)pixels;
        }
    }
}

/* Of an image whose rows come one by one: each call adds one, the last one divides. `sums` end with the number of
   pixels that were added. */
static QCGEN_INLINE void qcgen_float_means_of_rows(
    const struct qcgen_float_mean *layer, const float *x, float *y, float *sums)
{
    const int32_t channels = layer->channels, pixels = layer->pixels, fours = layer->sums == 4 ? pixels / 4 * 4 : 0;
    int32_t pixel = (int32_t)sums[layer->sums * channels];

    for (int32_t i = 0; i < layer->width; i++) {
        float *const sum = pixel < fours ? sums + pixel % 4 * channels : sums;

        for (int32_t c = 0; c < channels; c++) {
            sum[c] += x[i * channels + c];
        }
        pixel++;
        if (pixel == fours) {
            for (int32_t c = 0; c < channels; c++) {
                sums[c] = (sums[c] + sums[2 * channels + c]) + (sums[channels + c] + sums[3 * channels + c]);
            }
        }
    }
    sums[layer->sums * channels] = (float)pixel;
    if (pixel == pixels) {
        for (int32_t c = 0; c < channels; c++) {
            y[c * layer->y_channel] = sums[c] / (float)pixels;
        }
    }
}
