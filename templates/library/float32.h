/* Float32 as onnxruntime computes it, and conversions from and to float16. */
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>
#include "compiler.h"
#include "soft_float.h"

/* A double has 64 bits here; on cores where it has 32, such as AVR by default, this does not compile. */
typedef char qcgen_double_has_64_bits[sizeof(double) == 8 ? 1 : -1];

/* A product, rounded to float32 before a sum takes it: no compiler makes one operation of both. */
static inline float qcgen_rounded(float number)
{
#if (defined(__arm__) && !defined(__ARM_FP)) || (defined(__riscv) && !defined(__riscv_flen))
    return number; /* in software each operation is a function call */
#elif defined(__GNUC__) && defined(__ARM_FP) && !defined(__aarch64__)
    __asm__("" : "+t"(number));
    return number;
#elif defined(__GNUC__) && defined(__x86_64__)
    __asm__("" : "+x"(number));
    return number;
#elif defined(__GNUC__) && defined(__riscv_flen)
    __asm__("" : "+f"(number));
    return number;
#else
    const volatile float stored = number;

    return stored;
#endif
}

/*
 * The nearest integer of a number within 2^22, half to even: a sum rounds so where numbers lie one apart. Few cores
 * have an instruction for it, and rintf takes longer.
 */
static inline int32_t qcgen_nearest(float number)
{
    const float apart = 12582912.0f; /* 1.5 * 2^23 */
    const float sum = number + apart;

    return (int32_t)(sum - apart);
}

/* A power of two: clang 14 to 22, if they know it as a scale, may convert to float with a wrong exponent. */
static inline float qcgen_not_known(float number)
{
#if defined(__clang__) && defined(__ARM_FEATURE_MVE)
    __asm__("" : "+r"(number));
#endif
    return number;
}

/* The code of a number less the zero point, half to even; limits are less it, too, and NaN gives the lowest code. */
static QCGEN_INLINE int32_t qcgen_quantized(float number, float scale, int32_t low, int32_t high)
{
    const float quotient = number / scale;
    const float above = quotient > (float)low ? quotient : (float)low;

    return (int32_t)rintf(above < (float)high ? above : (float)high);
}

/* The same, half away from zero. */
static QCGEN_INLINE int32_t qcgen_quantized_away(float number, float scale, int32_t low, int32_t high)
{
    const float quotient = number / scale;
    const float above = quotient > (float)low ? quotient : (float)low;

    return (int32_t)roundf(above < (float)high ? above : (float)high);
}

/* The sum of `count` numbers `step` apart, the first at `place` in its tensor, in onnxruntime's order: from the first
   at an address that 16 divides there, eight sums side by side; then what is in front of them and behind. */
static float qcgen_float_sum_in_eights(const float *x, int32_t step, int32_t count, uint32_t place)
{
    const int32_t start = (int32_t)((UINT32_C(0) - place) & 3u);
    const int32_t from = start < count ? start : count;
    const int32_t eights = count - (count - from) % 8, fours = count - (count - from) % 4;
    float a = 0.0f, b = 0.0f, c = 0.0f, d = 0.0f, e = 0.0f, f = 0.0f, g = 0.0f, h = 0.0f;

    for (int32_t i = from; i < eights; i += 8) {
        const float *const at = x + i * step;

        a += at[0];
        b += at[step];
        c += at[2 * step];
        d += at[3 * step];
        e += at[4 * step];
        f += at[5 * step];
        g += at[6 * step];
        h += at[7 * step];
    }
    a += e;
    b += f;
    c += g;
    d += h;
    if (eights < fours) {
        const float *const at = x + eights * step;

        a += at[0];
        b += at[step];
        c += at[2 * step];
        d += at[3 * step];
    }
    a = (a + c) + (b + d);
    for (int32_t i = 0; i < from; i++) {
        a += x[i * step];
    }
    for (int32_t i = fours; i < count; i++) {
        a += x[i * step];
    }
    return a;
}

