/* Loops over the elements of windows on cores without SIMD. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "scalar.h"

#if QCGEN_IS_THUMB1
#define QCGEN_SCALAR_NUMBER /* .number: to r2; a literal would be out of reach */ \
    ".macro .number count\n\t" \
    ".if \\count > 65535\n\tmovs r2, #(\\count) >> 16\n\tlsls r2, r2, #8\n\tadds r2, #(\\count) >> 8 & 255\n\t" \
    ".elseif \\count > 255\n\tmovs r2, #(\\count) >> 8\n\t.else\n\tmovs r2, #\\count\n\t.endif\n\t" \
    ".if \\count > 255\n\tlsls r2, r2, #8\n\tadds r2, #(\\count) & 255\n\t.endif\n\t" \
    ".endm\n\t"
#endif

#if QCGEN_IS_THUMB1 && !defined(QCGEN_KEEP_R9)
/* Macros of the assembler. Elements have two words each, at `words`, and weights are bytes. */
#define QCGEN_SCALAR_TIMES(a, b) /* the next weight */ \
    "ldrb %[w], [%[bytes], #.Lat]\n\t" \
    "sxtb %[w], %[w]\n\t" \
    ".set .Lat, .Lat + 1\n\t" \
    "muls " a ", %[w], " a "\n\tmuls " b ", %[w], " b "\n\t"
#define QCGEN_SCALAR_ADD "adds r2, r2, r4\n\tadds r3, r3, r5\n\t"
#define QCGEN_SCALAR_GROUPS /* .groups: adds elements in groups of `size`, the last ones smaller */ \
    ".macro .groups elements, size\n\t" \
    ".set .Lat, 0\n\t" \
    ".irp each, 8, 4, 2, 1\n\t" \
    ".if \\size >= \\each\n\t" \
    ".rept (\\elements - .Lat) / \\each\n\t" \
    ".if \\each == 1\n\t" \
    "ldmia %[words]!, {r2, r3}\n\t" QCGEN_SCALAR_TIMES("r2", "r3") \
    ".else\n\t" \
    "ldmia %[words]!, {r2, r3, r4, r5}\n\t" QCGEN_SCALAR_TIMES("r2", "r3") \
    QCGEN_SCALAR_TIMES("r4", "r5") QCGEN_SCALAR_ADD \
    ".endif\n\t" \
    ".rept (\\each - 1) / 2 * 2\n\t" \
    "ldmia %[words]!, {r4, r5}\n\t" QCGEN_SCALAR_TIMES("r4", "r5") QCGEN_SCALAR_ADD \
    ".endr\n\t" \
    "add r2, r12\n\tadd r3, r12\n\t" \
    "add r8, r2\n\tasrs r2, r2, #16\n\tadd r9, r2\n\t" \
    "add r10, r3\n\tasrs r3, r3, #16\n\tadd r11, r3\n\t" \
    ".endr\n\t" \
    ".endif\n\t" \
    ".endr\n\t" \
    ".if \\elements\n\t" \
    "adds %[bytes], #\\elements\n\t" \
    ".endif\n\t" \
    ".endm\n\t"
#define QCGEN_SCALAR_WINDOW /* .window: the sums of one; the branch back to its loop reaches 2 KiB */ \
    ".macro .window size, groups, elements, rounds, rest\n\t" \
    ".number \\groups\n\tlsls r2, r2, #15\n\tnegs r2, r2\n\t" /* less HALF once for each group */ \
    QCGEN_SCALAR_START \
    ".if \\rounds > 1\n\t" \
    ".number (\\rounds*\\elements)\n\tlsls r2, r2, #3\n\tadd r2, %[words]\n\tmov lr, r2\n" \
    "2:\n\t" \
    ".endif\n\t" \
    ".groups \\elements, \\size\n\t" \
    ".if \\rounds > 1\n\t" \
    "cmp %[words], lr\n\tbeq 2f\n\tb 2b\n" \
    "2:\n\t" \
    ".endif\n\t" \
    ".groups \\rest, \\size\n\t" \
    ".endm\n\t"
