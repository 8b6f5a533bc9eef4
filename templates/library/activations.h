/* Functions of one or two float32 numbers, as onnxruntime computes them. NaN stays NaN, but for a thresholded Relu. */
#pragma once
#include <math.h>
#include "float32.h"

static inline float qcgen_float_at_least(float value, float low)
{
    return value < low ? low : value;
}

static inline float qcgen_float_at_most(float value, float high)
{
    return value > high ? high : value;
}

/* If the bounds are the wrong way round, it is the upper one. */
static inline float qcgen_float_clip(float value, float low, float high)
{
    const float above = value < low ? low : value;

    return above > high ? high : above;
}

static inline double qcgen_double_at_least(double value, double low)
{
    return value < low ? low : value;
}

static inline double qcgen_double_at_most(double value, double high)
{
    return value > high ? high : value;
}

static inline double qcgen_double_clip(double value, double low, double high)
{
    const double above = value < low ? low : value;

    return above > high ? high : above;
}

static inline float qcgen_float_celu(float value, float alpha)
{
    return value > 0.0f ? value : alpha * expm1f(value / alpha);
}

static inline float qcgen_float_cube(float value)
{
    return value * value * value;
}

static inline float qcgen_float_elu(float value, float alpha)
{
    return value < 0.0f ? alpha * expm1f(value) : value;
}

static inline float qcgen_float_gelu(float value)
{
    return 0.5f * value * (qcgen_fused_erf(value * 0.70710677f) + 1.0f);
}

/* Gelu by a tangent. */
static inline float qcgen_float_gelu_tanh(float value)
{
    const float slope = 0.7978846f + qcgen_rounded(0.035677407f * value * value);

    return 0.5f * value * (qcgen_fused_tangent(value * slope) + 1.0f);
}

static inline float qcgen_float_hard_sigmoid(float value, float alpha, float beta)
{
    const float share = qcgen_rounded(alpha * value) + beta;

    return share < 0.0f ? 0.0f : share > 1.0f ? 1.0f : share;
}

static inline float qcgen_float_hard_swish(float value)
{
    const float share = qcgen_rounded(0.16666667f * value) + 0.5f; /* a sixth of it, and a half */

    return value * (share < 0.0f ? 0.0f : share > 1.0f ? 1.0f : share);
}

static inline float qcgen_float_leaky_relu(float value, float alpha)
{
    return value < 0.0f ? alpha * value : value;
}

static inline float qcgen_float_mish(float value)
{
    return value * tanhf((value > 0.0f ? value : 0.0f) + log1pf(expf(-fabsf(value))));
}

static inline float qcgen_float_neg(float value)
{
    return -value;
}

static inline float qcgen_float_quick_gelu(float value, float alpha)
{
    return value * qcgen_fused_logistic(alpha * value);
}

static inline float qcgen_float_reciprocal(float value)
{
    return 1.0f / value;
}

static inline float qcgen_float_selu(float value, float alpha, float gain)
{
    return gain * (value > 0.0f ? value : alpha * expm1f(value));
}

static inline float qcgen_float_shrink(float value, float bias, float limit)
{
    return value < -limit ? value + bias : value > limit ? value - bias : 0.0f;
}

static inline float qcgen_float_sign(float value)
{
    return value > 0.0f ? 1.0f : value < 0.0f ? -1.0f : value;
}

static inline float qcgen_float_softplus(float value)
{
    return (value > 0.0f ? value : 0.0f) + log1pf(expf(-fabsf(value)));
}

static inline float qcgen_float_softsign(float value)
{
    return value * (1.0f / (1.0f + fabsf(value)));
}

static inline float qcgen_float_square(float value)
{
    return value * value;
}

static inline float qcgen_float_thresholded_relu(float value, float alpha)
{
    return value > alpha ? value : 0.0f;
}

static inline float qcgen_float_larger(float a, float b)
{
    return a > b || a != a ? a : b;
}

static inline float qcgen_float_smaller(float a, float b)
{
    return a < b || a != a ? a : b;
}

static inline float qcgen_float_power(float a, float b)
{
    return powf(a, b);
}

static inline float qcgen_float_prelu(float value, float slope)
{
    return value < 0.0f ? slope * value : value;
}
