/* Windows of convolutions of int8_t, widened to pairs of 16 bits; those of uint8_t have u8 in place of s8. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "dsp.h"

/* Widens up to eight words, whose number the compiler knows, to pairs[0], pairs[2], ...; those of another window have
   the pairs between. Loads come first, since each but the first then takes a cycle less. */
static QCGEN_INLINE void qcgen_dsp_widen_words_s8(const int8_t *x, int32_t count, int32_t *pairs)
{
    int32_t words[8];

    QCGEN_UNROLLED
    for (int32_t i = 0; i < count; i++) {
        words[i] = qcgen_dsp_load_word(x + 4 * i);
    }
    QCGEN_UNROLLED
    for (int32_t i = 0; i < count; i++) {
        pairs[4 * i] = qcgen_dsp_even_s8(words[i]);
        pairs[4 * i + 2] = qcgen_dsp_odd_s8(words[i]);
    }
}

/* Widens up to four words each of two windows to pairs of both in turn. */
static QCGEN_INLINE void qcgen_dsp_widen_two_words_s8(const int8_t *a, const int8_t *b, int32_t count, int32_t *pairs)
{
    int32_t words_a[4], words_b[4];

    QCGEN_UNROLLED
    for (int32_t i = 0; i < count; i++) {
        words_a[i] = qcgen_dsp_load_word(a + 4 * i);
        words_b[i] = qcgen_dsp_load_word(b + 4 * i);
    }
    QCGEN_UNROLLED
    for (int32_t i = 0; i < count; i++) {
        pairs[4 * i] = qcgen_dsp_even_s8(words_a[i]);
        pairs[4 * i + 1] = qcgen_dsp_even_s8(words_b[i]);
        pairs[4 * i + 2] = qcgen_dsp_odd_s8(words_a[i]);
        pairs[4 * i + 3] = qcgen_dsp_odd_s8(words_b[i]);
    }
}

/* The same for any number of words. */
QCGEN_SHARED static void qcgen_dsp_widen_two_s8(const int8_t *a, const int8_t *b, int32_t words, int32_t *pairs)
{
    const int8_t *const end = a + 4 * words, *const whole = end - words % 4 * 4;

    while (a != whole) {
        qcgen_dsp_widen_two_words_s8(a, b, 4, pairs);
        a += 16;
        b += 16;
        pairs += 16;
        QCGEN_MOVED(b);
        QCGEN_MOVED(pairs);
    }
    while (a != end) {
        qcgen_dsp_widen_two_words_s8(a, b, 1, pairs);
        a += 4;
        b += 4;
        pairs += 4;
    }
}

/* An element that whole words leave over of `runs` runs, counted through all of them; 0 behind the last one. */
static QCGEN_INLINE int32_t qcgen_dsp_left_over_s8(
    const int8_t *x, int32_t runs, int32_t run, int32_t distance, int32_t number)
{
    const int32_t left = run % 4;

    return number < runs * left ? x[number / left * distance + run - left + number % left] : 0;
}

/* Widens what whole words leave over, two elements to a pair, to pairs[0], pairs[2], ...: an even number of pairs. */
static QCGEN_INLINE void qcgen_dsp_widen_rest_s8(
    const int8_t *x, int32_t runs, int32_t run, int32_t distance, int32_t *pairs)
{
    const int32_t count = runs * (run % 4);

    QCGEN_UNROLLED
    for (int32_t i = 0; i < count; i += 4) {
        pairs[i] = qcgen_dsp_pair(
            qcgen_dsp_left_over_s8(x, runs, run, distance, i), qcgen_dsp_left_over_s8(x, runs, run, distance, i + 1));
        pairs[i + 2] = 0;
        if (i + 2 < count) {
            pairs[i + 2] = qcgen_dsp_pair(
                qcgen_dsp_left_over_s8(x, runs, run, distance, i + 2),
                qcgen_dsp_left_over_s8(x, runs, run, distance, i + 3));
        }
    }
}
