/* Instructions of Helium for kernels of Cortex-M55 and M85. */
#pragma once
#include <stdint.h>
#include <string.h>
#include "compiler.h"

/* Helium, Arm's M-profile vector extension, computes on 16 bytes at once; for other machines the same in portable C,
   lane by lane, which takes conversions to signed types modulo 2^n. */
#if defined(__ARM_FEATURE_MVE)
#define QCGEN_MVE 1
#include <arm_mve.h>
typedef int32x4_t qcgen_mve_s32; /* four int32 */
#else
#define QCGEN_MVE 0
typedef struct {
    int32_t lane[4];
} qcgen_mve_s32;
#endif

/* Loads four int32. */
static QCGEN_INLINE qcgen_mve_s32 qcgen_mve_load(const int32_t *from)
{
#if QCGEN_MVE
    return vldrwq_s32(from);
#else
    qcgen_mve_s32 v;

    (void)memcpy(v.lane, from, sizeof v.lane);
    return v;
#endif
}

/* Stores four int32. */
static QCGEN_INLINE void qcgen_mve_store(int32_t *to, qcgen_mve_s32 v)
{
#if QCGEN_MVE
    vstrwq_s32(to, v);
#else
    (void)memcpy(to, v.lane, sizeof v.lane);
#endif
}

/* Copies `count` bytes, 0 or more; returns what follows them. */
static QCGEN_INLINE int8_t *qcgen_mve_copy_s8(int8_t *to, const void *from, int32_t count)
{
    int8_t *const end = to + count;

#if QCGEN_MVE
    int8x16_t v;

    __asm__ volatile(
        "wlstp.8 lr, %[count], 2f\n"
        "1:\n\t"
        "vldrb.8 %q[v], [%[from]], #16\n\t"
        "vstrb.8 %q[v], [%[to]], #16\n\t"
        "letp lr, 1b\n"
        "2:"
        : [v] "=&w"(v), [to] "+r"(to), [from] "+r"(from)
        : [count] "r"(count)
        : "lr", "memory");
#else
    (void)memcpy(to, from, (size_t)count);
#endif
    return end;
}

/* Copies `count` elements, 0 or more, less 128 each, which brings them to int8; returns what follows them. */
static QCGEN_INLINE int8_t *qcgen_mve_copy_u8(int8_t *to, const void *from, int32_t count)
{
    int8_t *const end = to + count;

#if QCGEN_MVE
    const uint8x16_t sign = vdupq_n_u8(128);
    uint8x16_t v;

    __asm__ volatile(
        "wlstp.8 lr, %[count], 2f\n"
        "1:\n\t"
        "vldrb.8 %q[v], [%[from]], #16\n\t"
        "veor %q[v], %q[v], %q[sign]\n\t"
        "vstrb.8 %q[v], [%[to]], #16\n\t"
        "letp lr, 1b\n"
        "2:"
        : [v] "=&w"(v), [to] "+r"(to), [from] "+r"(from)
        : [count] "r"(count), [sign] "w"(sign)
        : "lr", "memory");
#else
    for (int32_t i = 0; i < count; i++) {
        to[i] = (int8_t)(((const uint8_t *)from)[i] - 128);
    }
#endif
    return end;
}

/* Stores `value` into so many bytes, sixteen or more. */
static QCGEN_INLINE void qcgen_mve_fill(int8_t *to, int8_t value, int32_t bytes)
{
#if QCGEN_MVE
    for (int32_t i = 0; i < bytes; i += 16) {
        vstrbq_s8(to + (bytes % 16 == 0 || i + 16 <= bytes ? i : bytes - 16), vdupq_n_s8(value));
    }
#else
    (void)memset(to, value, (size_t)bytes);
#endif
}

/* Sums of four channels over a window: `steps` of 16 elements, each with 16 weights of every channel, four in a word.
   Where the compiler optimizes for Helium, there are loops in which all registers are taken. */
