/* Pools of sixteen channels at a time. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "helium.h"
#include "pools.h"

static QCGEN_INLINE void qcgen_wpool_mve_loop_s8(
    const struct qcgen_wpool *p, const int8_t *x, int8_t *out, qcgen_wpool_inner_s8 *inner)
{
    (void)inner;
    for (int32_t i = 0; i < p->lanes; i += 16) {
        qcgen_mve_s8 largest = qcgen_mve_load_s8(x + i);

        QCGEN_UNROLLED
        for (int32_t k = 1; k < p->taps; k++) {
            largest = qcgen_mve_larger_s8(largest, qcgen_mve_load_s8(x + i + p->tap[k]));
        }
        qcgen_mve_store_s8(out + i, largest);
    }
}

static QCGEN_INLINE void qcgen_wpool_mve_keep_largest_s8(
    const struct qcgen_wpool *p, const void *x, int32_t at, void *sums)
{
    const int8_t *const elements = (const int8_t *)x + at;
    int8_t *const largest = sums;

    for (int32_t i = 0; i < p->lanes; i += 16) {
        qcgen_mve_store_s8(
            largest + i, qcgen_mve_larger_s8(qcgen_mve_load_s8(largest + i), qcgen_mve_load_s8(elements + i)));
    }
}
