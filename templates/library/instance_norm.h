/* InstanceNormalization of int8_t codes, its float32 arithmetic in integers; that of uint8_t has u8 for s8. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "soft_float.h"

/* What a layer is. Words are the bits of float32 numbers. */
struct qcgen_instance_norm {
    const uint32_t *numbers; /* the words that codes stand for */
    const uint32_t *scale; /* words by which channels are multiplied */
    const uint32_t *bias; /* words that are added to them then */
    int32_t batch; /* images */
    int32_t channels; /* of an image */
    int32_t pixels; /* of a channel */
    int32_t x_image; /* from one image of x to the next */
    int32_t x_channel;
    int32_t x_pixel;
    int32_t y_image; /* the same of y */
    int32_t y_channel;
    int32_t y_pixel;
    int32_t first; /* plus a code: the place of its number */
    uint32_t count; /* the pixels as a word */
    uint32_t epsilon; /* a word */
    uint32_t y_scale; /* a word */
    int32_t y_zero_point; /* a code, from y_low to y_high */
    int32_t y_low;
    int32_t y_high;
};

/* The square of what a number is away from the mean. */
static uint32_t qcgen_instance_norm_square(uint32_t number, uint32_t mean)
{
    const uint32_t deviation = qcgen_soft_float_add(number, mean ^ (UINT32_C(1) << 31));

    return qcgen_soft_float_multiply(deviation, deviation);
}

/* The code of a number times a factor, plus an addend. */
static uint8_t qcgen_instance_norm_code(
    const struct qcgen_instance_norm *layer, uint32_t number, uint32_t factor, uint32_t addend)
{
    const uint32_t product = qcgen_soft_float_multiply(number, factor);
    const uint32_t normal = qcgen_soft_float_add(product, addend);
    const uint32_t quotient = qcgen_soft_float_divide(normal, layer->y_scale);
    const int32_t code = qcgen_soft_float_round(quotient) + layer->y_zero_point;

    return (uint8_t)(code < layer->y_low ? layer->y_low : code > layer->y_high ? layer->y_high : code);
}

/* A term of a sum: what a table has for a code, or with a mean the square of what that is away from it. */
static uint32_t qcgen_instance_norm_term_s8(
    const struct qcgen_instance_norm *layer, int8_t code, const uint32_t *terms, const uint32_t *mean)
{
    const uint32_t term = terms[code + layer->first];

    return mean ? qcgen_instance_norm_square(term, *mean) : term;
}

/*
 * The sum over a channel as onnxruntime takes it: from pixel `start` on in eight lanes, which are added up in pairs,
 * then what is beside them.
 */
static uint32_t qcgen_instance_norm_sum_s8(const struct qcgen_instance_norm *layer, const int8_t *x, int32_t start,
    const uint32_t *terms, const uint32_t *mean)
{
    const int32_t pixels = layer->pixels, step = layer->x_pixel;
    const int32_t from = start < pixels ? start : pixels;
    const int32_t whole = pixels - (pixels - from) % 8;
    const int32_t end = pixels - (pixels - from) % 4;
    uint32_t lanes[8] = {0};

    for (int32_t j = from; j < whole; j++) {
        uint32_t *const lane = &lanes[(j - from) % 8];

        *lane = qcgen_soft_float_add(*lane, qcgen_instance_norm_term_s8(layer, x[j * step], terms, mean));
    }
    for (int32_t i = 0; i < 4; i++) {
        lanes[i] = qcgen_soft_float_add(lanes[i], lanes[i + 4]);
    }
    for (int32_t j = whole; j < end; j++) {
        uint32_t *const lane = &lanes[j - whole];

        *lane = qcgen_soft_float_add(*lane, qcgen_instance_norm_term_s8(layer, x[j * step], terms, mean));
    }
    lanes[0] = qcgen_soft_float_add(lanes[0], lanes[2]);
    lanes[1] = qcgen_soft_float_add(lanes[1], lanes[3]);
    lanes[0] = qcgen_soft_float_add(lanes[0], lanes[1]);
    for (int32_t j = 0; j < from; j++) {
        lanes[0] = qcgen_soft_float_add(lanes[0], qcgen_instance_norm_term_s8(layer, x[j * step], terms, mean));
    }
    for (int32_t j = end; j < pixels; j++) {
        lanes[0] = qcgen_soft_float_add(lanes[0], qcgen_instance_norm_term_s8(layer, x[j * step], terms, mean));
    }
    return lanes[0];
}

/* Channel c, which begins at x and y; `place` is that of its first pixel in a tensor with channels first. */
static void qcgen_instance_norm_channel_s8(const struct qcgen_instance_norm *layer, const int8_t *x, uint8_t *y,
    int32_t c, int32_t place, uint32_t *squares)
{
    const uint32_t minus = UINT32_C(1) << 31, one = UINT32_C(0x3f800000);
    const int32_t start = (4 - place % 4) % 4; /* the first pixel that onnxruntime finds at an aligned address */
    const uint32_t total = qcgen_instance_norm_sum_s8(layer, x, start, layer->numbers, NULL);
    const uint32_t mean = qcgen_soft_float_divide(total, layer->count);
    uint32_t variance, factor, addend;

    if (squares) {
        for (int32_t i = 0; i < 256; i++) {
            squares[i] = qcgen_instance_norm_square(layer->numbers[i], mean);
        }
        variance = qcgen_instance_norm_sum_s8(layer, x, 0, squares, NULL);
    } else {
        variance = qcgen_instance_norm_sum_s8(layer, x, 0, layer->numbers, &mean);
    }
    variance = qcgen_soft_float_divide(variance, layer->count);
    variance = qcgen_soft_float_add(variance, layer->epsilon);
    factor = qcgen_soft_float_divide(one, qcgen_soft_float_root(variance));
    factor = qcgen_soft_float_multiply(factor, layer->scale[c]);
    addend = qcgen_soft_float_add(layer->bias[c], qcgen_soft_float_multiply(mean, factor) ^ minus);
    if (squares) {
        uint8_t *const codes = (void *)squares; /* afterwards, in the same place */

        for (int32_t i = 0; i < 256; i++) {
            codes[i] = qcgen_instance_norm_code(layer, layer->numbers[i], factor, addend);
        }
        for (int32_t j = 0; j < layer->pixels; j++) {
            y[j * layer->y_pixel] = codes[x[j * layer->x_pixel] + layer->first];
        }
    } else {
        for (int32_t j = 0; j < layer->pixels; j++) {
            const uint32_t number = layer->numbers[x[j * layer->x_pixel] + layer->first];

            y[j * layer->y_pixel] = qcgen_instance_norm_code(layer, number, factor, addend);
        }
    }
}

/* All channels. Where they have more pixels than there are codes, `squares` has room for 256 words, else it is NULL:
   each code is squared, and its output found, once for a channel. */
static void qcgen_instance_norm_s8(
    const struct qcgen_instance_norm *layer, const int8_t *x, uint8_t *y, uint32_t *squares)
{
    for (int32_t n = 0; n < layer->batch; n++) {
        for (int32_t c = 0; c < layer->channels; c++) {
            const int8_t *const in = x + (n * layer->x_image + c * layer->x_channel);
            uint8_t *const out = y + (n * layer->y_image + c * layer->y_channel);

            qcgen_instance_norm_channel_s8(layer, in, out, c, (n * layer->channels + c) * layer->pixels, squares);
        }
    }
}
