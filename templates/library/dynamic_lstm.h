/* An LSTM of one sequence whose scales are found at run time, with onnxruntime's operations in their order. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "dynamic.h"
#include "float32.h"
#include "recurrent.h"

/* Codes less the zero point, for numbers by their extremes, 0 included; returns the scale. */
static float qcgen_dynamic_factors(const float *x, int32_t count, int16_t *factors)
{
    float range[2], scale;
    uint8_t zero_point;

    qcgen_find_range(x, count, range);
    qcgen_scale_of_range(range, &scale);
    qcgen_zero_point_of_range(range, &zero_point);

    const float low = (float)-zero_point, high = (float)(255 - zero_point);

    for (int32_t i = 0; i < count; i++) {
        const float quotient = x[i] / scale;
        const float above = quotient > low ? quotient : low; /* NaN gives the lowest code */

        factors[i] = (int16_t)qcgen_nearest(above < high ? above : high);
    }
    return scale;
}

/* The sum of factors times a row of weights of 8 bits. */
static QCGEN_INLINE int32_t qcgen_dynamic_products_s8(const int16_t *factors, const int8_t *weights, int32_t count)
{
    int32_t sum = 0;

    for (int32_t i = 0; i < count; i++) {
        sum += (int32_t)factors[i] * weights[i];
    }
    return sum;
}

/* The same of 16 bits. */
static QCGEN_INLINE int32_t qcgen_dynamic_products_s16(const int16_t *factors, const int16_t *weights, int32_t count)
{
    int32_t sum = 0;

    for (int32_t i = 0; i < count; i++) {
        sum += (int32_t)factors[i] * weights[i];
    }
    return sum;
}

/* One step of time of a direction: h and the cell c change. Each operation is rounded by itself. */
QCGEN_NOINLINE static void qcgen_dynamic_lstm_step(const struct qcgen_recurrent *layer, int32_t direction,
    const int16_t *x, float x_scale, const int16_t *state, float state_scale, float *h, float *c)
{
    enum { INPUT, OUTPUT, FORGET, CELL, GATES };
    const int32_t inputs = layer->inputs, units = layer->units;

    for (int32_t j = 0; j < units; j++) {
        float gates[GATES];

        for (int32_t gate = 0; gate < GATES; gate++) {
            const int32_t row = (direction * units + j) * GATES + gate;
            const int32_t of_x = layer->input_weights
                ? qcgen_dynamic_products_s8(x, layer->input_weights + row * inputs, inputs)
                : qcgen_dynamic_products_s16(x, layer->input_words + row * inputs, inputs);
            const int32_t of_h = layer->state_weights
                ? qcgen_dynamic_products_s8(state, layer->state_weights + row * units, units)
                : qcgen_dynamic_products_s16(state, layer->state_words + row * units, units);

            gates[gate] = qcgen_rounded((float)of_x * (x_scale * layer->input_scale[row]))
                + qcgen_rounded((float)of_h * (state_scale * layer->state_scale[row])) + layer->bias[row];
        }
        c[j] = qcgen_rounded(c[j] * qcgen_fused_logistic(gates[FORGET]))
            + qcgen_rounded(qcgen_fused_logistic(gates[INPUT]) * qcgen_fused_tangent(gates[CELL]));
        h[j] = qcgen_fused_tangent(c[j]) * qcgen_fused_logistic(gates[OUTPUT]);
    }
}

/* The codes of a sequence, and what they mean. */
struct qcgen_dynamic_sequence {
    const uint8_t *codes;
    float scale;
    int32_t zero_point;
};

/* The same with the codes of x from `at` on; behind the cell there are two bytes for each input and each unit. */
static QCGEN_INLINE void qcgen_dynamic_lstm(
    const struct qcgen_recurrent *layer, int32_t direction, const void *x, int32_t at, float *h, float *c)
{
    const struct qcgen_dynamic_sequence *const sequence = x;
    int16_t *const of_x = (int16_t *)(void *)(c + layer->units);
    int16_t *const of_h = of_x + layer->inputs;
    const float h_scale = qcgen_dynamic_factors(h, layer->units, of_h);

    for (int32_t k = 0; k < layer->inputs; k++) {
        of_x[k] = (int16_t)((int32_t)sequence->codes[at + k] - sequence->zero_point);
    }
    qcgen_dynamic_lstm_step(layer, direction, of_x, sequence->scale, of_h, h_scale, h, c);
}

/* A layer over codes; `h` and `c` are NULL or initial states that are not constant. */
static QCGEN_INLINE void qcgen_run_dynamic_lstm(const struct qcgen_recurrent *layer, const uint8_t *x, float x_scale,
    int32_t zero_point, const float *h, const float *c, float *y, float *states)
{
    const struct qcgen_dynamic_sequence sequence = { x, x_scale, zero_point };

    qcgen_run_recurrent(layer, qcgen_dynamic_lstm, &sequence, h, c, y, states);
}
