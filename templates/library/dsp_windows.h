/* Windows of convolutions of int8_t, widened to pairs of 16 bits; those of uint8_t have u8 in place of s8. */
#pragma once
#include <stdint.h>
#include <string.h>
#include "compiler.h"
#include "dsp.h"
#include "spatial.h"

/* How the windows of a convolution lie on its image. An image of one axis is one row. */
struct qcgen_dsp_windows {
    int32_t planes, rows, columns, channels; /* of the image: channels first are planes of 1 channel, else 1 plane */
    int32_t out_rows, out_columns;           /* of output pixels */
    int32_t kernel_rows, kernel_columns;     /* of taps */
    int32_t row_stride, column_stride;       /* from a window to the next */
    int32_t row_dilation, column_dilation;   /* from a tap to the next */
    int32_t row_pad, column_pad;             /* of the first window before the image, 0 or more; all others 1 or more */
};

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

/* Widens up to eight neighbours to pairs. */
static QCGEN_INLINE void qcgen_dsp_widen_short_s8(const int8_t *x, int32_t elements, int32_t *pairs)
{
    QCGEN_UNROLLED
    for (int32_t i = 0; i < elements; i += 4) {
        if (i + 4 <= elements) {
            const int32_t word = qcgen_dsp_load_word(x + i);

            *pairs++ = qcgen_dsp_even_s8(word);
            *pairs++ = qcgen_dsp_odd_s8(word);
        } else {
            *pairs++ = qcgen_dsp_pair(x[i], i + 1 < elements ? x[i + 1] : 0);
            if (i + 2 < elements) {
                *pairs++ = qcgen_dsp_pair(x[i + 2], 0);
            }
        }
    }
}

/* Widens a run of words in rounds of `copies`, which the compiler knows: 8, or what divides them. Returns the end. */
static QCGEN_INLINE int32_t *qcgen_dsp_widen_run_s8(const int8_t *x, int32_t words, int32_t copies, int32_t *pairs)
{
    const int32_t rest = copies < 8 ? 0 : words % 8;
    int32_t *const end = pairs + 4 * (words - rest);

    while (pairs != end) {
        qcgen_dsp_widen_words_s8(x, copies, pairs);
        x += 4 * copies;
        pairs += 4 * copies;
    }
    qcgen_dsp_widen_words_s8(x, rest, pairs);
    return pairs + 4 * rest;
}

/* Widens a window that begins at x, whose rows lie so far apart and whose columns are neighbours: the words of all
   rows, then what they leave over, to an even number of pairs. */
static QCGEN_INLINE void qcgen_dsp_widen_rows_s8(
    const struct qcgen_dsp_windows *w, const int8_t *x, int32_t row_step, int32_t plane_step, int32_t *pairs)
{
    const int32_t run = w->kernel_columns * w->channels, left = run % 4, count = w->planes * w->kernel_rows * left;
    int32_t low = 0;

    for (int32_t plane = 0; plane < w->planes; plane++) {
        for (int32_t row = 0; row < w->kernel_rows; row++) {
            pairs = qcgen_dsp_widen_run_s8(x + plane * plane_step + row * row_step, run / 4, 8, pairs);
        }
    }
    QCGEN_UNROLLED
    for (int32_t i = 0; i < (count + 3) / 4 * 4; i++) {
        const int32_t row = i / left, at = row / w->kernel_rows * plane_step + row % w->kernel_rows * row_step;
        const int32_t element = i < count ? x[at + run - left + i % left] : 0;

        if (i % 2 == 0) {
            low = element;
        } else {
            pairs[i - 1] = qcgen_dsp_pair(low, element);
        }
    }
}

/* Finds the first row and column of the window of an output pixel; returns whether it lies within the image. */
static QCGEN_INLINE int qcgen_dsp_find_window(
    const struct qcgen_dsp_windows *w, int32_t pixel, int32_t *row, int32_t *column)
{
    const int32_t out_row = w->out_rows == 1 ? 0 : (int32_t)((uint32_t)pixel / (uint32_t)w->out_columns);

    *row = out_row * w->row_stride - w->row_pad;
    *column = (pixel - out_row * w->out_columns) * w->column_stride - w->column_pad;
    return *row >= 0 && *row < w->rows - (w->kernel_rows - 1) * w->row_dilation && *column >= 0
           && *column < w->columns - (w->kernel_columns - 1) * w->column_dilation;
}

