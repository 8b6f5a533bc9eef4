/* Floats truncated to integers as on x86-64: what these do not hold, and NaN, gives the lowest number. */
#pragma once
#include <stdint.h>

static inline int32_t qcgen_truncated_float(float number)
{
    return number >= -2147483648.0f && number < 2147483648.0f ? (int32_t)number : INT32_MIN;
}

static inline int64_t qcgen_truncated_wide_float(float number)
{
    return number >= -9223372036854775808.0f && number < 9223372036854775808.0f ? (int64_t)number : INT64_MIN;
}
