/* LayerNormalization of rows of int8_t codes, its float32 arithmetic in integers; that of uint8_t has u8 for s8. */
#pragma once
#include <stdint.h>
#include <string.h>
#include "compiler.h"
#include "integers.h"
#include "soft_float.h"

/* What a layer is. Words are the bits of float32 numbers. */
struct qcgen_layer_norm {
    const uint32_t *scale; /* words by which the elements of a row are multiplied */
    const uint32_t *bias; /* words that are added to them then; NULL if there are none */
    int32_t length; /* elements of a row, below 2^20 */
    int32_t x_along; /* from one element of a row of x to the next */
    int32_t y_along; /* the same of y */
    uint32_t x_scale; /* at least 2^23 and below 2^24, in units of 2^x_unit */
    int32_t x_unit;
    int32_t x_zero_point; /* a code */
    uint32_t count; /* the length as a word */
    uint32_t epsilon; /* a word */
    uint32_t y_scale; /* a word */
    int32_t y_zero_point; /* a code, from y_low to y_high */
    int32_t y_low;
    int32_t y_high;
};

/* The same in fixed point: codes are ((normal * gain >> 32) + offset) >> shift, normal in units of 2^-normal_bits. */
struct qcgen_layer_norm_line {
    const int32_t *gain;
    const int32_t *offset;
    int32_t shift;
    int32_t normal_bits;
    uint32_t epsilon; /* a word: epsilon / x_scale^2 */
    uint32_t most_reach; /* codes that an output is away from its offset at most */
    uint32_t base; /* half of the band around a step where float32 may give another code ... */
    uint32_t by_reach; /* ... for each code of reach, in units of 2^-8 ... */
    uint32_t slope; /* ... and by the factor of a row, in units of 2^-8 ... */
    uint32_t slope_by_reach; /* ... for each code of reach */
};

/* What a code stands for that is `distance` from the zero point, in float32, in units of 2^x_unit. */
static int64_t qcgen_layer_norm_number(int32_t distance, uint32_t scale)
{
    const uint32_t product = scale * (uint32_t)(distance < 0 ? -distance : distance);
    uint32_t drop = 0;
    uint32_t kept, rest;
    int64_t number;

    /* 24 bits stay, half to even. */
    while ((product >> drop) >= UINT32_C(1) << 24) {
        drop++;
    }
    kept = product >> drop;
    rest = product - (kept << drop);
    kept += 2 * rest > UINT32_C(1) << drop || (2 * rest == UINT32_C(1) << drop && (kept & 1) != 0);
    number = (int64_t)kept << drop;
    return distance < 0 ? -number : number;
}

/*
 * 1 / sqrt(variance + epsilon) of a row, and its deviations from the mean, with the float32 operations of onnxruntime
 * in their order.
 */
QCGEN_SHARED static uint32_t qcgen_layer_norm_factor_s8(
    const struct qcgen_layer_norm *layer, const int8_t *in, uint32_t *deviations)
{
    const uint32_t minus = UINT32_C(1) << 31, one = UINT32_C(0x3f800000);
    const int32_t length = layer->length, along = layer->x_along, zero_point = layer->x_zero_point;
    const uint32_t scale = layer->x_scale;
    const int32_t whole = length - length % 8, rounded = length - length % 4;
    uint32_t lanes[8] = {0};
    uint32_t mean, variance;
    int64_t sum = 0;

    for (int32_t j = 0; j < length; j++) {
        sum += qcgen_layer_norm_number(in[j * along] - zero_point, scale);
    }
    mean = qcgen_soft_float_mean(sum, (uint32_t)length, layer->x_unit);
    for (int32_t j = 0; j < length; j++) {
        const int64_t number = qcgen_layer_norm_number(in[j * along] - zero_point, scale);
        const uint64_t magnitude = (uint64_t)(number < 0 ? -number : number);
        const uint32_t value = qcgen_soft_float_rounded(magnitude, layer->x_unit, number < 0 ? minus : 0);

        deviations[j] = qcgen_soft_float_add(value, mean ^ minus);
    }

    /* Squares are summed in lanes, which are then added up in pairs; what does not fill them follows. */
    for (int32_t j = 0; j < whole; j++) {
        lanes[j % 8] = qcgen_soft_float_multiply_add(deviations[j], deviations[j], lanes[j % 8]);
    }
    for (int32_t half = 4; half > 0; half /= 2) {
        for (int32_t i = 0; i < half; i++) {
            lanes[i] = qcgen_soft_float_add(lanes[i], lanes[i + half]);
        }
    }
    variance = lanes[0];
    for (int32_t j = whole; j < rounded; j++) {
        variance = qcgen_soft_float_add(variance, qcgen_soft_float_multiply(deviations[j], deviations[j]));
    }
    for (int32_t j = rounded; j < length; j++) {
        variance = qcgen_soft_float_multiply_add(deviations[j], deviations[j], variance);
    }
    variance = qcgen_soft_float_divide(variance, layer->count);
    variance = qcgen_soft_float_add(variance, layer->epsilon);
    return qcgen_soft_float_divide(one, qcgen_soft_float_root(variance));
}

/* The word of an element of y, with the same operations. */
static uint32_t qcgen_layer_norm_word(
    const struct qcgen_layer_norm *layer, uint32_t deviation, uint32_t factor, int32_t j)
{
    const uint32_t normal = qcgen_soft_float_multiply(deviation, factor);

    return layer->bias ? qcgen_soft_float_multiply_add(normal, layer->scale[j], layer->bias[j])
                       : qcgen_soft_float_multiply(normal, layer->scale[j]);
}