/* Widens the window of an output pixel; `at_border` widens one that leaves the image, 0 if there is none. */
static QCGEN_INLINE void qcgen_dsp_window_of_rows_s8(
    const struct qcgen_dsp_windows *w, const int8_t *x, int32_t pixel,
    void (*at_border)(const int8_t *x, int32_t row, int32_t column, int32_t *pairs), int32_t *pairs)
{
    const int32_t row_step = w->columns * w->channels;
    int32_t row, column;

    if (!qcgen_dsp_find_window(w, pixel, &row, &column) && at_border != 0) {
        at_border(x, row, column, pairs);
    } else {
        qcgen_dsp_widen_rows_s8(
            w, x + row * row_step + column * w->channels, w->row_dilation * row_step, w->rows * row_step, pairs);
    }
}

/* Widens an output pixel's window of one tap, whole words. */
static QCGEN_INLINE void qcgen_dsp_window_of_pixels_s8(
    const struct qcgen_dsp_windows *w, const int8_t *x, int32_t pixel, int32_t *pairs)
{
    (void)qcgen_dsp_widen_run_s8(x + pixel * w->channels, w->channels / 4, 8, pairs);
}

/* Widens the window of an output pixel whose taps are whole words, read as by widen_run; outside is `padding`. Sizes
   are read before the loops: behind each store they would be read again. */
static QCGEN_INLINE void qcgen_dsp_window_of_words_s8(
    const struct qcgen_dsp_windows *w, const int8_t *x, int32_t pixel, int32_t padding, int32_t copies, int32_t *pairs)
{
    const int32_t columns = w->columns, channels = w->channels, words = (int32_t)((uint32_t)channels / 4);
    const int32_t row_step = w->row_dilation, column_step = w->column_dilation;
    int32_t row, column;
    const int is_inside = qcgen_dsp_find_window(w, pixel, &row, &column);
    const int32_t end_row = row + w->kernel_rows * row_step, end_column = column + w->kernel_columns * column_step;

    if (is_inside && column_step == 1) {
        const int32_t run = (end_column - column) * words;

        for (; row != end_row; row += row_step) {
            pairs = qcgen_dsp_widen_run_s8(x + (row * columns + column) * channels, run, copies, pairs);
        }
    } else {
        const int32_t outside = qcgen_dsp_pair(padding, padding), rows = w->rows;

        for (; row != end_row; row += row_step) {
            for (int32_t at = column; at != end_column; at += column_step) {
                if (row >= 0 && row < rows && at >= 0 && at < columns) {
                    pairs = qcgen_dsp_widen_run_s8(x + (row * columns + at) * channels, words, copies, pairs);
                } else {
                    for (int32_t i = 0; i < words; i++, pairs += 4) {
                        pairs[0] = outside;
                        pairs[2] = outside;
                    }
                }
            }
        }
    }
}

/* Widens a window at the border by way of an array of its size; outside the image is `padding`. */
static QCGEN_INLINE void qcgen_dsp_gather_s8(
    const struct qcgen_dsp_windows *w, const int8_t *x, int32_t row, int32_t column, int32_t padding, int8_t *gathered,
    int32_t *pairs)
{
    const int32_t kernel = w->kernel_columns, row_step = w->columns * w->channels, run = kernel * w->channels;
    /* Columns [first, beyond) of the window lie on the image. */
    const int32_t first = column < 0 ? (-column < kernel ? -column : kernel) : 0;
    const int32_t remaining = w->columns - column;
    const int32_t beyond = remaining > kernel ? kernel : remaining > first ? remaining : first;
    const size_t bytes = (size_t)((beyond - first) * w->channels);
    int8_t *to = gathered + first * w->channels;

    (void)memset(gathered, padding, (size_t)(w->planes * w->kernel_rows * run));
    for (int32_t plane = 0; plane < w->planes; plane++) {
        for (int32_t y = row; y != row + w->kernel_rows * w->row_dilation; y += w->row_dilation) {
            if (y >= 0 && y < w->rows && bytes > 0) {
                (void)memcpy(to, x + (plane * w->rows + y) * row_step + (column + first) * w->channels, bytes);
            }
            to += run;
        }
    }
    qcgen_dsp_widen_rows_s8(w, gathered, run, w->kernel_rows * run, pairs);
}

