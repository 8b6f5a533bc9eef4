/* Pools: the largest element, or the mean, of each window of an image. Functions named _s8 take int8_t; those of
   other types have u8, s16, u16 or float for s8. A node's function declares pointers restrict: compilers forget it of
   functions that call others by a pointer. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "integers.h"

/* Windows on up to four axes, that of columns last. Those that begin at 0 to `last` on each axis lie within the image;
   of a row they are the columns [inside, beyond). Distances are in elements. */
struct qcgen_wpool {
    int32_t batch, planes, lanes; /* images, channels that lie apart from each other, those side by side */
    int32_t input[4], output[4], kernel[4], stride[4], dilation[4], pad[4], step[4], last[4];
    int32_t inside, beyond, x_image, x_plane, y_image, y_channel, y_pixel;
    int32_t run, columns, run_step, run_out; /* outputs in the image that are computed together, in so many columns */
    int32_t taps, tap[64];                   /* of a window within the image, and how far behind its first; else none */
    int32_t counts_all, is_by_columns;       /* of means of floats: padding, too; columns are added up first */
    const void *mean;                        /* of codes: a struct qcgen_wpool_mean */
};

/* What computes an output whose window lies within the image, at x; a run of them; those of any window. */
typedef int8_t qcgen_wpool_inner_s8(const struct qcgen_wpool *p, const int8_t *x);
typedef void qcgen_wpool_run_s8(
    const struct qcgen_wpool *p, const int8_t *x, int8_t *out, qcgen_wpool_inner_s8 *inner);
typedef void qcgen_wpool_any_s8(const int8_t *image, int32_t t, int32_t z, int32_t r, int32_t c, int8_t *out);

/* Takes the element at some distance from x to `sums`. */
typedef void qcgen_wpool_visit(const struct qcgen_wpool *p, const void *x, int32_t at, void *sums);

/* The first tap on the image of a window that begins at `start` on an axis. */
static QCGEN_INLINE int32_t qcgen_wpool_first(const struct qcgen_wpool *p, int32_t axis, int32_t start)
{
    QCGEN_ROLLED
    while (start < 0) {
        start += p->dilation[axis];
    }
    return start;
}

/* What follows the last tap on the image. */
static QCGEN_INLINE int32_t qcgen_wpool_beyond(const struct qcgen_wpool *p, int32_t axis, int32_t start, int32_t kernel)
{
    const int32_t span = (kernel - 1) * p->dilation[axis] + 1;

    return qcgen_smaller(start, p->input[axis] - span) + span;
}

/* Takes the taps that are on the image, of so many columns, to `sums`; returns how many there are. */
static QCGEN_INLINE int32_t qcgen_wpool_walk(const struct qcgen_wpool *p, int32_t t, int32_t z, int32_t r, int32_t c,
    int32_t columns, const void *x, void *sums, qcgen_wpool_visit *visit)
{
    const int32_t end_t = qcgen_wpool_beyond(p, 0, t, p->kernel[0]), end_z = qcgen_wpool_beyond(p, 1, z, p->kernel[1]);
    const int32_t end_r = qcgen_wpool_beyond(p, 2, r, p->kernel[2]), end_c = qcgen_wpool_beyond(p, 3, c, columns);
    const int32_t first_z = qcgen_wpool_first(p, 1, z), first_r = qcgen_wpool_first(p, 2, r);
    const int32_t first_c = qcgen_wpool_first(p, 3, c);
    int32_t count = 0;

    for (int32_t i = qcgen_wpool_first(p, 0, t); i < end_t; i += p->dilation[0]) {
        for (int32_t j = first_z; j < end_z; j += p->dilation[1]) {
            QCGEN_ROLLED
            for (int32_t k = first_r; k < end_r; k += p->dilation[2]) {
                QCGEN_ROLLED
                for (int32_t m = first_c; m < end_c; m += p->dilation[3]) {
                    visit(p, x, i * p->step[0] + j * p->step[1] + k * p->step[2] + m * p->step[3], sums);
                    count++;
                }
            }
        }
    }
    return count;
}

static QCGEN_INLINE int8_t qcgen_wpool_largest_s8(const struct qcgen_wpool *p, const int8_t *x)
{
    int8_t largest = x[0];

    QCGEN_UNROLLED
    for (int32_t k = 1; k < p->taps; k++) {
        const int8_t element = x[p->tap[k]];

        largest = element >= largest ? element : largest; /* of a zero and its negative the last one */
    }
    return largest;
}

static QCGEN_INLINE void qcgen_wpool_keep_largest_s8(const struct qcgen_wpool *p, const void *x, int32_t at, void *sums)
{
    const int8_t *const elements = (const int8_t *)x + at;
    int8_t *const largest = sums;

    for (int32_t i = 0; i < p->lanes; i++) {
        const int8_t element = elements[i];

        largest[i * p->y_channel] = element >= largest[i * p->y_channel] ? element : largest[i * p->y_channel];
    }
}

