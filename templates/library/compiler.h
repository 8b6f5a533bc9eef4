/* Hints to compilers that C99 has no words for; empty where the compiler is unknown. */
#pragma once

/* Yours to define: where functions go; those that are always inlined are where they are called. */
#ifndef QCGEN_CODE_ATTR
#define QCGEN_CODE_ATTR /* for example __attribute__((section(".itcm"))) */
#endif

#if defined(__GNUC__) /* loops that need all registers stand alone */
#define QCGEN_NOINLINE QCGEN_CODE_ATTR __attribute__((noinline))
#else
#define QCGEN_NOINLINE QCGEN_CODE_ATTR
#endif

#if defined(__clang__)
#define QCGEN_SHARED QCGEN_CODE_ATTR __attribute__((noinline)) /* no copy for each layer */
#elif defined(__GNUC__)
#define QCGEN_SHARED QCGEN_CODE_ATTR __attribute__((noinline, noclone)) /* no copy for each layer */
#else
#define QCGEN_SHARED QCGEN_CODE_ATTR
#endif

#if defined(__GNUC__)
#define QCGEN_RARELY(condition) (__builtin_expect(condition, 0) != 0)
#else
#define QCGEN_RARELY(condition) (condition)
#endif

#if defined(__GNUC__)
#define QCGEN_FENCE __asm__ volatile("" ::: "memory") /* no load from below it before those above */
#else
#define QCGEN_FENCE
#endif

#if defined(__GNUC__)
#define QCGEN_SUMMED(sum) __asm__ volatile("" : "+r"(sum)) /* no part of the sum is taken later */
#else
#define QCGEN_SUMMED(sum)
#endif

#if defined(__GNUC__)
#define QCGEN_MOVED(pointer) __asm__ volatile("" : "+r"(pointer)) /* what it points at is addressed from it */
#else
#define QCGEN_MOVED(pointer)
#endif

#if defined(__GNUC__) && defined(__OPTIMIZE__)
#define QCGEN_INLINE inline __attribute__((always_inline)) /* steps of loops, which gcc -Os would call */
#else
#define QCGEN_INLINE QCGEN_CODE_ATTR inline
#endif

#if defined(__GNUC__) && defined(__OPTIMIZE_SIZE__)
#define QCGEN_OS_INLINE inline __attribute__((always_inline)) /* gcc -O3 inlines it where it helps */
#else
#define QCGEN_OS_INLINE QCGEN_CODE_ATTR inline
#endif

/* Not to be unrolled: the loops worth unrolling are unrolled in the source. */
#if !defined(__clang__) && defined(__GNUC__) && __GNUC__ >= 8
#define QCGEN_ROLLED _Pragma("GCC unroll 1")
#else
#define QCGEN_ROLLED
#endif

/* A loop of few rounds whose number is known where it is inlined: none is left. Gcc reads 64 and unrolls fewer. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* a loop that stays is slower, not wrong */
#define QCGEN_UNROLLED _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__) && __GNUC__ >= 8
#define QCGEN_UNROLLED _Pragma("GCC unroll 64")
#else
#define QCGEN_UNROLLED
#endif