#if QCGEN_MVE && defined(__OPTIMIZE__) && !defined(__ARM_BIG_ENDIAN)
#define QCGEN_MVE_LOOPS
#else
static QCGEN_INLINE qcgen_mve_s32 qcgen_mve_sums(
    const int8_t *window, const int32_t *weights, int32_t steps)
{
    int32_t sums[4] = { 0, 0, 0, 0 };

    for (int32_t i = 0; i < 64 * steps; i++) {
        const int32_t weight = (int8_t)(weights[i / 4] >> 8 * (i % 4)), product = window[i / 64 * 16 + i % 16] * weight;

        sums[i / 16 % 4] = (int32_t)((uint32_t)sums[i / 16 % 4] + (uint32_t)product);
    }
    return qcgen_mve_load(sums);
}
#endif

/* Steps of sums, of which the first starts them ("vmladav"), and the others add to them ("vmladava"): so many `copies`
   in a round of a loop, and the rest behind it; or one after the other. */
#define QCGEN_MVE_LOOPED(step) \
    step("vmladav") "1:\n.rept %c[copies]\n" step("vmladava") ".endr\n" \
    "subs %[rounds], #1\nbne 1b\n.rept %c[rest]\n" step("vmladava") ".endr\n"
#define QCGEN_MVE_REPEATED(step) step("vmladav") ".rept %c[more]\n" step("vmladava") ".endr\n"

/* Sixteen elements of the window at a times four channels' weights; the registers of sums must be even. */
#define QCGEN_MVE_STEP_ONE(multiply) \
    "vldrb.8 %q[x], [%[a]], #16\n" "vldrb.8 %q[u], [%[w]], #16\n" \
    "vldrb.8 %q[v], [%[w]], #16\n" multiply ".s8 r0, %q[x], %q[u]\n" \
    "vldrb.8 %q[u], [%[w]], #16\n" multiply ".s8 r2, %q[x], %q[v]\n" \
    "vldrb.8 %q[v], [%[w]], #16\n" multiply ".s8 r4, %q[x], %q[u]\n" \
    multiply ".s8 r6, %q[x], %q[v]\n"

/* The four sums as the vector x. */
#define QCGEN_MVE_SUMS_ONE \
    "vmov %q[x][2], %q[x][0], r0, r4\n" "vmov %q[x][3], %q[x][1], r2, r6"

/* Sums of the four channels whose weights come next over window a; returns what follows the weights. */
static QCGEN_INLINE const int32_t *qcgen_mve_sums_one(int32_t steps, int32_t copies, const int8_t *a, const int8_t *b,
    const int32_t *weights, qcgen_mve_s32 *sums_a, qcgen_mve_s32 *sums_b)
{
    (void)b;
    (void)sums_b;
#if defined(QCGEN_MVE_LOOPS)
    int32_t rounds = (steps - 1) / copies;
    int8x16_t u, v; /* weights */
    int32x4_t x;    /* elements of the window, in the end sums */

    if (rounds > 1) {
        __asm__ volatile(
            QCGEN_MVE_LOOPED(QCGEN_MVE_STEP_ONE) QCGEN_MVE_SUMS_ONE
            : [x] "=&w"(x), [u] "=&w"(u), [v] "=&w"(v), [a] "+r"(a), [w] "+r"(weights), [rounds] "+r"(rounds)
            : [copies] "i"(copies), [rest] "i"((steps - 1) % copies)
            : "r0", "r2", "r4", "r6", "cc", "memory");
    } else {
        __asm__ volatile(
            QCGEN_MVE_REPEATED(QCGEN_MVE_STEP_ONE) QCGEN_MVE_SUMS_ONE
            : [x] "=&w"(x), [u] "=&w"(u), [v] "=&w"(v), [a] "+r"(a), [w] "+r"(weights)
            : [more] "i"(steps - 1)
            : "r0", "r2", "r4", "r6", "cc", "memory");
    }
    *sums_a = x;
    return weights;
#else
    (void)copies;
    *sums_a = qcgen_mve_sums(a, weights, steps);
    return weights + 16 * steps;
#endif
}

