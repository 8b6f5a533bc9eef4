/* Softmax of rows of int8_t codes, its float32 arithmetic in integers; that of uint8_t has u8 for s8. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "integers.h"
#include "soft_float.h"

/* What a layer is. */
struct qcgen_code_softmax {
    const uint32_t *exponentials; /* of x - max x = -255, ..., 0, as words of float32 numbers */
    int32_t length; /* elements of a row */
    int32_t x_along; /* from one element of a row of x to the next */
    int32_t y_along; /* the same of y */
    uint32_t factor; /* what shares of the sum are multiplied by, below 2^bits; by reciprocals they need 15 at most */
    int32_t bits;
    int32_t zero_point; /* of y */
    int32_t high; /* the highest code of y */
};

/* The largest element of a row. */
static QCGEN_INLINE int32_t qcgen_code_softmax_largest_s8(
    const struct qcgen_code_softmax *layer, const int8_t *in)
{
    const int32_t length = layer->length, along = layer->x_along;
    int32_t largest = in[0];

    for (int32_t j = 1; j < length; j++) {
        largest = in[j * along] > largest ? in[j * along] : largest;
    }
    return largest;
}

/* The sum of the exponentials of a row in float32; `first` plus an element is its place in their table. */
static QCGEN_INLINE uint32_t qcgen_code_softmax_sum_s8(
    const struct qcgen_code_softmax *layer, const int8_t *in, int32_t first)
{
    const uint32_t *const exponentials = layer->exponentials;
    const int32_t length = layer->length, along = layer->x_along;
    uint32_t sum = 0;

    for (int32_t j = 0; j < length; j++) {
        sum = qcgen_soft_float_add_up(sum, exponentials[first + in[j * along]]);
    }
    return sum;
}

/* How far the exponent of `part` is below that of `sum`: from bits + 2 on the share is less than half a code. */
static QCGEN_INLINE uint32_t qcgen_code_softmax_gap(uint32_t part, uint32_t sum)
{
    const uint32_t is_normal = ((part >> 23) + 255u) >> 8; /* 1 or 0 */

    return (sum >> 23) - (part >> 23) + is_normal - 1u;
}

/* The significand of a word, with its hidden bit. */
static QCGEN_INLINE uint32_t qcgen_code_softmax_significand(uint32_t word)
{
    const uint32_t is_normal = ((word >> 23) + 255u) >> 8; /* 1 or 0 */

    return (word & ((UINT32_C(1) << 23) - 1u)) | is_normal << 23;
}

/* The same of a sum, which is at least 1. */
static QCGEN_INLINE uint32_t qcgen_code_softmax_divisor(uint32_t sum)
{
    const uint32_t hidden = UINT32_C(1) << 23;

    return (sum & (hidden - 1u)) | hidden;
}

/*
 * The factor times the share of an exponential in the sum of its row, to the nearest integer, half to even. Both are
 * words of float32 numbers, `part` is no larger than `sum`, and `sum` is at least 1.
 */
QCGEN_NOINLINE static int32_t qcgen_code_softmax_divided(
    const struct qcgen_code_softmax *layer, uint32_t part, uint32_t sum)
{
    const uint32_t gap = qcgen_code_softmax_gap(part, sum), most = (uint32_t)layer->bits + 2u;
    const uint32_t addend = qcgen_code_softmax_significand(part);
    const uint64_t divisor = (uint64_t)qcgen_code_softmax_divisor(sum) << (gap < most ? gap : most);
    uint64_t rest = 0;
    int32_t quotient = 0;

    for (int32_t bit = layer->bits - 1; bit >= 0; bit--) {
        rest *= 2;
        quotient *= 2;
        if ((layer->factor >> bit) & 1) {
            rest += addend; /* less than four divisors: an addend is less than two */
            if (rest >= 2 * divisor) {
                rest -= 2 * divisor;
                quotient += 2;
            }
        }
        if (rest >= divisor) {
            rest -= divisor;
            quotient++;
        }
    }
    return quotient + (2 * rest > divisor || (2 * rest == divisor && (quotient & 1) != 0));
}

/* The factor, below 2^15, times 2^40 through the significand of a sum, rounded down. */
static uint32_t qcgen_code_softmax_reciprocal(
    const struct qcgen_code_softmax *layer, uint32_t sum)
{
    const uint32_t significand = qcgen_code_softmax_divisor(sum);
    uint32_t rest = layer->factor;
    uint32_t quotient = 0;

    for (int digit = 0; digit < 5; digit++) {
        rest <<= 8;
        quotient = (quotient << 8) + rest / significand;
        rest %= significand;
    }
    return quotient;
}

/* The share by the reciprocal, in units of 2^-12 of a code: at most 1 + 2^-4 units too low, half a code added. */
static QCGEN_INLINE uint32_t qcgen_code_softmax_product(
    uint32_t part, uint32_t reciprocal, uint32_t gap)
{
    const uint32_t product = (uint32_t)(((uint64_t)(qcgen_code_softmax_significand(part) << 8) * reciprocal) >> 32);

    return (product >> (4u + gap)) + (UINT32_C(1) << 11);
}

