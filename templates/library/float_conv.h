/* Convolutions of floating point: blocks of output pixels, each against all output channels of a group at once. A
   node's function declares pointers restrict: compilers forget it of functions that call others by a pointer. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "float32.h"
#include "integers.h"

/* Numbers of a convolution of floating point, distances in elements. */
struct qcgen_fp_conv {
    int32_t batch, groups, pixels, channels; /* the latter of the output, in a group */
    int32_t taps, chunk; /* of a window and group; so many are summed by themselves, a multiple of 4 or a divisor */
    int32_t is_fused;    /* each product joins its sum by itself, not four */
    int32_t is_ordered;  /* taps are in an order of their own */
    int32_t block, next; /* windows that share each weight that is read, up to two, and from one's taps to the next's */
    int32_t copies;      /* whether windows are copied; else their taps lie side by side in the image */
    int32_t has_bias, weight_bytes;
    int32_t x_image, x_group, y_image, y_pixel, y_channel;
};

/* What a node hands over: copies the window of a pixel in the order of the weights; a weight; a
   product and a sum together; what becomes of a sum. */
typedef void qcgen_fp_window_float(const float *x, int32_t pixel, float *taps);
typedef float qcgen_fp_weight_float(const void *weights, int32_t i);
typedef float qcgen_fp_join_float(float tap, float weight, float sum);
typedef float qcgen_fp_activation_float(float sum);

static QCGEN_INLINE float qcgen_fp_whole_weight_float(const void *weights, int32_t i)
{
    return ((const float *)weights)[i];
}

static QCGEN_INLINE float qcgen_fp_half_weight_float(const void *weights, int32_t i)
{
    return qcgen_from_half(((const uint16_t *)weights)[i]);
}

static QCGEN_INLINE float qcgen_fp_normal_half_weight_float(const void *weights, int32_t i)
{
    return qcgen_from_normal_half(((const uint16_t *)weights)[i]);
}

static QCGEN_INLINE float qcgen_fp_plain_join_float(float tap, float weight, float sum)
{
    return sum + tap * weight;
}

/* The weights of all channels from tap k on. */
static QCGEN_INLINE const void *qcgen_fp_weights_of(const struct qcgen_fp_conv *layer, const void *weights, int32_t k)
{
    return (const uint8_t *)weights + k * layer->channels * layer->weight_bytes;
}

/* Adds the products of up to four taps, from the k-th on, to a sum of each channel of each window. */
static QCGEN_INLINE void qcgen_fp_add_taps_float(const struct qcgen_fp_conv *layer, int32_t k, int32_t count,
    const float *taps, const uint16_t *order, const void *weights, float *sums, qcgen_fp_weight_float *weight,
    qcgen_fp_join_float *join)
{
    const int32_t channels = layer->channels;
    const void *const of_taps = qcgen_fp_weights_of(layer, weights, k);
    float own[4], next[4];

    QCGEN_UNROLLED
    for (int32_t i = 0; i < count; i++) {
        const int32_t tap = layer->is_ordered ? order[k + i] : k + i;

        own[i] = taps[tap];
        next[i] = layer->block > 1 ? taps[layer->next + tap] : 0;
    }
    for (int32_t m = 0; m < channels; m++) {
        float sum = layer->is_fused ? sums[m] : -(float)0; /* to which products are added as they are */
        float next_sum = layer->is_fused && layer->block > 1 ? sums[channels + m] : -(float)0;

        QCGEN_UNROLLED
        for (int32_t i = 0; i < count; i++) {
            const float w = weight(of_taps, i * channels + m);

            sum = join(own[i], w, sum);
            next_sum = layer->block > 1 ? join(next[i], w, next_sum) : next_sum;
        }
        sums[m] = layer->is_fused ? sum : sums[m] + sum;
        if (layer->block > 1) {
            sums[channels + m] = layer->is_fused ? next_sum : sums[channels + m] + next_sum;
        }
    }
}

/* Adds to the sums of all channels. Compilers must not reorder the additions of a sum, so it is the channels, not the
   taps, that lie side by side and vectorise. The sum of each chunk of taps is taken by itself, in `part`: fused, as
   onnxruntime does; else because rounding errors grow with the number of additions that a product passes through. */
static QCGEN_INLINE void qcgen_fp_add_window_float(const struct qcgen_fp_conv *layer, const float *taps,
    const uint16_t *order, const void *weights, float *sums, float *part, qcgen_fp_weight_float *weight,
    qcgen_fp_join_float *join)
{
    const int32_t chunk = layer->chunk, rest = chunk % 4 > 0 ? chunk % 4 : layer->taps % 4;
    const int32_t parts = chunk < layer->taps ? layer->block * layer->channels : 0;
    float *const chunk_sums = parts > 0 ? part : sums;

    for (int32_t begin = 0; begin < layer->taps; begin += chunk) {
        const int32_t end = layer->taps % chunk ? qcgen_smaller(begin + chunk, layer->taps) : begin + chunk;
        int32_t k = begin;

        for (int32_t i = 0; i < parts; i++) {
            part[i] = 0;
        }
        for (; k + 4 <= end; k += 4) {
            qcgen_fp_add_taps_float(layer, k, 4, taps, order, weights, chunk_sums, weight, join);
        }
        if (rest > 1 && k < end) {
            qcgen_fp_add_taps_float(layer, k, 2, taps, order, weights, chunk_sums, weight, join);
            k += 2;
        }
        if (rest % 2 > 0 && k < end) {
            qcgen_fp_add_taps_float(layer, k, 1, taps, order, weights, chunk_sums, weight, join);
        }
        for (int32_t i = 0; i < parts; i++) {
            sums[i] += part[i];
        }
    }
}

/* Image by image and group by group. The last block ends with the image; it may compute some outputs a second time. */
static QCGEN_INLINE void qcgen_fp_conv_float(const struct qcgen_fp_conv *layer, const void *weights, const float *bias,
    const uint16_t *order, const float *x, float *y, float *copied, float *sums, float *part,
    qcgen_fp_window_float *window, qcgen_fp_weight_float *weight, qcgen_fp_join_float *join,
    qcgen_fp_activation_float *activation)
{
    const int32_t channels = layer->channels, block = layer->block, last = layer->pixels - block;

    for (int32_t number = 0; number < layer->batch * layer->groups; number++) {
        const int32_t image = number / layer->groups, group = number % layer->groups;
        const float *const in = x + (image * layer->x_image + group * layer->x_group);
        float *const of_group = y + (image * layer->y_image + group * channels * layer->y_channel);

        for (int32_t i = 0; i < layer->pixels; i += block) {
            const int32_t pixel = layer->pixels % block ? qcgen_smaller(i, last) : i;
            float *const out = of_group + pixel * layer->y_pixel;

            for (int32_t lane = 0; lane < block && layer->copies; lane++) {
                window(in, pixel + lane, copied + lane * layer->taps);
            }
            for (int32_t m = 0; m < block * channels; m++) {
                sums[m] = 0;
            }
            qcgen_fp_add_window_float(layer, layer->copies ? copied : in + pixel * layer->next, order,
                qcgen_fp_weights_of(layer, weights, group * layer->taps), sums, part, weight, join);
            for (int32_t m = 0; m < channels; m++) {
                const float addend = layer->has_bias ? bias[group * channels + m] : 0;

                out[m * layer->y_channel] = activation(layer->has_bias ? sums[m] + addend : sums[m]);
                if (block > 1) {
                    const float sum = sums[channels + m];

                    out[layer->y_pixel + m * layer->y_channel] = activation(layer->has_bias ? sum + addend : sum);
                }
            }
        }
    }
}
