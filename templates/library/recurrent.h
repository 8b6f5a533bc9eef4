/* LSTM and GRU in float32 with onnxruntime's operations in their order, one step of time after the other. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "compiler.h"
#include "float32.h"

/* What some gates of a unit sum up, term by term with the weights of each. */
struct qcgen_gates {
    int32_t count; /* gates */
    int32_t terms; /* of a sum */
    int32_t block; /* terms that are summed by themselves */
    int32_t adds; /* 1: to numbers that are there */
    float scale; /* of all weights; 1 if they are not codes, or if each gate of each unit has its own */
};

/* A weight of a unit by its number; and a sum that its product with a value is added to. */
typedef float qcgen_gates_weight(const void *row, int32_t index);
typedef float qcgen_gates_add(float weight, float value, float sum);

/* What sums up the products of weights and values for a unit's gates. */
typedef void qcgen_gates_sums(const float *values, int32_t unit, float *sums);

/* A product is added in two operations, or in one where the processor has it. */
static QCGEN_INLINE float qcgen_gates_add_code(float weight, float value, float sum)
{
    return sum + weight * value;
}

/* The sum of some terms becomes that of a gate, or is added to it. */
static QCGEN_INLINE void qcgen_gates_put(
    const struct qcgen_gates *gates, int32_t gate, const float *scales, float sum, int32_t adds, float *sums)
{
    if (gate < gates->count) {
        sum = qcgen_rounded(sum * (scales ? scales[gate] : gates->scale));
        sums[gate] = adds ? sums[gate] + sum : sum;
    }
}

/* `row`: weights of a unit, `scales`: those of its gates; NULL: all have one. */
static QCGEN_INLINE void qcgen_gates_sum(const struct qcgen_gates *gates, qcgen_gates_weight *weight,
    qcgen_gates_add *add, const void *row, const float *scales, const float *values, float *sums)
{
    const int32_t count = gates->count, terms = gates->terms, block = gates->block;

    for (int32_t first = 0; first < terms; first += block) {
        const int32_t end = terms - first < block ? terms : first + block, adds = first > 0 || gates->adds;
        float sum = 0.0f, second = 0.0f, third = 0.0f, fourth = 0.0f;

        for (int32_t k = first; k < end; k++) {
            sum = add(weight(row, k * count), values[k], sum);
            second = count > 1 ? add(weight(row, k * count + 1), values[k], second) : 0.0f;
            third = count > 2 ? add(weight(row, k * count + 2), values[k], third) : 0.0f;
            fourth = count > 3 ? add(weight(row, k * count + 3), values[k], fourth) : 0.0f;
        }
        qcgen_gates_put(gates, 0, scales, sum, adds, sums);
        qcgen_gates_put(gates, 1, scales, second, adds, sums);
        qcgen_gates_put(gates, 2, scales, third, adds, sums);
        qcgen_gates_put(gates, 3, scales, fourth, adds, sums);
    }
}

/* What a layer is; tables of weights are those of layers whose scales are found at run time (dynamic_lstm.h). */
struct qcgen_recurrent {
    const int8_t *input_weights; /* in rows, for each gate of each unit, less their zero points; NULL: as words */
    const int16_t *input_words; /* the same where a byte is too short */
    const int8_t *state_weights; /* of the state; NULL: as words */
    const int16_t *state_words;
    const float *input_scale; /* of each row */
    const float *state_scale;
    const float *bias; /* of each gate of each unit */
    const float *state_bias; /* of each unit: what the reset gate of a GRU multiplies besides the sum over the state */
    const float *initial_h; /* what h starts with, by directions and sequences; NULL: zeros, or what the caller gives */
    const float *initial_c; /* the same of the cell */
    int32_t steps; /* of time */
    int32_t batch; /* sequences */
    int32_t inputs; /* elements of x in a step of a sequence */
    int32_t units; /* elements of h */
    int32_t directions; /* 1 or 2; the second one begins with the last step */
    int32_t reverse; /* 1: the first one does, too */
    int32_t keeps_states; /* 1: h after each step is a row of y */
    int32_t last_row; /* of y: h after the last step; below 0: none */
    int32_t cell_row; /* the same of the cell */
    int32_t has_cell; /* 1: an LSTM */
    int32_t couples; /* 1: its forget gate is 1 less its input gate */
    float clip; /* the largest magnitude that activations are given; 0: any */
};

