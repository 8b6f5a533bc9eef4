/* An LSTM in the integers of TensorFlow Lite, one step of time after the other. */
#pragma once
#include <stdint.h>
#include <string.h>
#include "compiler.h"
#include "dsp.h"
#include "integers.h"

/* What a layer is. Its gates are input, forget, cell, output. Numbers are scaled by multiplier * 2^(exponent - 31). */
struct qcgen_integer_lstm {
    const int8_t *input_weights; /* by units, of each element of the input those of the four gates; NULL: words */
    const int8_t *state_weights; /* the same of the state */
    const int32_t *input_words; /* by units, for four elements of the input a word of each gate, filled up with 0 */
    const int32_t *state_words;
    const int32_t *bias; /* by units, what the sums of the gates begin with, over the input and over the state */
    const uint16_t *logistic; /* the table of integer_logistic */
    int32_t batch; /* sequences */
    int32_t steps; /* of time */
    int32_t inputs; /* elements of x in a step */
    int32_t units; /* elements of a state */
    int32_t x_multiplier[4]; /* of the sums of each gate over the input */
    int32_t x_exponent[4];
    int32_t h_multiplier[4]; /* the same over the state */
    int32_t h_exponent[4];
    int32_t forget_multiplier; /* of the forget gate times the cell */
    int32_t forget_exponent;
    int32_t input_multiplier; /* of the input gate times the cell gate */
    int32_t input_exponent;
    int32_t output_multiplier; /* of the output gate times the cell's tangent */
    int32_t output_exponent;
    int32_t y_zero_point;
    int32_t tangent_multiplier; /* of the cell, for integer_tangent */
    int32_t tangent_shift; /* to the right, rounded half up */
    int32_t cell_most; /* the bound of the cell's magnitude; 32768 if there is none */
};

/* The sums of the four gates of unit j over the input and over the state. */
typedef void qcgen_integer_lstm_sums(const struct qcgen_integer_lstm *layer, int32_t j, const int8_t *x,
    const int8_t *h, int32_t *of_x, int32_t *of_h);

/* Sums of codes times the weights of each gate, which begin with `start`. */
static QCGEN_INLINE void qcgen_integer_lstm_add(
    const int8_t *codes, const int8_t *weights, int32_t terms, const int32_t *start, int32_t *sums)
{
    int32_t input = start[0], forget = start[1], cell = start[2], output = start[3];

    for (int32_t i = 0; i < terms; i++) {
        const int32_t code = codes[i];

        input += code * weights[0];
        forget += code * weights[1];
        cell += code * weights[2];
        output += code * weights[3];
        weights += 4;
    }
    sums[0] = input;
    sums[1] = forget;
    sums[2] = cell;
    sums[3] = output;
}

/* The sums of a unit by weights in bytes. */
static QCGEN_INLINE void qcgen_integer_lstm_sums_of_bytes(const struct qcgen_integer_lstm *layer, int32_t j,
    const int8_t *x, const int8_t *h, int32_t *of_x, int32_t *of_h)
{
    enum { GATES = 4 };
    const int32_t inputs = layer->inputs, units = layer->units;
    const int32_t *const start = layer->bias + 2 * GATES * j;

    qcgen_integer_lstm_add(x, layer->input_weights + GATES * inputs * j, inputs, start, of_x);
    qcgen_integer_lstm_add(h, layer->state_weights + GATES * units * j, units, start + GATES, of_h);
}

/* Up to three bytes as the lower ones of a word. */
static int32_t qcgen_integer_lstm_rest(const int8_t *codes, int32_t count)
{
    uint32_t word = 0;

    for (int32_t i = 0; i < count; i++) {
        word |= (uint32_t)(uint8_t)codes[i] << (8 * i);
    }
    return (int32_t)word;
}

/* A sum and the products of four codes with a word of weights. */
static QCGEN_INLINE int32_t qcgen_integer_lstm_dot(int32_t even, int32_t odd, int32_t weights, int32_t sum)
{
    return qcgen_dsp_dot(odd, qcgen_dsp_odd_s8(weights), qcgen_dsp_dot(even, qcgen_dsp_even_s8(weights), sum));
}

