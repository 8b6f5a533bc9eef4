/* Depthwise convolutions for Helium: four rows are interleaved, so that a word holds one channel of four pixels, one
   below the other. Four such words, of neighbouring pixels, are a window of 4 x 4 taps: gathered into a vector, they
   are multiplied by sixteen weights and summed by one instruction (VMLADAV). Larger windows are sums of several such
   vectors. Rows and columns beyond the kernel meet weights of 0. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "helium.h"
#include "mve_rows.h"

/* Copies sixteen channels of each of so many pixels. */
static QCGEN_INLINE void qcgen_mve_copy_pixels(const void *x, int32_t channels, int32_t pixels, void *to)
{
    for (int32_t i = 0; i < pixels; i++) {
        qcgen_mve_store_s8((int8_t *)to + 16 * i, qcgen_mve_load_s8((const int8_t *)x + channels * i));
    }
}

/* A kernel of several channels whose weights are taken from [taps][channels] into the order of the loops. */
struct qcgen_mve_kernel {
    struct qcgen_mve_rows rows;
    int32_t channels, column; /* of a tap: all, and those that are interleaved at a time */
    int32_t groups, parts;    /* of four rows and of four columns */
    int32_t words;            /* of a group */
};

/* The first of four channels: the last ones end with the pixel, if it has as many. */
static QCGEN_INLINE int32_t qcgen_mve_quad(int32_t quad, int32_t channels)
{
    return quad <= channels - 4 || channels < 4 ? quad : channels - 4;
}

/* The weights of fours of channels from `block` on, which are interleaved from `first` on: first like the image into
   `taps`, whose columns beyond the kernel are 0 and stay so, then in the order of the loops. */
QCGEN_SHARED static void qcgen_mve_kernel_of(const struct qcgen_mve_kernel *kernel, const int8_t *weights,
    int32_t first, int32_t block, int32_t *taps, int8_t *to)
{
    static const int8_t none[16] = { 0 };
    const int32_t column = kernel->column, beyond = first + column;

    for (int32_t group = 0; group < kernel->groups; group++) {
        qcgen_mve_rows_s8(&kernel->rows, weights + first, 4 * group, none, taps + group * kernel->words);
    }
    for (int32_t quad = block; quad < beyond; quad += 4) {
        const int32_t m = qcgen_mve_quad(quad, kernel->channels) - first;

        for (int32_t group = 0; group < kernel->groups; group++) {
            qcgen_mve_at at = qcgen_mve_addresses(taps, group * kernel->words + m, column);

            for (int32_t part = 0; part < kernel->parts; part++) {
                qcgen_mve_store_s8(to, QCGEN_MVE_GATHER(at, 0));
                qcgen_mve_store_s8(to + 16, QCGEN_MVE_GATHER(at, 1));
                qcgen_mve_store_s8(to + 32, QCGEN_MVE_GATHER(at, 2));
                qcgen_mve_store_s8(to + 48, QCGEN_MVE_GATHER(at, 3));
                at = qcgen_mve_ahead(at, 4 * column);
                to += 64;
            }
        }
    }
}
