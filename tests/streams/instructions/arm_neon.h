/*
 * The vectors and instructions of AArch64 that generated code uses, in plain C: for compilers and processors without
 * them. Names, types and meaning are those of the Arm C Language Extensions, on a little-endian machine.
 */
#ifndef INSTRUCTIONS_ARM_NEON_H
#define INSTRUCTIONS_ARM_NEON_H

#include <stdint.h>
#include <string.h>

typedef struct {
    int32_t lanes[4];
} int32x4_t;

typedef struct {
    int8_t lanes[16];
} int8x16_t;

static inline int32x4_t vld1q_s32(const int32_t *from)
{
    int32x4_t v;

    memcpy(&v, from, sizeof v);
    return v;
}

static inline void vst1q_s32(int32_t *to, int32x4_t v)
{
    memcpy(to, &v, sizeof v);
}

static inline int8x16_t vld1q_s8(const int8_t *from)
{
    int8x16_t v;

    memcpy(&v, from, sizeof v);
    return v;
}

static inline int32x4_t vdupq_n_s32(int32_t value)
{
    const int32x4_t v = {{value, value, value, value}};

    return v;
}

static inline int8x16_t vreinterpretq_s8_s32(int32x4_t v)
{
    int8x16_t bytes;

    memcpy(&bytes, &v, sizeof bytes);
    return bytes;
}

/* SDOT: to each lane four products of signed bytes are added; the sum wraps. */
static inline int32x4_t vdotq_s32(int32x4_t sums, int8x16_t a, int8x16_t b)
{
    for (int i = 0; i < 4; i++) {
        uint32_t total = (uint32_t)sums.lanes[i];

        for (int byte = 4 * i; byte < 4 * i + 4; byte++) {
            total += (uint32_t)(a.lanes[byte] * b.lanes[byte]);
        }
        sums.lanes[i] = (int32_t)total;
    }
    return sums;
}

#endif
