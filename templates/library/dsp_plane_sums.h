/* Depthwise convolutions of planes whose words hold two neighbours, for Cortex-M4, M7 and M33. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "dsp.h"
#include "dsp_depthwise.h"
#include "dsp_planes.h"

/* A number of a channel. One that has no register is read each time; else compilers keep it and store sums instead. */
static QCGEN_INLINE int32_t qcgen_dsp_planes_number(const int32_t *number, int is_on_stack)
{
    return is_on_stack ? *(const volatile int32_t *)number : *number;
}

/* A sum, plus the products of a word of a row with the taps there: those of elements t and t + 1 of a window. Weights
   are read once for a row, to `own`; bits of `loaded` tell which ones are there. */
static QCGEN_INLINE int32_t qcgen_dsp_planes_add(const struct qcgen_dsp_planes *layer, const int32_t *weights,
    uint64_t *loaded, int32_t *own, int32_t row, int32_t t, int32_t word, int32_t sum)
{
    const int32_t apart = layer->column_dilation, last = (layer->kernel_columns - 1) * apart;
    const int32_t even = layer->even_pairs, pairs = even + layer->odd_pairs, lone = layer->lone;
    const int is_upper = t < 0 || t % apart != 0, is_pair = pairs > 0 && (t < last || lone == 0);
    const int32_t first = t < 0 ? 0 : t < last ? t : t - 1; /* tap of the pair that has them, or one of them */
    const int32_t tap = is_pair ? t >= 0 : row * lone + (lone > 1 ? (t + is_upper) / apart : 0);
    const int32_t place = is_pair ? row * pairs + first % 2 * even + first / 2 : layer->kernel_rows * pairs + tap / 2;

    if ((*loaded >> place & 1) == 0) {
        own[place] = qcgen_dsp_planes_number(&weights[place], layer->words > 6);
        *loaded |= UINT64_C(1) << place;
    }
    return is_pair && t == first ? qcgen_dsp_dot(word, own[place], sum)
                                 : qcgen_dsp_halves(word, is_upper, own[place], tap % 2, sum);
}

/* Outputs side by side, of which the first window begins at `from`. */
static QCGEN_INLINE void qcgen_dsp_planes_together(const struct qcgen_dsp_planes *layer,
    const struct qcgen_dsp_depthwise_channel *channel, const int32_t *numbers, const int32_t *weights,
    const int32_t *from, int32_t outputs, int8_t *out, qcgen_dsp_depthwise_store *store)
{
    const int32_t apart = layer->column_dilation, last = (layer->kernel_columns - 1) * apart;
    const int32_t stride = layer->column_stride, reached = (outputs - 1) * stride + last;
    struct qcgen_dsp_depthwise_channel own = *channel;
    int32_t sums[6];

    sums[0] = qcgen_dsp_planes_number(&numbers[0], layer->on_stack > 0);
    QCGEN_UNROLLED
    for (int32_t n = 1; n < outputs; n++) {
        sums[n] = sums[0];
    }
    QCGEN_UNROLLED
    for (int32_t row = 0; row < layer->kernel_rows; row++) {
        int32_t own_weights[64], words[2];
        uint64_t loaded = 0;

        QCGEN_UNROLLED
        for (int32_t i = 0; 2 * i <= reached; i++) {
            if (i % 2 == 0 && 2 * i + 2 <= reached) {
                qcgen_dsp_two_at(from + i, &words[0], &words[1]);
            } else if (i % 2 == 0) {
                words[0] = from[i];
            }
            QCGEN_UNROLLED
            for (int32_t n = 0; n < outputs; n++) {
                const int32_t t = 2 * i - n * stride;

                if (t >= -1 && t <= last && (t % apart == 0 || (t + 1) % apart == 0)) {
                    sums[n] = qcgen_dsp_planes_add(layer, weights, &loaded, own_weights, row, t, words[i % 2], sums[n]);
                }
            }
        }
        from += layer->row_dilation * layer->row_words;
    }
    own.multiplier = qcgen_dsp_planes_number(&numbers[1], layer->on_stack > 1 && !channel->is_guarded);
    own.offset = qcgen_dsp_planes_number(&numbers[2], layer->on_stack > 2 && !channel->is_guarded);
    QCGEN_UNROLLED
    for (int32_t n = 0; n < outputs; n++) {
        store(&own, sums[n], out + n * layer->channels * layer->y_bytes);
    }
}

/* `rows` rows of outputs of a channel, whose plane begins at `from`. */
static QCGEN_INLINE void qcgen_dsp_planes_channel_of(const struct qcgen_dsp_planes *layer,
    const struct qcgen_dsp_depthwise_channel *channel, const int32_t *weights, const int32_t *from, int8_t *out,
    int32_t rows, qcgen_dsp_depthwise_store *store)
{
    const int32_t size = layer->together, parts = layer->parts, rest = layer->out_columns % size;
    const int32_t step = size * layer->column_stride / 2, bytes = size * layer->channels * layer->y_bytes;
    const int32_t rounds = layer->out_columns / size / parts;
    const int32_t numbers[] = { channel->bias, channel->multiplier, channel->offset };
    int32_t kept[64];

    QCGEN_UNROLLED
    for (int32_t i = 0; i < layer->words; i++) {
        kept[i] = weights[layer->words * channel->m + i];
    }
    for (; rows != 0; rows--) {
        for (int32_t i = 0; i < rounds; i++) {
            QCGEN_UNROLLED
            for (int32_t k = 0; k < parts; k++) {
                qcgen_dsp_planes_together(layer, channel, numbers, kept, from + k * step, size, out + k * bytes, store);
            }
            from += parts * step;
            out += parts * bytes;
        }
        if (rest > 0) {
            qcgen_dsp_planes_together(layer, channel, numbers, kept, from, rest, out, store);
        }
        from += layer->row_stride * layer->row_words - rounds * parts * step;
        out += rest * layer->channels * layer->y_bytes;
    }
}

