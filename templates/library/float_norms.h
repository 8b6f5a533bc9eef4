/* Float32 numbers with mean 0 and variance 1, by onnxruntime's operations in their order; inlined into each layer. */
#pragma once
#include <math.h>
#include <stdint.h>
#include "compiler.h"
#include "float32.h"

/* What a layer of channels is. */
struct qcgen_float_instance_norm {
    const float *scale; /* by which channels are multiplied */
    const float *bias; /* what is added to them then */
    int32_t batch; /* images */
    int32_t channels; /* of an image */
    int32_t pixels; /* of a channel */
    int32_t x_image; /* from one image of x to the next */
    int32_t x_channel;
    int32_t x_pixel;
    int32_t y_image; /* the same of y */
    int32_t y_channel;
    int32_t y_pixel;
    float epsilon; /* added to the variance */
};

/* What a layer of rows is. */
struct qcgen_float_layer_norm {
    const float *scale; /* by which the elements of a row are multiplied */
    const float *bias; /* what is added to them then; NULL if there is nothing */
    int32_t length; /* elements of a row */
    int32_t x_along; /* from one element of a row of x to the next */
    int32_t y_along; /* the same of y */
    float epsilon; /* added to the variance */
};

/* The square of what a number is away from the mean, rounded before a sum takes it. */
static inline float qcgen_float_norm_square(float number, float mean)
{
    return qcgen_rounded((number - mean) * (number - mean));
}

/* The sum of squares over a channel, in eight lanes, which are added up in pairs, then what is behind them. */
static QCGEN_INLINE float qcgen_float_norm_squares(
    const float *x, int32_t step, int32_t count, float mean)
{
    const int32_t eights = count - count % 8, fours = count - count % 4;
    float lanes[8] = {0.0f};

    for (int32_t j = 0; j < eights; j++) {
        lanes[j % 8] += qcgen_float_norm_square(x[j * step], mean);
    }
    for (int32_t i = 0; i < 4; i++) {
        lanes[i] += lanes[i + 4];
    }
    for (int32_t j = eights; j < fours; j++) {
        lanes[j - eights] += qcgen_float_norm_square(x[j * step], mean);
    }
    lanes[0] += lanes[2];
    lanes[1] += lanes[3];
    lanes[0] += lanes[1];
    for (int32_t j = fours; j < count; j++) {
        lanes[0] += qcgen_float_norm_square(x[j * step], mean);
    }
    return lanes[0];
}

/* Channel c, which begins at x and y; `place` is that of its first pixel in a tensor with channels first. */
static QCGEN_INLINE void qcgen_float_instance_norm_channel(
    const struct qcgen_float_instance_norm *layer, const float *x, float *y, int32_t c, uint32_t place)
{
    const int32_t pixels = layer->pixels, x_pixel = layer->x_pixel, y_pixel = layer->y_pixel;
    const float mean = qcgen_float_sum_in_eights(x, x_pixel, pixels, place) / (float)pixels;
    const float variance = qcgen_float_norm_squares(x, x_pixel, pixels, mean) / (float)pixels;
    const float factor = 1.0f / sqrtf(variance + layer->epsilon) * layer->scale[c];
    const float addend = layer->bias[c] - qcgen_rounded(mean * factor);

    for (int32_t j = 0; j < pixels; j++) {
        y[j * y_pixel] = qcgen_rounded(x[j * x_pixel] * factor) + addend;
    }
}

/* All channels. */
static QCGEN_INLINE void qcgen_float_instance_norm_channels(
    const struct qcgen_float_instance_norm *layer, const float *x, float *y)
{
    for (int32_t n = 0; n < layer->batch; n++) {
        for (int32_t c = 0; c < layer->channels; c++) {
            const float *const in = x + (n * layer->x_image + c * layer->x_channel);
            float *const out = y + (n * layer->y_image + c * layer->y_channel);
            const uint32_t place = (uint32_t)((n * layer->channels + c) * layer->pixels);

            qcgen_float_instance_norm_channel(layer, in, out, c, place);
        }
    }
}

