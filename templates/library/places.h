/* Where elements of int8_t are; functions for uint8_t, int16_t, uint16_t and float have u8, s16, u16, float for s8. */
#pragma once
#include <stdint.h>
#include "compiler.h"

/* The place that a number stands for: below 0 it counts from the end; beyond either end it is the first or the last. */
static QCGEN_INLINE int32_t qcgen_place(int32_t number, int32_t length)
{
    const int32_t place = number < 0 ? number + length : number;

    return place < 0 ? 0 : place >= length ? length - 1 : place;
}

/* The same of a wide number. */
static QCGEN_INLINE int32_t qcgen_place_wide(int64_t number, int32_t length)
{
    const int64_t place = number < 0 ? number + length : number;

    return place < 0 ? 0 : place >= length ? length - 1 : (int32_t)place;
}

/* The largest of `count` elements that lie `x_along` apart are looked for, or the smallest. */
struct qcgen_search {
    int32_t count, x_along, is_largest;
    int32_t takes_last; /* of equal ones the last, not the first */
    int32_t k, y_along; /* how many are found, and the distance of their places in y */
    int32_t has_nan;    /* some may be NaN */
};

/* The number of one element. */
static QCGEN_INLINE int32_t qcgen_find_one_s8(const struct qcgen_search *layer, const int8_t *x)
{
    int8_t best = x[0];
    int32_t place = 0;

    for (int32_t i = 1; i < layer->count; i++) {
        const int8_t element = x[i * layer->x_along];

        if (layer->is_largest ? (layer->takes_last ? element >= best : element > best)
                              : (layer->takes_last ? element <= best : element < best)) {
            best = element;
            place = i;
        }
    }
    return place;
}

/* Whether an element comes before another one. `known` are the NaN in front, or the numbers in front of NaN. */
static QCGEN_INLINE int32_t qcgen_find_is_before_s8(
    const struct qcgen_search *layer, int8_t element, int8_t other, int32_t place, int32_t known)
{
    const int8_t itself = element, same = other; /* NaN is not */

    if (layer->k == 1 || !layer->has_nan) { /* none are counted */
        return layer->is_largest ? !(element <= other) && other == same : !(element >= other) && element == itself;
    }
    if (layer->is_largest) {
        return place > known && !(element <= other);
    }
    return place > known ? element == itself : element < other;
}

/* The numbers of k elements, in their order; of equal ones the first comes first, and NaN is larger than numbers. The
   elements themselves are kept in `best`: one more moves past those that it comes before. */
static QCGEN_INLINE void qcgen_find_some_s8(
    const struct qcgen_search *layer, const int8_t *restrict x, int64_t *restrict y, int8_t *restrict best)
{
    const int32_t k = layer->k, along = layer->y_along;
    int32_t known = 0;

    for (int32_t i = 0; i < layer->count; i++) {
        const int8_t element = x[i * layer->x_along], itself = element;
        int32_t place = i < k ? i : k;

        while (place > 0 && qcgen_find_is_before_s8(layer, element, best[place - 1], place, known)) {
            if (place < k) {
                best[place] = best[place - 1];
                y[place * along] = y[(place - 1) * along];
            }
            place--;
        }
        if (place < k) {
            best[place] = element;
            y[place * along] = i;
            if (layer->has_nan && k > 1) {
                known += layer->is_largest ? element != itself : known < k && element == itself;
            }
        }
    }
}