#else
/* The sums over a window that begins at `words`. Factors step behind what is read. */
static QCGEN_INLINE void qcgen_scalar_window(const struct qcgen_scalar_loop *loop, const int32_t *words,
    const void **factors, qcgen_scalar_sums *sums, qcgen_scalar_add *add)
{
    const int32_t *const end = words + 2 * loop->rounds * loop->elements;
    const uint32_t less = 0u - (uint32_t)loop->groups * QCGEN_SCALAR_HALF; /* HALF once for each group */
    qcgen_scalar_sums s[4] = { { less, 0, less, 0 }, { less, 0, less, 0 }, { less, 0, less, 0 }, { less, 0, less, 0 } };

    if (loop->rounds > 0) {
        do {
            QCGEN_UNROLLED
            for (int32_t k = 0; k < loop->elements; k += loop->size) {
                add(loop, &words, factors, loop->size, s);
            }
        } while (loop->rounds > 1 && words != end);
    }
    QCGEN_UNROLLED
    for (int32_t k = loop->size; k <= loop->rest; k += loop->size) {
        add(loop, &words, factors, loop->size, s);
    }
    QCGEN_UNROLLED
    for (int32_t n = loop->size / 2; n > 0; n /= 2) {
        if ((loop->rest & n) != 0) {
            add(loop, &words, factors, n, s);
        }
    }
    sums[0] = s[0];
    if (loop->width > 1) {
        sums[1] = s[1];
    }
    if (loop->width > 2) {
        sums[2] = s[2];
        sums[3] = s[3];
    }
}
#endif

/* The sums until `beyond`, all over the same words: by the loop `large`, if it is another one, where is_large is 1.
   Returns where the next factors are. */
static QCGEN_INLINE const void *qcgen_scalar_sums_of(const struct qcgen_scalar_loop *loop,
    const struct qcgen_scalar_loop *large, const int32_t *words, const void *factors, const uint8_t *is_large,
    qcgen_scalar_sums *sums, const qcgen_scalar_sums *beyond, qcgen_scalar_add *add)
{
#if QCGEN_IS_THUMB1 && !defined(QCGEN_KEEP_R9)
    register const int32_t *r2 __asm__("r2") = words;
    register qcgen_scalar_sums *r3 __asm__("r3") = sums;
    register const qcgen_scalar_sums *r4 __asm__("r4") = beyond;
    register const uint8_t *r5 __asm__("r5") = is_large;
    int32_t w;

    /* One statement, because gcc keeps nothing in r8 to r11 for others when it optimizes for size. */
    __asm__ volatile(
        ".syntax unified\n\t"
        QCGEN_SCALAR_KEEP
        QCGEN_SCALAR_NUMBER QCGEN_SCALAR_GROUPS QCGEN_SCALAR_WINDOW
        "movs %[w], #128\n\tlsls %[w], %[w], #8\n\tmov r12, %[w]\n"
        "1:\n\t"
        "ldr %[words], [sp, #16]\n\t"
        ".if %c[is_mixed]\n\t"
        "ldr r2, [sp, #28]\n\tldrb %[w], [r2]\n\tadds r2, r2, #1\n\tstr r2, [sp, #28]\n\t"
        "cmp %[w], #0\n\tbne 3f\n\tb 4f\n"
        "3:\n\t"
        ".window %c[large_size], %c[large_groups], %c[large_elements], %c[large_rounds], %c[large_rest]\n\t"
        "b 5f\n"
        ".if %c[is_far]\n"
        "6:\n\tb 1b\n\t"
        ".endif\n"
        "4:\n\t"
        ".endif\n\t"
        ".window %c[size], %c[groups], %c[elements], %c[rounds], %c[rest]\n"
        "5:\n\t"
        QCGEN_SCALAR_SUMS
        "ldr %[w], [sp, #20]\n\tstmia %[w]!, {r2, r3, r4, r5}\n\tstr %[w], [sp, #20]\n\t"
        "ldr r2, [sp, #24]\n\tcmp %[w], r2\n\tbeq 1f\n\t"
        ".if %c[is_far]\n\tb 6b\n\t.else\n\tb 1b\n\t.endif\n"
        "1:\n\t"
        ".purgem .number\n\t.purgem .groups\n\t.purgem .window\n\t"
        QCGEN_SCALAR_RESTORE
        : [words] "=&l"(words), [bytes] "+&l"(factors), [w] "=&l"(w), "+l"(r2), "+l"(r3), "+l"(r4), "+l"(r5)
        : [size] "i"(loop->size), [groups] "i"(loop->groups), [elements] "i"(loop->elements),
          [rounds] "i"(loop->rounds), [rest] "i"(loop->rest), [large_size] "i"(large->size),
          [large_groups] "i"(large->groups), [large_elements] "i"(large->elements),
          [large_rounds] "i"(large->rounds), [large_rest] "i"(large->rest), [is_mixed] "i"(large != loop),
          [is_far] "i"(loop->is_far)
        : "r12", "lr", "cc", "memory");
    (void)add;
#else
    do {
        qcgen_scalar_sums *const own = sums;

        sums += loop->width;
        if (large != loop && *is_large++ != 0) {
            qcgen_scalar_window(large, words, &factors, own, add);
        } else {
            qcgen_scalar_window(loop, words, &factors, own, add);
        }
    } while (sums != beyond);
#endif
    return factors;
}

