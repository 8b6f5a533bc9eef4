/* Numbers of fixed point, bounds, and memory that moves: what kernels of every core use. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "compiler.h"

/* memmove to a higher address, in blocks that do not overlap their new places: many a memmove takes single bytes. */
static void qcgen_move_up(uint8_t *to, const uint8_t *from, int32_t bytes)
{
    const int32_t block = (int32_t)(to - from);

    while (bytes > block) {
        bytes -= block;
        (void)memcpy(to + bytes, from + bytes, (size_t)block);
    }
    (void)memcpy(to, from, (size_t)bytes);
}

/* Right shifts of negative numbers must be arithmetic, as on every compiler for these targets. */
typedef char qcgen_right_shift_is_arithmetic[((-1) >> 1) == -1 ? 1 : -1];

/* The upper 32 bits of the 64-bit product, rounded down. */
static int32_t qcgen_multiply_high(int32_t a, int32_t b)
{
    return (int32_t)(((int64_t)a * b) >> 32);
}

/* a * multiplier / 2^shift, rounded to nearest, half to even. */
static QCGEN_INLINE int64_t qcgen_round_once(int64_t a, int32_t multiplier, int32_t shift)
{
    const int64_t product = a * multiplier;

    return (product + (INT64_C(1) << (shift - 1)) - 1 + ((product >> shift) & 1)) >> shift;
}

/* The same, half up. */
static QCGEN_INLINE int64_t qcgen_round_once_up(int64_t a, int32_t multiplier, int32_t shift)
{
    return (a * multiplier + (INT64_C(1) << (shift - 1))) >> shift;
}