/* Sixteen elements of the windows at a and b times four channels' weights. */
#define QCGEN_MVE_STEP_TWO(multiply) \
    "vldrb.8 %q[x], [%[a]], #16\n" "vldrb.8 %q[u], [%[w]], #16\n" \
    multiply ".s8 r0, %q[x], %q[u]\n" "vldrb.8 %q[z], [%[b]], #16\n" \
    multiply ".s8 r8, %q[z], %q[u]\n" "vldrb.8 %q[v], [%[w]], #16\n" \
    multiply ".s8 r2, %q[x], %q[v]\n" "vldrb.8 %q[u], [%[w]], #16\n" \
    multiply ".s8 r10, %q[z], %q[v]\n" multiply ".s8 r4, %q[x], %q[u]\n" \
    "vldrb.8 %q[v], [%[w]], #16\n" multiply ".s8 r12, %q[z], %q[u]\n" \
    multiply ".s8 r6, %q[x], %q[v]\n" multiply ".s8 lr, %q[z], %q[v]\n"

/* The eight sums as two vectors, x of a and z of b. */
#define QCGEN_MVE_SUMS_TWO \
    "vmov %q[x][2], %q[x][0], r0, r4\n" "vmov %q[x][3], %q[x][1], r2, r6\n" \
    "vmov %q[z][2], %q[z][0], r8, r12\n" "vmov %q[z][3], %q[z][1], r10, lr"

/* The same over windows a and b. */
static QCGEN_INLINE const int32_t *qcgen_mve_sums_two(int32_t steps, int32_t copies, const int8_t *a, const int8_t *b,
    const int32_t *weights, qcgen_mve_s32 *sums_a, qcgen_mve_s32 *sums_b)
{
#if defined(QCGEN_MVE_LOOPS)
    int32_t rounds = (steps - 1) / copies;
    int8x16_t u, v; /* weights */
    int32x4_t x, z; /* elements of the windows, in the end sums */

    if (rounds > 1) {
        __asm__ volatile(
            QCGEN_MVE_LOOPED(QCGEN_MVE_STEP_TWO) QCGEN_MVE_SUMS_TWO
            : [x] "=&w"(x), [z] "=&w"(z), [u] "=&w"(u), [v] "=&w"(v), [a] "+r"(a), [b] "+r"(b), [w] "+r"(weights),
              [rounds] "+r"(rounds)
            : [copies] "i"(copies), [rest] "i"((steps - 1) % copies)
            : "r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr", "cc", "memory");
    } else {
        __asm__ volatile(
            QCGEN_MVE_REPEATED(QCGEN_MVE_STEP_TWO) QCGEN_MVE_SUMS_TWO
            : [x] "=&w"(x), [z] "=&w"(z), [u] "=&w"(u), [v] "=&w"(v), [a] "+r"(a), [b] "+r"(b), [w] "+r"(weights)
            : [more] "i"(steps - 1)
            : "r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr", "cc", "memory");
    }
    *sums_a = x;
    *sums_b = z;
    return weights;
#else
    (void)copies;
    *sums_a = qcgen_mve_sums(a, weights, steps);
    *sums_b = qcgen_mve_sums(b, weights, steps);
    return weights + 16 * steps;
#endif
}

/* The sums of four int32 and four others, modulo 2^32. */
static QCGEN_INLINE qcgen_mve_s32 qcgen_mve_add(
    qcgen_mve_s32 a, qcgen_mve_s32 b)
{
#if QCGEN_MVE
    a = vaddq_s32(a, b);
    __asm__("" : "+w"(a)); /* here: gcc -Os computes it behind later loads, for which registers run out */
#else
    for (int i = 0; i < 4; i++) {
        a.lane[i] = (int32_t)((uint32_t)a.lane[i] + (uint32_t)b.lane[i]);
    }
#endif
    return a;
}

/* The sums of four int32 and one number, modulo 2^32. */
static QCGEN_INLINE qcgen_mve_s32 qcgen_mve_add_all(qcgen_mve_s32 a, int32_t b)
{
#if QCGEN_MVE
    return vaddq_n_s32(a, b);
#else
    for (int i = 0; i < 4; i++) {
        a.lane[i] = (int32_t)((uint32_t)a.lane[i] + (uint32_t)b);
    }
    return a;
#endif
}

