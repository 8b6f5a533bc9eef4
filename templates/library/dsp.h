/* Instructions of Arm's DSP extension for kernels of Cortex-M4, M7 and M33. */
#pragma once
#include <stdint.h>
#include <string.h>
#include "compiler.h"

/* Instructions of Arm's DSP extension, which multiply and add both 16-bit halves of a word ("a pair") at once: GNU
   assembly where the compiler reads it, otherwise intrinsics of Arm's C Language Extensions (ACLE), which take more
   instructions. Elsewhere portable C does the same, on either byte order, if conversions to signed types wrap. */
#if defined(__GNUC__) && defined(__ARM_FEATURE_SIMD32) && defined(__thumb2__)
#define QCGEN_DSP 1
#else
#define QCGEN_DSP 0
#endif
#if QCGEN_DSP || (!defined(__GNUC__) && defined(__ARM_FEATURE_SIMD32))
#define QCGEN_ACLE 1
#include <arm_acle.h>
#else
#define QCGEN_ACLE 0
#endif

/* Two neighbours, which need not begin at a whole word, as a word; the first is the lower half. */
static QCGEN_INLINE int32_t qcgen_dsp_load_pair(const int16_t *pair)
{
#if defined(__ARM_FEATURE_UNALIGNED) && !defined(__ARM_BIG_ENDIAN)
    int32_t word;

    (void)memcpy(&word, pair, sizeof word);
    return word;
#else
    return (int32_t)(((uint32_t)pair[0] & 0xffffu) | (uint32_t)pair[1] << 16);
#endif
}

/* Four bytes, which may lie anywhere, as a word; the first is the lowest. */
static QCGEN_INLINE int32_t qcgen_dsp_load_word(const void *bytes)
{
#if defined(__ARM_FEATURE_UNALIGNED) && !defined(__ARM_BIG_ENDIAN)
    int32_t word;

    (void)memcpy(&word, bytes, sizeof word);
    return word;
#else
    const uint8_t *const b = (const uint8_t *)bytes;

    return (int32_t)(b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24);
#endif
}

/* Loads two words that lie side by side and steps behind them (LDRD, which gcc seldom finds and clang does). */
static QCGEN_OS_INLINE void qcgen_dsp_load_two(const int32_t **words, int32_t *a, int32_t *b)
{
#if QCGEN_DSP && !defined(__clang__)
    __asm__ volatile("ldrd %0, %1, [%2], #8" : "=&r"(*a), "=&r"(*b), "+r"(*words) : : "memory");
#else
    *a = (*words)[0];
    *b = (*words)[1];
    *words += 2;
#endif
}

/* Loads two words each from two places and steps behind them (LDR four times: each but the first takes one cycle then,
   where two LDRD take three each). */
static QCGEN_INLINE void qcgen_dsp_load_twos(
    const int32_t **xs, int32_t *x0, int32_t *x1, const int32_t **words, int32_t *first, int32_t *second)
{
#if QCGEN_DSP && !defined(__clang__)
    __asm__ volatile("ldr %1, [%4, #4]\n\t"
                     "ldr %0, [%4], #8\n\t"
                     "ldr %3, [%5, #4]\n\t"
                     "ldr %2, [%5], #8"
                     : "=&r"(*x0), "=&r"(*x1), "=&r"(*first), "=&r"(*second), "+r"(*xs), "+r"(*words)
                     :
                     : "memory");
#else
    *x0 = (*xs)[0];
    *x1 = (*xs)[1];
    *xs += 2;
    *first = (*words)[0];
    *second = (*words)[1];
    *words += 2;
#endif
}

/* Loads two words that lie side by side (LDRD, which gcc seldom finds and clang does). */
static QCGEN_INLINE void qcgen_dsp_two_at(const int32_t *words, int32_t *first, int32_t *second)
{
#if QCGEN_DSP && !defined(__clang__)
    /*
     * One number of 64 bits, aligned as words are, so that the compiler keeps to the offsets that LDRD has; volatile
     * and "memory", so that the load stays where it is written.
     */
    typedef int64_t two_words __attribute__((may_alias, aligned(4)));
    const two_words *const two = (const void *)words;

    __asm__ volatile("ldrd %0, %1, %2" : "=r"(*first), "=r"(*second) : "m"(*two) : "memory");
#else
    *first = words[0];
    *second = words[1];
#endif
}

