/* What pools of codes do otherwise: those of int8_t, those of other types have u8, s16 or u16 for s8. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "integers.h"
#include "pools.h"
#include "soft_float.h"

/* How a mean becomes a code: slope * sum + start has it from bit `shift` on. Next to a step, within `guard`, and at the
   border words of float32 numbers are added and divided, by `divisor` if all taps count. */
struct qcgen_wpool_mean {
    int32_t counts_all, clamps_low, clamps_high, slope, start, shift, guard, low, high;
    uint32_t y_scale, y_zero_point, divisor;
};

/* A sum of what codes stand for: that of code 0 is at `zero`. */
struct qcgen_wpool_sum {
    const uint32_t *zero;
    uint32_t sum;
};

/* The largest element, compared as words: some compilers extend bytes for each comparison. */
static QCGEN_INLINE int8_t qcgen_wpool_largest_word_s8(const struct qcgen_wpool *p, const int8_t *x)
{
    int32_t largest = x[0];

    QCGEN_UNROLLED
    for (int32_t k = 1; k < p->taps; k++) {
        largest = qcgen_larger(x[p->tap[k]], largest);
    }
    return (int8_t)largest;
}

/* The largest element, computed, not chosen. */
static QCGEN_INLINE int8_t qcgen_wpool_largest_branchless_s8(const struct qcgen_wpool *p, const int8_t *x)
{
    int32_t largest = x[0];

    QCGEN_UNROLLED
    for (int32_t k = 1; k < p->taps; k++) {
        largest = qcgen_at_least(x[p->tap[k]], largest);
    }
    return (int8_t)largest;
}

static QCGEN_INLINE void qcgen_wpool_keep_largest_branchless_s8(
    const struct qcgen_wpool *p, const void *x, int32_t at, void *sums)
{
    const int8_t *const elements = (const int8_t *)x + at;
    int8_t *const largest = sums;

    for (int32_t i = 0; i < p->lanes; i++) {
        largest[i * p->y_channel] = (int8_t)qcgen_at_least(elements[i], largest[i * p->y_channel]);
    }
}

static QCGEN_INLINE int32_t qcgen_wpool_line_s8(
    const struct qcgen_wpool *p, const struct qcgen_wpool_mean *mean, const int8_t *x)
{
    int32_t sum = x[0];

    QCGEN_UNROLLED
    for (int32_t k = 1; k < p->taps; k++) {
        sum += x[p->tap[k]];
    }
    return sum * mean->slope + mean->start;
}

static QCGEN_INLINE int8_t qcgen_wpool_code_s8(const struct qcgen_wpool_mean *mean, int32_t sum)
{
    const int32_t low = mean->clamps_low ? mean->low : INT32_MIN, high = mean->clamps_high ? mean->high : INT32_MAX;

    return (int8_t)qcgen_smaller(qcgen_larger(sum >> mean->shift, low), high);
}

static QCGEN_INLINE int8_t qcgen_wpool_mean_s8(const struct qcgen_wpool *p, const int8_t *x)
{
    const struct qcgen_wpool_mean *const mean = p->mean;

    return qcgen_wpool_code_s8(mean, qcgen_wpool_line_s8(p, mean, x));
}

static QCGEN_INLINE void qcgen_wpool_add_s8(const struct qcgen_wpool *p, const void *x, int32_t at, void *sums)
{
    struct qcgen_wpool_sum *const to = sums;

    (void)p;
    to->sum = qcgen_soft_float_add(to->sum, to->zero[((const int8_t *)x)[at]]);
}

/* The mean of a window by the float32 operations that define it, in their order; `counts` are those of taps. */
static QCGEN_INLINE int8_t qcgen_wpool_exact_s8(const struct qcgen_wpool *p, const int8_t *x, int32_t t, int32_t z,
    int32_t r, int32_t c, const uint32_t *zero, const uint32_t *counts)
{
    const struct qcgen_wpool_mean *const mean = p->mean;
    struct qcgen_wpool_sum all = { zero, 0 };
    const int32_t count = qcgen_wpool_walk(p, t, z, r, c, p->kernel[3], x, &all, qcgen_wpool_add_s8);
    uint32_t y = qcgen_soft_float_divide(all.sum, mean->counts_all ? mean->divisor : counts[count]);

    y = qcgen_soft_float_add(qcgen_soft_float_divide(y, mean->y_scale), mean->y_zero_point);
    return (int8_t)qcgen_bounded(qcgen_soft_float_round(y), mean->low, mean->high);
}

static QCGEN_INLINE void qcgen_wpool_any_mean_s8(const struct qcgen_wpool *p, const int8_t *x, int32_t t, int32_t z,
    int32_t r, int32_t c, int8_t *out, const uint32_t *zero, const uint32_t *counts)
{
    for (int32_t i = 0; i < p->lanes; i++) {
        out[i * p->y_channel] = qcgen_wpool_exact_s8(p, x + i, t, z, r, c, zero, counts);
    }
}

/* Means of which some sums are so near a step that float32 may come to the other side of it. */
static QCGEN_INLINE void qcgen_wpool_guarded_loop_s8(
    const struct qcgen_wpool *p, const int8_t *x, int8_t *out, qcgen_wpool_inner_s8 *exact)
{
    const struct qcgen_wpool_mean *const mean = p->mean;
    const int32_t fraction = (int32_t)((UINT32_C(1) << mean->shift) - 1);
    int32_t sums[16];

    for (int32_t first = 0; first < p->run; first += 16) {
        const int32_t count = qcgen_smaller(p->run - first, 16);

        for (int32_t i = 0; i < count; i++) {
            sums[i] = qcgen_wpool_line_s8(p, mean, x + (first + i) * p->run_step);
            out[(first + i) * p->run_out] = qcgen_wpool_code_s8(mean, sums[i]);
        }
        for (int32_t i = 0; i < count; i++) {
            if (((sums[i] + mean->guard) & fraction) <= 2 * mean->guard) {
                out[(first + i) * p->run_out] = exact(p, x + (first + i) * p->run_step);
            }
        }
    }
}
