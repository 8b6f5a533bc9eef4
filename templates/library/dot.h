/* Sums of products of bytes for kernels of hosts. */
#pragma once
#include <stdint.h>
#include <string.h>
#include "compiler.h"

/* An instruction adds four products of bytes to each int32 of a vector: VPDPBUSD on x86 with VNNI, whose taps are
   unsigned, SDOT on AArch64, whose taps are signed. The first does not saturate (VPDPBUSDS would); both wrap. The
   compiler's flags choose (-march=native, -mavx512vnni, -mavxvnni, -march=armv8.2-a+dotprod). Elsewhere portable C does
   the same, slower than what is generated for --target portable. */
#if defined(__AVX512F__) && defined(__AVX512VNNI__)
#include <immintrin.h>
#define QCGEN_DOT_512 1
#elif defined(__AVX2__) && defined(__AVXVNNI__)
#include <immintrin.h>
#define QCGEN_DOT_256 1
#elif defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD) && !defined(__ARM_BIG_ENDIAN)
#include <arm_neon.h>
#define QCGEN_DOT_128 1
#endif
#if defined(QCGEN_DOT_128)
#define QCGEN_DOT_IS_SIGNED 1 /* taps are -128 to 127 */
#define QCGEN_DOT_U8 128 /* which bit of a uint8 differs from the tap */
#define QCGEN_DOT_S8 0 /* and of an int8 */
#else
#define QCGEN_DOT_IS_SIGNED 0 /* taps are 0 to 255 */
#define QCGEN_DOT_U8 0 /* which bit of a uint8 differs from the tap */
#define QCGEN_DOT_S8 128 /* and of an int8 */
#endif

/* Sixteen sums, one for each channel. */
typedef struct {
#if defined(QCGEN_DOT_512)
    __m512i lanes;
#elif defined(QCGEN_DOT_256)
    __m256i low, high;
#elif defined(QCGEN_DOT_128)
    int32x4_t a, b, c, d;
#else
    int32_t lanes[16];
#endif
} qcgen_dot_sums;

/* Where sixteen sums start. */
static QCGEN_INLINE qcgen_dot_sums qcgen_dot_start(const int32_t *from)
{
    qcgen_dot_sums s;

#if defined(QCGEN_DOT_512)
    s.lanes = _mm512_loadu_si512(from);
#elif defined(QCGEN_DOT_256)
    s.low = _mm256_loadu_si256((const __m256i *)(const void *)from);
    s.high = _mm256_loadu_si256((const __m256i *)(const void *)(from + 8));
#elif defined(QCGEN_DOT_128)
    s.a = vld1q_s32(from);
    s.b = vld1q_s32(from + 4);
    s.c = vld1q_s32(from + 8);
    s.d = vld1q_s32(from + 12);
#else
    (void)memcpy(s.lanes, from, sizeof s.lanes);
#endif
    return s;
}

/* Adds the products of four taps and the weights of each channel. */
static QCGEN_INLINE qcgen_dot_sums qcgen_dot_add(qcgen_dot_sums s, const uint8_t *taps, const int8_t *weights)
{
#if defined(QCGEN_DOT_512) || defined(QCGEN_DOT_256) || defined(QCGEN_DOT_128)
    int32_t four;

    (void)memcpy(&four, taps, sizeof four);
#endif
#if defined(QCGEN_DOT_512)
    s.lanes = _mm512_dpbusd_epi32(s.lanes, _mm512_set1_epi32(four), _mm512_loadu_si512(weights));
#elif defined(QCGEN_DOT_256)
    const __m256i same = _mm256_set1_epi32(four);

    s.low = _mm256_dpbusd_avx_epi32(s.low, same, _mm256_loadu_si256((const __m256i *)(const void *)weights));
    s.high = _mm256_dpbusd_avx_epi32(s.high, same, _mm256_loadu_si256((const __m256i *)(const void *)(weights + 32)));
#elif defined(QCGEN_DOT_128)
    const int8x16_t same = vreinterpretq_s8_s32(vdupq_n_s32(four));

    s.a = vdotq_s32(s.a, vld1q_s8(weights), same);
    s.b = vdotq_s32(s.b, vld1q_s8(weights + 16), same);
    s.c = vdotq_s32(s.c, vld1q_s8(weights + 32), same);
    s.d = vdotq_s32(s.d, vld1q_s8(weights + 48), same);
#else
    for (int32_t m = 0; m < 16; m++) {
        for (int32_t k = 0; k < 4; k++) {
            s.lanes[m] += taps[k] * weights[4 * m + k];
        }
    }
#endif
    return s;
}

