/* Softmax of rows of int8_t codes in the fixed point of TensorFlow Lite; that of uint8_t has u8 for s8. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "integers.h"

/* What a layer is. */
struct qcgen_integer_softmax {
    const int32_t *exponentials; /* of x - max x = -255, ..., 0: in units of 2^-31, of 2^-19 for logarithms */
    const int32_t *distances; /* what they are taken of, in units of 2^-26; NULL but for logarithms */
    int32_t length; /* elements of a row */
    int32_t x_along; /* from one element of a row of x to the next */
    int32_t y_along; /* the same of y */
    int32_t low; /* the lowest code of y */
    int32_t high; /* the highest code of y */
    int32_t right; /* how far a share is to be shifted at most; 0 for logarithms */
};

/* What a layer of int16_t codes is. */
struct qcgen_wide_softmax {
    const int16_t *exponentials; /* 513 numbers, in units of 2^-15 */
    const int16_t *reciprocals; /* the same */
    int32_t length; /* elements of a row */
    int32_t x_along; /* from one element of a row of x to the next */
    int32_t y_along; /* the same of y */
    int32_t multiplier; /* of distances below the largest code */
    int32_t exponent;
};

/* a * b / 2^31, half up. */
static int32_t qcgen_code_softmax_fixed_product(int32_t a, int32_t b)
{
    return (int32_t)(((int64_t)a * b + (INT32_C(1) << 30)) >> 31);
}

/* value * 2^bits, saturated. */
static int32_t qcgen_code_softmax_times(int32_t value, int bits)
{
    const int32_t most = INT32_MAX >> bits;

    return value > most ? INT32_MAX : value < -most - 1 ? INT32_MIN : value * (INT32_C(1) << bits);
}

/* value / 2^bits, half away from zero. */
static int32_t qcgen_code_softmax_part(int32_t value, int bits)
{
    const int32_t half = INT32_C(1) << (bits - 1);

    return value < 0 ? -((half - value) >> bits) : (value + half) >> bits;
}

/* 2^31 / (value / 2^31), value in [2^31, 2^32), by three steps of Newton's method. */
static int32_t qcgen_code_softmax_fixed_reciprocal(uint32_t value)
{
    const int32_t half = (int32_t)(value >> 1);
    /* 48/17 - 32/17 half, in units of 2^-29 */
    int32_t x = INT32_C(1515870810) + qcgen_code_softmax_fixed_product(half, -INT32_C(1010580540));

    for (int step = 0; step < 3; step++) {
        const int32_t rest = (INT32_C(1) << 29) - qcgen_code_softmax_fixed_product(half, x);

        x += qcgen_code_softmax_times(qcgen_code_softmax_fixed_product(x, rest), 2);
    }
    return qcgen_code_softmax_times(x, 1);
}

/* How far a positive value can be doubled. */
static int qcgen_code_softmax_room(int32_t value)
{
    int room = 0;

    while (value < INT32_C(1) << 30) {
        value *= 2;
        room++;
    }
    return room;
}

/* The logarithm of a sum in units of 2^-19, which is at least 1, in units of 2^-26. */
static int32_t qcgen_code_softmax_logarithm(int32_t sum)
{
    const int32_t root = INT32_C(1518500250);   /* of 1/2, in units of 2^-31 */
    const int32_t middle = INT32_C(1805811301); /* the root of that */
    const int32_t less = qcgen_code_softmax_fixed_product(sum, root);
    const int room = qcgen_code_softmax_room(sum);
    const int room_of_less = qcgen_code_softmax_room(less);
    const int32_t scaled = qcgen_code_softmax_times(sum, room);
    const int32_t first = qcgen_code_softmax_times(qcgen_code_softmax_fixed_product(scaled, root), 1);
    const int32_t second = qcgen_code_softmax_times(sum, room_of_less);
    const int32_t first_power = 4 * (11 - room) + 1; /* in units of 1/4 */
    const int32_t second_power = 4 * (12 - room_of_less) - 1;
    const int32_t power = (first_power > second_power ? first_power : second_power) * (INT32_C(1) << 23);
    const int32_t r = first < second ? first : second; /* sum = r * 2^power, r near the middle */
    const int32_t q = (r - middle) * 2;
    const int32_t square = qcgen_code_softmax_fixed_product(q, q);
    const int32_t cube = qcgen_code_softmax_fixed_product(q, square);
    const int32_t third = qcgen_code_softmax_fixed_product(cube, INT32_C(117049297));
    const int32_t above = qcgen_code_softmax_fixed_product(q, r) + third;
    const int32_t factor = INT32_C(1057819769) + q + qcgen_code_softmax_fixed_product(square, INT32_C(127690142));
    const int32_t mean = (int32_t)(((uint32_t)r + (uint32_t)middle + 1u) >> 1);
    const int32_t linear = qcgen_code_softmax_fixed_product(q, INT32_C(638450708));
    const int32_t below = qcgen_code_softmax_fixed_product(mean, factor) + linear;
    const int32_t reciprocal = qcgen_code_softmax_fixed_reciprocal((uint32_t)below + (UINT32_C(1) << 31));
    const int32_t quotient = qcgen_code_softmax_fixed_product(qcgen_code_softmax_part(above, 6), reciprocal);

    /* The first is power * ln 2. */
    return (qcgen_code_softmax_fixed_product(power, INT32_C(1488522236)) + quotient) * 2;
}

/* On the line between two of 513 numbers, which stand for every 128th value from -32768 on. */
static int32_t qcgen_code_softmax_between(const int16_t *table, int32_t value)
{
    const int32_t at = (value + INT32_C(32768)) >> 7;
    const int32_t slope = (int32_t)table[at + 1] - table[at];

    return table[at] + ((slope * (value & 127) + 64) >> 7);
}