/* The same where choosing is a branch. */
static QCGEN_INLINE void qcgen_wpool_keep_larger_s8(const struct qcgen_wpool *p, const void *x, int32_t at, void *sums)
{
    const int8_t *const elements = (const int8_t *)x + at;
    int8_t *const largest = sums;

    for (int32_t i = 0; i < p->lanes; i++) {
        if (elements[i] >= largest[i * p->y_channel]) {
            largest[i * p->y_channel] = elements[i];
        }
    }
}

/* The largest elements of any window; `lowest` if there is none. */
static QCGEN_INLINE void qcgen_wpool_any_largest_s8(const struct qcgen_wpool *p, const int8_t *x, int32_t t, int32_t z,
    int32_t r, int32_t c, int8_t *out, int8_t lowest, qcgen_wpool_visit *keep)
{
    for (int32_t i = 0; i < p->lanes; i++) {
        out[i * p->y_channel] = lowest;
    }
    (void)qcgen_wpool_walk(p, t, z, r, c, p->kernel[3], x, out, keep);
}

static QCGEN_INLINE float qcgen_wpool_mean_float(const struct qcgen_wpool *p, const float *x)
{
    const int32_t columns = p->is_by_columns ? qcgen_smaller(p->kernel[3], p->taps) : p->taps;
    float sum = 0.0f;

    QCGEN_UNROLLED
    for (int32_t c = 0; c < columns; c++) {
        float column = x[p->tap[c]];

        QCGEN_UNROLLED
        for (int32_t k = c + columns; k < p->taps; k += columns) {
            column += x[p->tap[k]];
        }
        sum = c > 0 ? sum + column : column;
    }
    return sum / (float)p->taps;
}

static QCGEN_INLINE void qcgen_wpool_add_float(const struct qcgen_wpool *p, const void *x, int32_t at, void *sums)
{
    const float *const elements = (const float *)x + at;
    float *const sum = sums;

    for (int32_t i = 0; i < p->lanes; i++) {
        sum[i * p->y_channel] += elements[i];
    }
}

static QCGEN_INLINE void qcgen_wpool_add_one_float(const struct qcgen_wpool *p, const void *x, int32_t at, void *sum)
{
    (void)p;
    *(float *)sum += ((const float *)x)[at];
}

static QCGEN_INLINE void qcgen_wpool_any_mean_float(const struct qcgen_wpool *p, const float *x, int32_t t, int32_t z,
    int32_t r, int32_t c, float *out)
{
    int32_t count = 0;

    for (int32_t i = 0; i < p->lanes; i++) {
        out[i * p->y_channel] = 0.0f;
    }
    if (p->is_by_columns) {
        for (int32_t k = 0; k < p->kernel[3]; k++) {
            int32_t taps = 0;

            for (int32_t i = 0; i < p->lanes; i++) {
                float column = 0.0f;

                taps = qcgen_wpool_walk(p, t, z, r, c + k, 1, x + i, &column, qcgen_wpool_add_one_float);
                out[i * p->y_channel] += column;
            }
            count += taps;
        }
    } else {
        count = qcgen_wpool_walk(p, t, z, r, c, p->kernel[3], x, out, qcgen_wpool_add_float);
    }
    if (p->counts_all) {
        count = p->kernel[0] * p->kernel[1] * p->kernel[2] * p->kernel[3];
    }
    count = qcgen_larger(count, 1); /* the mean of no taps is 0 */
    for (int32_t i = 0; i < p->lanes; i++) {
        out[i * p->y_channel] /= (float)count;
    }
}

static QCGEN_INLINE void qcgen_wpool_loop_s8(
    const struct qcgen_wpool *p, const int8_t *x, int8_t *out, qcgen_wpool_inner_s8 *inner)
{
    for (int32_t i = p->run; i > 0; i--) {
        *out = inner(p, x);
        out += p->run_out;
        x += p->run_step;
    }
}

/* The same for windows that overlap: compilers must not write out the loop. */
static QCGEN_INLINE void qcgen_wpool_rolled_loop_s8(
    const struct qcgen_wpool *p, const int8_t *x, int8_t *out, qcgen_wpool_inner_s8 *inner)
{
    QCGEN_ROLLED
    for (int32_t i = p->run; i > 0; i--) {
        *out = inner(p, x);
        out += p->run_out;
        x += p->run_step;
    }
}

