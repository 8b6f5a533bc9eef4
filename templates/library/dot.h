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
    enum { TOGETHER = 8 };
#else
    enum { TOGETHER = 4 };
#endif

    for (int32_t first = 0; first < 8; first += TOGETHER) {
        qcgen_dot_sums s[TOGETHER];

        QCGEN_UNROLLED
        for (int32_t i = 0; i < TOGETHER; i++) {
            s[i] = qcgen_dot_start(starts);
        }
        for (int32_t k = 0; k < bytes; k += 4) {
            QCGEN_UNROLLED
            for (int32_t i = 0; i < TOGETHER; i++) {
                s[i] = qcgen_dot_add(s[i], taps + i * bytes + k, weights + 16 * k);
            }
        }
        QCGEN_UNROLLED
        for (int32_t i = 0; i < TOGETHER; i++) {
            qcgen_dot_store(sums + i * 16, s[i]);
        }
        taps += TOGETHER * bytes;
        sums += TOGETHER * 16;
    }
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

/* A convolution: windows are copied, then summed for sixteen output channels at a time. */
struct qcgen_dot_layer {
    int32_t batch, x_image, y_image;     /* images, and elements from one to the next */
    int32_t pixels, channels;            /* of an output image, */
    int32_t y_pixel, y_channel, y_bytes; /* and elements from one to the next, of so many bytes */
    int32_t taps, window;                /* of a window, and its bytes: whole words; the last ones meet weights of 0 */
    int32_t block, copied;               /* windows that are summed, and that are copied at a time */
    int32_t is_corrected;                /* taps are summed, too */
};

/* Its tables: a window's sum times `correction` joins those of channels; the line may miss codes of those guarded. */
struct qcgen_dot_tables {
    const int8_t *weights;
    const int32_t *starts;
    const int16_t *correction;
    const uint16_t *guarded;
    int32_t guarded_count;
};

/* The functions of a layer: copies windows, stores the codes of channels of a pixel, or that of one that is guarded. */
typedef void qcgen_dot_copies(const void *x, int32_t pixel, uint8_t *taps);
typedef void qcgen_dot_sums_of(
    const uint8_t *taps, int32_t bytes, const int8_t *weights, const int32_t *starts, int32_t *sums);
typedef void qcgen_dot_codes(const void *own, const int32_t *sums, int32_t m, int32_t count, void *y);
typedef void qcgen_dot_exact(const void *own, int32_t acc, int32_t m, void *y);

/* Copies elements that lie side by side as taps, or as many taps of padding. */
static QCGEN_INLINE void *qcgen_dot_taps_s8(
    const void *x, int32_t place, int32_t count, int32_t padding, int32_t is_outside, void *to)
{
    uint8_t *taps = to;

    for (int32_t i = 0; i < count; i++) {
        *taps++ = (uint8_t)(is_outside != 0 ? padding : ((const int8_t *)x)[place + i] ^ QCGEN_DOT_S8);
    }
    return taps;
}

static QCGEN_INLINE void *qcgen_dot_taps_u8(
    const void *x, int32_t place, int32_t count, int32_t padding, int32_t is_outside, void *to)
{
    uint8_t *taps = to;

    for (int32_t i = 0; i < count; i++) {
        *taps++ = (uint8_t)(is_outside != 0 ? padding : ((const uint8_t *)x)[place + i] ^ QCGEN_DOT_U8);
    }
    return taps;
}

/* The outputs of a block of windows; y is the first one. */
static QCGEN_INLINE void qcgen_dot_block(const struct qcgen_dot_layer *w, const struct qcgen_dot_tables *t,
    const uint8_t *taps, const void *own, uint8_t *y, qcgen_dot_sums_of *sum, qcgen_dot_codes *codes,
    qcgen_dot_exact *exact)
{
    const int8_t *weights = t->weights;
    const int32_t rest = w->channels % 16, pixel = w->y_pixel * w->y_bytes, channel = w->y_channel * w->y_bytes;
    int32_t totals[8], next = 0;

    for (int32_t i = 0; i < w->block; i++) {
        totals[i] = 0;
        for (int32_t k = 0; w->is_corrected != 0 && k < w->taps; k++) { /* as 0 to 255 */
            totals[i] += taps[i * w->window + k] ^ QCGEN_DOT_U8;
        }
    }
    for (int32_t m = 0; m < w->channels; m += 16) {
        uint8_t *const out = y + m * channel;
        int32_t sums[8 * 16];

        sum(taps, w->window, weights, t->starts + m, sums);
        weights += 16 * w->window;
        for (int32_t i = 0; w->is_corrected != 0 && i < w->block; i++) {
            for (int32_t lane = 0; lane < 16; lane++) {
                sums[i * 16 + lane] += t->correction[m + lane] * totals[i];
            }
        }
        for (int32_t i = 0; i < w->block; i++) { /* all lanes hold channels, but for the last ones */
            if (m < w->channels - rest) {
                codes(own, sums + i * 16, m, 16, out + i * pixel);
            } else {
                codes(own, sums + i * 16, m, rest, out + i * pixel);
            }
        }
        for (; next < t->guarded_count && t->guarded[next] < m + 16; next++) {
            const int32_t lane = t->guarded[next] - m;

            for (int32_t i = 0; i < w->block; i++) {
                exact(own, sums[i * 16 + lane], m + lane, out + i * pixel + lane * channel);
            }
        }
    }
}

/* All outputs of a layer. */
static QCGEN_INLINE void qcgen_dot_outputs(const struct qcgen_dot_layer *w, const struct qcgen_dot_tables *t,
    const void *x, const void *own, void *y, uint8_t *taps, qcgen_dot_copies *copy, qcgen_dot_sums_of *sum,
    qcgen_dot_codes *codes, qcgen_dot_exact *exact)
{
    for (int32_t n = 0; n < w->batch; n++) {
        for (int32_t next = 0; next < w->pixels; next += w->block) {
            /* The last block ends with the image; it may compute some outputs a second time. */
            const int32_t pixel = next < w->pixels - w->block ? next : w->pixels - w->block;

            for (int32_t i = 0; i < w->block; i += w->copied) {
                copy((const uint8_t *)x + n * w->x_image, pixel + i, taps + i * w->window);
                for (int32_t k = w->taps; k < w->window; k++) {
                    taps[i * w->window + k] = 0;
                }
            }
            qcgen_dot_block(w, t, taps, own, (uint8_t *)y + w->y_bytes * (n * w->y_image + pixel * w->y_pixel), sum,
                codes, exact);
        }
    }
}