/* The same with weights in words. */
static QCGEN_INLINE void qcgen_integer_lstm_add_words(
    const int8_t *codes, const int32_t *weights, int32_t terms, const int32_t *start, int32_t *sums)
{
    int32_t input = start[0], forget = start[1], cell = start[2], output = start[3];

    for (int32_t i = 0; i < terms; i += 4) {
        const int32_t word
            = i + 4 <= terms ? qcgen_dsp_load_word(&codes[i]) : qcgen_integer_lstm_rest(&codes[i], terms - i);
        const int32_t even = qcgen_dsp_even_s8(word);
        const int32_t odd = qcgen_dsp_odd_s8(word);

        input = qcgen_integer_lstm_dot(even, odd, weights[0], input);
        forget = qcgen_integer_lstm_dot(even, odd, weights[1], forget);
        cell = qcgen_integer_lstm_dot(even, odd, weights[2], cell);
        output = qcgen_integer_lstm_dot(even, odd, weights[3], output);
        weights += 4;
    }
    sums[0] = input;
    sums[1] = forget;
    sums[2] = cell;
    sums[3] = output;
}

/* The sums of a unit by weights in words. */
static QCGEN_INLINE void qcgen_integer_lstm_sums_of_words(const struct qcgen_integer_lstm *layer, int32_t j,
    const int8_t *x, const int8_t *h, int32_t *of_x, int32_t *of_h)
{
    enum { GATES = 4 };
    const int32_t inputs = layer->inputs, units = layer->units;
    const int32_t *const start = layer->bias + 2 * GATES * j;

    qcgen_integer_lstm_add_words(x, layer->input_words + (inputs + 3) / 4 * GATES * j, inputs, start, of_x);
    qcgen_integer_lstm_add_words(h, layer->state_words + (units + 3) / 4 * GATES * j, units, start + GATES, of_h);
}

/* The nearest number of 16 bits. */
static QCGEN_INLINE int32_t qcgen_integer_lstm_short(int32_t value)
{
    return value < INT16_MIN ? INT16_MIN : value > INT16_MAX ? INT16_MAX : value;
}

/* Scaled, the nearest number of 16 bits. */
static QCGEN_INLINE int32_t qcgen_integer_lstm_scaled(int32_t value, int32_t multiplier, int32_t exponent)
{
    return qcgen_integer_lstm_short(qcgen_round_twice(value, multiplier, exponent));
}

/* What the function of a gate is given: the sum of both sums, in units of integer_logistic. */
static QCGEN_INLINE int32_t qcgen_integer_lstm_gate(
    const struct qcgen_integer_lstm *layer, int32_t gate, const int32_t *of_x, const int32_t *of_h)
{
    const int32_t from_x
        = qcgen_integer_lstm_scaled(of_x[gate], layer->x_multiplier[gate], layer->x_exponent[gate]);
    const int32_t from_h
        = qcgen_integer_lstm_scaled(of_h[gate], layer->h_multiplier[gate], layer->h_exponent[gate]);

    return qcgen_integer_lstm_short(from_x + from_h) * 3;
}

/* One step of time: the state h becomes next, and the cell, two bytes a unit, changes. */
typedef void qcgen_integer_lstm_step(
    const struct qcgen_integer_lstm *layer, const int8_t *x, const int8_t *h, int8_t *cell, int8_t *next);