/* The sum of `count` numbers that lie `step` apart, in onnxruntime's order: sums of four numbers, of two that are left,
   the last one. */
static float qcgen_float_sum_in_fours(const float *x, int32_t step, int32_t count)
{
    const int32_t fours = count - count % 4;
    float sum = 0.0f;

    for (int32_t i = 0; i < fours; i += 4) {
        const float *const at = x + i * step;

        sum += ((at[0] + at[step]) + at[2 * step]) + at[3 * step];
    }
    if (count - fours >= 2) {
        sum += x[fours * step] + x[(fours + 1) * step];
    }
    if (count % 2 == 1) {
        sum += x[(count - 1) * step];
    }
    return sum;
}

/* Rows of float: elements of one, its `step` from one to the next, and rows that are added up. */
struct qcgen_float_rows {
    int32_t length, step, rows, row_step;
    uint32_t places; /* in their tensor from one row to the next, or 0 where that does not matter */
};

/* The sum of rows, the first at `place` in its tensor, in onnxruntime's order. */
static QCGEN_INLINE float qcgen_float_sum_of_eights(
    const struct qcgen_float_rows *layer, const float *x, uint32_t place)
{
    float sum = qcgen_float_sum_in_eights(x, layer->step, layer->length, place);

    for (int32_t row = 1; row < layer->rows; row++) {
        place += layer->places;
        sum += qcgen_float_sum_in_eights(x + row * layer->row_step, layer->step, layer->length, place);
    }
    return sum;
}

/* The same of rows that are added up in fours. */
static QCGEN_INLINE float qcgen_float_sum_of_fours(const struct qcgen_float_rows *layer, const float *x)
{
    float sum = qcgen_float_sum_in_fours(x, layer->step, layer->length);

    for (int32_t row = 1; row < layer->rows; row++) {
        sum += qcgen_float_sum_in_fours(x + row * layer->row_step, layer->step, layer->length);
    }
    return sum;
}

/* The number whose IEEE 754 binary16 word this is; float32 has all of them. */
static float qcgen_from_half(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    const uint32_t magnitude = half & 0x7fff;
    uint32_t word = sign | ((magnitude << 13) + (UINT32_C(112) << 23));
    float number;

    if (magnitude < 0x400) { /* 0 and subnormal numbers are multiples of 2^-24 */
        number = (float)magnitude * 5.9604644775390625e-8f;
        return sign != 0 ? -number : number;
    }
    if (magnitude >= 0x7c00) { /* infinity; NaN, which becomes a quiet one */
        word = sign | UINT32_C(0x7f800000) | (magnitude & 0x3ff) << 13 | (uint32_t)(magnitude > 0x7c00) << 22;
    }
    (void)memcpy(&number, &word, sizeof number);
    return number;
}

/*
 * The number whose IEEE 754 binary16 word this is, if it is 0 or at least 2^-14 in magnitude, and finite: as the word
 * of a float it is 2^112 times too small, but never subnormal.
 */
static float qcgen_from_normal_half(uint16_t half)
{
    const uint32_t word = (uint32_t)(half & 0x8000) << 16 | (uint32_t)(half & 0x7fff) << 13;
    float number;

    (void)memcpy(&number, &word, sizeof number);
    return number * 5192296858534827628530496329220096.0f;
}