/* The number from low to high that is nearest. */
static QCGEN_INLINE int32_t qcgen_bounded(int32_t value, int32_t low, int32_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* The same of a wide number. */
static QCGEN_INLINE int64_t qcgen_bounded_wide(int64_t value, int32_t low, int32_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* The larger of two numbers. */
static QCGEN_INLINE int32_t qcgen_larger(int32_t a, int32_t b)
{
    return a < b ? b : a;
}

/* The smaller of two numbers. */
static QCGEN_INLINE int32_t qcgen_smaller(int32_t a, int32_t b)
{
    return a > b ? b : a;
}

/* The number in [-2^31, 2^31) that equals value modulo 2^32. */
static int32_t qcgen_to_int32(uint32_t value)
{
    return value <= INT32_MAX ? (int32_t)value : -(int32_t)(UINT32_MAX - value) - 1;
}

/*
 * acc * multiplier * 2^(exponent - 31) rounded twice, as TensorFlow Lite does it: half up before a negative exponent is
 * taken into account, half away from zero after that. exponent is -31 to 30; acc * 2^exponent fits 32 bits.
 */
static int32_t qcgen_round_twice(int32_t acc, int32_t multiplier, int32_t exponent)
{
    const int32_t left = exponent > 0 ? exponent : 0;
    const int32_t right = left - exponent;
    const int64_t product = (int64_t)acc * multiplier + (INT64_C(1) << (30 - left));
    const int32_t high = (int32_t)(product >> (31 - left));
    const int32_t mask = (int32_t)((UINT32_C(1) << right) - 1);

    return (high >> right) + ((high & mask) > (mask >> 1) + (high < 0));
}

/* The same by two multipliers: one for what is not negative, and one for what is. */
static QCGEN_INLINE int32_t qcgen_round_twice_by_sign(
    int32_t value, int32_t multiplier, int32_t exponent, int32_t multiplier_below, int32_t exponent_below)
{
    return value < 0 ? qcgen_round_twice(value, multiplier_below, exponent_below)
                     : qcgen_round_twice(value, multiplier, exponent);
}

/* 1 / (1 + exp(-x)) in units of 2^-15, x in units of 2^-9 / 24, by lines between the 256 numbers of a table. */
static int32_t qcgen_integer_logistic(const uint16_t *table, int32_t x)
{
    const uint32_t size = (uint32_t)(x < 0 ? -x : x);
    const uint32_t at = size >> 9;
    int32_t part = INT32_C(0x7fff) << 10; /* in units of 2^-25 */

    if (at < 255u) {
        part = (int32_t)table[at] * 512 + (int32_t)(size & 511u) * ((int32_t)table[at + 1u] - (int32_t)table[at]);
    }
    return (x >= 0 ? part + 512 : (INT32_C(1) << 25) - part + 511) >> 10;
}

/* tanh(x) in units of 2^-15, x in units of 2^-9 / 24, by lines between the numbers of the same table. */
static int32_t qcgen_integer_tangent(const uint16_t *table, int32_t x)
{
    const uint32_t size = (uint32_t)(x < 0 ? -x : x);
    const uint32_t at = size >> 8;
    int32_t part = INT32_C(0xffff) << 8; /* 1 / (1 + exp(-2 x)) in units of 2^-24 */

    if (at < 255u) {
        part = (int32_t)table[at] * 256 + (int32_t)(size & 255u) * ((int32_t)table[at + 1u] - (int32_t)table[at]);
    }
    return (x >= 0 ? part - (INT32_C(1) << 23) + 128 : (INT32_C(1) << 23) - part + 127) >> 8;
}

/* (acc + offset) / count to the nearest integer, half away from zero; count is above 0. */
static int32_t qcgen_divide_away(int32_t acc, int32_t offset, int32_t count)
{
    const int32_t total = acc + offset;

    return (total > 0 ? total + count / 2 : total - count / 2) / count;
}

/* -1 if a < b, else 0; without a branch on any core, for all numbers. */
static QCGEN_INLINE int32_t qcgen_less(int32_t a, int32_t b)
{
    const uint32_t difference = (uint32_t)a - (uint32_t)b;

    /* The sign of the difference, reversed where it overflows. */
    return -(int32_t)((difference ^ ((uint32_t)(a ^ b) & (difference ^ (uint32_t)a))) >> 31);
}

/* The larger of two numbers, without a branch. */
static QCGEN_INLINE int32_t qcgen_at_least(int32_t value, int32_t low)
{
    return value ^ ((value ^ low) & qcgen_less(value, low));
}

/* The smaller of two numbers, without a branch. */
static QCGEN_INLINE int32_t qcgen_at_most(int32_t value, int32_t high)
{
    return value ^ ((value ^ high) & qcgen_less(high, value));
}

/* The number from low to high that is nearest, without a branch. */
static QCGEN_INLINE int32_t qcgen_within(int32_t value, int32_t low, int32_t high)
{
    return qcgen_at_most(qcgen_at_least(value, low), high);
}

/* The int8 that is nearest to a number. */
static QCGEN_INLINE int32_t qcgen_within_s8(int32_t value)
{
    return qcgen_at_most(qcgen_at_least(value, -128), 127);
}

/* The uint8 that is nearest to a number. */
static QCGEN_INLINE int32_t qcgen_within_u8(int32_t value)
{
    return qcgen_at_most(qcgen_at_least(value, 0), 255);
}

/* A line of accumulators: acc * multiplier / 2^32 + offset, rounded down. */
static QCGEN_INLINE int32_t qcgen_multiply_high_add(int32_t acc, int32_t multiplier, int32_t offset)
{
    return (int32_t)(((int64_t)acc * multiplier) >> 32) + offset;
}

/* The same for products beyond 64 bits less 32: (acc * multiplier + offset) / 2^prescale, rounded down. */
static QCGEN_INLINE int32_t qcgen_multiply_wide(int32_t acc, int32_t multiplier, int64_t offset, int32_t prescale)
{
    return (int32_t)(((int64_t)acc * multiplier + offset) >> prescale);
}

/* The same for cores whose products have 32 bits: the line ends where the code no longer changes. */
static QCGEN_INLINE int32_t qcgen_multiply_narrow(
    int32_t acc, int32_t multiplier, int32_t offset, int32_t limit_low, int32_t limit_high)
{
    return qcgen_bounded(acc, limit_low, limit_high) * multiplier + offset;
}

/*
 * Whether a line, in units of 2^-shift, is so close to a tie that float32, or whatever the model computes in, may round
 * to the other side than the line: there all of its roundings are computed, in integers.
 */
static QCGEN_INLINE int qcgen_within_guard(int32_t scaled, int32_t shift, uint32_t guard_band)
{
    return (((uint32_t)scaled + guard_band) & ((UINT32_C(1) << shift) - 1u)) < UINT32_C(2) * guard_band;
}

/* The code of a line in units of 2^-shift to which `window` was added: so close to a tie it is the even one. */
static QCGEN_INLINE int32_t qcgen_even_near_tie(int32_t scaled, int32_t shift, int32_t window)
{
    int32_t code = scaled >> shift;

    code -= code & ((scaled & ((INT32_C(1) << shift) - 1)) <= 2 * window);
    return code;
}

/* Whether a line comes within `guard`, a power of two, of a step from code to code; `guard` has been added to it. */
static QCGEN_INLINE int qcgen_within_step(int32_t scaled, int32_t shift, int32_t guard)
{
    return (scaled & ((INT32_C(1) << shift) - 2 * guard)) == 0; /* one instruction tests a few bits */
}