/* Whichever of `low` and the next number is nearest to factor * part / divisor, half way the even one. */
QCGEN_NOINLINE static int32_t qcgen_code_softmax_nearest(
    const struct qcgen_code_softmax *layer, uint32_t part, uint64_t divisor, uint32_t low)
{
    const uint64_t twice = 2u * (uint64_t)qcgen_code_softmax_significand(part) * layer->factor + ((uint64_t)low & 1u);
    const uint64_t half = divisor * (2u * (uint64_t)low + 1u);

    return (int32_t)(low + (uint32_t)((half - twice) >> 63)); /* one more where half < twice */
}

/* A share as a code. */
static QCGEN_INLINE uint8_t qcgen_code_softmax_code(
    const struct qcgen_code_softmax *layer, int32_t share)
{
    const int32_t code = share + layer->zero_point;

    return (uint8_t)(code > layer->high ? layer->high : code);
}

/* The code of an exponential by the reciprocal of the sum. Compilers keep one loop, since the rare case stores, too. */
static QCGEN_INLINE void qcgen_code_softmax_share(
    const struct qcgen_code_softmax *layer, uint32_t part, uint32_t sum, uint32_t reciprocal, uint8_t *out)
{
    const uint32_t difference = qcgen_code_softmax_gap(part, sum), gap = difference < 17u ? difference : 17u;
    const uint32_t share = qcgen_code_softmax_product(part, reciprocal, gap);

    *out = qcgen_code_softmax_code(layer, (int32_t)(share >> 12));
    if (QCGEN_RARELY(((share + 1u) & ((UINT32_C(1) << 12) - 1u)) < 2u)) { /* a tie may be nearer than that */
        const uint64_t divisor = (uint64_t)qcgen_code_softmax_divisor(sum) << gap;

        *out = qcgen_code_softmax_code(layer, qcgen_code_softmax_nearest(layer, part, divisor, (share - 1u) >> 12));
    }
}

/* The same by the same steps for all words. */
static QCGEN_INLINE int32_t qcgen_code_softmax_constant_share(
    const struct qcgen_code_softmax *layer, uint32_t part, uint32_t sum, uint32_t reciprocal)
{
    const uint32_t gap = (uint32_t)qcgen_at_most((int32_t)qcgen_code_softmax_gap(part, sum), 17);
    const uint32_t low = (qcgen_code_softmax_product(part, reciprocal, gap) - 1u) >> 12;

    return qcgen_code_softmax_nearest(layer, part, (uint64_t)qcgen_code_softmax_divisor(sum) << gap, low);
}

/* A row, its shares by the reciprocal of their sum. */
static QCGEN_INLINE void qcgen_code_softmax_s8(
    const struct qcgen_code_softmax *layer, const int8_t *in, uint8_t *out)
{
    const uint32_t *const exponentials = layer->exponentials;
    const int32_t length = layer->length, x_along = layer->x_along, y_along = layer->y_along;
    const int32_t first = 255 - qcgen_code_softmax_largest_s8(layer, in);
    const uint32_t sum = qcgen_code_softmax_sum_s8(layer, in, first);
    const uint32_t reciprocal = qcgen_code_softmax_reciprocal(layer, sum);

    for (int32_t j = 0; j < length; j++) {
        qcgen_code_softmax_share(layer, exponentials[first + in[j * x_along]], sum, reciprocal, out + j * y_along);
    }
}

/* The largest element of a row, by the same steps for all. */
static QCGEN_INLINE int32_t qcgen_code_softmax_constant_largest_s8(
    const struct qcgen_code_softmax *layer, const int8_t *in)
{
    const int32_t length = layer->length, along = layer->x_along;
    int32_t largest = in[0];

    for (int32_t j = 1; j < length; j++) {
        largest = qcgen_at_least(in[j * along], largest);
    }
    return largest;
}

/* A row, by the same steps for all. */
static QCGEN_INLINE void qcgen_code_softmax_constant_s8(
    const struct qcgen_code_softmax *layer, const int8_t *in, uint8_t *out)
{
    const int32_t first = 255 - qcgen_code_softmax_constant_largest_s8(layer, in);
    const uint32_t sum = qcgen_code_softmax_sum_s8(layer, in, first);
    const uint32_t reciprocal = qcgen_code_softmax_reciprocal(layer, sum);

    for (int32_t j = 0; j < layer->length; j++) {
        const uint32_t part = layer->exponentials[first + in[j * layer->x_along]];
        const int32_t code = qcgen_code_softmax_constant_share(layer, part, sum, reciprocal) + layer->zero_point;

        out[j * layer->y_along] = (uint8_t)qcgen_at_most(code, layer->high);
    }
}

/* A row, its shares by division, which few outputs take less time for where products of 64 bits are function calls. */
static QCGEN_INLINE void qcgen_code_softmax_by_division_s8(
    const struct qcgen_code_softmax *layer, const int8_t *in, uint8_t *out)
{
    const int32_t first = 255 - qcgen_code_softmax_largest_s8(layer, in);
    const uint32_t sum = qcgen_code_softmax_sum_s8(layer, in, first);

    for (int32_t j = 0; j < layer->length; j++) {
        const uint32_t part = layer->exponentials[first + in[j * layer->x_along]];

        out[j * layer->y_along] = qcgen_code_softmax_code(layer, qcgen_code_softmax_divided(layer, part, sum));
    }
}
