/* Depthwise convolutions for Helium: four rows are interleaved, so that a word holds one channel of four pixels, one
   below the other. Four such words, of neighbouring pixels, are a window of 4 x 4 taps: gathered into a vector, they
   are multiplied by sixteen weights and summed by one instruction (VMLADAV). Larger windows are sums of several such
   vectors. Rows and columns beyond the kernel meet weights of 0. */
#pragma once
#include <stdint.h>
#include <string.h>
#include "compiler.h"
#include "helium.h"
#include "mve_rows.h"

/* Copies so many pixels, sixteen channels of each or all if these are fewer. */
static QCGEN_INLINE void qcgen_mve_copy_line(const void *x, int32_t channels, int32_t pixels, void *line)
{
    if (channels <= 16) {
        (void)memcpy(line, x, (size_t)(pixels * channels));
    } else {
        for (int32_t i = 0; i < pixels; i++) {
            qcgen_mve_store_s8((int8_t *)line + 16 * i, qcgen_mve_load_s8((const int8_t *)x + channels * i));
        }
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

/* Bytes by which the first load of a window moves addresses on. It holds them, and gcc -O0 does not know them. */
#if QCGEN_MVE && defined(__OPTIMIZE__)
#define QCGEN_MVE_MOVED(words) ((words) < 128 ? 4 * (words) : 0)
#else
#define QCGEN_MVE_MOVED(words) 0
#endif

/* Moves on to the next windows, so many words further on: the sums of their products with weights of four channels. */
static QCGEN_INLINE qcgen_mve_s32 qcgen_mve_next(qcgen_mve_at *at, int32_t stride, qcgen_mve_s8 weights0,
    qcgen_mve_s8 weights1, qcgen_mve_s8 weights2, qcgen_mve_s8 weights3)
{
    qcgen_mve_s32 sums;

    *at = QCGEN_MVE_MOVED(stride) > 0 ? *at : qcgen_mve_ahead(*at, stride);
#if QCGEN_MVE
    int32_t sum0, sum1, sum2, sum3;

    /* As one statement, because the compilers mix several of them until registers run out. */
    __asm__ volatile("vldrw.u32 %q0, [%q5, #%c10]!\n\tvmladav.s8 %1, %q0, %q6\n\t"
                     "vldrw.u32 %q0, [%q5, #4]\n\tvmladav.s8 %2, %q0, %q7\n\t"
                     "vldrw.u32 %q0, [%q5, #8]\n\tvmladav.s8 %3, %q0, %q8\n\t"
                     "vldrw.u32 %q0, [%q5, #12]\n\tvmladav.s8 %4, %q0, %q9\n\t"
                     "vmov %q0[2], %q0[0], %1, %3\n\tvmov %q0[3], %q0[1], %2, %4"
                     : "=&w"(sums), "=&Te"(sum0), "=&Te"(sum1), "=&Te"(sum2), "=&Te"(sum3), "+&w"(*at)
                     : "w"(weights0), "w"(weights1), "w"(weights2), "w"(weights3),
                       "i"(QCGEN_MVE_MOVED(stride))
                     : "memory");
#else
    sums.lane[0] = qcgen_mve_dot(0, QCGEN_MVE_GATHER(*at, 0), weights0);
    sums.lane[1] = qcgen_mve_dot(0, QCGEN_MVE_GATHER(*at, 1), weights1);
    sums.lane[2] = qcgen_mve_dot(0, QCGEN_MVE_GATHER(*at, 2), weights2);
    sums.lane[3] = qcgen_mve_dot(0, QCGEN_MVE_GATHER(*at, 3), weights3);
#endif
    return sums;
}

/* How windows of several vectors lie on their columns: groups of four rows, each so many words, and parts of four
   columns. */
struct qcgen_mve_window {
    int32_t groups, words, parts;
    int32_t stride, dilation; /* words to the next window, to the next column of taps */
};

/* The same for such windows, whose weights do not stay in registers. */
static QCGEN_INLINE qcgen_mve_s32 qcgen_mve_next_large(
    qcgen_mve_at *at, const struct qcgen_mve_window *window, const int8_t *weights)
{
    const int32_t part = 4 * window->dilation;
    qcgen_mve_at tap = qcgen_mve_ahead(*at, window->stride);
    int32_t sums[4] = { 0, 0, 0, 0 };

    *at = tap;
    for (int32_t i = 0; i < window->groups; i++) {
        for (int32_t j = 0; j < window->parts; j++) {
            qcgen_mve_windows(tap, &weights, sums);
            tap = qcgen_mve_ahead(tap, part);
        }
        tap = qcgen_mve_ahead(tap, window->words - window->parts * part);
    }
    return qcgen_mve_four(sums[0], sums[1], sums[2], sums[3]);
}
