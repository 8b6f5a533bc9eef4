/* Sums over the pairs of two windows, a and b, whose pairs alternate: steps of one to four channels, and their loop.
   What words of constants hold is told in qcgen/kernels/arm_dsp/weights.py. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "dsp.h"

/* Where the sums of an even number of channels start, loaded two by two. */
static QCGEN_INLINE void qcgen_dsp_starts(const int32_t **constants, int32_t width, int32_t *a)
{
    QCGEN_UNROLLED
    for (int32_t c = 0; c < width; c += 2) {
        qcgen_dsp_load_two(constants, &a[c], &a[c + 1]);
    }
}

/* Where the sums of channels start for two windows: those of the second follow those of the first. */
static QCGEN_INLINE void qcgen_dsp_starts_of_two(const int32_t **constants, int32_t width, int32_t *a)
{
    QCGEN_UNROLLED
    for (int32_t c = 0; c + 1 < width; c += 2) {
        qcgen_dsp_load_two(constants, &a[c], &a[c + 1]);
    }
    if (width == 1) {
        a[0] = *(*constants)++;
    }
    QCGEN_UNROLLED
    for (int32_t c = 0; c < width; c++) {
        a[width + c] = a[c];
    }
}

/* Parts sums of words of two channels: 256 * upper + lower modulo 2^32, then lower + common; upper fits 24 bits. */
static QCGEN_INLINE void qcgen_dsp_part_shared(int32_t common, int32_t count, const int32_t *a, int32_t *sums)
{
    QCGEN_UNROLLED
    for (int32_t c = 0; c < count; c += 2) {
        const uint32_t lower = (uint32_t)a[c + 1] - (uint32_t)common;

        sums[c] = (int32_t)((uint32_t)a[c] - lower) >> 8;
        sums[c + 1] = (int32_t)lower;
    }
}

/* The same of words that hold four channels: 4096 * s0 + 256 * s1 + 16 * s2 + s3, 256 * s1 + s3, 16 * s2 + s3 and s3,
   modulo 2^32, each plus what it has in common with other blocks; s0 fits 20 bits, s1 24 and s2 28. */
static QCGEN_INLINE void qcgen_dsp_part_nibbles(const int32_t *common, int32_t count, const int32_t *a, int32_t *sums)
{
    QCGEN_UNROLLED
    for (int32_t c = 0; c < count; c += 4) {
        const uint32_t s3 = (uint32_t)a[c + 3] - (uint32_t)common[c + 3];
        const uint32_t s1 = (uint32_t)a[c + 1] - (uint32_t)common[c + 1] - s3;
        const uint32_t both = (uint32_t)a[c + 2] - (uint32_t)common[c + 2];

        sums[c] = (int32_t)((uint32_t)a[c] - (uint32_t)common[c] - both - s1) >> 12;
        sums[c + 1] = (int32_t)s1 >> 8;
        sums[c + 2] = (int32_t)(both - s3) >> 4;
        sums[c + 3] = (int32_t)s3;
    }
}

/* What four such channels have in common: their `factors` times a sum of elements, and `products` of pairs. */
static QCGEN_INLINE void qcgen_dsp_find_common(
    const int32_t *factors, int32_t elements, int32_t products, int32_t *common)
{
    QCGEN_UNROLLED
    for (int32_t c = 0; c < 4; c++) {
        common[c] = (int32_t)((uint32_t)elements * (uint32_t)factors[c] + (c > 1 ? (uint32_t)products : 0));
    }
}

/* The sums of channels that have words for themselves, less what all have in common. */
static QCGEN_INLINE void qcgen_dsp_part_alone(int32_t common, int32_t count, const int32_t *a, int32_t *sums)
{
    QCGEN_UNROLLED
    for (int32_t c = 0; c < count; c++) {
        sums[c] = (int32_t)((uint32_t)a[c] - (uint32_t)common);
    }
}

/* What channels of a block of 1, 2, 4 or 6 have for themselves, two at a time: channel c as two[c % 2]. */
static QCGEN_INLINE void qcgen_dsp_own(const int32_t *own, int32_t width, int32_t c, int32_t *two)
{
    if (width == 1) {
        two[0] = own[0];
    }
    if (c % 2 == 0 && c + 1 < width) {
        qcgen_dsp_two_at(own + c, &two[0], &two[1]);
    }
}

/* Adds the products of two elements of two windows, x and z, with two weights of a channel. */
static QCGEN_INLINE void qcgen_dsp_add_int16(int32_t x, int32_t z, int32_t word, int32_t *a, int32_t *b)
{
    *a = qcgen_dsp_dot(x, word, *a);
    *b = qcgen_dsp_dot(z, word, *b);
}

/* The same for two channels. Each half of a word is 256 * upper + lower: a[0] becomes 256 times the sum of the upper
   channel plus that of the lower one, a[1]; the word's even bytes are the lower channel's weights alone. */
static QCGEN_INLINE void qcgen_dsp_add_shared(int32_t x, int32_t z, int32_t word, int32_t *a, int32_t *b)
{
    qcgen_dsp_add_int16(x, z, word, &a[0], &b[0]);
    qcgen_dsp_add_int16(x, z, qcgen_dsp_even_s8(word), &a[1], &b[1]);
}