/* One step of time, whose elements are x from `at` on: h becomes the next one; `own` is behind it, the cell first. */
typedef void qcgen_recurrent_step(
    const struct qcgen_recurrent *layer, int32_t direction, const void *x, int32_t at, float *h, float *own);

/* All sequences in all directions; `given_h` and `given_c` are NULL or initial states that are not constant. */
static QCGEN_INLINE void qcgen_run_recurrent(const struct qcgen_recurrent *layer, qcgen_recurrent_step *run_step,
    const void *x, const float *given_h, const float *given_c, float *y, float *h)
{
    const int32_t steps = layer->steps, batch = layer->batch, units = layer->units;
    const int32_t y_row = layer->directions * batch * units;
    const size_t bytes = (size_t)units * sizeof(float);
    const float *const initial_h = layer->initial_h ? layer->initial_h : given_h;
    const float *const initial_c = layer->initial_c ? layer->initial_c : given_c;
    float *const own = h + units;

    for (int32_t first = 0; first < y_row; first += units) { /* where a sequence in a direction has a row of y */
        const int32_t direction = first >= batch * units, sequence = first / units - direction * batch;

        for (int32_t j = 0; j < units; j++) {
            h[j] = initial_h ? initial_h[first + j] : 0.0f;
            if (layer->has_cell) {
                own[j] = initial_c ? initial_c[first + j] : 0.0f;
            }
        }
        for (int32_t step = 0; step < steps; step++) {
            const int32_t t = direction == 1 || layer->reverse ? steps - 1 - step : step;

            run_step(layer, direction, x, (t * batch + sequence) * layer->inputs, h, own);
            if (layer->keeps_states) {
                (void)memcpy(y + t * y_row + first, h, bytes);
            }
        }
        if (layer->last_row >= 0) {
            (void)memcpy(y + layer->last_row * y_row + first, h, bytes);
        }
        if (layer->cell_row >= 0) {
            (void)memcpy(y + layer->cell_row * y_row + first, own, bytes);
        }
    }
}

/* What an activation is given. */
static QCGEN_INLINE float qcgen_recurrent_clipped(const struct qcgen_recurrent *layer, float value)
{
    const float most = layer->clip;

    return most > 0.0f ? (value < -most ? -most : value > most ? most : value) : value;
}

/* A step of an LSTM; `c` is the cell. */
static QCGEN_INLINE void qcgen_recurrent_lstm(const struct qcgen_recurrent *layer, qcgen_gates_sums *sum_input,
    qcgen_gates_sums *sum_state, int32_t direction, const float *x, float *h, float *c)
{
    enum { INPUT, OUTPUT, FORGET, CELL, GATES };
    float *const next = c + layer->units;

    for (int32_t j = 0; j < layer->units; j++) {
        const int32_t unit = direction * layer->units + j;
        const float *const bias = layer->bias + unit * GATES;
        float sums[GATES] = { 0.0f };

        sum_input(x, unit, sums);
        sum_state(h, unit, sums);

        const float input = qcgen_fused_logistic(qcgen_recurrent_clipped(layer, sums[INPUT] + bias[INPUT]));
        const float output = qcgen_fused_logistic(qcgen_recurrent_clipped(layer, sums[OUTPUT] + bias[OUTPUT]));
        const float forget = layer->couples
            ? 1.0f - input
            : qcgen_fused_logistic(qcgen_recurrent_clipped(layer, sums[FORGET] + bias[FORGET]));
        const float cell = qcgen_fused_tangent(qcgen_recurrent_clipped(layer, sums[CELL] + bias[CELL]));

        c[j] = qcgen_rounded(forget * c[j]) + qcgen_rounded(input * cell);
        next[j] = output * qcgen_fused_tangent(c[j]);
    }
    (void)memcpy(h, next, (size_t)layer->units * sizeof(float));
}

