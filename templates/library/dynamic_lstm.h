/* An LSTM of one sequence whose scales are found at run time, with onnxruntime's operations in their order. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "compiler.h"
#include "dynamic.h"
#include "float32.h"

/* What a layer is: weights in rows, for each gate of each unit of each direction. */
struct qcgen_dynamic_lstm {
    const int8_t *input_weights; /* less their zero points; NULL: `input_words` has them */
    const int16_t *input_words; /* the same where a byte is too short */
    const int8_t *state_weights; /* of the state; NULL: `state_words` has them */
    const int16_t *state_words;
    const float *input_scale; /* of each row */
    const float *state_scale;
    const float *bias; /* what is added to the sums of each row */
    const float *initial_h; /* what h starts with in each direction; NULL: zeros, or what the caller gives */
    const float *initial_c; /* the same of the cell */
    int32_t steps; /* of time */
    int32_t inputs; /* elements of x in a step */
    int32_t units; /* elements of h */
    int32_t directions; /* 1 or 2; the second one begins with the last step */
    int32_t reverse; /* 1: the first one does, too */
    int32_t keeps_states; /* 1: h after each step is a row of y */
    int32_t last_row; /* of y: h after the last step; below 0: none */
    int32_t cell_row; /* the same of the cell */
};

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
QCGEN_NOINLINE static void qcgen_dynamic_lstm_step(const struct qcgen_dynamic_lstm *layer, int32_t direction,
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

/*
 * The sequence x of codes in one direction. `states` has room for h, c, and two bytes for each input and each unit;
 * `initial_h` and `initial_c` are NULL or what these start with.
 */
static QCGEN_INLINE void qcgen_dynamic_lstm_sequence(const struct qcgen_dynamic_lstm *layer, int32_t direction,
    const uint8_t *x, float x_scale, int32_t zero_point, const float *initial_h, const float *initial_c, float *y,
    float *states)
{
    const int32_t steps = layer->steps, inputs = layer->inputs, units = layer->units;
    const int32_t y_row = layer->directions * units;
    const size_t bytes = (size_t)units * sizeof(float);
    float *const h = states;
    float *const c = h + units;
    int16_t *const of_x = (int16_t *)(void *)(c + units);
    int16_t *const of_h = of_x + inputs;

    for (int32_t j = 0; j < units; j++) {
        h[j] = initial_h ? initial_h[j] : 0.0f;
        c[j] = initial_c ? initial_c[j] : 0.0f;
    }
    for (int32_t step = 0; step < steps; step++) {
        const int32_t t = direction == 1 || layer->reverse ? steps - 1 - step : step;
        const float h_scale = qcgen_dynamic_factors(h, units, of_h);

        for (int32_t k = 0; k < inputs; k++) {
            of_x[k] = (int16_t)((int32_t)x[t * inputs + k] - zero_point);
        }
        qcgen_dynamic_lstm_step(layer, direction, of_x, x_scale, of_h, h_scale, h, c);
        if (layer->keeps_states) {
            (void)memcpy(y + t * y_row, h, bytes);
        }
    }
    if (layer->last_row >= 0) {
        (void)memcpy(y + layer->last_row * y_row, h, bytes);
    }
    if (layer->cell_row >= 0) {
        (void)memcpy(y + layer->cell_row * y_row, c, bytes);
    }
}

/* All directions of a layer; `h` and `c` are NULL or what states start with that are not constants. */
static QCGEN_INLINE void qcgen_run_dynamic_lstm(const struct qcgen_dynamic_lstm *layer, const uint8_t *x, float x_scale,
    int32_t zero_point, const float *h, const float *c, float *y, float *states)
{
    const float *const initial_h = layer->initial_h ? layer->initial_h : h;
    const float *const initial_c = layer->initial_c ? layer->initial_c : c;

    for (int32_t direction = 0; direction < layer->directions; direction++) {
        const int32_t at = direction * layer->units;

        qcgen_dynamic_lstm_sequence(layer, direction, x, x_scale, zero_point, initial_h ? initial_h + at : NULL,
            initial_c ? initial_c + at : NULL, y + at, states);
    }
}
