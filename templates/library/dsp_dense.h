/* Vectors of int8_t times weights by Winograd's identity; those of uint8_t have u8 in place of s8. */
#pragma once
#include <stdint.h>
#include <string.h>
#include "compiler.h"
#include "dsp.h"
#include "dsp_sums.h"

/* Four elements, pairs of even ones (e) and of odd ones (o), join sums of channels by Winograd's identity for inner
   products: e * v + o * w = (e + w) * (o + v) - e * o - v * w. The sum of e * o is subtracted, that of v * w is in the
   biases. Of two channels that share words the upper one's sum is plain. `constants` is stepped behind the weights. */
typedef void qcgen_dsp_quad(int32_t even, int32_t odd, const int32_t **constants, int32_t *a);

/* One channel, whose weights for four elements are a word. */
static QCGEN_INLINE void qcgen_dsp_quad_bytes_1(int32_t even, int32_t odd, const int32_t **constants, int32_t *a)
{
    qcgen_dsp_winograd_dot_bytes(even, odd, *(*constants)++, a);
    QCGEN_FENCE; /* else the compiler loads words until registers are short */
}

/* Two channels, whose weights for four elements are a word each. */
static QCGEN_INLINE void qcgen_dsp_quad_bytes_2(int32_t even, int32_t odd, const int32_t **constants, int32_t *a)
{
    int32_t w0, w1;

    qcgen_dsp_load_two(constants, &w0, &w1);
    qcgen_dsp_winograd_dot_bytes(even, odd, w0, &a[0]);
    qcgen_dsp_winograd_dot_bytes(even, odd, w1, &a[1]);
}

/* Two channels, which share words. */
static QCGEN_INLINE void qcgen_dsp_quad_shared_2(int32_t even, int32_t odd, const int32_t **constants, int32_t *a)
{
    int32_t w0, w1;

    qcgen_dsp_load_two(constants, &w0, &w1);
    qcgen_dsp_winograd_dot_two(even, odd, w0, w1, &a[0], &a[1]);
}

/* Six channels, which share words two by two. */
static QCGEN_INLINE void qcgen_dsp_quad_shared_6(int32_t even, int32_t odd, const int32_t **constants, int32_t *a)
{
    qcgen_dsp_quad_shared_4(even, odd, constants, a);
    qcgen_dsp_quad_shared_2(even, odd, constants, a + 4);
}

/* Four channels, which share words. Weights are stored less a constant: the sum of elements joins sums as often. */
static QCGEN_INLINE void qcgen_dsp_quad_nibbles_4(int32_t even, int32_t odd, const int32_t **constants, int32_t *a)
{
    int32_t w0, w1;

    qcgen_dsp_load_two(constants, &w0, &w1);
    qcgen_dsp_dot_nibbles(even, odd, w0, w1, a);
}

/* No channel: a[0] is the sum of the products of even and odd elements. */
static QCGEN_INLINE void qcgen_dsp_quad_products(int32_t even, int32_t odd, const int32_t **constants, int32_t *a)
{
    (void)constants;
    a[0] = qcgen_dsp_dot(even, odd, a[0]);
}

/* The same; a[1] is the sum of all elements. */
static QCGEN_INLINE void qcgen_dsp_quad_elements(int32_t even, int32_t odd, const int32_t **constants, int32_t *a)
{
    const int32_t ones = 0x00010001; /* a pair */

    qcgen_dsp_quad_products(even, odd, constants, a);
    a[1] = qcgen_dsp_dot(odd, ones, qcgen_dsp_dot(even, ones, a[1]));
}

/* `count` words of four elements join the sums, one after the other. */
static QCGEN_INLINE void qcgen_dsp_words_s8(
    qcgen_dsp_quad *quad, const int8_t *x, int32_t count, const int32_t **constants, int32_t *a)
{
    QCGEN_UNROLLED
    for (int32_t i = 0; i < count; i++) {
        const int32_t word = qcgen_dsp_load_word(x + 4 * i);

        quad(qcgen_dsp_even_s8(word), qcgen_dsp_odd_s8(word), constants, a);
    }
}

