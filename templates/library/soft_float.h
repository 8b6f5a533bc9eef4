/* Float32 in integers: numbers are their words, results are IEEE 754's, rounded half to even, but that what is
   below 2^-126 is 0. Every core and compiler computes the same. */
#pragma once
#include <stdint.h>
#include "compiler.h"

/*
 * round_half_even(fl32(fl32(acc) * scale)) with scale = mantissa * 2^exponent, mantissa in [2^23, 2^24): what float32
 * arithmetic gives, in integers, by the same steps for every acc. Magnitudes of 2^23 or more exceed every code; their
 * value is not exact. It stands alone, so that loops around it run as often whatever the accumulator.
 */
QCGEN_NOINLINE static int32_t qcgen_soft_float_code(int32_t acc, int32_t mantissa, int32_t exponent)
{
    const int32_t sign = acc >> 31; /* 0 or -1 */
    uint32_t significand = (uint32_t)(acc ^ sign) - (uint32_t)sign;
    uint32_t up = 0;
    uint32_t places, drop, below;
    uint64_t product;
    int32_t right;

    /* fl32(acc): up to 32 bits, of which 24 stay, with what is dropped rounded half to even. */
    for (uint32_t step = 16; step > 0u; step >>= 1) {
        places = (((significand >> (32u - step)) - 1u) >> 16) & step; /* step if its bits are 0, else 0 */
        significand <<= places;
        up |= places;
    }
    significand = (significand >> 8) + (((significand & 255u) + 127u + ((significand >> 8) & 1u)) >> 8);

    /* fl32(fl32(acc) * scale): the product has 47 or 48 bits. The lowest of the upper 32 stands for all below it. */
    product = (uint64_t)significand * (uint32_t)mantissa;
    significand = (uint32_t)(product >> 16) | (((uint32_t)(product & 65535u) + 65535u) >> 16);
    places = 1u - (significand >> 31);
    significand <<= places;
    significand = (significand >> 8) + (((significand & 255u) + 127u + ((significand >> 8) & 1u)) >> 8);

    /* The nearest integer drops up to 31 bits: from 26 on it is 0, and what has none to drop is beyond every code. */
    right = (int32_t)(up + places) - 32 - exponent;
    drop = (uint32_t)right & ~(uint32_t)(right >> 31); /* at least 0 */
    drop = (drop | (UINT32_C(0) - ((UINT32_C(31) - drop) >> 31))) & 31u; /* at most 31 */
    below = (UINT32_C(1) << drop) - 1u;
    significand = (significand + (below >> 1) + ((significand >> drop) & below & 1u)) >> drop;
    return ((int32_t)significand ^ sign) - sign;
}

/*
 * a + b in float32, half to even, for words of numbers of at least 0 whose sum is finite: the sign, 8 bits of exponent
 * and 23 of the significand, whose highest bit is hidden where the exponent is not 0 (0 counts as 1 then). It takes the
 * same steps for all numbers.
 */
static uint32_t qcgen_soft_float_add_up(uint32_t a, uint32_t b)
{
    const uint32_t fraction = (UINT32_C(1) << 23) - 1u;
    const uint32_t swapped = (a ^ b) & (0u - ((a - b) >> 31)); /* the bits that differ, if a < b */
    const uint32_t large = a ^ swapped;
    const uint32_t small = b ^ swapped;
    const uint32_t large_is_normal = ((large >> 23) + 255u) >> 8; /* 1 or 0 */
    const uint32_t small_is_normal = ((small >> 23) + 255u) >> 8;
    const uint32_t gap = ((large >> 23) - large_is_normal) - ((small >> 23) - small_is_normal);
    const uint32_t far = (gap + 225u) >> 8; /* 1 from 31 on, where but a trace is left of the smaller number */
    const uint32_t drop = (gap | (0u - far)) & 31u;
    uint32_t addend = ((small & fraction) | small_is_normal << 23) << 3;
    uint32_t sum = ((large & fraction) | large_is_normal << 23) << 3;
    uint32_t carry;

    /* Three more bits: one half, one quarter, and whether there is anything below. */
    sum += (addend >> drop) | (((addend & ((UINT32_C(1) << drop) - 1u)) + (UINT32_MAX >> 5)) >> 27);
    carry = sum >> 27;
    sum = (sum >> carry) | (sum & carry);
    sum = (sum >> 3) + (((sum & 7u) + 3u + ((sum >> 3) & 1u)) >> 3);
    return (((large >> 23) - large_is_normal + carry) << 23) + sum; /* the hidden bit counts the exponent up */
}

/*
 * Float32 arithmetic in integers, for numbers that are finite. A number is the word that holds its bits: the sign,
 * 8 bits of exponent and 23 of the significand, whose highest bit is hidden where the exponent is not 0 (0 counts as
 * 1 then).
 */