/* The same by the sums that a function gives. */
static QCGEN_INLINE void qcgen_integer_lstm_units(const struct qcgen_integer_lstm *layer, qcgen_integer_lstm_sums *add,
    const int8_t *x, const int8_t *h, int8_t *cell, int8_t *next)
{
    enum { INPUT, FORGET, CELL, OUTPUT, GATES };
    const int32_t half = INT32_C(1) << layer->tangent_shift >> 1;
    const int32_t most = layer->cell_most;
    const int32_t units = layer->units;
    const uint16_t *const table = layer->logistic;

    for (int32_t j = 0; j < units; j++) {
        int32_t of_x[GATES], of_h[GATES];
        int32_t c = (int32_t)cell[2 * j + 1] * 256 + (uint8_t)cell[2 * j];

        add(layer, j, x, h, of_x, of_h);

        const int32_t inward = qcgen_integer_logistic(table, qcgen_integer_lstm_gate(layer, INPUT, of_x, of_h));
        const int32_t forget = qcgen_integer_logistic(table, qcgen_integer_lstm_gate(layer, FORGET, of_x, of_h));
        const int32_t candidate = qcgen_integer_tangent(table, qcgen_integer_lstm_gate(layer, CELL, of_x, of_h));
        const int32_t outward = qcgen_integer_logistic(table, qcgen_integer_lstm_gate(layer, OUTPUT, of_x, of_h));

        c = qcgen_integer_lstm_scaled(forget * c, layer->forget_multiplier, layer->forget_exponent)
            + qcgen_integer_lstm_scaled(inward * candidate, layer->input_multiplier, layer->input_exponent);
        c = qcgen_integer_lstm_short(c);
        c = c < -most ? -most : c > most ? most : c;
        cell[2 * j] = (int8_t)(c & 255);
        cell[2 * j + 1] = (int8_t)(c >> 8);
        c = qcgen_integer_tangent(table, (c * layer->tangent_multiplier + half) >> layer->tangent_shift);

        const int32_t code = qcgen_round_twice(outward * c, layer->output_multiplier, layer->output_exponent)
            + layer->y_zero_point;

        next[j] = (int8_t)(code < INT8_MIN ? INT8_MIN : code > INT8_MAX ? INT8_MAX : code);
    }
}

/* The step by weights in bytes. */
QCGEN_NOINLINE static void qcgen_integer_lstm_step_by_bytes(
    const struct qcgen_integer_lstm *layer, const int8_t *x, const int8_t *h, int8_t *cell, int8_t *next)
{
    qcgen_integer_lstm_units(layer, qcgen_integer_lstm_sums_of_bytes, x, h, cell, next);
}

/* The step by weights in words, four products in two instructions. */
QCGEN_NOINLINE static void qcgen_integer_lstm_step_by_words(
    const struct qcgen_integer_lstm *layer, const int8_t *x, const int8_t *h, int8_t *cell, int8_t *next)
{
    qcgen_integer_lstm_units(layer, qcgen_integer_lstm_sums_of_words, x, h, cell, next);
}

/* All sequences of a layer: y has the states after each step, then the cell, two bytes a unit. */
static QCGEN_INLINE void qcgen_integer_lstm_sequences(const struct qcgen_integer_lstm *layer,
    qcgen_integer_lstm_step *step, const int8_t *x, const int8_t *h, const int8_t *c, int8_t *y)
{
    const int32_t batch = layer->batch, steps = layer->steps, inputs = layer->inputs, units = layer->units;

    for (int32_t b = 0; b < batch; b++) {
        const int8_t *state = h + b * units;
        int8_t *const cell = y + steps * units;

        (void)memcpy(cell, c + b * 2 * units, (size_t)(2 * units));
        for (int32_t t = 0; t < steps; t++) {
            step(layer, x, state, cell, y);
            state = y;
            x += inputs;
            y += units;
        }
        y += 2 * units;
    }
}

/* The same with weights in bytes. */
static QCGEN_INLINE void qcgen_integer_lstm_by_bytes(
    const struct qcgen_integer_lstm *layer, const int8_t *x, const int8_t *h, const int8_t *c, int8_t *y)
{
    qcgen_integer_lstm_sequences(layer, qcgen_integer_lstm_step_by_bytes, x, h, c, y);
}

/* The same with weights in words. */
static QCGEN_INLINE void qcgen_integer_lstm_by_words(
    const struct qcgen_integer_lstm *layer, const int8_t *x, const int8_t *h, const int8_t *c, int8_t *y)
{
    qcgen_integer_lstm_sequences(layer, qcgen_integer_lstm_step_by_words, x, h, c, y);
}