/* Its code. */
static int32_t qcgen_layer_norm_code(
    const struct qcgen_layer_norm *layer, uint32_t deviation, uint32_t factor, int32_t j)
{
    const uint32_t number = qcgen_layer_norm_word(layer, deviation, factor, j);
    const uint32_t quotient = qcgen_soft_float_divide(number, layer->y_scale);
    const int32_t code = qcgen_soft_float_round(quotient) + layer->y_zero_point;

    return code < layer->y_low ? layer->y_low : code > layer->y_high ? layer->y_high : code;
}

/* A row of float32 numbers, computed as onnxruntime does. */
QCGEN_SHARED static void qcgen_layer_norm_numbers_s8(
    const struct qcgen_layer_norm *layer, const int8_t *in, float *out, uint32_t *deviations)
{
    const uint32_t factor = qcgen_layer_norm_factor_s8(layer, in, deviations);

    for (int32_t j = 0; j < layer->length; j++) {
        const uint32_t word = qcgen_layer_norm_word(layer, deviations[j], factor, j);

        (void)memcpy(&out[j * layer->y_along], &word, sizeof word);
    }
}

/* A row of codes, computed as onnxruntime does. */
QCGEN_SHARED static void qcgen_layer_norm_codes_s8(
    const struct qcgen_layer_norm *layer, const int8_t *in, uint8_t *out, uint32_t *deviations)
{
    const uint32_t factor = qcgen_layer_norm_factor_s8(layer, in, deviations);

    for (int32_t j = 0; j < layer->length; j++) {
        out[j * layer->y_along] = (uint8_t)qcgen_layer_norm_code(layer, deviations[j], factor, j);
    }
}

/* How far from a step float32 may give another code, `reach` codes from the offset or less; at most half a step. */
static uint32_t qcgen_layer_norm_guard(
    const struct qcgen_layer_norm_line *line, uint32_t factor, int32_t shift, uint32_t reach)
{
    const uint32_t slope = line->slope + line->slope_by_reach * reach;
    const uint32_t half = UINT32_C(1) << (line->shift - 1);
    const uint32_t base = line->base + (line->by_reach * reach >> 8);
    const uint64_t width = (uint64_t)slope * factor >> (shift + line->normal_bits - 8);

    return width < half - base ? (uint32_t)width + base : half;
}

/*
 * A row of codes in fixed point; where float32 could give another code, it is computed as onnxruntime does. It is
 * inlined into each layer: with constants for its numbers it takes up to a fifth fewer instructions.
 */
static QCGEN_INLINE void qcgen_layer_norm_fixed_s8(const struct qcgen_layer_norm *layer,
    const struct qcgen_layer_norm_line *line, const int8_t *in, uint8_t *out, uint32_t *deviations)
{
    const int32_t length = layer->length, x_along = layer->x_along, y_along = layer->y_along;
    const int32_t low = layer->y_low, high = layer->y_high, zero_point = layer->x_zero_point;
    const uint32_t one = UINT32_C(0x3f800000), below = (UINT32_C(1) << line->shift) - 1;
    int32_t sum = 0, squares = 0;
    int32_t mean, shift, exponent;
    int is_exact = 0;
    uint32_t variance, factor, guard;
    uint32_t exact_factor = 0;
    int64_t spread;

    for (int32_t j = 0; j < length; j++) {
        const int32_t code = in[j * x_along] - zero_point;

        sum += code;
        squares += code * code;
    }
    spread = (int64_t)squares * length - (int64_t)sum * sum; /* length * length times the variance of the codes */
    variance = qcgen_soft_float_divide(qcgen_soft_float_mean(spread, (uint32_t)length, 0), layer->count);
    variance = qcgen_soft_float_add(variance, line->epsilon);
    factor = qcgen_soft_float_divide(one, qcgen_soft_float_root(variance));
    factor = qcgen_soft_float_split(factor, &exponent); /* factor * 2^exponent */
    shift = 16 - line->normal_bits - exponent;

    if (shift < 0 || shift > 40) { /* it varies so little that no shift fits */
        qcgen_layer_norm_codes_s8(layer, in, out, deviations);
        return;
    }
    guard = qcgen_layer_norm_guard(line, factor, shift, line->most_reach);
    mean = (sum % length * (INT32_C(1) << 17) / length + (sum < 0 ? -1 : 1)) / 2; /* times 2^16, to the nearest */
    mean += (sum / length + zero_point) * (INT32_C(1) << 16);
    for (int32_t j = 0; j < length; j++) {
        const int32_t deviation = in[j * x_along] * (INT32_C(1) << 16) - mean;
        const int32_t normal = (int32_t)((int64_t)deviation * factor >> shift);
        const int32_t product = qcgen_multiply_high(normal, line->gain[j]);
        const int32_t scaled = product + line->offset[j];
        int32_t code = scaled >> line->shift;

        if ((((uint32_t)scaled + guard) & below) < 2 * guard) {
            const uint32_t reach = ((uint32_t)(product < 0 ? -product : product) >> line->shift) + 2;
            const uint32_t most = reach < line->most_reach ? reach : line->most_reach;
            const uint32_t close = qcgen_layer_norm_guard(line, factor, shift, most);

            if ((((uint32_t)scaled + close) & below) < 2 * close) {
                if (!is_exact) {
                    exact_factor = qcgen_layer_norm_factor_s8(layer, in, deviations);
                    is_exact = 1;
                }
                code = qcgen_layer_norm_code(layer, deviations[j], exact_factor, j);
            }
        }
        out[j * y_along] = (uint8_t)(code < low ? low : code > high ? high : code);
    }
}