/* The upper 32 bits of the 64-bit products of four int32 and four others, rounded down (VMULH). */
static QCGEN_INLINE qcgen_mve_s32 qcgen_mve_scale(
    qcgen_mve_s32 a, qcgen_mve_s32 b)
{
#if QCGEN_MVE
    a = vmulhq_s32(a, b);
    __asm__("" : "+w"(a)); /* here: gcc -Os computes it behind later loads, for which registers run out */
#else
    for (int i = 0; i < 4; i++) {
        a.lane[i] = (int32_t)(((int64_t)a.lane[i] * b.lane[i]) >> 32);
    }
#endif
    return a;
}

/* Four int32, each replaced by a number that it is less than. */
static QCGEN_INLINE qcgen_mve_s32 qcgen_mve_at_least(qcgen_mve_s32 a, int32_t low)
{
#if QCGEN_MVE
    return vmaxq_s32(a, vdupq_n_s32(low));
#else
    for (int i = 0; i < 4; i++) {
        a.lane[i] = a.lane[i] < low ? low : a.lane[i];
    }
    return a;
#endif
}

/* Four int32, each replaced by a number that it exceeds. */
static QCGEN_INLINE qcgen_mve_s32 qcgen_mve_at_most(qcgen_mve_s32 a, int32_t high)
{
#if QCGEN_MVE
    return vminq_s32(a, vdupq_n_s32(high));
#else
    for (int i = 0; i < 4; i++) {
        a.lane[i] = a.lane[i] > high ? high : a.lane[i];
    }
    return a;
#endif
}

/* Four int32 shifted to the left modulo 2^32. A macro, because the instruction holds the shift, which is 16 to 31. */
#if QCGEN_MVE
#define QCGEN_MVE_LEFT(v, shift) vshlq_n_s32(v, shift)
#else
#define QCGEN_MVE_LEFT(v, shift) qcgen_mve_left(v, shift)
static QCGEN_INLINE qcgen_mve_s32 qcgen_mve_left(qcgen_mve_s32 v, int shift)
{
    for (int i = 0; i < 4; i++) {
        v.lane[i] = (int32_t)((uint32_t)v.lane[i] << shift);
    }
    return v;
}
#endif

/* The largest magnitude of four int32, if it exceeds `so_far` (VMAXAV). */
static QCGEN_INLINE uint32_t qcgen_mve_largest(uint32_t so_far, qcgen_mve_s32 v)
{
#if QCGEN_MVE
    return vmaxavq_s32(so_far, v);
#else
    for (int i = 0; i < 4; i++) {
        const uint32_t magnitude = v.lane[i] < 0 ? 0u - (uint32_t)v.lane[i] : (uint32_t)v.lane[i];

        so_far = magnitude > so_far ? magnitude : so_far;
    }
    return so_far;
#endif
}

/* Rounds four int32 to multiples of 2^shift, half up, and divides by it: int16, saturated, in the lower halves of the
   lanes (VQRSHRNB). A macro, because the instruction holds the shift, which is 1 to 16. */
#if QCGEN_MVE
/* In place: with the intrinsic gcc copies the vector. */
#define QCGEN_MVE_ROUND(v, shift) __asm__("vqrshrnb.s32 %q0, %q0, %1" : "+w"(v) : "i"(shift))
#else
#define QCGEN_MVE_ROUND(v, shift) ((v) = qcgen_mve_round(v, shift))
static QCGEN_INLINE qcgen_mve_s32 qcgen_mve_round(qcgen_mve_s32 v, int shift)
{
    for (int i = 0; i < 4; i++) {
        const int64_t rounded = (v.lane[i] + ((int64_t)1 << (shift - 1))) >> shift;

        v.lane[i] = (int32_t)(rounded < INT16_MIN ? INT16_MIN : rounded > INT16_MAX ? INT16_MAX : rounded);
    }
    return v;
}
#endif

/* Four int32 shifted to the right and saturated to int16, in the lower halves of the lanes; shift is 0 to 31. */
static QCGEN_INLINE qcgen_mve_s32 qcgen_mve_shift(qcgen_mve_s32 v, int32_t shift)
{
#if QCGEN_MVE
    v = vshlq_r_s32(v, -shift);
    return vreinterpretq_s32_s16(vqmovnbq_s32(vuninitializedq_s16(), v));
#else
    for (int i = 0; i < 4; i++) {
        const int32_t shifted = v.lane[i] >> shift;

        v.lane[i] = shifted < INT16_MIN ? INT16_MIN : shifted > INT16_MAX ? INT16_MAX : shifted;
    }
    return v;
#endif
}