#if QCGEN_IS_THUMB1
/* Adds two words times r4 and r5. ASRS leaves the highest bit that it shifts out in the carry, which ADCS adds. */
#define QCGEN_SCALAR_BY_WORD(total, high) \
    "ldmia r0!, {r2, r3}\n\t" \
    "muls r2, r4, r2\n\tmuls r3, r5, r3\n\tadds r2, r2, r3\n\t" \
    "add " total ", r2\n\tasrs r2, r2, #16\n\tadcs " high ", r2\n\t"
#endif

/* The sums until `beyond`, all over the same words, in groups of two elements whose words are rounded each by itself,
   without HALF: the first words of both lie side by side, then the second ones. Factors have 8, 16 or 32 bits, those of
   16 two in a word. Returns where the next ones are. */
static QCGEN_INLINE const void *qcgen_scalar_sums_by_word(const struct qcgen_scalar_loop *loop, int32_t bits,
    const int32_t *words, const void *factors, qcgen_scalar_sums *sums, const qcgen_scalar_sums *beyond)
{
#if QCGEN_IS_THUMB1
    register const int32_t *r0 __asm__("r0") = words;
    register const void *r1 __asm__("r1") = factors;
    register qcgen_scalar_sums *r2 __asm__("r2") = sums;
    register const qcgen_scalar_sums *r3 __asm__("r3") = beyond;

    /* One statement, because it takes all registers. On the stack: r0, r2, r3, and where whole rounds end. */
    __asm__ volatile(
        ".syntax unified\n\t"
        "push {r0, r2, r3, r4, r5, r6, r7}\n\t"
        QCGEN_SCALAR_NUMBER
        ".macro .groups elements, bits\n\t"
        ".set .Lat, 0\n\t"
        ".rept \\elements / 2\n\t"
        ".if \\bits == 8\n\t"
        "ldrb r4, [r1, #.Lat]\n\tsxtb r4, r4\n\tldrb r5, [r1, #.Lat + 1]\n\tsxtb r5, r5\n\t"
        ".set .Lat, .Lat + 2\n\t"
        ".elseif \\bits == 16\n\t"
        "ldmia r1!, {r5}\n\tsxth r4, r5\n\tasrs r5, r5, #16\n\t"
        ".else\n\tldmia r1!, {r4, r5}\n\t.endif\n\t"
        QCGEN_SCALAR_BY_WORD("r12", "r6") QCGEN_SCALAR_BY_WORD("lr", "r7")
        ".endr\n\t"
        ".if .Lat\n\tadds r1, #.Lat\n\t.endif\n\t"
        ".endm\n\t"
        ".if %c[rounds] > 1\n\t"
        ".number (%c[rounds]*%c[elements])\n\tlsls r2, r2, #3\n\tadds r2, r2, r0\n\tstr r2, [sp, #12]\n\t"
        ".endif\n"
        "1:\n\t"
        "movs r6, #0\n\tmovs r7, #0\n\tmov r12, r6\n\tmov lr, r6\n"
        "2:\n\t"
        ".groups %c[elements], %c[bits]\n\t"
        ".if %c[rounds] > 1\n\t"
        "ldr r2, [sp, #12]\n\tcmp r0, r2\n\tbeq 2f\n\tb 2b\n"
        "2:\n\t"
        ".endif\n\t"
        ".groups %c[rest], %c[bits]\n\t"
        ".purgem .number\n\t.purgem .groups\n\t"
        "ldr r0, [sp, #4]\n\t"
        "mov r2, r12\n\tmov r3, r6\n\tmov r4, lr\n\tmov r5, r7\n\tstmia r0!, {r2, r3, r4, r5}\n\t"
        "str r0, [sp, #4]\n\t"
        "ldr r2, [sp, #8]\n\tcmp r0, r2\n\tbeq 1f\n\t"
        "ldr r0, [sp]\n\tb 1b\n"
        "1:\n\t"
        "pop {r0, r2, r3, r4, r5, r6, r7}"
        : "+&l"(r0), "+&l"(r1), "+&l"(r2), "+l"(r3)
        : [elements] "i"(loop->elements), [rounds] "i"(loop->rounds), [rest] "i"(loop->rest), [bits] "i"(bits)
        : "r4", "r12", "lr", "cc", "memory");
    return r1;
#else
    do {
        const int32_t *w = words;
        qcgen_scalar_sums s = { 0, 0, 0, 0 };

        for (int32_t k = 0; k < loop->groups; k++) {
            const int8_t *const bytes = factors;
            const int32_t *const whole = factors;
            const int32_t first = bits == 8 ? bytes[0] : bits == 16 ? (int16_t)whole[0] : whole[0];
            const int32_t second = bits == 8 ? bytes[1] : bits == 16 ? whole[0] >> 16 : whole[1];
            const int32_t a = w[0] * first + w[1] * second, b = w[2] * first + w[3] * second;

            s.total_a += (uint32_t)a;
            s.high_a += (uint32_t)((a + QCGEN_SCALAR_HALF) >> 16);
            s.total_b += (uint32_t)b;
            s.high_b += (uint32_t)((b + QCGEN_SCALAR_HALF) >> 16);
            factors = bytes + bits / 4;
            w += 4;
        }
        *sums++ = s;
    } while (sums != beyond);
    return factors;
#endif
}