/* A row of int16_t codes, by lines between the numbers of tables. */
static QCGEN_INLINE void qcgen_wide_softmax_row(
    const struct qcgen_wide_softmax *layer, const int16_t *in, int16_t *out)
{
    const int32_t length = layer->length, x_along = layer->x_along, y_along = layer->y_along;
    int32_t largest = in[0];
    uint32_t sum = 0; /* of exponentials, in units of 2^-15 */
    int32_t right = 30; /* how far a share is to be shifted */
    int32_t share;

    for (int32_t j = 1; j < length; j++) {
        largest = in[j * x_along] > largest ? in[j * x_along] : largest;
    }
    for (int32_t j = 0; j < length; j++) {
        const int32_t distance = qcgen_round_twice(in[j * x_along] - largest, layer->multiplier, layer->exponent);
        const int32_t below = distance + INT16_MAX;
        const int32_t part = qcgen_code_softmax_between(layer->exponentials, below < INT16_MIN ? INT16_MIN : below);

        out[j * y_along] = (int16_t)part;
        sum += (uint32_t)part;
    }
    while (sum < UINT32_C(1) << 30) {
        sum <<= 1;
        right--;
    }
    share = (int32_t)((sum + (1u << 13)) >> 14) - INT32_C(98304); /* from 1 to 2, as -32768 to 32768 */
    share = qcgen_code_softmax_between(layer->reciprocals, share > INT16_MAX ? INT16_MAX : share);
    for (int32_t j = 0; j < length; j++) {
        const int32_t code = (out[j * y_along] * share + (INT32_C(1) << (right - 1))) >> right;

        out[j * y_along] = (int16_t)(code > INT16_MAX ? INT16_MAX : code);
    }
}

/* What is added to an element of a row for its place in the tables. */
static QCGEN_INLINE int32_t qcgen_integer_softmax_first_s8(
    const struct qcgen_integer_softmax *layer, const int8_t *in)
{
    int32_t largest = in[0];

    for (int32_t j = 1; j < layer->length; j++) {
        largest = in[j * layer->x_along] > largest ? in[j * layer->x_along] : largest;
    }
    return 255 - largest;
}

/* Sets `first` to that, and `right` to how far shares are to be shifted; returns by what they are multiplied before. */
static QCGEN_INLINE int32_t qcgen_integer_softmax_scale_s8(
    const struct qcgen_integer_softmax *layer, const int8_t *in, int32_t *first, int32_t *right)
{
    uint32_t sum = 0; /* of exponentials, in units of 2^-19 */

    *first = qcgen_integer_softmax_first_s8(layer, in);
    *right = layer->right;
    for (int32_t j = 0; j < layer->length; j++) {
        const uint32_t part = (uint32_t)layer->exponentials[*first + in[j * layer->x_along]];

        sum += (part + (1u << 11)) >> 12;
    }
    while (sum < UINT32_C(1) << 31) {
        sum <<= 1;
        --*right;
    }
    return qcgen_code_softmax_fixed_reciprocal(sum);
}

/* The code of an exponential. */
static QCGEN_INLINE int32_t qcgen_integer_softmax_code(
    const struct qcgen_integer_softmax *layer, int32_t exponential, int32_t scale, int32_t right)
{
    const int32_t share = qcgen_code_softmax_fixed_product(scale, exponential);
    const int32_t code = (share >> right) + ((share >> (right - 1)) & 1) + layer->low;

    return code > layer->high ? layer->high : code;
}

/* A row whose codes have 8 bits, too. */
static QCGEN_INLINE void qcgen_integer_softmax_s8(
    const struct qcgen_integer_softmax *layer, const int8_t *in, uint8_t *out)
{
    int32_t first, right;
    const int32_t scale = qcgen_integer_softmax_scale_s8(layer, in, &first, &right);

    for (int32_t j = 0; j < layer->length; j++) {
        const int32_t exponential = layer->exponentials[first + in[j * layer->x_along]];

        out[j * layer->y_along] = (uint8_t)qcgen_integer_softmax_code(layer, exponential, scale, right);
    }
}

/* A row whose codes become int16_t. */
static QCGEN_INLINE void qcgen_integer_softmax_to_16_bits_s8(
    const struct qcgen_integer_softmax *layer, const int8_t *in, int16_t *out)
{
    int32_t first, right;
    const int32_t scale = qcgen_integer_softmax_scale_s8(layer, in, &first, &right);

    for (int32_t j = 0; j < layer->length; j++) {
        const int32_t exponential = layer->exponentials[first + in[j * layer->x_along]];

        out[j * layer->y_along] = (int16_t)qcgen_integer_softmax_code(layer, exponential, scale, right);
    }
}

/* The logarithms of the shares of a row. */
static QCGEN_INLINE void qcgen_integer_log_softmax_s8(
    const struct qcgen_integer_softmax *layer, const int8_t *in, uint8_t *out)
{
    const int32_t first = qcgen_integer_softmax_first_s8(layer, in), low = layer->low, high = layer->high;
    int32_t sum = 0; /* of exponentials, in units of 2^-19 */
    int32_t logarithm;

    for (int32_t j = 0; j < layer->length; j++) {
        sum += layer->exponentials[first + in[j * layer->x_along]];
    }
    logarithm = qcgen_code_softmax_logarithm(sum);
    for (int32_t j = 0; j < layer->length; j++) {
        const int32_t distance = layer->distances[first + in[j * layer->x_along]];
        const int32_t code = qcgen_code_softmax_part(distance - logarithm, 22) + high;

        out[j * layer->y_along] = (uint8_t)(code < low ? low : code > high ? high : code);
    }
}