/* The same for Thumb's first instruction set, whose loads of int8_t take an index. */
static QCGEN_INLINE void qcgen_wpool_indexed_loop_s8(
    const struct qcgen_wpool *p, const int8_t *x, int8_t *out, qcgen_wpool_inner_s8 *inner)
{
    QCGEN_MOVED(x); /* else gcc -Os takes the runs of a small image together, and loads without an index */
    for (int32_t i = 0; i < p->run; i++) {
        *out = inner(p, x + i * p->run_step);
        out += p->run_out;
    }
}

/* Columns [c, beyond), whose windows lie within the image. */
static QCGEN_INLINE void qcgen_wpool_columns_s8(const struct qcgen_wpool *p, const int8_t *image, int32_t t, int32_t z,
    int32_t r, int32_t c, int32_t beyond, int8_t *out, qcgen_wpool_run_s8 *run, qcgen_wpool_inner_s8 *inner)
{
    const int8_t *const row = image + (t * p->step[0] + z * p->step[1] + r * p->step[2]);

    QCGEN_ROLLED
    for (; c < beyond; c += p->columns) {
        run(p, row + (c * p->stride[3] - p->pad[3]) * p->step[3], out + c * p->y_pixel, inner);
    }
}

/* A pool of which all windows lie within the image. */
static QCGEN_INLINE void qcgen_wpool_s8(const struct qcgen_wpool *p, const int8_t *x, int8_t *y,
    qcgen_wpool_run_s8 *run, qcgen_wpool_inner_s8 *inner)
{
    for (int32_t n = 0; n < p->batch; n++) {
        for (int32_t plane = 0; plane < p->planes; plane++) {
            const int8_t *const image = x + (n * p->x_image + plane * p->x_plane);
            int8_t *out = y + (n * p->y_image + plane * p->y_channel);

            for (int32_t t = 0; t < p->output[0]; t++) {
                for (int32_t z = 0; z < p->output[1]; z++) {
                    QCGEN_ROLLED
                    for (int32_t r = 0; r < p->output[2]; r++) {
                        qcgen_wpool_columns_s8(p, image, t * p->stride[0], z * p->stride[1], r * p->stride[2], 0,
                            p->output[3], out, run, inner);
                        out += p->output[3] * p->y_pixel;
                    }
                }
            }
        }
    }
}

/* Columns [c, beyond) of any row. */
static QCGEN_INLINE void qcgen_wpool_any_columns_s8(const struct qcgen_wpool *p, const int8_t *image, int32_t t,
    int32_t z, int32_t r, int32_t c, int32_t beyond, int8_t *out, qcgen_wpool_any_s8 *any)
{
    for (; c < beyond; c++) {
        any(image, t, z, r, c * p->stride[3] - p->pad[3], out + c * p->y_pixel);
    }
}

static QCGEN_INLINE void qcgen_wpool_any_row_s8(const struct qcgen_wpool *p, const int8_t *image, int32_t t, int32_t z,
    int32_t r, int8_t *out, qcgen_wpool_run_s8 *run, qcgen_wpool_inner_s8 *inner, qcgen_wpool_any_s8 *any)
{
    if (t < 0 || z < 0 || r < 0 || t > p->last[0] || z > p->last[1] || r > p->last[2]) {
        qcgen_wpool_any_columns_s8(p, image, t, z, r, 0, p->output[3], out, any);
        return;
    }
    qcgen_wpool_any_columns_s8(p, image, t, z, r, 0, p->inside, out, any);
    qcgen_wpool_columns_s8(p, image, t, z, r, p->inside, p->beyond, out, run, inner);
    qcgen_wpool_any_columns_s8(p, image, t, z, r, p->beyond, p->output[3], out, any);
}

/* Any pool. */
static QCGEN_INLINE void qcgen_wpool_padded_s8(const struct qcgen_wpool *p, const int8_t *x, int8_t *y,
    qcgen_wpool_run_s8 *run, qcgen_wpool_inner_s8 *inner, qcgen_wpool_any_s8 *any)
{
    for (int32_t n = 0; n < p->batch; n++) {
        for (int32_t plane = 0; plane < p->planes; plane++) {
            const int8_t *const image = x + (n * p->x_image + plane * p->x_plane);
            int8_t *out = y + (n * p->y_image + plane * p->y_channel);

            for (int32_t t = -p->pad[0]; t < p->output[0] * p->stride[0] - p->pad[0]; t += p->stride[0]) {
                for (int32_t z = -p->pad[1]; z < p->output[1] * p->stride[1] - p->pad[1]; z += p->stride[1]) {
                    QCGEN_ROLLED
                    for (int32_t r = -p->pad[2]; r < p->output[2] * p->stride[2] - p->pad[2]; r += p->stride[2]) {
                        qcgen_wpool_any_row_s8(p, image, t, z, r, out, run, inner, any);
                        out += p->output[3] * p->y_pixel;
                    }
                }
            }
        }
    }
}
