/* Depthwise convolutions for Helium: four rows are interleaved, so that a word holds one channel of four pixels, one
   below the other. Four such words, of neighbouring pixels, are a window of 4 x 4 taps: gathered into a vector, they
   are multiplied by sixteen weights and summed by one instruction (VMLADAV). Larger windows are sums of several such
   vectors. Rows and columns beyond the kernel meet weights of 0. */
#pragma once
#include <stdint.h>
#include <string.h>
#include "compiler.h"
#include "helium.h"
#include "mve_blocks.h"
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

/* How windows lie on the columns, and what the output step needs behind the initial accumulators of four channels. */
struct qcgen_mve_quads {
    struct qcgen_mve_rows rows;
    int32_t channels, lanes, y_bytes, out_rows, out_columns; /* lanes: of a vector, four or all channels */
    int32_t band, row_stride, stride, dilation; /* rows of outputs on the same columns; words to windows and columns */
    int32_t groups, words, parts, has_offsets; /* of windows: fours of rows, their words, of columns; of each channel */
    uint32_t guarded, limit; /* where bits of guard bands are; how close to a tie sums need the exact function */
};

/* What moves on to the next windows and sums their products, and what moves four channels' weights to lower rows. */
typedef qcgen_mve_s32 qcgen_mve_sums_at(
    const struct qcgen_mve_quads *quads, qcgen_mve_at *at, const qcgen_mve_s8 *taps, const int8_t *weights);
typedef void qcgen_mve_lowered(qcgen_mve_s8 *taps, int32_t rows);

/* Moves on to the next windows, `stride` words further on: sums of their products with the taps of four channels. */
static QCGEN_INLINE qcgen_mve_s32 qcgen_mve_next(
    const struct qcgen_mve_quads *quads, qcgen_mve_at *at, const qcgen_mve_s8 *taps, const int8_t *weights)
{
    qcgen_mve_s32 sums;

    (void)weights;
    *at = QCGEN_MVE_MOVED(quads->stride) > 0 ? *at : qcgen_mve_ahead(*at, quads->stride);
#if QCGEN_MVE
    int32_t sum0, sum1, sum2, sum3;

    /* As one statement, because the compilers mix several of them until registers run out. */
    __asm__ volatile("vldrw.u32 %q0, [%q5, #%c10]!\n\tvmladav.s8 %1, %q0, %q6\n\t"
                     "vldrw.u32 %q0, [%q5, #4]\n\tvmladav.s8 %2, %q0, %q7\n\t"
                     "vldrw.u32 %q0, [%q5, #8]\n\tvmladav.s8 %3, %q0, %q8\n\t"
                     "vldrw.u32 %q0, [%q5, #12]\n\tvmladav.s8 %4, %q0, %q9\n\t"
                     "vmov %q0[2], %q0[0], %1, %3\n\tvmov %q0[3], %q0[1], %2, %4"
                     : "=&w"(sums), "=&Te"(sum0), "=&Te"(sum1), "=&Te"(sum2), "=&Te"(sum3), "+&w"(*at)
                     : "w"(taps[0]), "w"(taps[1]), "w"(taps[2]), "w"(taps[3]),
                       "i"(QCGEN_MVE_MOVED(quads->stride))
                     : "memory");
#else
    sums.lane[0] = qcgen_mve_dot(0, QCGEN_MVE_GATHER(*at, 0), taps[0]);
    sums.lane[1] = qcgen_mve_dot(0, QCGEN_MVE_GATHER(*at, 1), taps[1]);
    sums.lane[2] = qcgen_mve_dot(0, QCGEN_MVE_GATHER(*at, 2), taps[2]);
    sums.lane[3] = qcgen_mve_dot(0, QCGEN_MVE_GATHER(*at, 3), taps[3]);
#endif
    return sums;
}

/* The same for windows of several vectors, whose weights do not stay in registers. */
static QCGEN_INLINE qcgen_mve_s32 qcgen_mve_next_large(
    const struct qcgen_mve_quads *quads, qcgen_mve_at *at, const qcgen_mve_s8 *taps, const int8_t *weights)
{
    const int32_t part = 4 * quads->dilation;
    qcgen_mve_at tap = qcgen_mve_ahead(*at, quads->stride);
    int32_t sums[4] = { 0, 0, 0, 0 };

    (void)taps;
    *at = tap;
    for (int32_t i = 0; i < quads->groups; i++) {
        for (int32_t j = 0; j < quads->parts; j++) {
            qcgen_mve_windows(tap, &weights, sums);
            tap = qcgen_mve_ahead(tap, part);
        }
        tap = qcgen_mve_ahead(tap, quads->words - quads->parts * part);
    }
    return qcgen_mve_four(sums[0], sums[1], sums[2], sums[3]);
}

/* Windows stand so many rows lower in the same words. */
static QCGEN_INLINE void qcgen_mve_lower_taps(qcgen_mve_s8 *taps, int32_t rows)
{
    taps[0] = qcgen_mve_lower(taps[0], rows);
    taps[1] = qcgen_mve_lower(taps[1], rows);
    taps[2] = qcgen_mve_lower(taps[2], rows);
    taps[3] = qcgen_mve_lower(taps[3], rows);
}