/* Four int16 in the lower halves of the lanes, saturated to int8 in the lowest bytes. */
static QCGEN_INLINE qcgen_mve_s32 qcgen_mve_saturate_s8(qcgen_mve_s32 v)
{
#if QCGEN_MVE
    __asm__("vqmovnb.s16 %q0, %q0" : "+w"(v)); /* in place: with the intrinsic gcc copies the vector */
#else
    for (int i = 0; i < 4; i++) {
        v.lane[i] = v.lane[i] < INT8_MIN ? INT8_MIN : v.lane[i] > INT8_MAX ? INT8_MAX : v.lane[i];
    }
#endif
    return v;
}

/* Four int16 in the lower halves of the lanes, saturated to uint8 in the lowest bytes. */
static QCGEN_INLINE qcgen_mve_s32 qcgen_mve_saturate_u8(qcgen_mve_s32 v)
{
#if QCGEN_MVE
    __asm__("vqmovunb.s16 %q0, %q0" : "+w"(v)); /* in place: with the intrinsic gcc copies the vector */
#else
    for (int i = 0; i < 4; i++) {
        v.lane[i] = v.lane[i] < 0 ? 0 : v.lane[i] > UINT8_MAX ? UINT8_MAX : v.lane[i];
    }
#endif
    return v;
}

/* Stores the lowest bytes of the first `count` lanes. */
static QCGEN_INLINE void qcgen_mve_store_bytes(void *to, qcgen_mve_s32 v, int32_t count)
{
#if QCGEN_MVE
    if (count == 4) {
        vstrbq_s32((int8_t *)to, v);
    } else {
        vstrbq_p_s32((int8_t *)to, v, vctp32q((uint32_t)count));
    }
#else
    uint8_t *const bytes = (uint8_t *)to;

    for (int32_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)v.lane[i];
    }
#endif
}

#if QCGEN_MVE
typedef int8x16_t qcgen_mve_s8; /* sixteen int8 */
#else
typedef struct {
    int8_t lane[16];
} qcgen_mve_s8;
#endif

/* Loads sixteen int8. */
static QCGEN_INLINE qcgen_mve_s8 qcgen_mve_load_s8(const void *from)
{
#if QCGEN_MVE
    return vldrbq_s8((const int8_t *)from);
#else
    qcgen_mve_s8 v;

    (void)memcpy(v.lane, from, sizeof v.lane);
    return v;
#endif
}

/* Stores sixteen int8. */
static QCGEN_INLINE void qcgen_mve_store_s8(void *to, qcgen_mve_s8 v)
{
#if QCGEN_MVE
    vstrbq_s8((int8_t *)to, v);
#else
    (void)memcpy(to, v.lane, sizeof v.lane);
#endif
}

/* Of each two of sixteen int8 the larger. */
static QCGEN_INLINE qcgen_mve_s8 qcgen_mve_larger_s8(qcgen_mve_s8 a, qcgen_mve_s8 b)
{
#if QCGEN_MVE
    return vmaxq_s8(a, b);
#else
    for (int i = 0; i < 16; i++) {
        a.lane[i] = a.lane[i] < b.lane[i] ? b.lane[i] : a.lane[i];
    }
    return a;
#endif
}

#if QCGEN_MVE
/* Loads `count` int8, at most sixteen; the lanes behind them are `other`. */
static QCGEN_INLINE int8x16_t qcgen_mve_load_part(const int8_t *from, uint32_t count, int8_t other)
{
    const mve_pred16_t first = vctp8q(count);

    return count == 16 ? vldrbq_s8(from) : vpselq_s8(vldrbq_z_s8(from, first), vdupq_n_s8(other), first);
}
#endif

/* Stores bytes 0 of a, b, c and d, then bytes 1 of all four, and so on (VST4): `count` bytes of each, at most sixteen,
   and `other` behind them up to sixteen. */