/* a + b, half to even; the sum must be finite. It stands alone: loops around it then run as often whatever is added. */
QCGEN_NOINLINE static uint32_t qcgen_soft_float_add(uint32_t a, uint32_t b)
{
    const uint32_t hidden = UINT32_C(1) << 23;
    const uint32_t magnitude = UINT32_MAX >> 1;
    const int a_is_large = (a & magnitude) > (b & magnitude);
    const uint32_t large = a_is_large ? a : b;
    const uint32_t small = a_is_large ? b : a;
    const uint32_t sign = large & ~magnitude;
    uint32_t exponent = (large & magnitude) >> 23;
    uint32_t drop = (small & magnitude) >> 23;
    uint32_t sum = large & (hidden - 1u);
    uint32_t addend = small & (hidden - 1u);
    uint32_t rest;

    /* Three more bits: one half, one quarter, and whether there is anything below. */
    sum = (exponent > 0u ? sum | hidden : sum) << 3;
    addend = (drop > 0u ? addend | hidden : addend) << 3;
    exponent = exponent > 0u ? exponent : 1u;
    drop = exponent - (drop > 0u ? drop : 1u);
    if (drop > 26u) {
        return large;
    }
    addend = (addend >> drop) | ((addend & ((UINT32_C(1) << drop) - 1u)) != 0u ? 1u : 0u);
    if (((a ^ b) & ~magnitude) == 0u) {
        sum += addend;
        if (sum >= hidden << 4) {
            sum = (sum >> 1) | (sum & 1u);
            exponent++;
        }
    } else {
        sum -= addend;
        if (sum == 0u) {
            return 0;
        }
        while (sum < hidden << 3 && exponent > 1u) {
            sum <<= 1;
            exponent--;
        }
    }
    rest = sum & 7u;
    sum >>= 3;
    sum += (rest > 4u || (rest == 4u && (sum & 1u) != 0u)) ? 1u : 0u;
    return sign + ((exponent - 1u) << 23) + sum; /* the hidden bit, and a carry beyond it, count the exponent up */
}

/* The significand of a subnormal number above 0, in [2^23, 2^24), and its exponent. */
static uint32_t qcgen_soft_float_normalized(uint32_t number, int32_t *exponent)
{
    *exponent = -149;
    for (int32_t turn = 0; turn < 23 && (number >> 23) == 0; turn++) { /* 23 turns at most, for 2^-149 */
        number <<= 1;
        *exponent -= 1;
    }
    return number;
}

/* The significand of a number above 0, in [2^23, 2^24), and its exponent: number = significand * 2^exponent. */
static QCGEN_INLINE uint32_t qcgen_soft_float_split(uint32_t number, int32_t *exponent)
{
    const uint32_t hidden = UINT32_C(1) << 23;

    if (number < hidden) {
        return qcgen_soft_float_normalized(number, exponent);
    }
    *exponent = (int32_t)(number >> 23) - 150;
    return (number & (hidden - 1)) | hidden;
}

/* a / b, half to even, for b > 0; 0 if that is below 2^-126 in magnitude, 2^127 with its sign from 2^127 on. */
static uint32_t qcgen_soft_float_divide(uint32_t a, uint32_t b)
{
    const uint32_t magnitude = a & (UINT32_MAX >> 1);
    const uint32_t sign = a - magnitude;
    int32_t power, power_of_b;
    uint32_t rest, divisor;
    uint32_t quotient = 0;

    if (magnitude == 0) {
        return 0;
    }
    rest = qcgen_soft_float_split(magnitude, &power);
    divisor = qcgen_soft_float_split(b, &power_of_b);
    power -= power_of_b;
    if (rest < divisor) {
        rest <<= 1;
        power--;
    }
    if (power < -126) {
        return 0;
    }
    if (power > 126) {
        return sign + (UINT32_C(254) << 23);
    }
    for (int32_t i = 0; i < 24; i++) {
        quotient <<= 1;
        if (rest >= divisor) {
            rest -= divisor;
            quotient |= 1;
        }
        rest <<= 1;
    }
    quotient += rest > divisor; /* never a tie: no quotient of 24-bit numbers has just 25 bits */
    return sign + ((uint32_t)(power + 126) << 23) + quotient;
}

/* The nearest integer, half to even; from 2^23 on 2^24 with the number's sign, which is beyond every code. */
static int32_t qcgen_soft_float_round(uint32_t number)
{
    const int32_t shift = 150 - (int32_t)((number >> 23) & 255);
    const uint32_t hidden = UINT32_C(1) << 23;
    uint32_t integer = (number & (hidden - 1)) | hidden;
    uint32_t rest, half;

    if (shift > 24) {
        return 0;
    }
    if (shift < 1) {
        integer = hidden << 1;
    } else {
        half = UINT32_C(1) << (shift - 1);
        rest = integer & ((half << 1) - 1);
        integer >>= shift;
        integer += rest > half || (rest == half && (integer & 1) != 0);
    }
    return number >> 31 ? -(int32_t)integer : (int32_t)integer;
}