/* A step of two channels, two weights of both in a word. */
static QCGEN_INLINE void qcgen_dsp_step_shared_2(const int32_t **xs, const int32_t **constants, int32_t *a, int32_t *b)
{
    int32_t x, z;

    qcgen_dsp_load_two(xs, &x, &z);
    qcgen_dsp_add_shared(x, z, *(*constants)++, a, b);
}

/* A step of four channels, two weights each of two in a word. */
static QCGEN_INLINE void qcgen_dsp_step_shared_4(const int32_t **xs, const int32_t **constants, int32_t *a, int32_t *b)
{
    int32_t x, z, w0, w1;

    qcgen_dsp_load_two(xs, &x, &z);
    qcgen_dsp_load_two(constants, &w0, &w1);
    qcgen_dsp_add_shared(x, z, w0, &a[0], &b[0]);
    qcgen_dsp_add_shared(x, z, w1, &a[2], &b[2]);
}

/* The same, two instructions more and a cycle less. */
static QCGEN_INLINE void qcgen_dsp_step_shared_4_fast(
    const int32_t **xs, const int32_t **constants, int32_t *a, int32_t *b)
{
    int32_t x, z, w0, w1;

    qcgen_dsp_load_twos(xs, &x, &z, constants, &w0, &w1);
    qcgen_dsp_add_shared(x, z, w0, &a[0], &b[0]);
    qcgen_dsp_add_shared(x, z, w1, &a[2], &b[2]);
}

/* A step of one channel, two weights in a word. */
static QCGEN_INLINE void qcgen_dsp_step_int16_1(const int32_t **xs, const int32_t **constants, int32_t *a, int32_t *b)
{
    int32_t x, z;

    qcgen_dsp_load_two(xs, &x, &z);
    qcgen_dsp_add_int16(x, z, *(*constants)++, a, b);
}

/* The sums of the next channel for two windows of a few pairs, x and z. Its `count` constants are where sums start,
   then weights of 8 or 16 bits, then what the output step needs; they are loaded two by two. */
static QCGEN_INLINE void qcgen_dsp_next_channel(const int32_t *x, const int32_t *z, int32_t pairs, int32_t weight_bits,
    const int32_t **constants, int32_t count, int32_t *words, int32_t *sums)
{
    QCGEN_UNROLLED
    for (int32_t i = 0; i < count; i++) {
        if (i % 2 == 0 && i + 1 < count) {
            qcgen_dsp_load_two(constants, &words[i], &words[i + 1]);
        } else if (i % 2 == 0) {
            words[i] = *(*constants)++;
        }
        if (i == 0) {
            sums[0] = words[0];
            sums[1] = words[0];
        } else if (weight_bits == 16 && i <= pairs) {
            qcgen_dsp_add_int16(x[i - 1], z[i - 1], words[i], &sums[0], &sums[1]);
        } else if (weight_bits == 8 && 2 * i <= pairs + 1) {
            qcgen_dsp_add_int16(x[2 * i - 2], z[2 * i - 2], qcgen_dsp_even_s8(words[i]), &sums[0], &sums[1]);
            if (2 * i <= pairs) {
                qcgen_dsp_add_int16(x[2 * i - 1], z[2 * i - 1], qcgen_dsp_odd_s8(words[i]), &sums[0], &sums[1]);
            }
        }
    }
}

/* Adds the products of two elements of two windows with two weights each of two channels. */
static QCGEN_INLINE void qcgen_dsp_add_two_int16(
    int32_t x, int32_t z, const int32_t **constants, int32_t *a, int32_t *b)
{
    int32_t w0, w1;

    qcgen_dsp_load_two(constants, &w0, &w1);
    qcgen_dsp_add_int16(x, z, w0, &a[0], &b[0]);
    qcgen_dsp_add_int16(x, z, w1, &a[1], &b[1]);
}

/* A step of two channels, two weights of one in a word. */
static QCGEN_INLINE void qcgen_dsp_step_int16_2(const int32_t **xs, const int32_t **constants, int32_t *a, int32_t *b)
{
    int32_t x, z;

    qcgen_dsp_load_two(xs, &x, &z);
    qcgen_dsp_add_two_int16(x, z, constants, a, b);
}

/* A step of four channels, two weights of one in a word. */
static QCGEN_INLINE void qcgen_dsp_step_int16_4(const int32_t **xs, const int32_t **constants, int32_t *a, int32_t *b)
{
    int32_t x, z;

    qcgen_dsp_load_two(xs, &x, &z);
    qcgen_dsp_add_two_int16(x, z, constants, &a[0], &b[0]);
    qcgen_dsp_add_two_int16(x, z, constants, &a[2], &b[2]);
}

/* A step of two channels, two weights of one in a word; two instructions more and a cycle less. */
static QCGEN_INLINE void qcgen_dsp_step_int16_2_fast(
    const int32_t **xs, const int32_t **constants, int32_t *a, int32_t *b)
{
    int32_t x, z, w0, w1;

    qcgen_dsp_load_twos(xs, &x, &z, constants, &w0, &w1);
    qcgen_dsp_add_int16(x, z, w0, &a[0], &b[0]);
    qcgen_dsp_add_int16(x, z, w1, &a[1], &b[1]);
}