static QCGEN_INLINE void qcgen_mve_interleave_s8(int32_t *words, const int8_t *a, const int8_t *b, const int8_t *c,
    const int8_t *d, uint32_t count, int8_t other)
{
#if QCGEN_MVE
    int8x16x4_t all;

    all.val[0] = qcgen_mve_load_part(a, count, other);
    all.val[1] = qcgen_mve_load_part(b, count, other);
    all.val[2] = qcgen_mve_load_part(c, count, other);
    all.val[3] = qcgen_mve_load_part(d, count, other);
    vst4q_s8((int8_t *)words, all);
#else
    int8_t *const to = (int8_t *)words;

    for (uint32_t i = 0; i < 16; i++) {
        to[4 * i] = i < count ? a[i] : other;
        to[4 * i + 1] = i < count ? b[i] : other;
        to[4 * i + 2] = i < count ? c[i] : other;
        to[4 * i + 3] = i < count ? d[i] : other;
    }
#endif
}

#if QCGEN_MVE
/* The same of uint8, each less 128. */
static QCGEN_INLINE int8x16_t qcgen_mve_load_part_signed(const uint8_t *from, uint32_t count, uint8_t other)
{
    return veorq_s8(qcgen_mve_load_part((const int8_t *)from, count, (int8_t)other), vdupq_n_s8(INT8_MIN));
}
#endif

/* The same of bytes of uint8, each less 128. */
static QCGEN_INLINE void qcgen_mve_interleave_u8(int32_t *words, const uint8_t *a, const uint8_t *b, const uint8_t *c,
    const uint8_t *d, uint32_t count, uint8_t other)
{
#if QCGEN_MVE
    int8x16x4_t all;

    all.val[0] = qcgen_mve_load_part_signed(a, count, other);
    all.val[1] = qcgen_mve_load_part_signed(b, count, other);
    all.val[2] = qcgen_mve_load_part_signed(c, count, other);
    all.val[3] = qcgen_mve_load_part_signed(d, count, other);
    vst4q_s8((int8_t *)words, all);
#else
    int8_t *const to = (int8_t *)words;

    for (uint32_t i = 0; i < 16; i++) {
        to[4 * i] = (int8_t)((i < count ? a[i] : other) - 128);
        to[4 * i + 1] = (int8_t)((i < count ? b[i] : other) - 128);
        to[4 * i + 2] = (int8_t)((i < count ? c[i] : other) - 128);
        to[4 * i + 3] = (int8_t)((i < count ? d[i] : other) - 128);
    }
#endif
}

/* Addresses of four words, and the load of the words that lie `offset` words behind them. A macro, because the
   instruction (VLDRW with addresses in a vector) holds the offset. */
#if QCGEN_MVE
typedef uint32x4_t qcgen_mve_at;
#define QCGEN_MVE_GATHER(at, offset) vreinterpretq_s8_s32(vldrwq_gather_base_s32(at, 4 * (offset)))
#else
typedef struct {
    const int32_t *words;
    int32_t first, step;
} qcgen_mve_at;
#define QCGEN_MVE_GATHER(at, offset) qcgen_mve_gather(at, offset)
static QCGEN_INLINE qcgen_mve_s8 qcgen_mve_gather(
    qcgen_mve_at at, int32_t offset)
{
    qcgen_mve_s8 v;

    for (int i = 0; i < 4; i++) {
        (void)memcpy(v.lane + 4 * i, at.words + at.first + i * at.step + offset, 4);
    }
    return v;
}
#endif

/* The addresses of four words, `step` words apart, from number `first` on. */
static QCGEN_INLINE qcgen_mve_at qcgen_mve_addresses(
    const int32_t *words, int32_t first, int32_t step)
{
#if QCGEN_MVE
    const uint32_t base = (uint32_t)(uintptr_t)words + 4 * (uint32_t)first;

    return vaddq_n_u32(vmulq_n_u32(vidupq_n_u32(0, 4), (uint32_t)step), base);
#else
    const qcgen_mve_at at = { words, first, step };

    return at;
#endif
}