static QCGEN_INLINE void qcgen_dot_store(int32_t *to, qcgen_dot_sums s)
{
#if defined(QCGEN_DOT_512)
    _mm512_storeu_si512(to, s.lanes);
#elif defined(QCGEN_DOT_256)
    _mm256_storeu_si256((__m256i *)(void *)to, s.low);
    _mm256_storeu_si256((__m256i *)(void *)(to + 8), s.high);
#elif defined(QCGEN_DOT_128)
    vst1q_s32(to, s.a);
    vst1q_s32(to + 4, s.b);
    vst1q_s32(to + 8, s.c);
    vst1q_s32(to + 12, s.d);
#else
    (void)memcpy(to, s.lanes, sizeof s.lanes);
#endif
}

/* Sums of eight windows of so many bytes, which lie side by side: sixteen channels of the first, then of the next.
   Vectors of 512 bits have room for all of them, others for those of four windows. */
static void qcgen_dot_windows(
    const uint8_t *restrict taps, int32_t bytes, const int8_t *restrict weights, const int32_t *restrict starts,
    int32_t *restrict sums)
{
#if defined(QCGEN_DOT_512)
    qcgen_dot_sums s0 = qcgen_dot_start(starts);
    qcgen_dot_sums s1 = qcgen_dot_start(starts);
    qcgen_dot_sums s2 = qcgen_dot_start(starts);
    qcgen_dot_sums s3 = qcgen_dot_start(starts);
    qcgen_dot_sums s4 = qcgen_dot_start(starts);
    qcgen_dot_sums s5 = qcgen_dot_start(starts);
    qcgen_dot_sums s6 = qcgen_dot_start(starts);
    qcgen_dot_sums s7 = qcgen_dot_start(starts);

    for (int32_t k = 0; k < bytes; k += 4) {
        s0 = qcgen_dot_add(s0, taps + k, weights + 16 * k);
        s1 = qcgen_dot_add(s1, taps + bytes + k, weights + 16 * k);
        s2 = qcgen_dot_add(s2, taps + 2 * bytes + k, weights + 16 * k);
        s3 = qcgen_dot_add(s3, taps + 3 * bytes + k, weights + 16 * k);
        s4 = qcgen_dot_add(s4, taps + 4 * bytes + k, weights + 16 * k);
        s5 = qcgen_dot_add(s5, taps + 5 * bytes + k, weights + 16 * k);
        s6 = qcgen_dot_add(s6, taps + 6 * bytes + k, weights + 16 * k);
        s7 = qcgen_dot_add(s7, taps + 7 * bytes + k, weights + 16 * k);
    }
    qcgen_dot_store(sums, s0);
    qcgen_dot_store(sums + 16, s1);
    qcgen_dot_store(sums + 2 * 16, s2);
    qcgen_dot_store(sums + 3 * 16, s3);
    qcgen_dot_store(sums + 4 * 16, s4);
    qcgen_dot_store(sums + 5 * 16, s5);
    qcgen_dot_store(sums + 6 * 16, s6);
    qcgen_dot_store(sums + 7 * 16, s7);
#else
    for (int32_t half = 0; half < 2; half++) {
        qcgen_dot_sums s0 = qcgen_dot_start(starts);
        qcgen_dot_sums s1 = qcgen_dot_start(starts);
        qcgen_dot_sums s2 = qcgen_dot_start(starts);
        qcgen_dot_sums s3 = qcgen_dot_start(starts);

        for (int32_t k = 0; k < bytes; k += 4) {
            s0 = qcgen_dot_add(s0, taps + k, weights + 16 * k);
            s1 = qcgen_dot_add(s1, taps + bytes + k, weights + 16 * k);
            s2 = qcgen_dot_add(s2, taps + 2 * bytes + k, weights + 16 * k);
            s3 = qcgen_dot_add(s3, taps + 3 * bytes + k, weights + 16 * k);
        }
        qcgen_dot_store(sums, s0);
        qcgen_dot_store(sums + 16, s1);
        qcgen_dot_store(sums + 2 * 16, s2);
        qcgen_dot_store(sums + 3 * 16, s3);

        taps += 4 * bytes;
        sums += 64;
    }
#endif
}

/* Sums of sixteen channels of one window of so many bytes; every other four taps have sums of their own, so that an
   instruction need not wait for the one before. */
static void qcgen_dot_window(
    const uint8_t *restrict taps, int32_t bytes, const int8_t *restrict weights, const int32_t *restrict starts,
    int32_t *restrict sums)
{
    const int32_t zero[16] = { 0 };
    int32_t odd[16];
    qcgen_dot_sums s = qcgen_dot_start(starts), t = qcgen_dot_start(zero);
    int32_t k = 0;

    for (; k < bytes - 4; k += 8) {
        s = qcgen_dot_add(s, taps + k, weights + 16 * k);
        t = qcgen_dot_add(t, taps + k + 4, weights + 16 * (k + 4));
    }
    if (k < bytes) {
        s = qcgen_dot_add(s, taps + k, weights + 16 * k);
    }
    qcgen_dot_store(sums, s);
    qcgen_dot_store(odd, t);
    for (int32_t m = 0; m < 16; m++) {
        sums[m] += odd[m];
    }
}