/* Widens the words of taps that lie side by side, or as many of padding. */
static QCGEN_INLINE void *qcgen_dsp_widen_taps_s8(
    const void *x, int32_t place, int32_t count, int32_t padding, int32_t is_outside, void *taps)
{
    int32_t *pairs = taps;

    if (is_outside == 0) {
        return qcgen_dsp_widen_run_s8((const int8_t *)x + place, count / 4, 8, pairs);
    }
    for (int32_t i = 0; i < count / 4; i++, pairs += 4) {
        pairs[0] = qcgen_dsp_pair(padding, padding);
        pairs[2] = pairs[0];
    }
    return pairs;
}

/* Where the taps of a window go: pairs of their words, and what these leave over. */
struct qcgen_dsp_taps_s8 {
    int32_t *pairs;
    int8_t *rest;
};

/* Widens the words of such taps and copies the others. */
static QCGEN_INLINE void *qcgen_dsp_split_taps_s8(
    const void *x, int32_t place, int32_t count, int32_t padding, int32_t is_outside, void *taps)
{
    struct qcgen_dsp_taps_s8 *const to = taps;
    const int8_t *const run = (const int8_t *)x + place;

    to->pairs = qcgen_dsp_widen_taps_s8(x, place, count, padding, is_outside, to->pairs);
    if (is_outside != 0) {
        (void)memset(to->rest, padding, (size_t)(count % 4));
    } else {
        QCGEN_UNROLLED
        for (int32_t i = count / 4 * 4; i < count; i++) {
            to->rest[i % 4] = run[i];
        }
    }
    to->rest += count % 4;
    return taps;
}

/* Copies them all. */
static QCGEN_INLINE void *qcgen_dsp_copy_taps_s8(
    const void *x, int32_t place, int32_t count, int32_t padding, int32_t is_outside, void *taps)
{
    const int8_t *const run = (const int8_t *)x + place;
    int8_t *const to = taps;

    if (is_outside != 0) {
        (void)memset(to, padding, (size_t)count);
    } else if (count % 4 == 0 || count == 1) {
        (void)memcpy(to, run, (size_t)count);
    } else {
        QCGEN_UNROLLED
        for (int32_t i = 0; i < count; i++) {
            to[i] = run[i];
        }
    }
    return to + count;
}

/* Widens the window of an output pixel, so many `runs` of taps that lie side by side: the words of all, then what they
   leave over, to an even number of pairs. At the border `taps` has room for that, or for a window of rows. */
static QCGEN_INLINE void qcgen_dsp_window_of_runs_s8(const struct qcgen_spatial *w, const int8_t *x, int32_t pixel,
    int32_t padding, int32_t runs, int8_t *taps, int32_t *pairs)
{
    const int32_t left = w->row % 4, elements = runs * left, in_plane = runs / w->planes;
    struct qcgen_dsp_taps_s8 to = { pairs, taps };
    int32_t begin[4], low = 0;
    const int32_t is_inside = qcgen_spatial_find(w, pixel, begin);

    if (is_inside != 0) {
        x += qcgen_spatial_first(w, begin);
        qcgen_spatial_walk(w, x, 1, begin, padding, pairs, qcgen_dsp_widen_taps_s8);
    } else if (w->row == w->pixel) {
        qcgen_spatial_walk(w, x, 0, begin, padding, &to, qcgen_dsp_split_taps_s8);
    } else {
        qcgen_spatial_walk(w, x, 0, begin, padding, taps, qcgen_dsp_copy_taps_s8);
        for (int32_t r = 0; r < runs; r++) {
            (void)qcgen_dsp_split_taps_s8(taps, r * w->row, w->row, 0, 0, &to);
        }
    }
    pairs += 4 * runs * (w->row / 4);
    if (is_inside != 0) {
        QCGEN_UNROLLED
        for (int32_t i = 0; i < (elements + 3) / 4 * 4; i++) {
            const int32_t run = i / left, tap = run % in_plane * (w->row / w->pixel);
            const int32_t place = run / in_plane * w->plane_step + qcgen_spatial_offset(w, tap);
            const int32_t element = i < elements ? x[place + w->row - left + i % left] : 0;

            if (i % 2 == 0) {
                low = element;
            } else {
                pairs[i - 1] = qcgen_dsp_pair(low, element);
            }
        }
    } else {
        QCGEN_UNROLLED
        for (int32_t i = 0; i < (elements + 3) / 4 * 4; i += 2) {
            pairs[i] = qcgen_dsp_pair(i < elements ? taps[i] : 0, i + 1 < elements ? taps[i + 1] : 0);
        }
    }
}