/* Four channels of `count` rows of outputs. */
static QCGEN_INLINE void qcgen_mve_quad_codes(const struct qcgen_mve_quads *quads, qcgen_mve_sums_at *sums_at,
    qcgen_mve_lowered *lower, qcgen_mve_scaled *scaled, qcgen_mve_codes *codes, const int32_t *columns,
    const int8_t *weights, const int32_t *parameters, int32_t count, int8_t *out)
{
    const int is_own = quads->has_offsets;
#if defined(__OPTIMIZE_SIZE__) && !defined(__clang__) /* offsets are loaded early, so registers run out */
    const int is_kept = !is_own || quads->groups * quads->parts > 1;
#else
    const int is_kept = 1;
#endif
    const qcgen_mve_s32 bias = qcgen_mve_load(parameters), common = qcgen_mve_load(parameters + 4);
    qcgen_mve_s8 taps[4] = { qcgen_mve_load_s8(weights), qcgen_mve_load_s8(weights + 16),
        qcgen_mve_load_s8(weights + 32), qcgen_mve_load_s8(weights + 48) };
    qcgen_mve_at at = qcgen_mve_addresses(columns, -quads->stride, quads->dilation);

    for (int32_t i = 0; i < (quads->out_rows % quads->band > 0 ? count : quads->band); i++) {
        for (int32_t ox = 0; ox < quads->out_columns; ox++) {
            const qcgen_mve_s32 sums = sums_at(quads, &at, taps, weights);
            const qcgen_mve_s32 acc = qcgen_mve_add(sums, is_kept ? bias : qcgen_mve_load(parameters));
            const qcgen_mve_s32 factor = is_own ? qcgen_mve_load(parameters + 4) : common;
            const qcgen_mve_s32 offset = is_own ? qcgen_mve_load(parameters + 8) : common;

            qcgen_mve_store_bytes(out, codes(scaled(acc, factor, offset)), quads->lanes);
            out += quads->channels;
        }
        if (lower) {
            lower(taps, quads->row_stride);
            at = qcgen_mve_ahead(at, -quads->out_columns * quads->stride);
        }
    }
}

/* Without `exact`: stores the codes and returns bits of the rows that come near a tie. With it: stores exact codes;
   with `closeness` only those near ties, of one row, whose windows stand `down` rows lower in the columns. */
static QCGEN_INLINE uint32_t qcgen_mve_quad_near_ties(const struct qcgen_mve_quads *quads, const void *own,
    qcgen_mve_sums_at *sums_at, qcgen_mve_lowered *lower, qcgen_mve_scaled *scaled, qcgen_mve_codes *codes,
    qcgen_mve_closeness *closeness, qcgen_mve_exact *exact, const int32_t *columns, const int8_t *weights,
    const int32_t *parameters, int32_t m, int32_t down, int32_t count, void *y)
{
    const int32_t rows = closeness && exact ? 1 : quads->out_rows % quads->band > 0 ? count : quads->band;
    const qcgen_mve_s32 bias = qcgen_mve_load(parameters);
    qcgen_mve_s8 taps[4] = { qcgen_mve_load_s8(weights), qcgen_mve_load_s8(weights + 16),
        qcgen_mve_load_s8(weights + 32), qcgen_mve_load_s8(weights + 48) };
    qcgen_mve_at at = qcgen_mve_addresses(columns, -quads->stride, quads->dilation);
    int8_t *out = (int8_t *)y;
    uint32_t near = 0;

    if (lower && down > 0) {
        lower(taps, down);
    }
    for (int32_t i = 0; i < rows; i++) {
        uint32_t closest = 0;

        for (int32_t ox = 0; ox < quads->out_columns; ox++) {
            const qcgen_mve_s32 sums = sums_at(quads, &at, taps, weights);
            const qcgen_mve_s32 acc = qcgen_mve_add(sums, closeness ? qcgen_mve_load(parameters) : bias);

            if (closeness) {
                const qcgen_mve_s32 factor = qcgen_mve_load(parameters + 4);
                const qcgen_mve_s32 offset = quads->has_offsets ? qcgen_mve_load(parameters + 8) : factor;
                const qcgen_mve_s32 lines = scaled(acc, factor, offset);
                const qcgen_mve_s32 guarded = qcgen_mve_and(lines, qcgen_mve_load(parameters + quads->guarded));

                closest = closeness(exact ? 0 : closest, guarded);
                if (!exact) {
                    qcgen_mve_store_bytes(out, codes(lines), quads->lanes);
                }
            }
            if (exact && (!closeness || closest >= quads->limit)) {
                exact(own, acc, m, quads->lanes, out);
            }
            out += quads->channels * quads->y_bytes;
        }
        near |= (uint32_t)(closest >= quads->limit) << i;
        if (lower) {
            lower(taps, quads->row_stride);
            at = qcgen_mve_ahead(at, -quads->out_columns * quads->stride);
        }
    }
    return near;
}