/* Words join the sums until `end`, `copies` a round. */
static QCGEN_INLINE void qcgen_dsp_rounds_s8(
    qcgen_dsp_quad *quad, const int8_t *x, const int8_t *end, int32_t copies, const int32_t **constants, int32_t *a)
{
    do {
        qcgen_dsp_words_s8(quad, x, copies, constants, a);
        x += 4 * copies;
    } while (x != end);
}

/* The one to three elements behind the last word join the sums. */
static QCGEN_INLINE void qcgen_dsp_left_s8(
    qcgen_dsp_quad *quad, const int8_t *x, int32_t count, const int32_t **constants, int32_t *a)
{
    quad(qcgen_dsp_pair(x[0], count > 1 ? x[1] : 0), count > 2 ? qcgen_dsp_pair(x[2], 0) : 0, constants, a);
}

/* `count` times two words join the sums of six channels, which share words two by two. */
static QCGEN_INLINE void qcgen_dsp_twos_of_six_s8(
    const int8_t *x, int32_t count, const int32_t **constants, int32_t *a)
{
    QCGEN_UNROLLED
    for (int32_t i = 0; i < count; i++) {
        const int32_t first = qcgen_dsp_load_word(x + 8 * i);
        int32_t even_rest, odd_rest, second;

        qcgen_dsp_winograd_dot_six(
            qcgen_dsp_even_s8(first), qcgen_dsp_odd_s8(first), constants, a, &even_rest, &odd_rest);
        second = qcgen_dsp_load_word(x + 8 * i + 4);
        qcgen_dsp_winograd_dot_six_rest(
            qcgen_dsp_even_s8(second), qcgen_dsp_odd_s8(second), constants, a, even_rest, odd_rest);
    }
}

/* The same until `end`, `copies` a round. */
static QCGEN_INLINE void qcgen_dsp_rounds_of_six_s8(
    const int8_t *x, const int8_t *end, int32_t copies, const int32_t **constants, int32_t *a)
{
    do {
        qcgen_dsp_twos_of_six_s8(x, copies, constants, a);
        x += 8 * copies;
    } while (x != end);
}

/* A matrix times a vector; `own` is what a layer has for itself. */
typedef void qcgen_dsp_vector_s8(const void *own, const int8_t *x, void *y);

/* A matrix times `count` vectors, `step` elements apart, each of which has outputs of so many bytes. */
static QCGEN_INLINE void qcgen_dsp_vectors_s8(const void *own, qcgen_dsp_vector_s8 *multiply, const int8_t *x,
    int32_t step, int32_t count, void *y, int32_t y_bytes)
{
    for (int32_t n = 0; n < count; n++) {
        multiply(own, x + n * step, (uint8_t *)y + n * y_bytes);
    }
}

/* Vectors in `rows` of so many `columns`, `step` elements apart. Behind a row the next one is more[0] elements further,
   behind count[i] of those on axis i more[i + 1]. */
struct qcgen_dsp_vectors {
    int32_t rows, columns, step, axes, count[4], more[5];
    int32_t elements, y_bytes;   /* of a vector, and bytes of its outputs */
    int32_t read, is_last_short; /* elements that are read; whether those beyond the last vector must be zeros */
};

/* A matrix times all of them; `copy` is 0 where none needs one. */
static QCGEN_INLINE void qcgen_dsp_rows_of_vectors_s8(const void *own, const struct qcgen_dsp_vectors *v,
    qcgen_dsp_vector_s8 *multiply, const int8_t *x, int8_t *copy, void *y)
{
    uint8_t *out = y;
    int32_t at[4] = { 0 };

    for (int32_t rows = v->rows; rows > 0; rows--) {
        const int32_t copied = rows == 1 && v->is_last_short ? v->columns - 1 : -1;

        for (int32_t i = 0; i < v->columns; i++) {
            if (copy != 0 && i == copied) {
                (void)memcpy(copy, x, (size_t)v->elements);
                (void)memset(copy + v->elements, 0, (size_t)(v->read - v->elements));
            }
            multiply(own, copy != 0 && i == copied ? copy : x, out);
            x += v->step;
            out += v->y_bytes;
        }
        x += v->more[0];
        QCGEN_UNROLLED
        for (int32_t i = 0; i < v->axes; i++) {
            at[i]++;
            if (at[i] < v->count[i]) {
                break;
            }
            at[i] = 0;
            x += v->more[i + 1];
        }
    }
}