/* Adds the next two elements in a group of two or in groups of one. */
static QCGEN_INLINE void qcgen_scalar_packed(
    const int32_t **elements, const int32_t **words, int32_t size, qcgen_scalar_sums *sums)
{
    if (size == 1) {
        qcgen_scalar_packed1(elements, words, sums);
    } else {
        qcgen_scalar_packed2(elements, words, sums);
    }
}

/* The sums over all words, of weights that are bytes, in groups of one or two elements: see packed2 and packed1. */
static QCGEN_INLINE void qcgen_scalar_packed_sums(
    const struct qcgen_scalar_loop *loop, const int32_t *words, const int32_t *elements, qcgen_scalar_sums *sums)
{
    const int32_t *const end = words + loop->rounds * loop->elements;
    const uint32_t less = 0u - (uint32_t)loop->groups * QCGEN_SCALAR_HALF; /* HALF once for each group */
    qcgen_scalar_sums s = { less, 0, less, 0 };

#if QCGEN_IS_THUMB1 && !defined(QCGEN_KEEP_R9)
    if (loop->size == 2) {
        register qcgen_scalar_sums *r2 __asm__("r2") = sums;
        int32_t p;

        /* One statement, because gcc keeps nothing in r8 to r11 for others when it optimizes for size. */
        __asm__ volatile(
            ".syntax unified\n\t"
            QCGEN_SCALAR_KEEP
            QCGEN_SCALAR_NUMBER
            "movs r2, #255\n\tlsls r2, r2, #16\n\tadds r2, #255\n\tmov r12, r2\n\t" /* even bytes */
            ".number %c[groups]\n\tlsls r2, r2, #15\n\tnegs r2, r2\n\t"
            QCGEN_SCALAR_START
            ".if %c[rounds] > 1\n\t"
            ".number (%c[rounds]*%c[all]/2)\n\tlsls r2, r2, #3\n\tadd r2, %[words]\n\tmov lr, r2\n"
            "1:\n\t"
            ".endif\n\t"
            ".rept %c[all] / 2\n\t" QCGEN_SCALAR_PACKED2 ".endr\n\t"
            ".if %c[rounds] > 1\n\t"
            "cmp %[words], lr\n\tbeq 1f\n\tb 1b\n"
            "1:\n\t"
            ".endif\n\t"
            ".rept %c[rest] / 2\n\t" QCGEN_SCALAR_PACKED2 ".endr\n\t"
            ".purgem .number\n\t"
            QCGEN_SCALAR_SUMS
            "ldr %[p], [sp, #16]\n\tstmia %[p]!, {r2, r3, r4, r5}\n\t"
            QCGEN_SCALAR_RESTORE
            : [elements] "+l"(elements), [words] "+l"(words), [p] "=&l"(p), "+l"(r2)
            : [groups] "i"(loop->groups), [all] "i"(loop->elements), [rounds] "i"(loop->rounds),
              [rest] "i"(loop->rest)
            : "r3", "r4", "r5", "r12", "lr", "cc", "memory");
        return;
    }
#endif
    if (loop->rounds > 0) {
        do {
            QCGEN_UNROLLED
            for (int32_t k = 0; k < loop->elements; k += 2) {
                qcgen_scalar_packed(&elements, &words, loop->size, &s);
            }
        } while (loop->rounds > 1 && words != end);
    }
    QCGEN_UNROLLED
    for (int32_t k = 0; k < loop->rest; k += 2) {
        qcgen_scalar_packed(&elements, &words, loop->size, &s);
    }
    *sums = s;
}