/* Bytes 0 and 2 of a word, each sign-extended to 16 bits: a pair. */
static QCGEN_INLINE int32_t qcgen_dsp_even_s8(int32_t word)
{
#if QCGEN_ACLE
    return __sxtb16(word);
#else
    return (int32_t)(((uint32_t)(int8_t)(word) & 0xffffu) | (uint32_t)(int8_t)(word >> 16) << 16);
#endif
}

/* Bytes 1 and 3 of a word, each sign-extended to 16 bits: a pair. */
static QCGEN_INLINE int32_t qcgen_dsp_odd_s8(int32_t word)
{
#if QCGEN_DSP
    int32_t pair;

    __asm__("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(word)); /* compilers do not fold the rotation */
    return pair;
#elif QCGEN_ACLE
    return __sxtb16(word >> 8);
#else
    return (int32_t)(((uint32_t)(int8_t)(word >> 8) & 0xffffu) | (uint32_t)(int8_t)(word >> 24) << 16);
#endif
}

/* Bytes 0 and 2 of a word, each zero-extended to 16 bits: a pair. */
static QCGEN_INLINE int32_t qcgen_dsp_even_u8(int32_t word)
{
#if QCGEN_DSP
    int32_t pair;

    __asm__("uxtb16 %0, %1" : "=r"(pair) : "r"(word)); /* the compilers disagree about its types in C */
    return pair;
#elif QCGEN_ACLE
    return (int32_t)__uxtb16((uint32_t)word);
#else
    return (int32_t)(((uint32_t)(uint8_t)(word) & 0xffffu) | (uint32_t)(uint8_t)(word >> 16) << 16);
#endif
}

/* Bytes 1 and 3 of a word, each zero-extended to 16 bits: a pair. */
static QCGEN_INLINE int32_t qcgen_dsp_odd_u8(int32_t word)
{
#if QCGEN_DSP
    int32_t pair;

    __asm__("uxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(word)); /* compilers do not fold the rotation */
    return pair;
#elif QCGEN_ACLE
    return (int32_t)__uxtb16((uint32_t)word >> 8);
#else
    return (int32_t)(((uint32_t)(uint8_t)(word >> 8) & 0xffffu) | (uint32_t)(uint8_t)(word >> 24) << 16);
#endif
}

/* A pair plus bytes 0 and 2 of a word, each sign-extended to 16 bits, modulo 2^16 (SXTAB16). */
static QCGEN_INLINE int32_t qcgen_dsp_add_even_s8(int32_t pair, int32_t word)
{
#if QCGEN_DSP
    int32_t sum;

    __asm__("sxtab16 %0, %1, %2" : "=r"(sum) : "r"(pair), "r"(word)); /* the compilers disagree about its types in C */
    return sum;
#elif QCGEN_ACLE
    return __sxtab16(pair, word);
#else
    const uint32_t low = (uint32_t)pair + (uint32_t)(int8_t)word;
    const uint32_t high = ((uint32_t)pair >> 16) + (uint32_t)(int8_t)(word >> 16);

    return (int32_t)((low & 0xffffu) | high << 16);
#endif
}

/* A pair plus bytes 1 and 3 of a word, each sign-extended to 16 bits, modulo 2^16 (SXTAB16). */
static QCGEN_INLINE int32_t qcgen_dsp_add_odd_s8(int32_t pair, int32_t word)
{
#if QCGEN_DSP
    int32_t sum;

    __asm__("sxtab16 %0, %1, %2, ror #8" : "=r"(sum) : "r"(pair), "r"(word)); /* compilers do not fold the rotation */
    return sum;
#elif QCGEN_ACLE
    return __sxtab16(pair, word >> 8);
#else
    const uint32_t low = (uint32_t)pair + (uint32_t)(int8_t)(word >> 8);
    const uint32_t high = ((uint32_t)pair >> 16) + (uint32_t)(int8_t)(word >> 24);

    return (int32_t)((low & 0xffffu) | high << 16);
#endif
}

/* A pair plus bytes 0 and 2 of a word, each zero-extended to 16 bits, modulo 2^16 (UXTAB16). */
static QCGEN_INLINE int32_t qcgen_dsp_add_even_u8(int32_t pair, int32_t word)
{
#if QCGEN_DSP
    int32_t sum;

    __asm__("uxtab16 %0, %1, %2" : "=r"(sum) : "r"(pair), "r"(word)); /* the compilers disagree about its types in C */
    return sum;
#elif QCGEN_ACLE
    return (int32_t)__uxtab16((uint32_t)pair, (uint32_t)word);
#else
    const uint32_t low = (uint32_t)pair + (uint32_t)(uint8_t)word;
    const uint32_t high = ((uint32_t)pair >> 16) + (uint32_t)(uint8_t)(word >> 16);

    return (int32_t)((low & 0xffffu) | high << 16);
#endif
}

/* A pair plus bytes 1 and 3 of a word, each zero-extended to 16 bits, modulo 2^16 (UXTAB16). */
static QCGEN_INLINE int32_t qcgen_dsp_add_odd_u8(int32_t pair, int32_t word)
{
#if QCGEN_DSP
    int32_t sum;

    __asm__("uxtab16 %0, %1, %2, ror #8" : "=r"(sum) : "r"(pair), "r"(word)); /* compilers do not fold the rotation */
    return sum;
#elif QCGEN_ACLE
    return (int32_t)__uxtab16((uint32_t)pair, (uint32_t)word >> 8);
#else
    const uint32_t low = (uint32_t)pair + (uint32_t)(uint8_t)(word >> 8);
    const uint32_t high = ((uint32_t)pair >> 16) + (uint32_t)(uint8_t)(word >> 24);

    return (int32_t)((low & 0xffffu) | high << 16);
#endif
}

/* The lower half of a pair, a sum of bytes of int8_t or of uint8_t. */
static QCGEN_INLINE int32_t qcgen_dsp_half_s8(int32_t pair)
{
    return (int16_t)pair;
}

static QCGEN_INLINE int32_t qcgen_dsp_half_u8(int32_t pair)
{
    return (uint16_t)pair;
}

/* The pair of the lower halves of two words (PKHBT, which gcc 12 does not find). */
static QCGEN_INLINE int32_t qcgen_dsp_pair(int32_t low, int32_t high)
{
#if QCGEN_DSP
    int32_t pair;

    __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(pair) : "r"(low), "r"(high));
    return pair;
#else
    return (int32_t)(((uint32_t)low & 0xffffu) | (uint32_t)high << 16);
#endif
}

/* The pair of the upper halves of two words (PKHTB). */
static QCGEN_INLINE int32_t qcgen_dsp_pair_high(int32_t low, int32_t high)
{
#if QCGEN_DSP
    int32_t pair;

    __asm__("pkhtb %0, %1, %2, asr #16" : "=r"(pair) : "r"(high), "r"(low));
    return pair;
#else
    return (int32_t)((uint32_t)low >> 16 | ((uint32_t)high & 0xffff0000u));
#endif
}

/* The pair of the differences of two pairs, modulo 2^16 (SSUB16). */
static QCGEN_INLINE int32_t qcgen_dsp_sub(int32_t a, int32_t b)
{
#if QCGEN_ACLE
    return __ssub16(a, b);
#else
    const uint32_t low = (uint32_t)a - (uint32_t)b;
    const uint32_t high = ((uint32_t)a >> 16) - ((uint32_t)b >> 16);

    return (int32_t)((low & 0xffffu) | high << 16);
#endif
}

/* a.low * b.low + a.high * b.high, modulo 2^32 (SMUAD). */
static QCGEN_INLINE int32_t qcgen_dsp_product(int32_t a, int32_t b)
{
#if QCGEN_ACLE
    return __smuad(a, b);
#else
    const int32_t low = (int32_t)(int16_t)a * (int16_t)b;
    const int32_t high = (int32_t)(int16_t)(a >> 16) * (int16_t)(b >> 16);

    return (int32_t)((uint32_t)low + (uint32_t)high);
#endif
}

/* sum + a.low * b.low + a.high * b.high, modulo 2^32 (SMLAD). */
static QCGEN_INLINE int32_t qcgen_dsp_dot(int32_t a, int32_t b, int32_t sum)
{
#if QCGEN_ACLE
    return __smlad(a, b, sum);
#else
    const int32_t low = (int32_t)(int16_t)a * (int16_t)b;
    const int32_t high = (int32_t)(int16_t)(a >> 16) * (int16_t)(b >> 16);

    return (int32_t)((uint32_t)sum + (uint32_t)low + (uint32_t)high);
#endif
}

#if !QCGEN_DSP || defined(QCGEN_KEEP_R9)
/* sum + (even + v) * (odd + u) over the halves of two pairs, modulo 2^32, where u and v are the lower bytes of the
   halves of two words of weights, u for the even pair and v for the odd one. */
static QCGEN_INLINE int32_t qcgen_dsp_winograd_dot(
    int32_t even, int32_t odd, int32_t even_weights, int32_t odd_weights, int32_t sum)
{
#if QCGEN_ACLE
    return __smlad(__sxtab16(even, odd_weights), __sxtab16(odd, even_weights), sum);
#else
    const int32_t low = ((int32_t)(int16_t)even + (int8_t)odd_weights) * ((int16_t)odd + (int8_t)even_weights);
    const int32_t high = ((int32_t)(int16_t)(even >> 16) + (int8_t)(odd_weights >> 16)) *
                         ((int16_t)(odd >> 16) + (int8_t)(even_weights >> 16));

    return (int32_t)((uint32_t)sum + (uint32_t)low + (uint32_t)high);
#endif
}
#endif

/* Four elements, a pair of even and a pair of odd ones, meet a channel, which has its weights for both in a word:
   (even + odd weights) * (odd + even weights) joins its sum. In one statement, because compilers that are free to do
   so spread it until registers are short. */
static QCGEN_INLINE void qcgen_dsp_winograd_dot_bytes(int32_t even, int32_t odd, int32_t weights, int32_t *sum)
{
#if QCGEN_DSP
    int32_t other;

    __asm__("sxtab16 %0, %3, %2, ror #8\n\t"
            "sxtab16 %2, %4, %2\n\t"
            "smlad %1, %0, %2, %1"
            : "=&r"(other), "+r"(*sum), "+r"(weights)
            : "r"(even), "r"(odd));
#else
    *sum = qcgen_dsp_winograd_dot(even, odd, weights, weights >> 8, *sum);
#endif
}

#if !QCGEN_DSP
/* sum + (even + v) * (odd + u) over the halves of two pairs, modulo 2^32, where u and v are the lower bytes, from 0 to
   255, of the halves of two words of weights, u for the even pair and v for the odd one. */
static QCGEN_INLINE int32_t qcgen_dsp_dot_bytes(
    int32_t even, int32_t odd, int32_t even_weights, int32_t odd_weights, int32_t sum)
{
#if QCGEN_ACLE
    const int32_t first = (int32_t)__uxtab16((uint32_t)even, (uint32_t)odd_weights);
    const int32_t second = (int32_t)__uxtab16((uint32_t)odd, (uint32_t)even_weights);

    return __smlad(first, second, sum);
#else
    const int32_t low = ((int32_t)(int16_t)even + (odd_weights & 255)) * ((int16_t)odd + (even_weights & 255));
    const int32_t high = ((int32_t)(int16_t)(even >> 16) + (odd_weights >> 16 & 255)) *
                         ((int16_t)(odd >> 16) + (even_weights >> 16 & 255));

    return (int32_t)((uint32_t)sum + (uint32_t)low + (uint32_t)high);
#endif
}
#endif

/* Four elements, a pair of even and a pair of odd ones, meet four channels, whose weights for a pair share a word:
   4096 * w0 + 256 * w1 + 16 * w2 + w3 in each half, w0 from -8 to 7, the others from 0 to 15. The sums are those of
   halves, of 256 * w1 + w3, of lower bytes, 16 * w2 + w3, and of w3; to the last two (even + odd weights) * (odd + even
   weights) is added. In two statements, because compilers that are free to do so spread it until registers are short,
   and find none for ten operands at -O0. */
static QCGEN_INLINE void qcgen_dsp_dot_nibbles(
    int32_t even, int32_t odd, int32_t even_weights, int32_t odd_weights, int32_t *a)
{
#if QCGEN_DSP
    int32_t u, v;

    __asm__("smlad %0, %4, %6, %0\n\t"
            "smlad %0, %5, %7, %0\n\t"
            "uxtab16 %2, %5, %6\n\t"
            "uxtab16 %3, %4, %7\n\t"
            "smlad %1, %2, %3, %1"
            : "+&r"(a[0]), "+&r"(a[2]), "=&r"(u), "=&r"(v)
            : "r"(even), "r"(odd), "r"(even_weights), "r"(odd_weights));
    __asm__("and %2, %2, #0x0f0f0f0f\n\t"
            "and %3, %3, #0x0f0f0f0f\n\t"
            "smlad %0, %4, %2, %0\n\t"
            "smlad %0, %5, %3, %0\n\t"
            "uxtab16 %2, %5, %2\n\t"
            "uxtab16 %3, %4, %3\n\t"
            "smlad %1, %2, %3, %1"
            : "+&r"(a[1]), "+&r"(a[3]), "+&r"(even_weights), "+&r"(odd_weights)
            : "r"(even), "r"(odd));
#else
    const int32_t even_low = even_weights & 0x0f0f0f0f;
    const int32_t odd_low = odd_weights & 0x0f0f0f0f;

    a[0] = qcgen_dsp_dot(odd, odd_weights, qcgen_dsp_dot(even, even_weights, a[0]));
    a[1] = qcgen_dsp_dot(odd, odd_low, qcgen_dsp_dot(even, even_low, a[1]));
    a[2] = qcgen_dsp_dot_bytes(even, odd, even_weights, odd_weights, a[2]);
    a[3] = qcgen_dsp_dot_bytes(even, odd, even_low, odd_low, a[3]);
#endif
}

/* Four elements, a pair of even and a pair of odd ones, meet four channels, each of which has its weights for both
   in a word: (even + odd weights) * (odd + even weights) joins its sum. Registers are named, because LDM needs them
   in order and compilers move sums about between them otherwise; r7 may be the frame pointer. */
static QCGEN_INLINE void qcgen_dsp_quad_bytes_4(int32_t even, int32_t odd, const int32_t **words, int32_t *a)
{
#if QCGEN_DSP
    register const int32_t *next __asm__("r10") = *words;
    register int32_t a0 __asm__("r0") = a[0];
    register int32_t a1 __asm__("r1") = a[1];
    register int32_t a2 __asm__("r2") = a[2];
    register int32_t a3 __asm__("r8") = a[3];
    register int32_t w0 __asm__("r3");
    register int32_t w1 __asm__("r4");
    register int32_t w2 __asm__("r5");
    register int32_t w3 __asm__("r6");
    register int32_t other __asm__("r11");
    register int32_t x0 __asm__("r12") = even;
    register int32_t x1 __asm__("r14") = odd;

    __asm__ volatile("ldmia %9!, { %4, %5, %6, %7 }\n\t"
                     "sxtab16 %8, %10, %4, ror #8\n\t"
                     "sxtab16 %4, %11, %4\n\t"
                     "smlad %0, %8, %4, %0\n\t"
                     "sxtab16 %8, %10, %5, ror #8\n\t"
                     "sxtab16 %5, %11, %5\n\t"
                     "smlad %1, %8, %5, %1\n\t"
                     "sxtab16 %8, %10, %6, ror #8\n\t"
                     "sxtab16 %6, %11, %6\n\t"
                     "smlad %2, %8, %6, %2\n\t"
                     "sxtab16 %8, %10, %7, ror #8\n\t"
                     "sxtab16 %7, %11, %7\n\t"
                     "smlad %3, %8, %7, %3"
                     : "+&r"(a0), "+&r"(a1), "+&r"(a2), "+&r"(a3),
                       "=&r"(w0), "=&r"(w1), "=&r"(w2), "=&r"(w3), "=&r"(other), "+&r"(next)
                     : "r"(x0), "r"(x1)
                     : "memory");
    a[0] = a0;
    a[1] = a1;
    a[2] = a2;
    a[3] = a3;
    *words = next;
#else
    for (int32_t c = 0; c < 4; c++) {
        a[c] = qcgen_dsp_winograd_dot(even, odd, (*words)[c], (*words)[c] >> 8, a[c]);
    }
    *words += 4;
#endif
}

/* Four elements, a pair of even and a pair of odd ones, meet two channels, which share a word of weights for each
   pair, 256 * upper + lower in each half: even * weights + odd * weights joins the sum of both,
   (even + odd weights) * (odd + even weights) that of the lower one. In one statement, because compilers that are free
   to do so spread it until registers are short. */
static QCGEN_INLINE void qcgen_dsp_winograd_dot_two(
    int32_t even, int32_t odd, int32_t even_weights, int32_t odd_weights, int32_t *both, int32_t *lower)
{
#if QCGEN_DSP
    __asm__("smlad %0, %4, %2, %0\n\t"
            "smlad %0, %5, %3, %0\n\t"
            "sxtab16 %2, %5, %2\n\t"
            "sxtab16 %3, %4, %3\n\t"
            "smlad %1, %2, %3, %1"
            : "+&r"(*both), "+r"(*lower), "+&r"(even_weights), "+r"(odd_weights)
            : "r"(even), "r"(odd));
#else
    *both = qcgen_dsp_dot(odd, odd_weights, qcgen_dsp_dot(even, even_weights, *both));
    *lower = qcgen_dsp_winograd_dot(even, odd, even_weights, odd_weights, *lower);
#endif
}

/* Four elements, a pair of even and a pair of odd ones, meet four channels. Channels 0 and 1, 2 and 3 share words of
   weights, one for each pair, 256 * even channel + odd channel in each half: even * weights + odd * weights joins
   the sum of both, (even + odd weights) * (odd + even weights) that of the odd channel. Registers are named, because
   LDM needs them in order and compilers move sums about between them otherwise; r7 may be the frame pointer. */
static QCGEN_INLINE void qcgen_dsp_quad_shared_4(int32_t even, int32_t odd, const int32_t **words, int32_t *a)
{
#if QCGEN_DSP
    register const int32_t *next __asm__("r11") = *words;
    register int32_t a0 __asm__("r0") = a[0];
    register int32_t a1 __asm__("r1") = a[1];
    register int32_t a2 __asm__("r2") = a[2];
    register int32_t a3 __asm__("r8") = a[3];
    register int32_t w0 __asm__("r3");
    register int32_t w1 __asm__("r4");
    register int32_t w2 __asm__("r5");
    register int32_t w3 __asm__("r6");
    register int32_t x0 __asm__("r12") = even;
    register int32_t x1 __asm__("r14") = odd;

    __asm__ volatile("ldmia %8!, { %4, %5, %6, %7 }\n\t"
                     "smlad %0, %9, %4, %0\n\t"
                     "smlad %0, %10, %5, %0\n\t"
                     "sxtab16 %4, %10, %4\n\t"
                     "sxtab16 %5, %9, %5\n\t"
                     "smlad %1, %4, %5, %1\n\t"
                     "smlad %2, %9, %6, %2\n\t"
                     "smlad %2, %10, %7, %2\n\t"
                     "sxtab16 %6, %10, %6\n\t"
                     "sxtab16 %7, %9, %7\n\t"
                     "smlad %3, %6, %7, %3"
                     : "+&r"(a0), "+&r"(a1), "+&r"(a2), "+&r"(a3),
                       "=&r"(w0), "=&r"(w1), "=&r"(w2), "=&r"(w3), "+&r"(next)
                     : "r"(x0), "r"(x1)
                     : "memory");
    a[0] = a0;
    a[1] = a1;
    a[2] = a2;
    a[3] = a3;
    *words = next;
#else
    const int32_t *const w = *words;

    for (int32_t c = 0; c < 4; c += 2) {
        a[c] = qcgen_dsp_dot(odd, w[c + 1], qcgen_dsp_dot(even, w[c], a[c]));
        a[c + 1] = qcgen_dsp_winograd_dot(even, odd, w[c], w[c + 1], a[c + 1]);
    }
    *words += 4;
#endif
}

/* Four elements, a pair of even and a pair of odd ones, meet six channels. Channels 0 and 1, 2 and 3, 4 and 5 share
   words of weights, one for each pair, 256 * even channel + odd channel in each half: even * weights + odd * weights
   joins the sum of both, (even + odd weights) * (odd + even weights) that of the odd channel. LDM loads four words
   at a time: two of the twelve that eight elements meet are handed over to the next four. Registers are named,
   because LDM needs them in order and compilers move sums about between them otherwise; r7 may be the frame pointer. */
static QCGEN_INLINE void qcgen_dsp_winograd_dot_six(
    int32_t even, int32_t odd, const int32_t **words, int32_t *a, int32_t *even_rest, int32_t *odd_rest)
{
#if QCGEN_DSP && !defined(QCGEN_KEEP_R9)
    register const int32_t *next __asm__("r11") = *words;
    register int32_t a0 __asm__("r0") = a[0];
    register int32_t a1 __asm__("r1") = a[1];
    register int32_t a2 __asm__("r2") = a[2];
    register int32_t a3 __asm__("r8") = a[3];
    register int32_t a4 __asm__("r9") = a[4];
    register int32_t a5 __asm__("r10") = a[5];
    register int32_t w0 __asm__("r3");
    register int32_t w1 __asm__("r4");
    register int32_t w2 __asm__("r5");
    register int32_t w3 __asm__("r6");
    register int32_t x0 __asm__("r12") = even;
    register int32_t x1 __asm__("r14") = odd;

    __asm__ volatile("ldmia %10!, { %6, %7, %8, %9 }\n\t"
                     "smlad %0, %11, %6, %0\n\t"
                     "smlad %0, %12, %7, %0\n\t"
                     "sxtab16 %6, %12, %6\n\t"
                     "sxtab16 %7, %11, %7\n\t"
                     "smlad %1, %6, %7, %1\n\t"
                     "smlad %2, %11, %8, %2\n\t"
                     "smlad %2, %12, %9, %2\n\t"
                     "sxtab16 %8, %12, %8\n\t"
                     "sxtab16 %9, %11, %9\n\t"
                     "smlad %3, %8, %9, %3\n\t"
                     "ldmia %10!, { %6, %7, %8, %9 }\n\t"
                     "smlad %4, %11, %6, %4\n\t"
                     "smlad %4, %12, %7, %4\n\t"
                     "sxtab16 %6, %12, %6\n\t"
                     "sxtab16 %7, %11, %7\n\t"
                     "smlad %5, %6, %7, %5"
                     : "+&r"(a0), "+&r"(a1), "+&r"(a2), "+&r"(a3), "+&r"(a4), "+&r"(a5),
                       "=&r"(w0), "=&r"(w1), "=&r"(w2), "=&r"(w3), "+&r"(next)
                     : "r"(x0), "r"(x1)
                     : "memory");
    a[0] = a0;
    a[1] = a1;
    a[2] = a2;
    a[3] = a3;
    a[4] = a4;
    a[5] = a5;
    *even_rest = w2;
    *odd_rest = w3;
    *words = next;
#else
    const int32_t *const w = *words;

    for (int32_t c = 0; c < 6; c += 2) {
        a[c] = qcgen_dsp_dot(odd, w[c + 1], qcgen_dsp_dot(even, w[c], a[c]));
        a[c + 1] = qcgen_dsp_winograd_dot(even, odd, w[c], w[c + 1], a[c + 1]);
    }
    *even_rest = w[6];
    *odd_rest = w[7];
    *words += 8;
#endif
}

/* The next four elements meet the six channels: the first two by the words that were handed over, the others by the
   last four of the twelve. */
static QCGEN_INLINE void qcgen_dsp_winograd_dot_six_rest(
    int32_t even, int32_t odd, const int32_t **words, int32_t *a, int32_t even_rest, int32_t odd_rest)
{
#if QCGEN_DSP && !defined(QCGEN_KEEP_R9)
    register const int32_t *next __asm__("r11") = *words;
    register int32_t a0 __asm__("r0") = a[0];
    register int32_t a1 __asm__("r1") = a[1];
    register int32_t a2 __asm__("r2") = a[2];
    register int32_t a3 __asm__("r8") = a[3];
    register int32_t a4 __asm__("r9") = a[4];
    register int32_t a5 __asm__("r10") = a[5];
    register int32_t w0 __asm__("r3");
    register int32_t w1 __asm__("r4");
    register int32_t w2 __asm__("r5") = even_rest;
    register int32_t w3 __asm__("r6") = odd_rest;
    register int32_t x0 __asm__("r12") = even;
    register int32_t x1 __asm__("r14") = odd;

    __asm__ volatile("smlad %0, %11, %8, %0\n\t"
                     "smlad %0, %12, %9, %0\n\t"
                     "sxtab16 %8, %12, %8\n\t"
                     "sxtab16 %9, %11, %9\n\t"
                     "smlad %1, %8, %9, %1\n\t"
                     "ldmia %10!, { %6, %7, %8, %9 }\n\t"
                     "smlad %2, %11, %6, %2\n\t"
                     "smlad %2, %12, %7, %2\n\t"
                     "sxtab16 %6, %12, %6\n\t"
                     "sxtab16 %7, %11, %7\n\t"
                     "smlad %3, %6, %7, %3\n\t"
                     "smlad %4, %11, %8, %4\n\t"
                     "smlad %4, %12, %9, %4\n\t"
                     "sxtab16 %8, %12, %8\n\t"
                     "sxtab16 %9, %11, %9\n\t"
                     "smlad %5, %8, %9, %5"
                     : "+&r"(a0), "+&r"(a1), "+&r"(a2), "+&r"(a3), "+&r"(a4), "+&r"(a5),
                       "=&r"(w0), "=&r"(w1), "+&r"(w2), "+&r"(w3), "+&r"(next)
                     : "r"(x0), "r"(x1)
                     : "memory");
    a[0] = a0;
    a[1] = a1;
    a[2] = a2;
    a[3] = a3;
    a[4] = a4;
    a[5] = a5;
    *words = next;
#else
    const int32_t w[] = { even_rest, odd_rest, (*words)[0], (*words)[1], (*words)[2], (*words)[3] };

    for (int32_t c = 0; c < 6; c += 2) {
        a[c] = qcgen_dsp_dot(odd, w[c + 1], qcgen_dsp_dot(even, w[c], a[c]));
        a[c + 1] = qcgen_dsp_winograd_dot(even, odd, w[c], w[c + 1], a[c + 1]);
    }
    *words += 4;
#endif
}

/* sum + the product of a half of a and one of b, the upper ones if told so (SMLABB, SMLABT, SMLATB, SMLATT). */
static QCGEN_INLINE int32_t qcgen_dsp_halves(int32_t a, int is_upper_a, int32_t b, int is_upper_b, int32_t sum)
{
#if QCGEN_ACLE
    return is_upper_a ? is_upper_b ? __smlatt(a, b, sum) : __smlatb(a, b, sum)
           : is_upper_b ? __smlabt(a, b, sum) : __smlabb(a, b, sum);
#else
    return sum + (int32_t)(int16_t)(is_upper_a ? a >> 16 : a) * (int16_t)(is_upper_b ? b >> 16 : b);
#endif
}

/* The upper 32 bits of the 64-bit product, rounded down (SMMUL; compilers may take SMULL and lose a register). */
static QCGEN_INLINE int32_t qcgen_dsp_high(int32_t a, int32_t b)
{
#if QCGEN_DSP
    int32_t high;

    __asm__("smmul %0, %1, %2" : "=r"(high) : "r"(a), "r"(b));
    return high;
#else
    return (int32_t)(((int64_t)a * b) >> 32);
#endif
}

/* The upper 32 bits of the 64-bit product, rounded down, plus an offset (SMMLA, which the compilers do not offer). */
static QCGEN_INLINE int32_t qcgen_dsp_scale(int32_t a, int32_t b, int32_t offset)
{
#if QCGEN_DSP
    int32_t result;

    __asm__("smmla %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(offset));
    return result;
#else
    return (int32_t)(((int64_t)a * b) >> 32) + offset;
#endif
}

/* The int8 that is nearest to a number (SSAT, which shifts its operand in the same instruction). */
static QCGEN_INLINE int32_t qcgen_dsp_saturate_s8(int32_t value)
{
#if QCGEN_DSP
    return (int32_t)__builtin_arm_ssat(value, 8); /* the macro of gcc 12 warns of conversions */
#elif QCGEN_ACLE
    return (int32_t)__ssat(value, 8);
#else
    return value < -128 ? -128 : value > 127 ? 127 : value;
#endif
}

/* The uint8 that is nearest to a number (USAT, which shifts its operand in the same instruction). */
static QCGEN_INLINE int32_t qcgen_dsp_saturate_u8(int32_t value)
{
#if QCGEN_DSP
    return (int32_t)__builtin_arm_usat(value, 8); /* the macro of gcc 12 warns of conversions */
#elif QCGEN_ACLE
    return (int32_t)__usat(value, 8);
#else
    return value < 0 ? 0 : value > 255 ? 255 : value;
#endif
}