/* The same addresses, `words` words further on. */
static QCGEN_INLINE qcgen_mve_at qcgen_mve_ahead(qcgen_mve_at at, int32_t words)
{
#if QCGEN_MVE
    return vaddq_n_u32(at, 4 * (uint32_t)words);
#else
    at.first += words;
    return at;
#endif
}

#if !QCGEN_MVE
/* sum + the sum of sixteen products, modulo 2^32 (VMLADAVA). */
static QCGEN_INLINE int32_t qcgen_mve_dot(
    int32_t sum, qcgen_mve_s8 a, qcgen_mve_s8 b)
{
    uint32_t total = (uint32_t)sum;

    for (int i = 0; i < 16; i++) {
        total += (uint32_t)(a.lane[i] * b.lane[i]);
    }
    return (int32_t)total;
}
#endif

/* Adds to four sums the products of the windows of four channels with weights, and moves on to the weights behind. */
static QCGEN_INLINE void qcgen_mve_windows(qcgen_mve_at at, const int8_t **weights, int32_t sums[4])
{
#if QCGEN_MVE
    qcgen_mve_s8 taps, factors;

    /* As one statement, because the compilers mix several of them until registers run out. */
    __asm__ volatile("vldrw.u32 %q0, [%q7]\n\tvldrb.8 %q1, [%6], #16\n\tvmladava.s8 %2, %q0, %q1\n\t"
                     "vldrw.u32 %q0, [%q7, #4]\n\tvldrb.8 %q1, [%6], #16\n\tvmladava.s8 %3, %q0, %q1\n\t"
                     "vldrw.u32 %q0, [%q7, #8]\n\tvldrb.8 %q1, [%6], #16\n\tvmladava.s8 %4, %q0, %q1\n\t"
                     "vldrw.u32 %q0, [%q7, #12]\n\tvldrb.8 %q1, [%6], #16\n\tvmladava.s8 %5, %q0, %q1"
                     : "=&w"(taps), "=&w"(factors), "+Te"(sums[0]), "+Te"(sums[1]), "+Te"(sums[2]), "+Te"(sums[3]),
                       "+r"(*weights)
                     : "w"(at)
                     : "memory");
#else
    for (int i = 0; i < 4; i++) {
        qcgen_mve_s8 factors;

        (void)memcpy(factors.lane, *weights, sizeof factors.lane);
        sums[i] = qcgen_mve_dot(sums[i], qcgen_mve_gather(at, i), factors);
        *weights += 16;
    }
#endif
}

/* Four int32 as a vector. */
static QCGEN_INLINE qcgen_mve_s32 qcgen_mve_four(int32_t a, int32_t b, int32_t c, int32_t d)
{
    qcgen_mve_s32 v;

#if QCGEN_MVE
    /* Two lanes at a time, which the compilers do not find. */
    __asm__("vmov %q0[2], %q0[0], %1, %3\n\tvmov %q0[3], %q0[1], %2, %4" : "=&w"(v) : "r"(a), "r"(b), "r"(c), "r"(d));
#else
    v.lane[0] = a;
    v.lane[1] = b;
    v.lane[2] = c;
    v.lane[3] = d;
#endif
    return v;
}

/* Moves the bytes of each word up in memory by `bytes`, less than four; zeros take the places left. */
static QCGEN_INLINE qcgen_mve_s8 qcgen_mve_lower(qcgen_mve_s8 v, int32_t bytes)
{
#if QCGEN_MVE
    return vreinterpretq_s8_s32(vshlq_r_s32(vreinterpretq_s32_s8(v), 8 * bytes));
#else
    for (int i = 15; i >= 0; i--) {
        v.lane[i] = (int8_t)(i % 4 < bytes ? 0 : v.lane[i - bytes]);
    }
    return v;
#endif
}

/* The bits that four int32 have in common with four others. */
static QCGEN_INLINE qcgen_mve_s32 qcgen_mve_and(
    qcgen_mve_s32 a, qcgen_mve_s32 b)
{
#if QCGEN_MVE
    return vandq_s32(a, b);
#else
    for (int i = 0; i < 4; i++) {
        a.lane[i] &= b.lane[i];
    }
    return a;
#endif
}
