/* Windows of channels-last images for Helium: where they are read, and the outputs of all of them. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "helium.h"

/* Sizes by axis, outermost first; of axes that an image lacks, pad and step are 0 and the others 1. A window lies in
   one piece, with sixteen bytes to every vector: where it does not in the image, it is copied. What a copy has behind
   its elements meets weights of 0. */
struct qcgen_mve_image {
    int32_t in[4], out[4], kernel[4], stride[4], dilation[4], pad[4], step[4];
    int32_t channels, are_rows;    /* of a tap; whether taps of a row lie side by side */
    int32_t last_in_place, bytes;  /* the last place where a window is read, -1 if it is always copied; of a copy */
    int32_t next;                  /* elements from a window to the next, if that is found with it, else 0 */
    int32_t pixels, y_pixel;       /* of an output; bytes of one */
    int32_t images, x_image;       /* and elements from one to the next */
};

/* Copies `count` elements as int8; returns what follows them. */
typedef int8_t *qcgen_mve_copied(int8_t *to, const void *from, int32_t count);

/* A node's functions: find the window of an output pixel; the outputs of two windows, or of a alone. */
typedef const int8_t *qcgen_mve_found(const int8_t *x, int32_t pixel, int32_t padding, int8_t *copy);
typedef void qcgen_mve_outputs(const void *own, const int8_t *a, const int8_t *b, void *y);

/* Copies a window, which begins there; of one within the image x is the first element. */
static QCGEN_INLINE void qcgen_mve_copy_window(const struct qcgen_mve_image *w, const int8_t *x, int32_t is_inside,
    const int32_t *begin, int8_t *to, qcgen_mve_copied *copied)
{
    const int32_t *const size = w->kernel, channels = w->channels, columns = w->are_rows ? size[3] : 1;
    const int32_t is_cut = w->are_rows && !is_inside;
    /* Columns [first, beyond) of a row lie on the image. */
    const int32_t first = is_cut && begin[3] < 0 ? -begin[3] : 0;
    const int32_t beyond = is_cut && w->in[3] - begin[3] < columns ? w->in[3] - begin[3] : columns;

    for (int32_t i = 0; i < size[0]; i++) {
        for (int32_t j = 0; j < size[1]; j++) {
            for (int32_t k = 0; k < size[2]; k++) {
                const int32_t tap[3] = { i, j, k };
                int32_t place = 0, is_outside = beyond <= first;

                QCGEN_UNROLLED
                for (int32_t a = 0; a < 3; a++) {
                    const int32_t at = (is_inside ? 0 : begin[a]) + tap[a] * w->dilation[a];

                    place += at * w->step[a];
                    is_outside = is_outside || (uint32_t)at >= (uint32_t)w->in[a];
                }
                for (int32_t l = first; l < size[3]; l += columns) {
                    const int32_t at = (is_inside ? 0 : begin[3]) + l * w->dilation[3];

                    if (is_inside || (!is_outside && (is_cut || (uint32_t)at < (uint32_t)w->in[3]))) {
                        (void)copied(to + l * channels, x + place + at * channels, (beyond - first) * channels);
                    }
                }
                to += size[3] * channels;
            }
        }
    }
}

/* Finds the window of an output pixel in the image, or copies it. */
static QCGEN_INLINE const int8_t *qcgen_mve_find_window(const struct qcgen_mve_image *w, const int8_t *x,
    int32_t pixel, int32_t padding, int8_t *copy, qcgen_mve_copied *copied)
{
    int32_t begin[4], place = 0, is_inside = 1, inner = 1, outer = w->pixels;

    QCGEN_UNROLLED
    for (int32_t a = 3; a >= 0; a--) {
        const int32_t size = w->out[a], at = pixel / inner, end = (size - 1) * w->stride[a];
        const int32_t room = w->in[a] - (w->kernel[a] - 1) * w->dilation[a] - 1;

        outer /= size;
        inner *= size;
        begin[a] = (size == 1 ? 0 : outer > 1 ? at % size : at) * w->stride[a] - w->pad[a];
        place += begin[a] * w->step[a];
        is_inside = is_inside && room >= 0 && ((w->pad[a] == 0 && end <= room) || (uint32_t)begin[a] <= (uint32_t)room);
    }
    if (!is_inside) {
        qcgen_mve_fill(copy, (int8_t)padding, w->bytes);
        qcgen_mve_copy_window(w, x, 0, begin, copy, copied);
    } else if (w->last_in_place < 0 || place > w->last_in_place) {
        qcgen_mve_copy_window(w, x + place, 1, begin, copy, copied);
    } else {
        return x + place;
    }
    return copy;
}

/* Finds the window of an output pixel, which is a pixel of the image, or copies it. */
static QCGEN_INLINE const int8_t *qcgen_mve_find_pixel(const struct qcgen_mve_image *w, const int8_t *x,
    int32_t pixel, int32_t padding, int8_t *copy, qcgen_mve_copied *copied)
{
    const int32_t place = pixel * w->channels, is_copied = w->last_in_place < 0 || place > w->last_in_place;

    (void)padding;
    return is_copied ? copied(copy, x + place, w->channels) - w->channels : x + place;
}

/* The outputs of all pixels, two at a time; `one` is 0 where none is summed alone. */
static QCGEN_INLINE void qcgen_mve_pixels(const void *own, const struct qcgen_mve_image *w, qcgen_mve_found *found,
    qcgen_mve_outputs *two, qcgen_mve_outputs *one, const void *x, int32_t padding, int8_t *copies, void *y)
{
    const int32_t last = w->pixels - 1;

    for (int32_t n = 0; n < w->images; n++) {
        const int8_t *const image = (const int8_t *)x + n * w->x_image;
        int8_t *const out = (int8_t *)y + n * w->pixels * w->y_pixel;

        for (int32_t i = 0; i <= last - (one != 0); i += 2) {
            const int32_t pixel = last % 2 == 0 && !one && i == last ? last - 1 : i; /* the last two repeat one */
            const int8_t *const a = found(image, pixel, padding, copies);
            const int8_t *const b = w->next > 0 ? a + w->next : found(image, pixel + 1, padding, copies + w->bytes);

            two(own, a, b, out + pixel * w->y_pixel);
        }
        if (one) {
            one(own, found(image, last, padding, copies), 0, out + last * w->y_pixel);
        }
    }
}
