/* Sums of products on cores without SIMD: two products in one. */
#pragma once
#include <stdint.h>
#include "compiler.h"

/* Whether the compiler reads GNU assembly for a core with Thumb's first instruction set and few other instructions; and
   optimizes, which makes a layer's numbers constants. */
#if defined(__GNUC__) && defined(__OPTIMIZE__) && (defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__))
#define QCGEN_IS_THUMB1 1
#else
#define QCGEN_IS_THUMB1 0
#endif

/* Whether the compiler reads GNU assembly for a Cortex-M3. */
#if defined(__GNUC__) && defined(__ARM_ARCH_7M__)
#define QCGEN_IS_ARMV7_M 1
#else
#define QCGEN_IS_ARMV7_M 0
#endif

/* Whether the compiler reads GNU assembly for a RISC-V core of 32 bits that multiplies. */
#if defined(__GNUC__) && defined(__riscv_mul) && __riscv_xlen == 32
#define QCGEN_IS_RV32M 1
#else
#define QCGEN_IS_RV32M 0
#endif

/* sum + a * b. Compilers for the Cortex-M0 keep some sums in registers that its additions reach only by a move. */
static QCGEN_INLINE int32_t qcgen_scalar_multiply_add(int32_t sum, int32_t a, int32_t b)
{
#if QCGEN_IS_THUMB1
    __asm__ volatile(".syntax unified\n\tmuls %1, %2\n\tadds %0, %0, %1" : "+l"(sum), "+l"(a) : "l"(b) : "cc");
    return sum;
#else
    return sum + a * b;
#endif
}

/*
 * Two products in one: a word holds two numbers, low + high * 2^16, and times a weight it is the products of both.
 * Words are added as long as the sums of both halves stay within 16 bits, which is proved for groups of elements; then
 * they join these sums, modulo 2^32: `total` of whole words, `high` of their upper halves. Each group starts at HALF,
 * so that its lower half does not borrow from the upper one.
 */
typedef struct {
    uint32_t total_a, high_a; /* of the first word of each element, */
    uint32_t total_b, high_b; /* and of the second */
} qcgen_scalar_sums;

#define QCGEN_SCALAR_HALF INT32_C(0x8000)

/* The elements of a window: `rounds` of a loop, `elements` each, in groups of `size`; then `rest` more, whose last ones
   are in smaller groups: `groups` in all. They serve `width` sums, whose words lie `apart` or are the same. `is_far`:
   two such loops take more code than a branch of Thumb-1 reaches back over. */
struct qcgen_scalar_loop {
    int32_t width, apart, size, groups, elements, rounds, rest, is_far;
};

/* Adds a group of elements, two words each, times a factor, to each sum. Both pointers step behind what is read. */
typedef void qcgen_scalar_add(const struct qcgen_scalar_loop *loop, const int32_t **words, const void **factors,
    int32_t size, qcgen_scalar_sums *sums);

#if QCGEN_IS_THUMB1 && !defined(QCGEN_KEEP_R9)
/*
 * Instructions for sums in registers that compilers use for little but moves, or not at all when they optimize for
 * size: total_a, high_a, total_b and high_b are r8 to r11. HALF or a mask is in r12, in lr where the words end.
 */
#define QCGEN_SCALAR_KEEP /* on the stack: r8 to r11, behind them r2 to r5 */ \
    "push {r2, r3, r4, r5}\n\t" \
    "mov r2, r8\n\t" \
    "mov r3, r9\n\t" \
    "mov r4, r10\n\t" \
    "mov r5, r11\n\t" \
    "push {r2, r3, r4, r5}\n\t"
#define QCGEN_SCALAR_RESTORE /* r8 to r11 */ \
    "pop {r2, r3, r4, r5}\n\t" \
    "mov r8, r2\n\t" \
    "mov r9, r3\n\t" \
    "mov r10, r4\n\t" \
    "mov r11, r5\n\t" \
    "add sp, #16\n\t"
#define QCGEN_SCALAR_START /* the sums: `total` at r2, `high` at 0 */ \
    "mov r8, r2\n\t" \
    "mov r10, r2\n\t" \
    "movs r3, #0\n\t" \
    "mov r9, r3\n\t" \
    "mov r11, r3\n\t"
#define QCGEN_SCALAR_SUMS /* to r2 to r5 */ \
    "mov r2, r8\n\t" \
    "mov r3, r9\n\t" \
    "mov r4, r10\n\t" \
    "mov r5, r11\n\t"
#endif