/* The same of four channels. */
static QCGEN_INLINE void qcgen_dsp_step_int16_4_fast(
    const int32_t **xs, const int32_t **constants, int32_t *a, int32_t *b)
{
    int32_t x, z, w0, w1;

    qcgen_dsp_load_twos(xs, &x, &z, constants, &w0, &w1);
    qcgen_dsp_add_int16(x, z, w0, &a[0], &b[0]);
    qcgen_dsp_add_int16(x, z, w1, &a[1], &b[1]);
    qcgen_dsp_add_two_int16(x, z, constants, &a[2], &b[2]);
}

/* Adds the products of four elements of two windows with four weights of a channel: the even bytes of a word belong to
   the first pairs, the odd ones to the second. */
static QCGEN_INLINE void qcgen_dsp_add_bytes(
    const int32_t *x, const int32_t *z, int32_t word, int32_t *a, int32_t *b)
{
    qcgen_dsp_add_int16(x[0], z[0], qcgen_dsp_even_s8(word), a, b);
    qcgen_dsp_add_int16(x[1], z[1], qcgen_dsp_odd_s8(word), a, b);
}

/* A step of one channel, four weights in a word. */
static QCGEN_INLINE void qcgen_dsp_step_bytes_1(const int32_t **xs, const int32_t **constants, int32_t *a, int32_t *b)
{
    int32_t x[2], z[2];

    qcgen_dsp_load_two(xs, &x[0], &z[0]);
    qcgen_dsp_load_two(xs, &x[1], &z[1]);
    qcgen_dsp_add_bytes(x, z, *(*constants)++, a, b);
}

/* A step of two channels, four weights of one in a word. */
static QCGEN_INLINE void qcgen_dsp_step_bytes_2(const int32_t **xs, const int32_t **constants, int32_t *a, int32_t *b)
{
    int32_t x[2], z[2], w0, w1;

    qcgen_dsp_load_two(xs, &x[0], &z[0]);
    qcgen_dsp_load_two(xs, &x[1], &z[1]);
    qcgen_dsp_load_two(constants, &w0, &w1);
    qcgen_dsp_add_bytes(x, z, w0, &a[0], &b[0]);
    qcgen_dsp_add_bytes(x, z, w1, &a[1], &b[1]);
}

/* A step of four channels. Each half of a word is 4096 * w0 + 256 * w1 + 16 * w2 + w3, w0 from -8 to 7, the others from
   0 to 15. The sums are those of halves, of 256 * w1 + w3, of lower bytes, 16 * w2 + w3, and of w3. */
static QCGEN_INLINE void qcgen_dsp_step_nibbles_4(const int32_t **xs, const int32_t **constants, int32_t *a, int32_t *b)
{
    int32_t x, z, word;

    qcgen_dsp_load_two(xs, &x, &z);
    word = *(*constants)++;
    qcgen_dsp_add_int16(x, z, word, &a[0], &b[0]);
    qcgen_dsp_add_int16(x, z, qcgen_dsp_even_u8(word), &a[2], &b[2]);
    word &= 0x0f0f0f0f;
    qcgen_dsp_add_int16(x, z, word, &a[1], &b[1]);
    qcgen_dsp_add_int16(x, z, qcgen_dsp_even_u8(word), &a[3], &b[3]);
}

typedef void qcgen_dsp_step(const int32_t **xs, const int32_t **constants, int32_t *a, int32_t *b);

/* Steps until `end`, `copies` a round, then `rest` more. */
static QCGEN_INLINE void qcgen_dsp_steps(qcgen_dsp_step *step, int32_t copies, const int32_t *end, int32_t rest,
    const int32_t **xs, const int32_t **constants, int32_t *a, int32_t *b)
{
    if (copies > 0) {
        do {
            QCGEN_UNROLLED
            for (int32_t i = 0; i < copies; i++) {
                step(xs, constants, a, b);
            }
        } while (*xs != end);
    }
    QCGEN_UNROLLED
    for (int32_t i = 0; i < rest; i++) {
        step(xs, constants, a, b);
    }
}

/* The sum of the elements of one of two windows whose pairs alternate; `words`: of both, a multiple of 4. Gcc 12 for
   x86-64 would lose parts of two such sums if it inlined and vectorised both. */
QCGEN_SHARED static int32_t qcgen_dsp_sum_of_elements(const int32_t *pairs, int32_t words)
{
    const int32_t ones = 0x00010001; /* a pair */
    int32_t i = 0, sum = 0;

    for (; i < words % 16; i += 4) {
        sum = qcgen_dsp_dot(pairs[i + 2], ones, qcgen_dsp_dot(pairs[i], ones, sum));
    }
    for (; i < words; i += 16) {
        QCGEN_UNROLLED
        for (int32_t k = 0; k < 16; k += 2) {
            sum = qcgen_dsp_dot(pairs[i + k], ones, sum);
        }
    }
    return sum;
}