/* The IEEE 754 binary16 word of a number, rounded half to even; from 65520 on it is that of infinity. */
static uint16_t qcgen_to_half(float number)
{
    uint32_t word, sign, magnitude, half;

    (void)memcpy(&word, &number, sizeof word);
    sign = word >> 16 & 0x8000;
    magnitude = word & UINT32_C(0x7fffffff);
    if (magnitude > UINT32_C(0x7f800000)) { /* NaN: a quiet one */
        half = 0x7e00 | (magnitude >> 13 & 0x1ff);
    } else if (magnitude >= UINT32_C(0x477ff000)) {
        half = 0x7c00;
    } else if (magnitude >= UINT32_C(0x38800000)) { /* from 2^-14 on: 13 bits less, another bias of the exponent */
        half = (magnitude - (UINT32_C(112) << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    } else if (magnitude >= UINT32_C(0x33000000)) { /* subnormal, in units of 2^-24 */
        const uint32_t significand = (magnitude & 0x7fffff) | 0x800000;
        const uint32_t shift = 126 - (magnitude >> 23);

        half = (significand + (UINT32_C(1) << (shift - 1)) - 1 + (significand >> shift & 1)) >> shift;
    } else {
        half = 0;
    }
    return (uint16_t)(sign | half);
}

/* a * b + c, rounded once: by the core, its library, or in integers. The result must not be subnormal. */
static inline float qcgen_fused(float a, float b, float c)
{
#if defined(FP_FAST_FMAF) || defined(__FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA) || defined(__x86_64__)
    (void)qcgen_soft_float_multiply_add; /* not needed here */
    return fmaf(a, b, c);
#else
    uint32_t of_a, of_b, of_c, word;
    float number;

    (void)memcpy(&of_a, &a, sizeof of_a);
    (void)memcpy(&of_b, &b, sizeof of_b);
    (void)memcpy(&of_c, &c, sizeof of_c);
    word = qcgen_soft_float_multiply_add(of_a, of_b, of_c);
    (void)memcpy(&number, &word, sizeof number);
    return number;
#endif
}

/* The same of any numbers: those that are not finite, or whose result may not be, by two operations, so that a product
   beyond float32 is infinite whatever is added. */
static inline float qcgen_fused_any(float a, float b, float c)
{
#if defined(FP_FAST_FMAF) || defined(__FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA) || defined(__x86_64__)
    (void)qcgen_fused; /* not needed here */
    return fmaf(a, b, c);
#else
    uint32_t of_a, of_b, of_c;

    (void)memcpy(&of_a, &a, sizeof of_a);
    (void)memcpy(&of_b, &b, sizeof of_b);
    (void)memcpy(&of_c, &c, sizeof of_c);
    of_a = of_a >> 23 & 255u;
    of_b = of_b >> 23 & 255u;
    of_c = of_c >> 23 & 255u;
    if (of_a == 255u || of_b == 255u || of_c >= 253u || of_a + of_b >= 380u) {
        return a * b + c;
    }
    return qcgen_fused(a, b, c);
#endif
}

/* a * b + c, the product rounded, then the sum. */
static inline float qcgen_rounded_twice(float a, float b, float c)
{
    return qcgen_rounded(a * b) + c;
}

/* exp(x) as onnxruntime computes it with fused multiply-add, in every bit. NaN stays NaN. */
static float qcgen_fused_exponential(float x)
{
    const float apart = 12582912.0f; /* 1.5 * 2^23: what is added to it is rounded to an integer, half to even */
    const float above = x < -103.9720840454f ? -103.9720840454f : x;
    const float value = above > 88.7762626647950f ? 88.7762626647950f : above;
    const float power = qcgen_fused(value, 1.44269504088896341f, apart) - apart;
    float rest = qcgen_fused(power, -6.93145752e-1f, value);
    float p = 1.37805939e-3f;
    int32_t exponent;
    uint32_t word;
    float number;

    if (!(power >= -150.0f && power <= 128.0f)) { /* NaN */
        return x;
    }
    rest = qcgen_fused(power, -1.42860677e-6f, rest);
    p = qcgen_fused(p, rest, 8.37312452e-3f);
    p = qcgen_fused(p, rest, 4.16695364e-2f);
    p = qcgen_fused(p, rest, 1.66664720e-1f);
    p = qcgen_fused(p, rest, 4.99999851e-1f);
    p = qcgen_fused(p, rest, 1.0f);
    p = qcgen_fused(p, rest, 1.0f);

    /* p * 2^exponent in two products, of which one alone rounds. */
    exponent = (int32_t)power;
    word = (uint32_t)(exponent < -60 ? exponent + 191 : exponent + 63) << 23;
    (void)memcpy(&number, &word, sizeof number);
    return p * number * (exponent < -60 ? 5.42101086e-20f : 1.84467441e19f); /* 2^-64, 2^64 */
}

/* erf(x) as onnxruntime computes it with fused multiply-add, in every bit but of subnormal numbers. NaN stays NaN. */
static float qcgen_fused_erf(float x)
{
    const float apart = 12582912.0f; /* 1.5 * 2^23: what is added to it is rounded to an integer, half to even */
    const float magnitude = x < 0.0f ? -x : x;
    const float a = magnitude > 3.925f ? 3.925f : magnitude;
    float p, number, power, rest;
    uint32_t word;

    if (!(magnitude > 0.921875f)) {
        const float square = a * a;

        p = qcgen_fused(-5.99104969e-4f, square, 4.99339588e-3f);
        p = qcgen_fused(p, square, -2.67667342e-2f);
        p = qcgen_fused(p, square, 1.12818025e-1f);
        p = qcgen_fused(p, square, -3.76124859e-1f);
        p = qcgen_fused(p, square, 1.28379151e-1f);
        return qcgen_fused(p, x, x);
    }
    p = qcgen_fused(1.72948930e-5f, a, -3.83208680e-4f);
    p = qcgen_fused(p, a, 3.88393435e-3f);
    p = qcgen_fused(p, a, -2.42545605e-2f);
    p = qcgen_fused(p, a, 1.06777847e-1f);
    p = qcgen_fused(p, a, 6.34846687e-1f);
    p = qcgen_fused(p, a, 1.28717512e-1f);
    number = -qcgen_fused(p, a, a);

    /* 1 - exp(number), whose exponent is -26 at least. */
    power = qcgen_fused(number, 1.44269504088896341f, apart) - apart;
    rest = qcgen_fused(power, -6.93145752e-1f, number);
    rest = qcgen_fused(power, -1.42860677e-6f, rest);
    p = qcgen_fused(1.38319808e-3f, rest, 8.37550033e-3f);
    p = qcgen_fused(p, rest, 4.16689515e-2f);
    p = qcgen_fused(p, rest, 1.66664466e-1f);
    p = qcgen_fused(p, rest, 4.99999851e-1f);
    p = qcgen_fused(p, rest, 1.0f);
    p = qcgen_fused(p, rest, 1.0f);
    word = (uint32_t)((int32_t)power + 127) << 23;
    (void)memcpy(&number, &word, sizeof number);
    number = 1.0f - qcgen_rounded(p * number);
    return x < 0.0f ? -number : number;
}

/* 1 / (1 + exp(-x)) as onnxruntime computes it with fused multiply-add, in every bit. NaN stays NaN. */
static float qcgen_fused_logistic(float x)
{
    const float above = x < -18.0f ? -18.0f : x;
    const float value = above > 18.0f ? 18.0f : above;
    const float square = value * value;
    float p = 4.37031012579801e-11f;
    float q = 6.10247389755681e-13f;
    float number;

    p = qcgen_fused(p, square, 1.15627324459942e-07f);
    p = qcgen_fused(p, square, 6.08574864600143e-05f);
    p = qcgen_fused(p, square, 8.51377133304701e-03f);
    p = qcgen_fused(p, square, 2.48287947061529e-01f);
    q = qcgen_fused(q, square, 5.76102136993427e-09f);
    q = qcgen_fused(q, square, 6.29106785017040e-06f);
    q = qcgen_fused(q, square, 1.70198817374094e-03f);
    q = qcgen_fused(q, square, 1.16817656904453e-01f);
    q = qcgen_fused(q, square, 9.93151921023180e-01f);
    number = p * value / q + 0.5f;
    return number < 0.0f ? 0.0f : number;
}

/* tanh(x) as onnxruntime computes it with fused multiply-add, in every bit. NaN stays NaN. */
static float qcgen_fused_tangent(float x)
{
    const float above = x < -9.0f ? -9.0f : x;
    const float value = above > 9.0f ? 9.0f : above;
    const float square = value * value;
    float p = -2.76076847742355e-16f;
    float q = 1.19825839466702e-06f;

    p = qcgen_fused(p, square, 2.00018790482477e-13f);
    p = qcgen_fused(p, square, -8.60467152213735e-11f);
    p = qcgen_fused(p, square, 5.12229709037114e-08f);
    p = qcgen_fused(p, square, 1.48572235717979e-05f);
    p = qcgen_fused(p, square, 6.37261928875436e-04f);
    p = qcgen_fused(p, square, 4.89352455891786e-03f);
    q = qcgen_fused(q, square, 1.18534705686654e-04f);
    q = qcgen_fused(q, square, 2.26843463243900e-03f);
    q = qcgen_fused(q, square, 4.89352518554385e-03f);
    return p * value / q;
}

/* tanh(x) as onnxruntime computes it in a GRU, without fused multiply-add, in every bit. NaN stays NaN. */
static float qcgen_unfused_tangent(float x)
{
    const float above = x < -10.0f ? -10.0f : x;
    const float value = above > 10.0f ? 10.0f : above;
    const float square = value * value;
    float p = -2.76076847742355e-16f;
    float q = 1.19825839466702e-06f;

    p = qcgen_rounded(p * square) + 2.00018790482477e-13f;
    p = qcgen_rounded(p * square) + -8.60467152213735e-11f;
    p = qcgen_rounded(p * square) + 5.12229709037114e-08f;
    p = qcgen_rounded(p * square) + 1.48572235717979e-05f;
    p = qcgen_rounded(p * square) + 6.37261928875436e-04f;
    p = qcgen_rounded(p * square) + 4.89352455891786e-03f;
    q = qcgen_rounded(q * square) + 1.18534705686654e-04f;
    q = qcgen_rounded(q * square) + 2.26843463243900e-03f;
    q = qcgen_rounded(q * square) + 4.89352518554385e-03f;
    return p * value / q;
}

/* The logarithm of a number from 1 on, in double, as glibc 2.36 computes it, which onnxruntime calls. NaN stays NaN. */
static float qcgen_log_from_one(float x)
{
    static const double pieces[16][2] = { /* r near 1 / z for z from 0.7 to 1.4, and -ln r */
        {1.398907162146528, -0.33569133332882284}, {1.3403141896637998, -0.2929040563774074},
        {1.286432210124115, -0.2518726580937369}, {1.2367150214269895, -0.21245868807117255},
        {1.1906977166711752, -0.17453945183745634}, {1.1479821020556429, -0.1380057072319758},
        {1.1082251448272158, -0.10275976698545139}, {1.0711297413057381, -0.06871392447020525},
        {1.036437278977283, -0.0357891387398228}, {1.0, 0.0},
        {0.9492859795739057, 0.05204517742929496}, {0.8951049428609004, 0.11081431298787942},
        {0.8476821620351103, 0.1652495223695143}, {0.8050314851692001, 0.21687389031699977},
        {0.7664671008843108, 0.2659635028121397}, {0.731428603316328, 0.3127556664073557},
    };
    uint32_t word, above;
    double rest, square, p;
    float z;

    if (!(x >= 1.0f)) {
        return x;
    }
    (void)memcpy(&word, &x, sizeof word);
    above = word - UINT32_C(0x3f330000);
    word -= above & UINT32_C(0xff800000);
    (void)memcpy(&z, &word, sizeof z);
    rest = (double)z * pieces[above >> 19 & 15u][0] - 1.0;
    square = rest * rest;
    p = 0.333456765744066 * rest - 0.4999997485802103 - 0.25089342214237154 * square;
    return (float)(p * square + (0.6931471805599453 * (double)(above >> 23) + pieces[above >> 19 & 15u][1] + rest));
}
