/* Winograd's and Toom-Cook's algorithms along an axis, modulo 2^32, for Cortex-M4, M7 and M33. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "dsp.h"

/* Four neighbours on an axis become what the weights' values at 0, 1, -1 and infinity are multiplied with. */
static QCGEN_INLINE void qcgen_dsp_evaluate_4(uint32_t *d)
{
    const uint32_t even = d[2], odd = d[1];

    d[0] = even - d[0];
    d[1] = even + odd;
    d[2] = even - odd;
    d[3] = d[3] - odd;
}

/* Six neighbours on an axis become what the weights' values at 0, 1, -1, 2, -2 and infinity are multiplied with. */
static QCGEN_INLINE void qcgen_dsp_evaluate_6(uint32_t *d)
{
    const uint32_t even1 = d[4] - (d[2] << 2), odd1 = d[3] - (d[1] << 2);
    const uint32_t even2 = d[4] - d[2], odd2 = d[3] - d[1];

    d[0] = even2 + ((d[0] - d[2]) << 2);
    d[5] = d[5] - d[3] - (odd2 << 2);
    d[1] = even1 + odd1;
    d[2] = even1 - odd1;
    d[3] = even2 + (odd2 << 1);
    d[4] = even2 - (odd2 << 1);
}

/* 2 or 3 neighbouring outputs, times 2, from the products at 4 points. */
static QCGEN_INLINE void qcgen_dsp_interpolate_4(uint32_t *t, int32_t outputs)
{
    const uint32_t even = t[1] + t[2], odd = t[1] - t[2];

    t[0] = t[0] + even;
    t[1] = outputs == 2 ? odd + t[3] : odd;
    if (outputs == 3) {
        t[2] = even + t[3];
    }
}

/* 2 to 5 neighbouring outputs, times 24, from the products at 6 points; that at infinity counts twice. */
static QCGEN_INLINE void qcgen_dsp_interpolate_6(uint32_t *t, int32_t outputs)
{
    const uint32_t even1 = t[1] + t[2], odd1 = t[1] - t[2];
    const uint32_t even2 = t[3] + t[4], odd2 = t[3] - t[4];

    t[0] = t[0] + even1 + even2;
    t[1] = odd1 + (odd2 << 1);
    if (outputs > 2) {
        t[2] = even1 + (even2 << 2);
    }
    if (outputs > 3) {
        t[3] = odd1 + (odd2 << 3);
    }
    if (outputs > 4) {
        t[4] = even1 + (even2 << 4);
    }
    t[outputs - 1] += t[5] << 1;
}

/* 2 or 3 neighbouring weights become twice their values at 4 points, as `interpolate` takes them. */
static QCGEN_INLINE void qcgen_dsp_transform_4(uint32_t *d, int32_t taps)
{
    const uint32_t even = taps > 2 ? d[0] + d[2] : d[0];
    const uint32_t odd = d[1];

    d[3] = 2 * d[taps - 1];
    d[0] = 0 - 2 * d[0];
    d[1] = even + odd;
    d[2] = even - odd;
}

/* 2 to 5 neighbouring weights become multiples of their values at 6 points, so that all are whole. */
static QCGEN_INLINE void qcgen_dsp_transform_6(uint32_t *d, int32_t taps)
{
    const uint32_t even1 = d[0] + (taps > 2 ? d[2] : 0) + (taps > 4 ? d[4] : 0);
    const uint32_t odd1 = d[1] + (taps > 3 ? d[3] : 0);
    const uint32_t even2 = d[0] + (taps > 2 ? d[2] << 2 : 0) + (taps > 4 ? d[4] << 4 : 0);
    const uint32_t odd2 = (d[1] << 1) + (taps > 3 ? d[3] << 3 : 0);

    d[5] = 12 * d[taps - 1];
    d[0] = 6 * d[0];
    d[1] = 0 - 4 * (even1 + odd1);
    d[2] = 0 - 4 * (even1 - odd1);
    d[3] = even2 + odd2;
    d[4] = even2 - odd2;
}

/* Of the weights of four input channels numbers half and half + 2, as lower + 65536 * upper; bytes are 128 larger. */
static QCGEN_INLINE uint32_t qcgen_dsp_weights_of(const uint8_t *four, int32_t half)
{
    const uint32_t word = (uint32_t)qcgen_dsp_load_word(four) >> (8 * half);

    return (uint32_t)qcgen_dsp_even_u8((int32_t)word) - UINT32_C(0x800080);
}

/* lower + 65536 * upper, both within 16 bits, as a pair. */
static QCGEN_INLINE int32_t qcgen_dsp_pair_of(uint32_t two)
{
    return (int32_t)((two + UINT32_C(0x8000)) ^ UINT32_C(0x8000));
}
