/* Windows of channels-last images of int8_t, two of them widened to words; those of uint8_t have u8 in place of s8. */
#pragma once
#include <stdint.h>
#include <string.h>
#include "compiler.h"

/* Windows along an axis of an image. */
struct qcgen_scalar_axis {
    int32_t in, out, kernel, stride, dilation, pad;
};

/* How windows lie on an image of four axes, the last one along rows; those that it lacks are one element long. A window
   is found as runs of elements: rows of taps, or single taps. At the border rows are gathered; single taps leave the
   image as a whole. */
struct qcgen_scalar_windows {
    struct qcgen_scalar_axis axes[4];
    int32_t channels, are_rows;
};

/* An output pixel, or where its window begins. */
struct qcgen_scalar_pixel {
    int32_t at[4];
};

/* Finds the runs of a window that begins at a pixel. At the border `padding` is a tap outside the image, unless rows
   are gathered: then `gathered` is memory for a window. */
static QCGEN_INLINE void qcgen_scalar_runs_s8(
    const struct qcgen_scalar_windows *w, const int8_t *image, const struct qcgen_scalar_pixel *begin, int is_inside,
    const int8_t *padding, const int8_t **runs, int8_t *gathered)
{
    const struct qcgen_scalar_axis *const a = w->axes;
    const int32_t kernel = a[3].kernel, channels = w->channels, column = begin->at[3], remaining = a[3].in - column;
    /* Columns [first, beyond) of a row lie on the image. */
    const int32_t first = column < 0 ? (-column < kernel ? -column : kernel) : 0;
    const int32_t beyond = remaining > kernel ? kernel : remaining > first ? remaining : first;

    for (int32_t i = 0; i < a[0].kernel; i++) {
        for (int32_t j = 0; j < a[1].kernel; j++) {
            for (int32_t k = 0; k < a[2].kernel; k++) {
                const int32_t t = begin->at[0] + i * a[0].dilation;
                const int32_t z = begin->at[1] + j * a[1].dilation;
                const int32_t y = begin->at[2] + k * a[2].dilation;
                const int is_on = t >= 0 && t < a[0].in && z >= 0 && z < a[1].in && y >= 0 && y < a[2].in;
                const int32_t row = ((t * a[1].in + z) * a[2].in + y) * a[3].in * channels;

                if (is_inside && w->are_rows) {
                    *runs++ = image + row;
                } else if (w->are_rows) {
                    if (is_on && beyond > first) {
                        (void)memcpy(gathered + first * channels, image + row + (column + first) * channels,
                            (size_t)((beyond - first) * channels));
                    }
                    *runs++ = gathered;
                    gathered += kernel * channels;
                } else {
                    for (int32_t x = column; x != column + kernel * a[3].dilation; x += a[3].dilation) {
                        const int is_tap = is_inside || (is_on && x >= 0 && x < a[3].in);

                        *runs++ = is_tap ? image + row + x * channels : padding;
                    }
                }
            }
        }
    }
}

/* Finds the runs of an output pixel's window, and steps to the next pixel. Where rows are gathered `outside` is what is
   not on the image. */
static QCGEN_INLINE void qcgen_scalar_find_window_s8(
    const struct qcgen_scalar_windows *w, const int8_t *image, struct qcgen_scalar_pixel *pixel, int32_t outside,
    const int8_t *padding, const int8_t **runs, int8_t *gathered)
{
    const struct qcgen_scalar_axis *const a = w->axes;
    const struct qcgen_scalar_pixel origin = { { 0, 0, 0, 0 } };
    const int32_t planes = a[0].out * a[1].out, rows = planes * a[2].out;
    struct qcgen_scalar_pixel begin;
    int is_inside = 1;
    int32_t place = 0, elements = w->channels;

    QCGEN_UNROLLED
    for (int32_t i = 0; i < 4; i++) {
        const struct qcgen_scalar_axis *const axis = &a[i];
        const int32_t last = axis->in - (axis->kernel - 1) * axis->dilation - 1; /* where a window inside may begin */
        const int is_never_beyond = axis->pad == 0 && (axis->out - 1) * axis->stride <= last;
        const int32_t first = (axis->out == 1 ? 0 : pixel->at[i] * axis->stride) - axis->pad;

        is_inside = is_inside && (is_never_beyond || (first >= 0 && first <= last));
        place = place * axis->in + first;
        elements *= axis->kernel;
        begin.at[i] = first;
    }
    pixel->at[3]++;
    if (rows > 1 && pixel->at[3] == a[3].out) {
        pixel->at[3] = 0;
        pixel->at[2]++;
        if (planes > 1 && pixel->at[2] == a[2].out) {
            pixel->at[2] = 0;
            pixel->at[1]++;
            if (a[0].out > 1 && pixel->at[1] == a[1].out) {
                pixel->at[1] = 0;
                pixel->at[0]++;
            }
        }
    }
    if (is_inside || (gathered == 0 && padding == 0)) { /* without either no window leaves the image */
        qcgen_scalar_runs_s8(w, image + place * w->channels, &origin, 1, padding, runs, gathered);
    } else {
        if (w->are_rows) {
            (void)memset(gathered, outside, (size_t)elements);
        }
        qcgen_scalar_runs_s8(w, image, &begin, 0, padding, runs, gathered);
    }
}

/* Widens elements of two pixels to words, a + b * 2^16 less `both`. They are every second one of `pairs`, or, by word,
   every second pair, of which `half` is that of the first element. */
static QCGEN_INLINE void qcgen_scalar_widen_elements_s8(
    const int8_t *a, const int8_t *b, int32_t count, int32_t is_by_word, int32_t half, int32_t both, int32_t *pairs)
{
    QCGEN_UNROLLED
    for (int32_t k = 0; k < count; k++) {
        const int32_t place = half + k;

        pairs[is_by_word ? place / 2 * 4 + place % 2 : 2 * k] = a[k] + b[k] * 0x10000 - both;
    }
}

/* Widens `runs` runs of `run` elements of two pixels, so many of which are in a `round` of the loop. By word, a word of
   0 makes them even in number. */
static QCGEN_INLINE void qcgen_scalar_widen_s8(
    const int8_t *const *first, const int8_t *const *second, int32_t runs, int32_t run, int32_t round,
    int32_t is_by_word, int32_t both, int32_t *pairs)
{
    const int32_t rest = run % round;

    for (int32_t r = 0; r < runs; r++) {
        const int8_t *a = first[r];
        const int8_t *b = second[r];

        if (is_by_word && run % 2 == 1 && runs > 1) { /* every second run begins with the second of two elements */
            if (r % 2 == 0) {
                qcgen_scalar_widen_elements_s8(a, b, run, 1, 0, both, pairs);
                pairs += 2 * (run - 1);
            } else {
                qcgen_scalar_widen_elements_s8(a, b, run, 1, 1, both, pairs);
                pairs += 2 * (run + 1);
            }
        } else {
            for (int32_t k = 0; k < run / round; k++) {
                qcgen_scalar_widen_elements_s8(a, b, round, is_by_word, 0, both, pairs);
                a += round;
                b += round;
                pairs += 2 * round;
            }
            qcgen_scalar_widen_elements_s8(a, b, rest, is_by_word, 0, both, pairs);
            pairs += 2 * (is_by_word ? rest - rest % 2 : rest);
        }
    }
    if (is_by_word && run * runs % 2 == 1) {
        pairs[1] = 0;
    }
}