/* The number next to significand * 2^exponent, half to even, with a sign; 0 if that is below 2^-126. */
static uint32_t qcgen_soft_float_rounded(uint64_t significand, int32_t exponent, uint32_t sign)
{
    uint32_t high = (uint32_t)(significand >> 32), low = (uint32_t)significand;
    uint32_t kept, rest;
    int32_t places = 0;

    if (high == 0) {
        high = low;
        low = 0;
        exponent -= 32;
    }
    if (high == 0) {
        return 0;
    }
    for (int32_t step = 16; step > 0; step >>= 1) {
        if ((high >> (32 - step)) == 0) {
            high <<= step;
            places += step;
        }
    }
    if (places > 0) {
        high |= low >> (32 - places);
        low <<= places;
    }
    exponent += 190 - places; /* of 24 bits instead of 64, as the number's word has it */
    if (exponent < 1) {
        return 0;
    }
    kept = high >> 8;
    rest = high & 255u;
    kept += rest > 128u || (rest == 128u && (low != 0 || (kept & 1u) != 0));
    return sign + ((uint32_t)(exponent - 1) << 23) + kept; /* the hidden bit, and a carry beyond it, count it up */
}

/* a * b + c, rounded once, half to even; 0 if that is below 2^-126. It must be finite. */
static uint32_t qcgen_soft_float_multiply_add(uint32_t a, uint32_t b, uint32_t c)
{
    const uint32_t magnitude = UINT32_MAX >> 1;
    const uint32_t sign = (a ^ b) & ~magnitude;
    const uint32_t sign_of_c = c & ~magnitude;
    int32_t power, power_of_b, gap;
    uint32_t significand;
    uint64_t product, addend;

    if ((a & magnitude) == 0 || (b & magnitude) == 0) {
        return c;
    }
    product = qcgen_soft_float_split(a & magnitude, &power);
    product *= qcgen_soft_float_split(b & magnitude, &power_of_b);
    power += power_of_b - 14;
    if ((c & magnitude) == 0) {
        return qcgen_soft_float_rounded(product, power + 14, sign);
    }

    /* Both as numbers below 2^62; what the smaller one has beyond its last bit is kept in that bit. */
    significand = qcgen_soft_float_split(c & magnitude, &power_of_b);
    gap = power - (power_of_b - 38);
    if (gap >= 0) {
        product <<= 14;
        if (gap <= 38) {
            addend = (uint64_t)significand << (38 - gap);
        } else {
            gap -= 38;
            addend = gap > 24 ? 1 : (significand >> gap) | ((significand << (32 - gap)) != 0);
        }
    } else {
        addend = (uint64_t)significand << 38;
        power -= gap;
        gap += 14;
        product = gap >= 0 ? product << gap : gap < -48 ? 1 : (product >> -gap) | ((product << (64 + gap)) != 0);
    }
    if (sign == sign_of_c) {
        return qcgen_soft_float_rounded(product + addend, power, sign);
    }
    return product >= addend ? qcgen_soft_float_rounded(product - addend, power, sign)
                             : qcgen_soft_float_rounded(addend - product, power, sign_of_c);
}

/* a * b, half to even; 0 if that is below 2^-126. It must be finite. */
static uint32_t qcgen_soft_float_multiply(uint32_t a, uint32_t b)
{
    return qcgen_soft_float_multiply_add(a, b, 0);
}

/* The square root of a number above 0, half to even. */
static uint32_t qcgen_soft_float_root(uint32_t number)
{
    int32_t power;
    uint64_t rest = (uint64_t)qcgen_soft_float_split(number, &power) << 26;
    uint64_t root = 0;

    if ((power & 1) != 0) {
        rest <<= 1;
        power--;
    }
    /* Digit by digit, the highest first: rest is what the square of the digits so far leaves. */
    for (uint64_t digit = (uint64_t)1 << 50; digit > 0; digit >>= 2) {
        if (rest >= root + digit) {
            rest -= root + digit;
            root = (root >> 1) + digit;
        } else {
            root >>= 1;
        }
    }
    return qcgen_soft_float_rounded(2 * root + (rest > 0), (power - 28) / 2, 0);
}

/* The number next to sum / count * 2^exponent, half to even; count is below 2^20. */
static uint32_t qcgen_soft_float_mean(int64_t sum, uint32_t count, int32_t exponent)
{
    uint64_t magnitude = sum < 0 ? 0 - (uint64_t)sum : (uint64_t)sum;
    uint64_t quotient;
    uint32_t rest;

    if (sum == 0) {
        return 0;
    }
    for (int32_t step = 32; step > 0; step >>= 1) {
        if ((magnitude >> (64 - step)) == 0) {
            magnitude <<= step;
            exponent -= step;
        }
    }

    /* Long division of the highest 56 bits, 32 and twice 12 of them at a time: the quotient has 36 bits or more. */
    rest = (uint32_t)(magnitude >> 32);
    quotient = rest / count;
    for (int32_t below = 20; below >= 8; below -= 12) {
        rest = (rest % count << 12) | ((uint32_t)(magnitude >> below) & 4095);
        quotient = (quotient << 12) | rest / count;
    }
    quotient = (quotient << 1) | (rest % count != 0 || (magnitude & 255) != 0);
    return qcgen_soft_float_rounded(quotient, exponent + 7, sum < 0 ? UINT32_C(1) << 31 : 0);
}