#if QCGEN_IS_ARMV7_M && !defined(QCGEN_KEEP_R9)
/*
 * Adds a group of elements by LDM and by MLA that starts at HALF, which compilers do not generate here; its sums are r8
 * and r9. A factor is a byte in w, or factors are words, of which two at a time are in w and v. Then: one
 * element, the first two and two more.
 */
#define QCGEN_SCALAR_ADD_GROUP(elements, ...) \
    __asm__ volatile( \
        elements \
        "add %[total_a], %[total_a], r8\n\t" \
        "add %[high_a], %[high_a], r8, asr #16\n\t" \
        "add %[total_b], %[total_b], r9\n\t" \
        "add %[high_b], %[high_b], r9, asr #16" \
        : [pairs] "+&r"(*pairs), [weights] "+&r"(*weights), __VA_ARGS__, [total_a] "+r"(sums->total_a), \
          [high_a] "+r"(sums->high_a), [total_b] "+r"(sums->total_b), [high_b] "+r"(sums->high_b) \
        : [half] "r"(QCGEN_SCALAR_HALF) \
        : "r8", "r9", "r10", "r11", "memory")
#define QCGEN_SCALAR_TWO_TIMES(load_w, w, load_v, v) \
    "ldmia %[pairs]!, {r8, r9, r10, r11}\n\t" load_w \
    "mla r8, r8, %[" w "], %[half]\n\t" \
    "mla r9, r9, %[" w "], %[half]\n\t" load_v \
    "mla r8, r10, %[" v "], r8\n\t" \
    "mla r9, r11, %[" v "], r9\n\t"
#define QCGEN_SCALAR_NEXT_TIMES(load_w, w, load_v, v) \
    "ldmia %[pairs]!, {r10, r11}\n\t" load_w \
    "mla r8, r10, %[" w "], r8\n\t" \
    "mla r9, r11, %[" w "], r9\n\t" \
    "ldmia %[pairs]!, {r10, r11}\n\t" load_v \
    "mla r8, r10, %[" v "], r8\n\t" \
    "mla r9, r11, %[" v "], r9\n\t"
#define QCGEN_SCALAR_ONE_TIMES(load_w) \
    "ldmia %[pairs]!, {r8, r9}\n\t" load_w \
    "mla r8, r8, %[w], %[half]\n\t" \
    "mla r9, r9, %[w], %[half]\n\t"
#endif

#if QCGEN_IS_ARMV7_M && !defined(QCGEN_KEEP_R9)
#define QCGEN_SCALAR_BYTE "ldrsb %[w], [%[weights]], #1\n\t"
#define QCGEN_SCALAR_TWO_BYTES QCGEN_SCALAR_TWO_TIMES(QCGEN_SCALAR_BYTE, "w", QCGEN_SCALAR_BYTE, "w")
#define QCGEN_SCALAR_NEXT_BYTES QCGEN_SCALAR_NEXT_TIMES(QCGEN_SCALAR_BYTE, "w", QCGEN_SCALAR_BYTE, "w")
#endif

/* Adds a group of 1, 2, 4 or 8 elements, two words each, times a weight. Both pointers step behind what is read. */
static QCGEN_INLINE void qcgen_scalar_group(const struct qcgen_scalar_loop *loop, const int32_t **pairs,
    const void **weights, int32_t size, qcgen_scalar_sums *sums)
{
#if QCGEN_IS_ARMV7_M && !defined(QCGEN_KEEP_R9)
    int32_t w;

    if (size == 1) {
        QCGEN_SCALAR_ADD_GROUP(QCGEN_SCALAR_ONE_TIMES(QCGEN_SCALAR_BYTE), [w] "=&r"(w));
    } else if (size == 2) {
        QCGEN_SCALAR_ADD_GROUP(QCGEN_SCALAR_TWO_BYTES, [w] "=&r"(w));
    } else if (size == 4) {
        QCGEN_SCALAR_ADD_GROUP(QCGEN_SCALAR_TWO_BYTES QCGEN_SCALAR_NEXT_BYTES, [w] "=&r"(w));
    } else {
        QCGEN_SCALAR_ADD_GROUP(
            QCGEN_SCALAR_TWO_BYTES QCGEN_SCALAR_NEXT_BYTES QCGEN_SCALAR_NEXT_BYTES QCGEN_SCALAR_NEXT_BYTES,
            [w] "=&r"(w));
    }
#else
    const int8_t *const w = *weights;
    int32_t a = QCGEN_SCALAR_HALF, b = QCGEN_SCALAR_HALF;

    QCGEN_UNROLLED
    for (int32_t k = 0; k < size; k++) {
        a += (*pairs)[2 * k] * w[k];
        b += (*pairs)[2 * k + 1] * w[k];
    }
    sums->total_a += (uint32_t)a;
    sums->high_a += (uint32_t)(a >> 16);
    sums->total_b += (uint32_t)b;
    sums->high_b += (uint32_t)(b >> 16);
    *pairs += 2 * size;
    *weights = w + size;
#endif
    (void)loop;
}

