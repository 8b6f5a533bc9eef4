/* Images of up to four axes and the windows of a convolution on them. */
#pragma once
#include <stdint.h>
#include "compiler.h"

/* Sizes by axis, outermost first. For axes that an image does not have, pad and step are 0 and the others are 1. */
struct qcgen_spatial {
    int32_t in[4], out[4], kernel[4], stride[4], dilation[4], pad[4];
    int32_t step[4];             /* elements from one to the next in memory */
    int32_t planes, plane_step;  /* which are copied one after the other, and the elements from one to the next */
    int32_t pixel, row, x_bytes; /* elements that are copied at once, in a row within the image, and bytes of one */
};

/* Copies elements of an image that lie side by side, or as many of padding; returns where the next ones go. */
typedef void *qcgen_spatial_taps(
    const void *x, int32_t place, int32_t count, int32_t padding, int32_t is_outside, void *taps);

/* Finds where on each axis the window of a pixel begins, negative in the padding; whether all is within the image. */
static QCGEN_INLINE int32_t qcgen_spatial_find(const struct qcgen_spatial *w, int32_t pixel, int32_t *begin)
{
    int32_t is_inside = 1, inner = 1, outer = w->out[0] * w->out[1] * w->out[2] * w->out[3];

    QCGEN_UNROLLED
    for (int32_t axis = 3; axis >= 0; axis--) {
        const int32_t size = w->out[axis], place = pixel / inner, end = (size - 1) * w->stride[axis];
        const int32_t room = w->in[axis] - (w->kernel[axis] - 1) * w->dilation[axis] - 1;

        outer /= size;
        begin[axis] = (size == 1 ? 0 : outer > 1 ? place % size : place) * w->stride[axis] - w->pad[axis];
        is_inside = is_inside != 0 && room >= 0 /* as an unsigned number, a negative one is too large */
            && ((w->pad[axis] == 0 && end <= room) || (uint32_t)begin[axis] <= (uint32_t)room);
        inner *= size;
    }
    return is_inside;
}

/* The place in memory of a window's first element. */
static QCGEN_INLINE int32_t qcgen_spatial_first(const struct qcgen_spatial *w, const int32_t *begin)
{
    return begin[0] * w->step[0] + begin[1] * w->step[1] + begin[2] * w->step[2] + begin[3] * w->step[3];
}

/* Elements from there to a tap. */
static QCGEN_INLINE int32_t qcgen_spatial_offset(const struct qcgen_spatial *w, int32_t tap)
{
    int32_t place = 0;

    QCGEN_UNROLLED
    for (int32_t axis = 3; axis >= 0; axis--) {
        place += tap % w->kernel[axis] * w->dilation[axis] * w->step[axis];
        tap /= w->kernel[axis];
    }
    return place;
}

/* The taps of a window, which begins there; of one within the image x is the first element. */
static QCGEN_INLINE void qcgen_spatial_walk(const struct qcgen_spatial *w, const void *x, int32_t is_inside,
    const int32_t *begin, int32_t padding, void *taps, qcgen_spatial_taps *copy)
{
    const int32_t run = is_inside != 0 ? w->row : w->pixel, columns = w->kernel[3] * w->pixel / run;
    const int32_t count = run > 3 ? run : 1; /* up to three without a loop */

    for (int32_t c = 0; c < w->planes; c++) {
        for (int32_t i = 0; i < w->kernel[0]; i++) {
            for (int32_t j = 0; j < w->kernel[1]; j++) {
                for (int32_t k = 0; k < w->kernel[2]; k++) {
                    for (int32_t l = 0; l < columns; l++) {
                        const int32_t tap[4] = {i, j, k, l};
                        int32_t place = c * w->plane_step, is_outside = 0;

                        QCGEN_UNROLLED
                        for (int32_t axis = 0; axis < 4; axis++) {
                            const int32_t at = (is_inside != 0 ? 0 : begin[axis]) + tap[axis] * w->dilation[axis];

                            place += at * w->step[axis];
                            is_outside = is_outside != 0 || (is_inside == 0 && (uint32_t)at >= (uint32_t)w->in[axis]);
                        }
                        QCGEN_UNROLLED
                        for (int32_t more = 0; more < run; more += count) {
                            taps = is_outside != 0 && count > 1
                                ? copy(x, 0, count, padding, 1, taps)
                                : copy(x, place + more, count, padding, is_outside != 0 && count == 1, taps);
                        }
                    }
                }
            }
        }
    }
}

/* Copies the window of an output pixel, in the order of the weights. */
static QCGEN_INLINE void qcgen_spatial_window(const struct qcgen_spatial *w, const void *x, int32_t pixel,
    int32_t padding, void *taps, qcgen_spatial_taps *copy)
{
    int32_t begin[4];

    if (qcgen_spatial_find(w, pixel, begin) != 0) {
        x = (const uint8_t *)x + w->x_bytes * qcgen_spatial_first(w, begin);
        qcgen_spatial_walk(w, x, 1, begin, padding, taps, copy);
    } else {
        qcgen_spatial_walk(w, x, 0, begin, padding, taps, copy);
    }
}

/* Copies windows of one element in each plane, those of a block of pixels side by side, each behind the one before. */
static QCGEN_INLINE void qcgen_spatial_transpose(const struct qcgen_spatial *w, int32_t block, const void *x,
    void *taps, int32_t tap_bytes, qcgen_spatial_taps *copy)
{
    for (int32_t c = 0; c < w->planes; c++) {
        QCGEN_UNROLLED
        for (int32_t i = 0; i < block; i++) {
            (void)copy(x, c * w->plane_step + i, 1, 0, 0, (uint8_t *)taps + (i * w->planes + c) * tap_bytes);
        }
    }
}