/* Twice the reset gate of a GRU, which is (1 + tanh(a / 2)) / 2. */
static QCGEN_INLINE float qcgen_recurrent_twice_reset(const struct qcgen_recurrent *layer, float value)
{
    return 1.0f + qcgen_unfused_tangent(0.5f * qcgen_recurrent_clipped(layer, value));
}

/* What becomes of an element of a GRU's state. */
static QCGEN_INLINE float qcgen_recurrent_gru_next(
    const struct qcgen_recurrent *layer, float update, float candidate, float h)
{
    candidate = qcgen_unfused_tangent(qcgen_recurrent_clipped(layer, candidate));
    return qcgen_rounded((1.0f - update) * candidate) + qcgen_rounded(update * h);
}

/* That of a GRU whose reset gate multiplies the sum over the state. */
static QCGEN_INLINE void qcgen_recurrent_late_gru(const struct qcgen_recurrent *layer, qcgen_gates_sums *sum_input,
    qcgen_gates_sums *sum_state, int32_t direction, const float *x, float *h, float *next)
{
    enum { UPDATE, RESET, CANDIDATE, GATES };

    for (int32_t j = 0; j < layer->units; j++) {
        const int32_t unit = direction * layer->units + j;
        const float *const bias = layer->bias + unit * GATES;
        float sums[GATES] = { 0.0f };

        sum_input(x, unit, sums);

        const float of_x = sums[CANDIDATE];

        sums[CANDIDATE] = layer->state_bias[unit];
        sum_state(h, unit, sums);

        const float update = qcgen_fused_logistic(qcgen_recurrent_clipped(layer, sums[UPDATE] + bias[UPDATE]));
        const float twice = qcgen_recurrent_twice_reset(layer, sums[RESET] + bias[RESET]);
        const float candidate = of_x + qcgen_rounded(sums[CANDIDATE] * 0.5f * twice) + bias[CANDIDATE];

        next[j] = qcgen_recurrent_gru_next(layer, update, candidate, h[j]);
    }
    (void)memcpy(h, next, (size_t)layer->units * sizeof(float));
}

/* That of a GRU whose reset gate multiplies the state; `update` has room for three numbers of each unit. */
static QCGEN_INLINE void qcgen_recurrent_gru(const struct qcgen_recurrent *layer, qcgen_gates_sums *sum_input,
    qcgen_gates_sums *sum_state, qcgen_gates_sums *sum_reset, int32_t direction, const float *x, float *h,
    float *update)
{
    enum { UPDATE, RESET, CANDIDATE, GATES };
    const int32_t units = layer->units, first = direction * units;
    float *const reset = update + units;
    float *const next = reset + units;

    for (int32_t j = 0; j < units; j++) {
        const float *const bias = layer->bias + (first + j) * GATES;
        float sums[GATES] = { 0.0f };

        sum_input(x, first + j, sums);
        sum_state(h, first + j, sums);
        update[j] = qcgen_fused_logistic(qcgen_recurrent_clipped(layer, sums[UPDATE] + bias[UPDATE]));
        reset[j] = h[j] * 0.5f * qcgen_recurrent_twice_reset(layer, sums[RESET] + bias[RESET]);
        next[j] = sums[CANDIDATE];
    }
    for (int32_t j = 0; j < units; j++) {
        sum_reset(reset, first + j, &next[j]);

        const float candidate = next[j] + layer->bias[(first + j) * GATES + CANDIDATE];

        h[j] = qcgen_recurrent_gru_next(layer, update[j], candidate, h[j]);
    }
}