#if QCGEN_IS_ARMV7_M && !defined(QCGEN_KEEP_R9)
#define QCGEN_SCALAR_TWO_WORDS QCGEN_SCALAR_TWO_TIMES("ldrd %[w], %[v], [%[weights]], #8\n\t", "w", "", "v")
#define QCGEN_SCALAR_NEXT_WORDS QCGEN_SCALAR_NEXT_TIMES("ldrd %[w], %[v], [%[weights]], #8\n\t", "w", "", "v")
#endif

/* Adds a group of 1, 2, 4 or 8 elements, two words each, times a weight that is a word. Both pointers step on. */
static QCGEN_INLINE void qcgen_scalar_group_of_words(const struct qcgen_scalar_loop *loop, const int32_t **pairs,
    const void **weights, int32_t size, qcgen_scalar_sums *sums)
{
#if QCGEN_IS_ARMV7_M && !defined(QCGEN_KEEP_R9)
    int32_t w, v;

    if (size == 1) {
        QCGEN_SCALAR_ADD_GROUP(
            QCGEN_SCALAR_ONE_TIMES("ldr %[w], [%[weights]], #4\n\t"),
            [w] "=&r"(w));
    } else if (size == 2) {
        QCGEN_SCALAR_ADD_GROUP(QCGEN_SCALAR_TWO_WORDS, [w] "=&r"(w), [v] "=&r"(v));
    } else if (size == 4) {
        QCGEN_SCALAR_ADD_GROUP(
            QCGEN_SCALAR_TWO_WORDS QCGEN_SCALAR_NEXT_WORDS,
            [w] "=&r"(w), [v] "=&r"(v));
    } else {
        QCGEN_SCALAR_ADD_GROUP(
            QCGEN_SCALAR_TWO_WORDS QCGEN_SCALAR_NEXT_WORDS QCGEN_SCALAR_NEXT_WORDS QCGEN_SCALAR_NEXT_WORDS,
            [w] "=&r"(w), [v] "=&r"(v));
    }
#else
    const int32_t *const w = *weights;
    int32_t a = QCGEN_SCALAR_HALF, b = QCGEN_SCALAR_HALF;

    QCGEN_UNROLLED
    for (int32_t k = 0; k < size; k++) {
        a += (*pairs)[2 * k] * w[k];
        b += (*pairs)[2 * k + 1] * w[k];
    }
    sums->total_a += (uint32_t)a;
    sums->high_a += (uint32_t)(a >> 16);
    sums->total_b += (uint32_t)b;
    sums->high_b += (uint32_t)(b >> 16);
    *pairs += 2 * size;
    *weights = w + size;
#endif
    (void)loop;
}

#if QCGEN_IS_RV32M
/*
 * Instructions in an order of which compilers are kept, because they start all products at once and run out of
 * registers. No load is used at once. The sum of a group joins those of its lane, a or b.
 */
#define QCGEN_SCALAR_JOIN_LANE(lane, sum) \
    "add " sum ", " sum ", %[half]\n\t" \
    "add %[total_" lane "], %[total_" lane "], " sum "\n\t" \
    "srai " sum ", " sum ", 16\n\t" \
    "add %[high_" lane "], %[high_" lane "], " sum "\n\t"
#define QCGEN_SCALAR_LANE_A [total_a] "+&r"(sums->total_a), [high_a] "+&r"(sums->high_a)
#define QCGEN_SCALAR_LANE_B [total_b] "+&r"(sums->total_b), [high_b] "+&r"(sums->high_b)

/* Elements whose words are in registers, times weights in memory: the first one, and one whose weight is in v. */
#define QCGEN_SCALAR_FIRST_PAIR \
    "mul %[a], %[a0], %[w]\n\t" \
    "mul %[w], %[b0], %[w]\n\t"
#define QCGEN_SCALAR_NEXT_PAIR(k, load) \
    "mul %[p], %[a" k "], %[v]\n\t" \
    "mul %[v], %[b" k "], %[v]\n\t" \
    "add %[w], %[w], %[v]\n\t" load \
    "add %[a], %[a], %[p]\n\t"
