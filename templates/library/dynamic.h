/* Dynamic quantization: the range of numbers, its scale and zero point, and codes, as onnxruntime finds them. */
#pragma once
#include <stdint.h>
#include <string.h>
#include "compiler.h"
#include "float32.h"

/*
 * Adds `count` numbers to a range: range[0] is its smallest number, at most 0, range[1] its largest, at least 0. NaN
 * does not count. Words of numbers are in their order above 0, and the other way round below, where they are larger as
 * unsigned ones.
 */
static void qcgen_extend_range(const float *restrict x, int32_t count, float *restrict range)
{
    const uint32_t infinite = 0x7f800000, sign = 0x80000000;
    uint32_t least;
    int32_t most;

    (void)memcpy(&least, range, sizeof least);
    (void)memcpy(&most, range + 1, sizeof most);
    least |= sign;
    for (int32_t i = 0; i < count; i++) {
        uint32_t word;

        (void)memcpy(&word, x + i, sizeof word);
        most = (int32_t)word > most ? (int32_t)word : most;
        least = word > least ? word : least;
    }
    if ((uint32_t)most > infinite || least > (sign | infinite)) {
        /* There are NaN. */
        for (int32_t i = 0; i < count; i++) {
            range[0] = x[i] < range[0] ? x[i] : range[0];
            range[1] = x[i] > range[1] ? x[i] : range[1];
        }
        return;
    }
    least = least > sign ? least : 0; /* not -0 */
    (void)memcpy(range, &least, sizeof least);
    (void)memcpy(range + 1, &most, sizeof most);
}

/* The range of `count` numbers and 0. */
static void qcgen_find_range(const float *restrict x, int32_t count, float *restrict range)
{
    range[0] = 0.0f;
    range[1] = 0.0f;
    qcgen_extend_range(x, count, range);
}

/* The scale of codes from 0 to 255 for the numbers of a range. */
static void qcgen_scale_of_range(const float *restrict range, float *restrict scale)
{
    const float width = range[1] - range[0];

    scale[0] = width > 0.0f ? width / 255.0f : 1.0f;
}

/* The zero point of these codes. */
static void qcgen_zero_point_of_range(const float *restrict range, uint8_t *restrict zero_point)
{
    float scale;

    qcgen_scale_of_range(range, &scale);
    const float place = 0.0f - range[0] / scale;
    const float above = place > 0.0f ? place : 0.0f;

    zero_point[0] = (uint8_t)qcgen_nearest(above < 255.0f ? above : 255.0f);
}

/*
 * The codes of `count` numbers, which they may overwrite. The quotient is rounded to float32, then half to even before
 * the zero point is added, as in onnxruntime: numbers lie one apart where 1.5 * 2^23 was added, and their words in
 * memory count them. NaN gives the lowest code.
 */
static void qcgen_quantize_dynamic(
    const float *x, int32_t count, const float *scale, const uint8_t *zero_point, uint8_t *y)
{
    const int32_t infinite = 0x7f800000;
    const int32_t lowest = 0x4b400000 - zero_point[0]; /* of 1.5 * 2^23, less the zero point */
    const int32_t highest = lowest + 255;
    const float apart = 12582912.0f; /* 1.5 * 2^23 */
    const float step = scale[0];

    for (int32_t i = 0; i < count; i++) {
        const float quotient = x[i] / step;
        const float sum = quotient + apart;
        int32_t word;

        (void)memcpy(&word, &sum, sizeof word);
        if (word > highest) {
            word = word > infinite ? lowest : highest;
        }
        if (word < lowest) {
            word = lowest;
        }
        y[i] = (uint8_t)(word - lowest);
    }
}
