/*
 * The vectors and instructions of x86-64 that generated code uses, in plain C: for compilers and processors without them.
 * Names, types and meaning are those of Intel's intrinsics.
 */
#ifndef INSTRUCTIONS_IMMINTRIN_H
#define INSTRUCTIONS_IMMINTRIN_H

#include <stdint.h>
#include <string.h>

typedef struct {
    int32_t lanes[8];
} __m256i;

typedef struct {
    int32_t lanes[16];
} __m512i;

/* VPDPBUSD of one lane: four products of an unsigned and a signed byte, added to a sum that wraps. */
static inline int32_t instructions_dpbusd(int32_t sum, int32_t a, int32_t b)
{
    uint32_t total = (uint32_t)sum;

    for (int byte = 0; byte < 4; byte++) {
        const int32_t is_unsigned = (uint8_t)((uint32_t)a >> (8 * byte));
        const int32_t is_signed = (int8_t)(uint8_t)((uint32_t)b >> (8 * byte));

        total += (uint32_t)(is_unsigned * is_signed);
    }
    return (int32_t)total;
}

static inline __m512i _mm512_loadu_si512(const void *from)
{
    __m512i v;

    memcpy(&v, from, sizeof v);
    return v;
}

static inline void _mm512_storeu_si512(void *to, __m512i v)
{
    memcpy(to, &v, sizeof v);
}

static inline __m512i _mm512_set1_epi32(int32_t value)
{
    __m512i v;

    for (int i = 0; i < 16; i++) {
        v.lanes[i] = value;
    }
    return v;
}

static inline __m512i _mm512_dpbusd_epi32(__m512i sums, __m512i a, __m512i b)
{
    for (int i = 0; i < 16; i++) {
        sums.lanes[i] = instructions_dpbusd(sums.lanes[i], a.lanes[i], b.lanes[i]);
    }
    return sums;
}

static inline __m256i _mm256_loadu_si256(const __m256i *from)
{
    __m256i v;

    memcpy(&v, from, sizeof v);
    return v;
}

static inline void _mm256_storeu_si256(__m256i *to, __m256i v)
{
    memcpy(to, &v, sizeof v);
}

static inline __m256i _mm256_set1_epi32(int32_t value)
{
    __m256i v;

    for (int i = 0; i < 8; i++) {
        v.lanes[i] = value;
    }
    return v;
}

static inline __m256i _mm256_dpbusd_avx_epi32(__m256i sums, __m256i a, __m256i b)
{
    for (int i = 0; i < 8; i++) {
        sums.lanes[i] = instructions_dpbusd(sums.lanes[i], a.lanes[i], b.lanes[i]);
    }
    return sums;
}

#endif
