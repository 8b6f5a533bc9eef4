/* Softmax of rows of float32 numbers: no exponent is positive, so none overflows, and sums are at least 1. */
#pragma once
#include <math.h>
#include <stdint.h>
#include "compiler.h"
#include "float32.h"

/* What a layer is. */
struct qcgen_float_softmax {
    int32_t length; /* elements of a row */
    int32_t x_along; /* from one element of a row of x to the next */
    int32_t y_along; /* the same of y */
};

/* A row. Exponentials are added up side by side, as onnxruntime does on x86-64 with AVX512F. */
static QCGEN_INLINE void qcgen_float_softmax_row(
    const struct qcgen_float_softmax *layer, const float *in, float *out)
{
    const int32_t length = layer->length, x_along = layer->x_along, y_along = layer->y_along;
    float s[16] = {0.0f}, largest = in[0], share;

    for (int32_t j = 1; j < length; j++) {
        largest = in[j * x_along] > largest ? in[j * x_along] : largest;
    }
    for (int32_t j = 0; j < length; j++) {
        out[j * y_along] = qcgen_fused_exponential(in[j * x_along] - largest);
        s[j % 16] += out[j * y_along];
    }
    for (int32_t i = 0; i < 8; i++) {
        s[i] += s[i + 8];
    }
    share = 1.0f / (((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])));
    for (int32_t j = 0; j < length; j++) {
        out[j * y_along] *= share;
    }
}

/* The largest of `count` numbers that lie `step` apart. */
static QCGEN_INLINE float qcgen_float_largest(
    const float *x, int32_t step, int32_t count)
{
    float largest = x[0];

    for (int32_t j = 1; j < count; j++) {
        largest = x[j * step] > largest ? x[j * step] : largest;
    }
    return largest;
}

/* The sum of sixteen sums, which it overwrites: so onnxruntime adds exponentials up on x86-64 with AVX512F. */
static float qcgen_float_sum_of_lanes(float *lanes)
{
    float sum = 0.0f;

    for (int32_t i = 0; i < 8; i++) {
        lanes[i] += lanes[i + 8];
    }
    for (int32_t i = 0; i < 8; i += 4) {
        sum += (lanes[i] + lanes[i + 1]) + (lanes[i + 2] + lanes[i + 3]);
    }
    return sum;
}

/* Logarithms of the shares. */
static QCGEN_INLINE void qcgen_float_log_softmax_row(
    const struct qcgen_float_softmax *layer, const float *in, float *out)
{
    const int32_t length = layer->length, x_along = layer->x_along, y_along = layer->y_along;
    const float largest = qcgen_float_largest(in, x_along, length);
    float lanes[16] = {0.0f};
    float sum;

    for (int32_t j = 0; j < length; j++) {
        lanes[j % 16] += qcgen_fused_exponential(in[j * x_along] - largest);
    }
    sum = qcgen_log_from_one(qcgen_float_sum_of_lanes(lanes));
    for (int32_t j = 0; j < length; j++) {
        out[j * y_along] = in[j * x_along] - largest - sum;
    }
}

/* The same by the C library, one after the other. */
static QCGEN_INLINE void qcgen_float_log_softmax_by_library(
    const struct qcgen_float_softmax *layer, const float *in, float *out)
{
    const int32_t length = layer->length, x_along = layer->x_along, y_along = layer->y_along;
    const float largest = qcgen_float_largest(in, x_along, length);
    float sum = 0.0f;

    for (int32_t j = 0; j < length; j++) {
        sum += expf(in[j * x_along] - largest);
    }
    sum = logf(sum);
    for (int32_t j = 0; j < length; j++) {
        out[j * y_along] = in[j * x_along] - largest - sum;
    }
}
