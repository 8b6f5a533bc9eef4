/* What becomes of two codes: sums, differences and products of quantized tensors. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "float32.h"
#include "integers.h"

/* In the integers of TensorFlow Lite. Numbers are codes less their zero points, scaled by multipliers. */
struct qcgen_integer_pair {
    int32_t a_zero_point;
    int32_t a_multiplier;
    int32_t a_exponent;
    int32_t b_zero_point;
    int32_t b_multiplier;
    int32_t b_exponent;
    int32_t factor; /* of a and b in front of their multipliers */
    int32_t y_zero_point;
    int32_t y_multiplier;
    int32_t y_exponent;
    int32_t low; /* the lowest code */
    int32_t high;
};

/* The code of a scaled number. */
static QCGEN_INLINE int32_t qcgen_integer_code(const struct qcgen_integer_pair *layer, int32_t number)
{
    const int32_t code = qcgen_round_twice(number, layer->y_multiplier, layer->y_exponent) + layer->y_zero_point;

    return qcgen_bounded(code, layer->low, layer->high);
}

/* The operands, scaled to one unit. */
static QCGEN_INLINE int32_t qcgen_integer_scaled_a(const struct qcgen_integer_pair *layer, int32_t code)
{
    return qcgen_round_twice((code - layer->a_zero_point) * layer->factor, layer->a_multiplier, layer->a_exponent);
}

static QCGEN_INLINE int32_t qcgen_integer_scaled_b(const struct qcgen_integer_pair *layer, int32_t code)
{
    return qcgen_round_twice((code - layer->b_zero_point) * layer->factor, layer->b_multiplier, layer->b_exponent);
}

static QCGEN_INLINE int32_t qcgen_integer_add(const struct qcgen_integer_pair *layer, int32_t a_code, int32_t b_code)
{
    return qcgen_integer_code(layer, qcgen_integer_scaled_a(layer, a_code) + qcgen_integer_scaled_b(layer, b_code));
}

static QCGEN_INLINE int32_t qcgen_integer_sub(
    const struct qcgen_integer_pair *layer, int32_t a_code, int32_t b_code)
{
    return qcgen_integer_code(layer, qcgen_integer_scaled_a(layer, a_code) - qcgen_integer_scaled_b(layer, b_code));
}

static QCGEN_INLINE int32_t qcgen_integer_squared_difference(
    const struct qcgen_integer_pair *layer, int32_t a_code, int32_t b_code)
{
    const int32_t difference = qcgen_integer_scaled_a(layer, a_code) - qcgen_integer_scaled_b(layer, b_code);

    return qcgen_integer_code(layer, difference * difference);
}

static QCGEN_INLINE int32_t qcgen_integer_mul(
    const struct qcgen_integer_pair *layer, int32_t a_code, int32_t b_code)
{
    return qcgen_integer_code(layer, (a_code - layer->a_zero_point) * (b_code - layer->b_zero_point));
}

/* In float32, each operation rounded. */
struct qcgen_wide_pair {
    float a_scale;
    float b_scale; /* negative for a difference */
    float y_scale;
    int32_t a_zero_point;
    int32_t b_zero_point;
    int32_t y_zero_point;
    int32_t low; /* the lowest code less the zero point */
    int32_t high;
};

static QCGEN_INLINE int32_t qcgen_wide_code(const struct qcgen_wide_pair *layer, float number)
{
    return qcgen_quantized(number, layer->y_scale, layer->low, layer->high) + layer->y_zero_point;
}

static QCGEN_INLINE int32_t qcgen_wide_sum(const struct qcgen_wide_pair *layer, int32_t a_code, int32_t b_code)
{
    /* Volatile, so that no compiler joins a product and the sum to one operation, which rounds once. */
    const volatile float a = (float)(a_code - layer->a_zero_point) * layer->a_scale;
    const volatile float b = (float)(b_code - layer->b_zero_point) * layer->b_scale;

    return qcgen_wide_code(layer, a + b);
}

static QCGEN_INLINE int32_t qcgen_wide_product(const struct qcgen_wide_pair *layer, int32_t a_code, int32_t b_code)
{
    const float a = (float)(a_code - layer->a_zero_point) * layer->a_scale;
    const float b = (float)(b_code - layer->b_zero_point) * layer->b_scale;

    return qcgen_wide_code(layer, a * b);
}

/* A line through the codes of all pairs but a few, whose code depends on the roundings on the way. */
struct qcgen_pair_codes_s8 {
    const uint16_t *pairs; /* those, ascending */
    const int8_t *pair_codes; /* of these */
    int32_t count;
    int32_t reach; /* how near a tie they are at most */
    int32_t is_always; /* whether they are looked for at every pair */
    int32_t shift; /* the line is in units of 2^-shift */
    int32_t window; /* that the even code has next to a tie; -1: none */
};

/* The code of a pair that is among those beside the line, else `code`: as many steps for every pair. */
static int32_t qcgen_pair_beside_s8(const struct qcgen_pair_codes_s8 *layer, int32_t pair, int32_t code)
{
    int32_t place = 0; /* of the pair, if it is among them */
    int32_t half, here;

    for (int32_t count = layer->count; count > 1; count -= half) {
        half = count >> 1;
        place += half & ((layer->pairs[place + half - 1] - pair) >> 31); /* if that is below it */
    }
    here = ((layer->pairs[place] ^ pair) - 1) >> 31; /* all bits if it is there, else none */
    return (layer->pair_codes[place] & here) | (code & ~here);
}

/* The code of a pair whose place on the line is `scaled`. */
static QCGEN_INLINE int32_t qcgen_pair_code_s8(const struct qcgen_pair_codes_s8 *layer, int32_t scaled, int32_t pair)
{
    const int32_t fraction = (scaled + layer->reach) & ((INT32_C(1) << layer->shift) - 1);
    int32_t code = scaled >> layer->shift;

    if (layer->window >= 0) {
        code = qcgen_even_near_tie(scaled, layer->shift, layer->window);
    }
    return layer->is_always || fraction <= 2 * layer->reach ? qcgen_pair_beside_s8(layer, pair, code) : code;
}
