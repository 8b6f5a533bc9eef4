/* Convolutions with a filter for each channel, every tap written out. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "scalar.h"
#include "spatial.h"

/* Filters of single channels, [taps][channels], and the windows of an image with the channels last. */
struct qcgen_channelwise {
    struct qcgen_spatial windows;
    int32_t channels, taps, weight_bytes;
    int32_t is_unsigned; /* elements are uint8_t */
};

/* Adds a product to a sum. */
typedef int32_t qcgen_channelwise_adder(const struct qcgen_channelwise *layer, int32_t sum, int element, int weight);

static QCGEN_INLINE int32_t qcgen_channelwise_add(
    const struct qcgen_channelwise *layer, int32_t sum, int element, int weight)
{
    /* A product of bytes fits an int of 16 bits, too. */
    return sum + (layer->weight_bytes == 1 ? element * weight : (int32_t)element * weight);
}

/* The same on cores with too few registers for several products at the same time. */
static QCGEN_INLINE int32_t qcgen_channelwise_add_next(
    const struct qcgen_channelwise *layer, int32_t sum, int element, int weight)
{
    (void)layer;
    sum = qcgen_scalar_multiply_add(sum, element, weight);
#if !QCGEN_IS_THUMB1
    QCGEN_SUMMED(sum);
#endif
    return sum;
}

/* Weights as these cores address them: else compilers keep many pointers, and sums in no register that adds. */
static QCGEN_INLINE const void *qcgen_channelwise_moved(const void *weights)
{
#if QCGEN_IS_THUMB1 && !defined(__OPTIMIZE_SIZE__)
    QCGEN_MOVED(weights);
#endif
    return weights;
}

/* The sum of channel m: of the window that begins at x, or whose taps are pixels at these pointers. */
static QCGEN_INLINE int32_t qcgen_channelwise_sum(const struct qcgen_channelwise *layer, qcgen_channelwise_adder *add,
    const void *x, const void *const *taps, int32_t m, const void *weights, int32_t bias)
{
    int32_t sum = bias;

    QCGEN_UNROLLED
    for (int32_t k = 0; k < layer->taps; k++) {
        const int32_t place = m + (taps != 0 ? 0 : qcgen_spatial_offset(&layer->windows, k));
        const void *const pixel = taps != 0 ? taps[k] : x;
        const int32_t i = k * layer->channels + m;
        const int weight = layer->weight_bytes == 1 ? ((const int8_t *)weights)[i] : ((const int16_t *)weights)[i];

        sum = add(layer, sum,
            layer->is_unsigned != 0 ? ((const uint8_t *)pixel)[place] : ((const int8_t *)pixel)[place], weight);
    }
    return sum;
}

/* An image and a pixel of what is outside of it. */
struct qcgen_channelwise_image {
    const uint8_t *x, *padding;
};

static QCGEN_INLINE void *qcgen_channelwise_point(
    const void *image, int32_t place, int32_t count, int32_t padding, int32_t is_outside, void *taps)
{
    const struct qcgen_channelwise_image *const found = image;
    const void **const to = taps;

    (void)count, (void)padding;
    *to = is_outside != 0 ? found->padding : found->x + place;
    return to + 1;
}

/* Points at the taps of a window that begins there. */
static QCGEN_INLINE void qcgen_channelwise_find(const struct qcgen_channelwise *layer, const void *x,
    const int32_t *begin, const void *padding, const void **taps)
{
    const struct qcgen_spatial *const w = &layer->windows;
    const struct qcgen_channelwise_image image = {x, padding};
    /* Where all windows begin alike, as compilers know only here. */
    const int32_t known[4] = {
        w->out[0] == 1 ? -w->pad[0] : begin[0],
        w->out[1] == 1 ? -w->pad[1] : begin[1],
        w->out[2] == 1 ? -w->pad[2] : begin[2],
        w->out[3] == 1 ? -w->pad[3] : begin[3],
    };

    qcgen_spatial_walk(w, &image, 0, known, 0, taps, qcgen_channelwise_point);
}