/* Outputs side by side in a plane of elements, of which the first window begins at `from`, anywhere; the next ones
   follow at *out. Those of a channel that has a guard band are stored by near_ties; `told` is that channel, too. */
static QCGEN_INLINE void qcgen_dsp_planes_anywhere(const struct qcgen_dsp_planes *layer,
    const struct qcgen_dsp_depthwise_channel *channel, const int32_t *numbers, const int32_t *weights,
    const int16_t *from, int8_t **out, qcgen_dsp_depthwise_store *store, qcgen_dsp_depthwise_store *near_ties,
    const struct qcgen_dsp_depthwise_channel *told)
{
    const int32_t stride = layer->column_stride, last = layer->kernel_columns - 1, outputs = layer->together;
    const int32_t reached = (outputs - 1) * stride + last;
    struct qcgen_dsp_depthwise_channel own = *channel;
    int32_t sums[6];

    QCGEN_UNROLLED
    for (int32_t n = 0; n < outputs; n++) {
        sums[n] = numbers[0];
    }
    QCGEN_UNROLLED
    for (int32_t row = 0; row < layer->kernel_rows; row++) {
        int32_t own_weights[64];
        uint64_t loaded = 0;

        QCGEN_UNROLLED
        for (int32_t i = 0; i <= reached; i += 2) {
            int32_t word;

            QCGEN_FENCE; /* else the compiler loads words until registers are short */
            word = i < reached ? qcgen_dsp_load_pair(from + i) : from[i];
            QCGEN_UNROLLED
            for (int32_t n = 0; n < outputs; n++) {
                const int32_t t = i - n * stride;

                if (t >= -1 && t <= last) {
                    sums[n] = qcgen_dsp_planes_add(layer, weights, &loaded, own_weights, row, t, word, sums[n]);
                }
            }
        }
        from += layer->pitch;
    }
    if (near_ties != 0 && QCGEN_RARELY(channel->is_guarded)) {
        int32_t found[6];

        QCGEN_UNROLLED
        for (int32_t n = 0; n < outputs; n++) {
            found[n] = sums[n];
        }
        for (int32_t n = 0; n < outputs; n++) {
            near_ties(told, found[n], *out);
            *out += layer->channels;
        }
        return;
    }
    own.multiplier = qcgen_dsp_planes_number(&numbers[1], layer->on_stack);
    own.offset = numbers[2];
    QCGEN_UNROLLED
    for (int32_t n = 0; n < outputs; n++) {
        store(&own, sums[n], *out);
        *out += layer->channels;
    }
}

/* A weight of a kernel of [rows][columns], times `scale`. */
static QCGEN_INLINE int32_t qcgen_dsp_planes_weight(
    const struct qcgen_dsp_planes *layer, const void *weights, int32_t row, int32_t column, int32_t scale)
{
    const int32_t i = row * layer->kernel_columns + column;

    return (layer->weight_bits == 8 ? ((const int8_t *)weights)[i] : ((const int16_t *)weights)[i]) * scale;
}

/* `rows` rows of outputs of a channel by weights that are in flash one by one; its plane begins at `plane`, and the
   kernel is not dilated. near_ties is 0 if no channel has a guard band. */
static QCGEN_INLINE void qcgen_dsp_planes_channel_by_taps(const struct qcgen_dsp_planes *layer,
    const struct qcgen_dsp_depthwise_channel *channel, const void *weights, int32_t scale, const int16_t *plane,
    void *y, int32_t rows, qcgen_dsp_depthwise_store *store, qcgen_dsp_depthwise_store *near_ties)
{
    const int32_t even = layer->even_pairs, pairs = even + layer->odd_pairs, kernel_rows = layer->kernel_rows;
    const int32_t last = layer->kernel_columns - 1, outputs = layer->together;
    const struct qcgen_dsp_depthwise_channel told = *channel; /* whose numbers are in registers */
    const int32_t numbers[] = { channel->bias, channel->multiplier, channel->offset };
    int8_t *out = y;
    int32_t kept[64];

    QCGEN_UNROLLED
    for (int32_t i = 0; i < kernel_rows * pairs; i++) {
        const int32_t row = i / pairs, pair = i % pairs, column = pair < even ? 2 * pair : 2 * (pair - even) + 1;

        kept[i] = qcgen_dsp_pair(qcgen_dsp_planes_weight(layer, weights, row, column, scale),
            qcgen_dsp_planes_weight(layer, weights, row, column + 1, scale));
    }
    QCGEN_UNROLLED
    for (int32_t row = 0; row < kernel_rows * layer->lone; row += 2) {
        const int32_t low = qcgen_dsp_planes_weight(layer, weights, row, last, scale);
        const int is_alone = row + 1 == kernel_rows;

        kept[kernel_rows * pairs + row / 2] =
            qcgen_dsp_pair(low, is_alone ? 0 : qcgen_dsp_planes_weight(layer, weights, row + 1, last, scale));
    }
    do {
        const int16_t *in = plane;
        int32_t columns = layer->out_columns;

        do {
            qcgen_dsp_planes_anywhere(layer, channel, numbers, kept, in, &out, store, near_ties, &told);
            in += outputs * layer->column_stride;
            columns -= outputs;
        } while (columns != 0);
        plane += layer->row_stride * layer->pitch;
        rows--;
    } while (rows != 0);
}