#define QCGEN_SCALAR_JOIN_PAIR QCGEN_SCALAR_JOIN_LANE("a", "%[a]") QCGEN_SCALAR_JOIN_LANE("b", "%[w]")
#define QCGEN_SCALAR_PAIR(k) \
    [a##k] "r"(pairs[2 * k]), [b##k] "r"(pairs[2 * k + 1]), [w##k] "m"(weights[k * step])

/* Elements whose weights are in registers: the next one's word is loaded first. */
#define QCGEN_SCALAR_FIRST_WORD \
    "lw %[s], %[w0]\n\t" \
    "lw %[p], %[w1]\n\t" \
    "mul %[s], %[x0], %[s]\n\t"
#define QCGEN_SCALAR_NEXT_WORD(k, word, load) load \
    "mul " word ", %[x" k "], " word "\n\t" \
    "add %[s], %[s], " word "\n\t"
#define QCGEN_SCALAR_WORD(k) [w##k] "m"(words[2 * k]), [x##k] "r"((int32_t)x[k])
#endif

/* Adds a group of 1, 2 or 4 elements, two words each, times weights that lie `step` apart. */
static QCGEN_INLINE void qcgen_scalar_channel(
    const int32_t *pairs, const int8_t *weights, int32_t size, int32_t step, qcgen_scalar_sums *sums)
{
#if QCGEN_IS_RV32M
    int32_t w, a, v, p;

    if (size == 1) {
        __asm__("lb %[w], %[w0]\n\t"
                QCGEN_SCALAR_FIRST_PAIR
                QCGEN_SCALAR_JOIN_PAIR
                : [w] "=&r"(w), [a] "=&r"(a), QCGEN_SCALAR_LANE_A, QCGEN_SCALAR_LANE_B
                : [half] "r"(QCGEN_SCALAR_HALF), QCGEN_SCALAR_PAIR(0));
    } else if (size == 2) {
        __asm__("lb %[w], %[w0]\n\t"
                "lb %[v], %[w1]\n\t"
                QCGEN_SCALAR_FIRST_PAIR
                QCGEN_SCALAR_NEXT_PAIR("1", "")
                QCGEN_SCALAR_JOIN_PAIR
                : [w] "=&r"(w), [a] "=&r"(a), [v] "=&r"(v), [p] "=&r"(p), QCGEN_SCALAR_LANE_A,
                  QCGEN_SCALAR_LANE_B
                : [half] "r"(QCGEN_SCALAR_HALF), QCGEN_SCALAR_PAIR(0),
                  QCGEN_SCALAR_PAIR(1));
    } else {
        __asm__("lb %[w], %[w0]\n\t"
                "lb %[v], %[w1]\n\t"
                QCGEN_SCALAR_FIRST_PAIR
                QCGEN_SCALAR_NEXT_PAIR("1", "lb %[v], %[w2]\n\t")
                QCGEN_SCALAR_NEXT_PAIR("2", "lb %[v], %[w3]\n\t")
                QCGEN_SCALAR_NEXT_PAIR("3", "")
                QCGEN_SCALAR_JOIN_PAIR
                : [w] "=&r"(w), [a] "=&r"(a), [v] "=&r"(v), [p] "=&r"(p), QCGEN_SCALAR_LANE_A,
                  QCGEN_SCALAR_LANE_B
                : [half] "r"(QCGEN_SCALAR_HALF), QCGEN_SCALAR_PAIR(0),
                  QCGEN_SCALAR_PAIR(1), QCGEN_SCALAR_PAIR(2),
                  QCGEN_SCALAR_PAIR(3));
    }
#else
    int32_t a = QCGEN_SCALAR_HALF, b = QCGEN_SCALAR_HALF;

    QCGEN_UNROLLED
    for (int32_t k = 0; k < size; k++) {
        a += pairs[2 * k] * weights[k * step];
        b += pairs[2 * k + 1] * weights[k * step];
    }
    sums->total_a += (uint32_t)a;
    sums->high_a += (uint32_t)(a >> 16);
    sums->total_b += (uint32_t)b;
    sums->high_b += (uint32_t)(b >> 16);
#endif
}

/* The same to the sums of each channel of a block, whose weights alternate. */
static QCGEN_INLINE void qcgen_scalar_channels(const struct qcgen_scalar_loop *loop, const int32_t **pairs,
    const void **weights, int32_t size, qcgen_scalar_sums *sums)
{
    const int8_t *const w = *weights;
    const int32_t width = loop->width;

    qcgen_scalar_channel(*pairs, w, size, width, &sums[0]);
    if (width > 1) {
        qcgen_scalar_channel(*pairs, w + 1, size, width, &sums[1]);
    }
    if (width > 2) {
        qcgen_scalar_channel(*pairs, w + 2, size, width, &sums[2]);
        qcgen_scalar_channel(*pairs, w + 3, size, width, &sums[3]);
    }
    *pairs += 2 * size;
    *weights = w + width * size;
}

#if QCGEN_IS_RV32M
/* Adds the first words of two or more elements, times the elements x, to the first sums. */
static QCGEN_INLINE void qcgen_scalar_first_words(
    const int32_t *words, const int8_t *x, int32_t size, qcgen_scalar_sums *sums)
{
    int32_t s, p, q;

    if (size == 2) {
        __asm__(QCGEN_SCALAR_FIRST_WORD
                QCGEN_SCALAR_NEXT_WORD("1", "%[p]", "")
                QCGEN_SCALAR_JOIN_LANE("a", "%[s]")
                : [s] "=&r"(s), [p] "=&r"(p), QCGEN_SCALAR_LANE_A
                : [half] "r"(QCGEN_SCALAR_HALF), QCGEN_SCALAR_WORD(0),
                  QCGEN_SCALAR_WORD(1));
    } else if (size == 4) {
        __asm__(QCGEN_SCALAR_FIRST_WORD
                QCGEN_SCALAR_NEXT_WORD("1", "%[p]", "lw %[q], %[w2]\n\t")
                QCGEN_SCALAR_NEXT_WORD("2", "%[q]", "lw %[p], %[w3]\n\t")
                QCGEN_SCALAR_NEXT_WORD("3", "%[p]", "")
                QCGEN_SCALAR_JOIN_LANE("a", "%[s]")
                : [s] "=&r"(s), [p] "=&r"(p), [q] "=&r"(q), QCGEN_SCALAR_LANE_A
                : [half] "r"(QCGEN_SCALAR_HALF), QCGEN_SCALAR_WORD(0),
                  QCGEN_SCALAR_WORD(1), QCGEN_SCALAR_WORD(2),
                  QCGEN_SCALAR_WORD(3));
    } else {
        __asm__(QCGEN_SCALAR_FIRST_WORD
                QCGEN_SCALAR_NEXT_WORD("1", "%[p]", "lw %[q], %[w2]\n\t")
                QCGEN_SCALAR_NEXT_WORD("2", "%[q]", "lw %[p], %[w3]\n\t")
                QCGEN_SCALAR_NEXT_WORD("3", "%[p]", "lw %[q], %[w4]\n\t")
                QCGEN_SCALAR_NEXT_WORD("4", "%[q]", "lw %[p], %[w5]\n\t")
                QCGEN_SCALAR_NEXT_WORD("5", "%[p]", "lw %[q], %[w6]\n\t")
                QCGEN_SCALAR_NEXT_WORD("6", "%[q]", "lw %[p], %[w7]\n\t")
                QCGEN_SCALAR_NEXT_WORD("7", "%[p]", "")
                QCGEN_SCALAR_JOIN_LANE("a", "%[s]")
                : [s] "=&r"(s), [p] "=&r"(p), [q] "=&r"(q), QCGEN_SCALAR_LANE_A
                : [half] "r"(QCGEN_SCALAR_HALF), QCGEN_SCALAR_WORD(0),
                  QCGEN_SCALAR_WORD(1), QCGEN_SCALAR_WORD(2),
                  QCGEN_SCALAR_WORD(3), QCGEN_SCALAR_WORD(4),
                  QCGEN_SCALAR_WORD(5), QCGEN_SCALAR_WORD(6),
                  QCGEN_SCALAR_WORD(7));
    }
}
#endif

/* Adds a group of 1, 2, 4 or 8 elements of x, times two words each. */
static QCGEN_INLINE void qcgen_scalar_words(
    const int32_t *words, const int8_t *x, int32_t size, qcgen_scalar_sums *sums)
{
#if QCGEN_IS_RV32M
    if (size == 1) {
        int32_t s, p;

        __asm__("lw %[s], %[w0]\n\t"
                "lw %[p], %[w1]\n\t"
                "mul %[s], %[x0], %[s]\n\t"
                "mul %[p], %[x0], %[p]\n\t"
                QCGEN_SCALAR_JOIN_LANE("a", "%[s]")
                QCGEN_SCALAR_JOIN_LANE("b", "%[p]")
                : [s] "=&r"(s), [p] "=&r"(p), QCGEN_SCALAR_LANE_A, QCGEN_SCALAR_LANE_B
                : [half] "r"(QCGEN_SCALAR_HALF), [w0] "m"(words[0]), [w1] "m"(words[1]),
                  [x0] "r"((int32_t)x[0]));
    } else {
        qcgen_scalar_sums other = { sums->total_b, sums->high_b, 0, 0 };

        qcgen_scalar_first_words(words, x, size, sums);
        qcgen_scalar_first_words(words + 1, x, size, &other);
        sums->total_b = other.total_a;
        sums->high_b = other.high_a;
    }
#else
    int32_t a = QCGEN_SCALAR_HALF, b = QCGEN_SCALAR_HALF;

    QCGEN_UNROLLED
    for (int32_t k = 0; k < size; k++) {
        a += words[2 * k] * x[k];
        b += words[2 * k + 1] * x[k];
    }
    sums->total_a += (uint32_t)a;
    sums->high_a += (uint32_t)(a >> 16);
    sums->total_b += (uint32_t)b;
    sums->high_b += (uint32_t)(b >> 16);
#endif
}

/* The same to two sums, whose words lie apart. */
static QCGEN_INLINE void qcgen_scalar_words_of_two(const struct qcgen_scalar_loop *loop, const int32_t **words,
    const void **elements, int32_t size, qcgen_scalar_sums *sums)
{
    const int8_t *const x = *elements;

    qcgen_scalar_words(*words, x, size, &sums[0]);
    qcgen_scalar_words(*words + loop->apart, x, size, &sums[1]);
    *words += 2 * size;
    *elements = x + size;
}

#if QCGEN_IS_THUMB1 && !defined(QCGEN_KEEP_R9)
/* Adds a group of two elements as packed2 does, with the mask of even bytes in r12. */
#define QCGEN_SCALAR_PACKED2 \
    "ldmia %[elements]!, {r2, r3, r4}\n\t" \
    QCGEN_SCALAR_PACKED("r8", "r9") \
    QCGEN_SCALAR_PACKED("r10", "r11")
#define QCGEN_SCALAR_PACKED(total, high) \
    "ldmia %[words]!, {r5}\n\t" \
    "mov %[p], r12\n\t" \
    "ands %[p], %[p], r5\n\t" \
    "subs r5, r5, %[p]\n\t" \
    "lsrs r5, r5, #8\n\t" \
    "muls %[p], r3, %[p]\n\t" \
    "muls r5, r4, r5\n\t" \
    "adds %[p], %[p], r5\n\t" \
    "adds %[p], %[p], r2\n\t" \
    "add " total ", %[p]\n\t" \
    "asrs %[p], %[p], #16\n\t" \
    "add " high ", %[p]\n\t"
#endif

/*
 * Adds a group of two elements: a start, which makes up for the 128 that is added to each weight, then the elements. Of
 * the two words, each holds weights of two sums: the first element's in its even bytes, the second's in the odd ones.
 * Both pointers step behind what is read.
 */
static QCGEN_INLINE void qcgen_scalar_packed2(
    const int32_t **elements, const int32_t **words, qcgen_scalar_sums *sums)
{
    const uint32_t even_bytes = 0x00ff00ff;
#if QCGEN_IS_ARMV7_M && !defined(QCGEN_KEEP_R9)
    int32_t p;

    /* LDM and operands that are shifted, all in as many registers as there are. */
    __asm__ volatile(
        "ldmia %[elements]!, {r8, r9, r10}\n\t"
        "ldmia %[words]!, {r11, r12}\n\t"
        "and %[p], %[even], r11\n\t"
        "mla %[p], r9, %[p], r8\n\t"
        "and r11, %[even], r11, lsr #8\n\t"
        "mla %[p], r10, r11, %[p]\n\t"
        "add %[total_a], %[total_a], %[p]\n\t"
        "add %[high_a], %[high_a], %[p], asr #16\n\t"
        "and %[p], %[even], r12\n\t"
        "mla %[p], r9, %[p], r8\n\t"
        "and r12, %[even], r12, lsr #8\n\t"
        "mla %[p], r10, r12, %[p]\n\t"
        "add %[total_b], %[total_b], %[p]\n\t"
        "add %[high_b], %[high_b], %[p], asr #16"
        : [elements] "+&r"(*elements), [words] "+&r"(*words), [p] "=&r"(p), [total_a] "+&r"(sums->total_a),
          [high_a] "+&r"(sums->high_a), [total_b] "+r"(sums->total_b), [high_b] "+r"(sums->high_b)
        : [even] "r"(even_bytes)
        : "r8", "r9", "r10", "r11", "r12", "memory");
#elif QCGEN_IS_RV32M
    int32_t x0, x1, w, p;

    __asm__(
        "lw %[w], %[word_a]\n\t"
        "lw %[x0], %[element0]\n\t"
        "lw %[x1], %[element1]\n\t"
        "and %[p], %[w], %[even]\n\t"
        "srli %[w], %[w], 8\n\t"
        "and %[w], %[w], %[even]\n\t"
        "mul %[p], %[x0], %[p]\n\t"
        "mul %[w], %[x1], %[w]\n\t"
        "add %[p], %[p], %[w]\n\t"
        "lw %[w], %[word_b]\n\t"
        "add %[p], %[p], %[start]\n\t"
        "add %[total_a], %[total_a], %[p]\n\t"
        "srai %[p], %[p], 16\n\t"
        "add %[high_a], %[high_a], %[p]\n\t"
        "and %[p], %[w], %[even]\n\t"
        "srli %[w], %[w], 8\n\t"
        "and %[w], %[w], %[even]\n\t"
        "mul %[p], %[x0], %[p]\n\t"
        "mul %[w], %[x1], %[w]\n\t"
        "add %[p], %[p], %[w]\n\t"
        "add %[p], %[p], %[start]\n\t"
        "add %[total_b], %[total_b], %[p]\n\t"
        "srai %[p], %[p], 16\n\t"
        "add %[high_b], %[high_b], %[p]"
        : [x0] "=&r"(x0), [x1] "=&r"(x1), [w] "=&r"(w), [p] "=&r"(p), [total_a] "+&r"(sums->total_a),
          [high_a] "+&r"(sums->high_a), [total_b] "+r"(sums->total_b), [high_b] "+r"(sums->high_b)
        : [start] "r"((*elements)[0]), [element0] "m"((*elements)[1]), [element1] "m"((*elements)[2]),
          [word_a] "m"((*words)[0]), [word_b] "m"((*words)[1]), [even] "r"(even_bytes));
    *elements += 3;
    *words += 2;
#else
    const uint32_t a = (uint32_t)(*words)[0];
    const uint32_t b = (uint32_t)(*words)[1];
    const uint32_t start = (uint32_t)(*elements)[0];
    const uint32_t x0 = (uint32_t)(*elements)[1];
    const uint32_t x1 = (uint32_t)(*elements)[2];
    const uint32_t sum_a = start + x0 * (a & even_bytes) + x1 * (a >> 8 & even_bytes);
    const uint32_t sum_b = start + x0 * (b & even_bytes) + x1 * (b >> 8 & even_bytes);

    sums->total_a += sum_a;
    sums->high_a += (uint32_t)((int32_t)sum_a >> 16);
    sums->total_b += sum_b;
    sums->high_b += (uint32_t)((int32_t)sum_b >> 16);
    *elements += 3;
    *words += 2;
#endif
}

/* Adds two groups of one element, each behind its start; weights lie in the two words as in those of packed2. */
static QCGEN_INLINE void qcgen_scalar_packed1(
    const int32_t **elements, const int32_t **words, qcgen_scalar_sums *sums)
{
    const uint32_t even_bytes = 0x00ff00ff;
    const uint32_t a = (uint32_t)(*words)[0];
    const uint32_t b = (uint32_t)(*words)[1];
    const uint32_t start0 = (uint32_t)(*elements)[0];
    const uint32_t x0 = (uint32_t)(*elements)[1];
    const uint32_t start1 = (uint32_t)(*elements)[2];
    const uint32_t x1 = (uint32_t)(*elements)[3];
    const uint32_t even_a = start0 + x0 * (a & even_bytes);
    const uint32_t even_b = start0 + x0 * (b & even_bytes);
    const uint32_t odd_a = start1 + x1 * (a >> 8 & even_bytes);
    const uint32_t odd_b = start1 + x1 * (b >> 8 & even_bytes);

    sums->total_a += even_a + odd_a;
    sums->high_a += (uint32_t)((int32_t)even_a >> 16) + (uint32_t)((int32_t)odd_a >> 16);
    sums->total_b += even_b + odd_b;
    sums->high_b += (uint32_t)((int32_t)even_b >> 16) + (uint32_t)((int32_t)odd_b >> 16);
    *elements += 4;
    *words += 2;
}

/* Adds what the weights of a block of four channels lack: an element's number and two words. Returns where the next
   block's are. */
QCGEN_SHARED static const int32_t *qcgen_scalar_add_outliers(
    const int32_t *outliers, const void *elements, qcgen_scalar_sums *sums)
{
    const int8_t *const x = elements;

    for (; *outliers >= 0; outliers += 3) {
        const int32_t a = outliers[1] * x[*outliers], b = outliers[2] * x[*outliers];

        sums->total_a += (uint32_t)a;
        sums->high_a += (uint32_t)((a + QCGEN_SCALAR_HALF) >> 16);
        sums->total_b += (uint32_t)b;
        sums->high_b += (uint32_t)((b + QCGEN_SCALAR_HALF) >> 16);
    }
    return outliers + 1;
}

/* Writes two elements as packed1 or packed2 reads them, see packed_elements. Returns the next place. */
static QCGEN_INLINE int32_t *qcgen_scalar_pack(int32_t x0, int32_t x1, int32_t size, int32_t *elements)
{
    const uint32_t added = 0x00800080;

    *elements++ = (int32_t)(QCGEN_SCALAR_HALF - (uint32_t)(size == 1 ? x0 : x0 + x1) * added);
    *elements++ = x0;
    if (size == 1) {
        *elements++ = (int32_t)(QCGEN_SCALAR_HALF - (uint32_t)x1 * added);
    }
    *elements++ = x1;
    return elements;
}

/* The upper 32 bits of the 64-bit product, rounded down, plus an offset. */
static QCGEN_INLINE int32_t qcgen_scalar_scale(int32_t a, int32_t b, int32_t offset)
{
#if QCGEN_IS_THUMB1
    /* By halves, because a product of 64 bits would be a function call:
       middle = high(a) * low(b) + (low(a) * low(b) >> 16), carry = low(a) * high(b) + low(middle),
       result = high(a) * high(b) + (middle >> 16) + (carry >> 16); none of them leaves 32 bits. */
    const int32_t b_low = (uint16_t)b;
    const int32_t b_high = b >> 16;
    int32_t carry;
    int32_t middle;
    int32_t part;

    __asm__(
        ".syntax unified\n\t"
        "uxth %[carry], %[a]\n\t"
        "asrs %[a], %[a], #16\n\t"
        "movs %[middle], %[carry]\n\t"
        "muls %[middle], %[b_low], %[middle]\n\t"
        "lsrs %[middle], %[middle], #16\n\t"
        "movs %[part], %[a]\n\t"
        "muls %[part], %[b_low], %[part]\n\t"
        "adds %[middle], %[middle], %[part]\n\t"
        "muls %[carry], %[b_high], %[carry]\n\t"
        "uxth %[part], %[middle]\n\t"
        "adds %[carry], %[carry], %[part]\n\t"
        "muls %[a], %[b_high], %[a]\n\t"
        "asrs %[middle], %[middle], #16\n\t"
        "asrs %[carry], %[carry], #16\n\t"
        "adds %[a], %[a], %[middle]\n\t"
        "adds %[a], %[a], %[carry]"
        : [a] "+&l"(a), [carry] "=&l"(carry), [middle] "=&l"(middle), [part] "=&l"(part)
        : [b_low] "l"(b_low), [b_high] "l"(b_high)
        : "cc");
    return a + offset;
#else
    return (int32_t)(((int64_t)a * b) >> 32) + offset;
#endif
}

/* (a * m >> word) + offset for an m whose bits from `word` on are the upper half of `halves`, the rest the lower one;
   a is so small that both products fit. */
static QCGEN_INLINE int32_t qcgen_scalar_scale_split(int32_t a, int32_t halves, int32_t offset, int32_t word)
{
    return a * (halves >> 16) + (a * (halves & 0xffff) >> word) + offset;
}

/* The int8 that is nearest to a number. */
static QCGEN_INLINE int32_t qcgen_scalar_saturate_s8(int32_t value)
{
#if QCGEN_IS_THUMB1
    return (int8_t)value == value ? value : (value >> 31) ^ 127; /* one comparison, not two */
#elif QCGEN_IS_ARMV7_M
    return (int32_t)__builtin_arm_ssat(value, 8); /* it shifts its operand in the same instruction */
#else
    return value < -128 ? -128 : value > 127 ? 127 : value;
#endif
}

/* The uint8 that is nearest to a number. */
static QCGEN_INLINE int32_t qcgen_scalar_saturate_u8(int32_t value)
{
#if QCGEN_IS_THUMB1
    return (uint8_t)value == value ? value : ~(value >> 31) & 255; /* one comparison, not two */
#elif QCGEN_IS_ARMV7_M
    return (int32_t)__builtin_arm_usat(value, 8); /* it shifts its operand in the same instruction */
#else
    return value < 0 ? 0 : value > 255 ? 255 : value;
#endif
}