/* A row, as onnxruntime computes short ones, and those of sums: equal numbers give exactly 0. */
static QCGEN_INLINE void qcgen_float_layer_norm_one_by_one(
    const struct qcgen_float_layer_norm *layer, const float *in, float *out)
{
    const int32_t length = layer->length, x_along = layer->x_along, y_along = layer->y_along;
    const float *const scale = layer->scale, *const bias = layer->bias;
    float mean = 0.0f;
    float squares = 0.0f;
    float root;

    for (int32_t j = 0; j < length; j++) {
        const float number = in[j * x_along];
        const float deviation = number - mean;

        mean += deviation / (float)(j + 1);
        squares += qcgen_rounded(deviation * (number - mean));
    }
    root = sqrtf(squares / (float)length + layer->epsilon);
    for (int32_t j = 0; j < length; j++) {
        const float scaled = (in[j * x_along] - mean) / root * scale[j];

        out[j * y_along] = bias ? qcgen_rounded(scaled) + bias[j] : scaled;
    }
}

/* A row, divided by the root of its mean square; squares are added one after the other. */
static QCGEN_INLINE void qcgen_float_rms_norm_one_by_one(
    const struct qcgen_float_layer_norm *layer, const float *in, float *out)
{
    const int32_t length = layer->length, x_along = layer->x_along, y_along = layer->y_along;
    float squares = 0.0f;
    float root;

    for (int32_t j = 0; j < length; j++) {
        squares += qcgen_float_norm_square(in[j * x_along], 0.0f);
    }
    root = sqrtf(squares / (float)length + layer->epsilon);
    for (int32_t j = 0; j < length; j++) {
        out[j * y_along] = in[j * x_along] / root * layer->scale[j];
    }
}

/* A row of eight numbers or more around their mean. */
static QCGEN_INLINE void qcgen_float_layer_norm_around(
    const struct qcgen_float_layer_norm *layer, const float *in, float *out, float mean)
{
    const int32_t length = layer->length, x_along = layer->x_along, y_along = layer->y_along;
    const int32_t whole = length - length % 8, rounded = length - length % 4;
    const float *const scale = layer->scale, *const bias = layer->bias;
    float lanes[8] = {0.0f};
    float variance, factor;

    /* Squares are summed in lanes, which are then added up in pairs; what does not fill them follows. */
    for (int32_t j = 0; j < whole; j++) {
        const float deviation = in[j * x_along] - mean;

        lanes[j % 8] = fmaf(deviation, deviation, lanes[j % 8]);
    }
    for (int32_t i = 0; i < 4; i++) {
        lanes[i] += lanes[i + 4];
    }
    /* Written out: with Helium, clang 22 leaves a loop over halves after its first turn. */
    variance = lanes[0] + lanes[2] + (lanes[1] + lanes[3]);
    for (int32_t j = whole; j < rounded; j++) {
        variance += qcgen_float_norm_square(in[j * x_along], mean);
    }
    for (int32_t j = rounded; j < length; j++) {
        const float deviation = in[j * x_along] - mean;

        variance = fmaf(deviation, deviation, variance);
    }
    factor = 1.0f / sqrtf(variance / (float)length + layer->epsilon);
    if (!bias) {
        for (int32_t j = 0; j < length; j++) {
            out[j * y_along] = (in[j * x_along] - mean) * factor * scale[j];
        }
        return;
    }
    for (int32_t j = 0; j < length; j++) {
        out[j * y_along] = fmaf((in[j * x_along] - mean) * factor, scale[j], bias[j]);
    }
}

/*
 * A row of eight numbers or more. Its mean is the first number plus the mean distance from it, in double: of equal
 * numbers exactly that number, even where a double is a float.
 */
static QCGEN_INLINE void qcgen_float_layer_norm_row(
    const struct qcgen_float_layer_norm *layer, const float *in, float *out)
{
    const double first = (double)in[0];
    double sum = 0.0;

    for (int32_t j = 0; j < layer->length; j++) {
        sum += (double)in[j * layer->x_along] - first;
    }
    qcgen_float_layer_norm_around(layer, in, out, (float)(first + sum / (double)layer->length));
}

/* The same around 0, whatever the mean is. */
static QCGEN_INLINE void qcgen_float_rms_norm_row(
    const struct qcgen_float_layer_norm *layer, const float *in, float *out)
{
    qcgen_float_layer_norm_around(layer, in, out, 0.0f);
}
