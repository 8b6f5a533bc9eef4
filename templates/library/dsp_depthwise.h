/* Depthwise convolutions of channels-last images that are read where they lie, for Cortex-M4, M7 and M33. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "dsp.h"

/* Two weights in a word: by columns those of rows 0 and 1, then of rows 2 and 3; of a last odd row columns 0 and 1, and
   column 2. In flash words without weights are left out. */
struct qcgen_dsp_depthwise_taps {
    int32_t upper[3], middle[3], lower[2];
};

/* A depthwise convolution of a channels-last image: channel by channel, with all weights in registers. Each column of
   the image under a row of windows is read once; its products go to the sums of all outputs whose windows it is under.
   A kernel has up to 5 rows and 3 columns, of which two or more have column stride 1 or 2. Windows reach at most one
   column beyond the image, on one side, and two of them at most rows above or below it. A dilated kernel has strides 1
   and dilates both axes alike: then this holds for each of the images that it sees. Other windows, and kernels of more
   weights, take these as they are met, row by row of the kernel, for a few outputs at a time. */
struct qcgen_dsp_depthwise_layer {
    int32_t channels;
    int32_t in_rows, in_columns, out_rows, out_columns;
    int32_t rows, columns;             /* of the kernel */
    int32_t row_stride, column_stride; /* from window to window */
    int32_t row_dilation, column_dilation;
    int32_t above, left;               /* rows and columns of padding before the image */
    int32_t zero_point;                /* of x, whose elements are int8 or, if is_unsigned, uint8 */
    int32_t is_unsigned;
    int32_t weight_bits; /* 8 or 16: weights are [rows][columns]; 32: words as in struct qcgen_dsp_depthwise_taps */
    int32_t scale;       /* times which weights of 8 or 16 bits are taken, as sums are */
    int32_t y_bytes;     /* of an output */
    int32_t turns;       /* of several outputs in a round of the loop over columns: 1 or 3 */
};

/* A channel and what its output step needs; `layer` is for functions that layers share. */
struct qcgen_dsp_depthwise_channel {
    const void *layer;
    int32_t m, bias, multiplier, offset, is_guarded; /* the last one where a loop serves all channels */
};

/* A row of windows, of which the kernel's rows from `top` to `bottom` - 1 are on the image. */
struct qcgen_dsp_depthwise_row {
    const struct qcgen_dsp_depthwise_layer *layer;
    const struct qcgen_dsp_depthwise_channel *channel;
    struct qcgen_dsp_depthwise_taps taps;
    int32_t top, bottom;
    int32_t initial; /* sums, with the share of the rows that are not on the image */
};

/* A column under them, as struct qcgen_dsp_depthwise_taps is; a row alone is in the lower half. */
struct qcgen_dsp_depthwise_column {
    int32_t upper, middle, lower;
};

/* The same where a kernel has more weights. */
struct qcgen_dsp_depthwise_rows {
    const struct qcgen_dsp_depthwise_layer *layer;
    const struct qcgen_dsp_depthwise_channel *channel;
    const int8_t *weights; /* of 8 or 16 bits, from the first row on that is on the image */
    int32_t rows, initial;
};

/* Stores the code of a sum. */
typedef void qcgen_dsp_depthwise_store(const struct qcgen_dsp_depthwise_channel *channel, int32_t sum, void *out);

/* Computes a row of outputs; in is the image's first element in row `top` of its windows. */
typedef void qcgen_dsp_depthwise_outputs(
    const struct qcgen_dsp_depthwise_row *r, const int8_t *in, int8_t *out, qcgen_dsp_depthwise_store *store);

/* Of a column of the image the element under a row of the kernel. */
static QCGEN_INLINE int32_t qcgen_dsp_depthwise_one(
    const struct qcgen_dsp_depthwise_row *r, const int8_t *in, int32_t row)
{
    in += (row - r->top) * r->layer->row_dilation * r->layer->in_columns * r->layer->channels;
    return r->layer->is_unsigned ? (int32_t)*(const uint8_t *)in : (int32_t)*in;
}

/* The same of two rows, or of what of them is on the image. */
static QCGEN_INLINE int32_t qcgen_dsp_depthwise_two(
    const struct qcgen_dsp_depthwise_row *r, const int8_t *in, int32_t row)
{
    const int32_t low = row >= r->top && row < r->bottom ? qcgen_dsp_depthwise_one(r, in, row) : 0;
    const int32_t high = row + 1 >= r->top && row + 1 < r->bottom ? qcgen_dsp_depthwise_one(r, in, row + 1) : 0;

    return row < r->top ? high : row + 1 < r->bottom ? qcgen_dsp_pair(low, high) : low;
}

/* A column of the image under a row of windows. */
static QCGEN_INLINE struct qcgen_dsp_depthwise_column qcgen_dsp_depthwise_read(
    const struct qcgen_dsp_depthwise_row *r, const int8_t *in)
{
    const int32_t rows = r->layer->rows;
    struct qcgen_dsp_depthwise_column x;

    x.upper = rows >= 2 ? qcgen_dsp_depthwise_two(r, in, 0) : 0;
    x.middle = rows >= 4 ? qcgen_dsp_depthwise_two(r, in, 2) : 0;
    x.lower = rows % 2 && r->top < rows && r->bottom == rows ? qcgen_dsp_depthwise_one(r, in, rows - 1) : 0;
    return x;
}

/* A sum, plus the products of what was read of two rows. */
static QCGEN_INLINE int32_t qcgen_dsp_depthwise_add_two(
    const struct qcgen_dsp_depthwise_row *r, int32_t row, int32_t x, int32_t taps, int32_t sum)
{
    if (row >= r->top && row + 1 < r->bottom) {
        return qcgen_dsp_dot(x, taps, sum);
    }
    if (row >= r->top && row < r->bottom) {
        return qcgen_dsp_halves(x, 0, taps, 0, sum);
    }
    return row + 1 >= r->top && row + 1 < r->bottom ? qcgen_dsp_halves(x, 0, taps, 1, sum) : sum;
}

/* A sum, plus the products of a column with column k of the weights. */
static QCGEN_INLINE int32_t qcgen_dsp_depthwise_add(
    const struct qcgen_dsp_depthwise_row *r, struct qcgen_dsp_depthwise_column x, int32_t k, int32_t sum)
{
    const int32_t rows = r->layer->rows;

    sum = rows >= 2 ? qcgen_dsp_depthwise_add_two(r, 0, x.upper, r->taps.upper[k], sum) : sum;
    sum = rows >= 4 ? qcgen_dsp_depthwise_add_two(r, 2, x.middle, r->taps.middle[k], sum) : sum;
    if (rows % 2 && r->top < rows && r->bottom == rows) {
        sum = k == 1 ? qcgen_dsp_halves(x.lower, 0, r->taps.lower[0], 1, sum)
                     : qcgen_dsp_halves(x.lower, 0, r->taps.lower[k / 2], 0, sum);
    }
    return sum;
}

/* The same for a column outside the image. */
static QCGEN_INLINE int32_t qcgen_dsp_depthwise_add_outside(
    const struct qcgen_dsp_depthwise_row *r, int32_t k, int32_t sum)
{
    const int32_t pair = (int32_t)(((uint32_t)r->layer->zero_point & 0xffffu) * 0x10001u);
    const struct qcgen_dsp_depthwise_column outside = { pair, pair, pair };

    return pair ? qcgen_dsp_depthwise_add(r, outside, k, sum) : sum;
}

/* The sum of the first output, with column 0 of its window. */
static QCGEN_INLINE int32_t qcgen_dsp_depthwise_begin(const struct qcgen_dsp_depthwise_row *r, const int8_t *in)
{
    return r->layer->left ? qcgen_dsp_depthwise_add_outside(r, 0, r->initial)
                          : qcgen_dsp_depthwise_add(r, qcgen_dsp_depthwise_read(r, in), 0, r->initial);
}

/* Stride 1: a column ends one sum, continues another and starts a third. */
static QCGEN_INLINE void qcgen_dsp_depthwise_step_1(
    const struct qcgen_dsp_depthwise_row *r, const int8_t *in, int32_t *ends, int32_t *continues, int32_t *starts,
    int8_t *out, qcgen_dsp_depthwise_store *store)
{
    const struct qcgen_dsp_depthwise_column x = qcgen_dsp_depthwise_read(r, in);

    *ends = qcgen_dsp_depthwise_add(r, x, 2, *ends);
    *continues = qcgen_dsp_depthwise_add(r, x, 1, *continues);
    *starts = qcgen_dsp_depthwise_add(r, x, 0, r->initial);
    store(r->channel, *ends, out);
}

/* Three outputs with stride 1, `dilation` apart: their sums take turns. */
static QCGEN_INLINE void qcgen_dsp_depthwise_turn_1(
    const struct qcgen_dsp_depthwise_row *r, const int8_t *in, int32_t *a, int32_t *b, int32_t *c, int8_t *out,
    qcgen_dsp_depthwise_store *store)
{
    const int32_t pixel = r->layer->channels * r->layer->column_dilation, step = pixel * r->layer->y_bytes;

    qcgen_dsp_depthwise_step_1(r, in, a, b, c, out, store);
    qcgen_dsp_depthwise_step_1(r, in + pixel, b, c, a, out + step, store);
    qcgen_dsp_depthwise_step_1(r, in + 2 * pixel, c, a, b, out + 2 * step, store);
}

/* How many of n there are from the one of this number, each `dilation` after the one before. */
static QCGEN_INLINE int32_t qcgen_dsp_depthwise_apart(
    const struct qcgen_dsp_depthwise_layer *layer, int32_t n, int32_t number)
{
    const int32_t apart = layer->column_dilation;

    return n % apart ? (n - number + apart - 1) / apart : n / apart;
}

/* Of a row's outputs with stride 1 along columns those from this number on that are `dilation` apart, like the columns
   of their windows; in and out are their first elements. */
static QCGEN_INLINE void qcgen_dsp_depthwise_apart_1(
    const struct qcgen_dsp_depthwise_row *r, int32_t number, const int8_t *in, int8_t *out,
    qcgen_dsp_depthwise_store *store)
{
    const int32_t pixel = r->layer->channels * r->layer->column_dilation, step = pixel * r->layer->y_bytes;
    const int32_t turns = r->layer->turns, first = r->layer->left > 0;
    /* Outputs whose last column is on the image. */
    const int32_t inside = qcgen_dsp_depthwise_apart(r->layer, r->layer->in_columns, number) + first - 2;
    const int32_t rounds = (inside - 1) / (3 * turns), left = (inside - 1) / 3 % turns, rest = (inside - 1) % 3;
    const int8_t *const second = in + (1 - first) * pixel;
    int32_t a = qcgen_dsp_depthwise_begin(r, in), b, c;
    const struct qcgen_dsp_depthwise_column x = qcgen_dsp_depthwise_read(r, second);

    in = second + pixel;
    a = qcgen_dsp_depthwise_add(r, x, 1, a);
    b = qcgen_dsp_depthwise_add(r, x, 0, r->initial);
    qcgen_dsp_depthwise_step_1(r, in, &a, &b, &c, out, store);
    in += pixel;
    out += step;
    for (int32_t i = 0; i < rounds; i++) {
        qcgen_dsp_depthwise_turn_1(r, in, &b, &c, &a, out, store);
        if (turns == 3) {
            qcgen_dsp_depthwise_turn_1(r, in + 3 * pixel, &b, &c, &a, out + 3 * step, store);
            qcgen_dsp_depthwise_turn_1(r, in + 6 * pixel, &b, &c, &a, out + 6 * step, store);
        }
        in += 3 * turns * pixel;
        out += 3 * turns * step;
    }
    QCGEN_UNROLLED
    for (int32_t i = 0; i < left; i++) {
        qcgen_dsp_depthwise_turn_1(r, in, &b, &c, &a, out, store);
        in += 3 * pixel;
        out += 3 * step;
    }
    if (rest > 0) {
        qcgen_dsp_depthwise_step_1(r, in, &b, &c, &a, out, store);
    }
    if (rest > 1) {
        qcgen_dsp_depthwise_step_1(r, in + pixel, &c, &a, &b, out + step, store);
    }
    if (inside < qcgen_dsp_depthwise_apart(r->layer, r->layer->out_columns, number)) {
        a = qcgen_dsp_depthwise_add_outside(r, 2, rest == 0 ? b : rest == 1 ? c : a);
        store(r->channel, a, out + rest * step);
    }
}

/* Two columns and stride 1: a column ends one sum and starts the next. */
static QCGEN_INLINE void qcgen_dsp_depthwise_step_two(const struct qcgen_dsp_depthwise_row *r, const int8_t *in,
    int32_t *ends, int32_t *starts, int8_t *out, qcgen_dsp_depthwise_store *store)
{
    const struct qcgen_dsp_depthwise_column x = qcgen_dsp_depthwise_read(r, in);

    *ends = qcgen_dsp_depthwise_add(r, x, 1, *ends);
    *starts = qcgen_dsp_depthwise_add(r, x, 0, r->initial);
    store(r->channel, *ends, out);
}

/* Two outputs of it: their sums take turns. */
static QCGEN_INLINE void qcgen_dsp_depthwise_turn_two(const struct qcgen_dsp_depthwise_row *r, const int8_t *in,
    int32_t *a, int32_t *b, int8_t *out, qcgen_dsp_depthwise_store *store)
{
    const int32_t pixel = r->layer->channels * r->layer->column_dilation, step = pixel * r->layer->y_bytes;

    qcgen_dsp_depthwise_step_two(r, in, a, b, out, store);
    qcgen_dsp_depthwise_step_two(r, in + pixel, b, a, out + step, store);
}

/* Of a row's outputs those from this number on that are `dilation` apart, for a kernel of two columns and stride 1. */
static QCGEN_INLINE void qcgen_dsp_depthwise_apart_two(
    const struct qcgen_dsp_depthwise_row *r, int32_t number, const int8_t *in, int8_t *out,
    qcgen_dsp_depthwise_store *store)
{
    const int32_t pixel = r->layer->channels * r->layer->column_dilation, step = pixel * r->layer->y_bytes;
    const int32_t turns = r->layer->turns, first = r->layer->left > 0;
    const int32_t inside = qcgen_dsp_depthwise_apart(r->layer, r->layer->in_columns, number) + first - 1;
    int32_t a = qcgen_dsp_depthwise_begin(r, in), b = 0;

    in += (1 - first) * pixel;
    for (int32_t i = 0; i < inside / (2 * turns); i++) {
        qcgen_dsp_depthwise_turn_two(r, in, &a, &b, out, store);
        if (turns == 3) {
            qcgen_dsp_depthwise_turn_two(r, in + 2 * pixel, &a, &b, out + 2 * step, store);
            qcgen_dsp_depthwise_turn_two(r, in + 4 * pixel, &a, &b, out + 4 * step, store);
        }
        in += 2 * turns * pixel;
        out += 2 * turns * step;
    }
    for (int32_t i = 0; i < inside / 2 % turns; i++) {
        qcgen_dsp_depthwise_turn_two(r, in, &a, &b, out, store);
        in += 2 * pixel;
        out += 2 * step;
    }
    if (inside % 2) {
        qcgen_dsp_depthwise_step_two(r, in, &a, &b, out, store);
    }
    if (inside < qcgen_dsp_depthwise_apart(r->layer, r->layer->out_columns, number)) {
        a = qcgen_dsp_depthwise_add_outside(r, 1, inside % 2 ? b : a);
        store(r->channel, a, out + inside % 2 * step);
    }
}

/* A row of outputs with stride 1 along columns, for a kernel of three columns. */
static QCGEN_INLINE void qcgen_dsp_depthwise_outputs_1(
    const struct qcgen_dsp_depthwise_row *r, const int8_t *in, int8_t *out, qcgen_dsp_depthwise_store *store)
{
    const int32_t pixel = r->layer->channels;
    int32_t i = 0;

    do { /* gcc would learn too late that a `for` loop runs once */
        qcgen_dsp_depthwise_apart_1(r, i, in + i * pixel, out + i * pixel * r->layer->y_bytes, store);
    } while (++i < r->layer->column_dilation);
}

/* The same for a kernel of two columns. */
static QCGEN_INLINE void qcgen_dsp_depthwise_outputs_two(
    const struct qcgen_dsp_depthwise_row *r, const int8_t *in, int8_t *out, qcgen_dsp_depthwise_store *store)
{
    const int32_t pixel = r->layer->channels;
    int32_t i = 0;

    do { /* gcc would learn too late that a `for` loop runs once */
        qcgen_dsp_depthwise_apart_two(r, i, in + i * pixel, out + i * pixel * r->layer->y_bytes, store);
    } while (++i < r->layer->column_dilation);
}

/* Stride 2: of two columns the second ends one sum and starts the next. */
static QCGEN_INLINE void qcgen_dsp_depthwise_step_2(
    const struct qcgen_dsp_depthwise_row *r, const int8_t *in, int32_t *ends, int32_t *starts, int8_t *out,
    qcgen_dsp_depthwise_store *store)
{
    struct qcgen_dsp_depthwise_column x = qcgen_dsp_depthwise_read(r, in);

    *ends = qcgen_dsp_depthwise_add(r, x, 1, *ends);
    x = qcgen_dsp_depthwise_read(r, in + r->layer->channels);
    *ends = qcgen_dsp_depthwise_add(r, x, 2, *ends);
    *starts = qcgen_dsp_depthwise_add(r, x, 0, r->initial);
    store(r->channel, *ends, out);
}

/* Four outputs with stride 2: two sums take turns. */
static QCGEN_INLINE void qcgen_dsp_depthwise_turn_2(
    const struct qcgen_dsp_depthwise_row *r, const int8_t *in, int32_t *a, int32_t *b, int8_t *out,
    qcgen_dsp_depthwise_store *store)
{
    const int32_t pixel = r->layer->channels, step = pixel * r->layer->y_bytes;

    qcgen_dsp_depthwise_step_2(r, in, a, b, out, store);
    qcgen_dsp_depthwise_step_2(r, in + 2 * pixel, b, a, out + step, store);
    qcgen_dsp_depthwise_step_2(r, in + 4 * pixel, a, b, out + 2 * step, store);
    qcgen_dsp_depthwise_step_2(r, in + 6 * pixel, b, a, out + 3 * step, store);
}

/* An output of a kernel of two columns that are on the image. */
static QCGEN_INLINE void qcgen_dsp_depthwise_step_both(const struct qcgen_dsp_depthwise_row *r, const int8_t *in,
    int8_t *out, qcgen_dsp_depthwise_store *store)
{
    int32_t sum = qcgen_dsp_depthwise_add(r, qcgen_dsp_depthwise_read(r, in), 0, r->initial);

    sum = qcgen_dsp_depthwise_add(r, qcgen_dsp_depthwise_read(r, in + r->layer->channels), 1, sum);
    store(r->channel, sum, out);
}

/* A row of outputs with stride 2 along columns, for a kernel of two columns. */
static QCGEN_INLINE void qcgen_dsp_depthwise_outputs_both(
    const struct qcgen_dsp_depthwise_row *r, const int8_t *in, int8_t *out, qcgen_dsp_depthwise_store *store)
{
    const int32_t pixel = r->layer->channels, step = pixel * r->layer->y_bytes, left = r->layer->left;
    const int32_t count = (r->layer->in_columns - left) / 2; /* of outputs whose columns are on the image */
    const int32_t turns = r->layer->turns;

    if (left) {
        const struct qcgen_dsp_depthwise_column x = qcgen_dsp_depthwise_read(r, in);

        store(r->channel, qcgen_dsp_depthwise_add(r, x, 1, qcgen_dsp_depthwise_begin(r, in)), out);
        in += pixel;
        out += step;
    }
    for (int32_t i = 0; i < count / turns; i++) {
        qcgen_dsp_depthwise_step_both(r, in, out, store);
        if (turns == 3) {
            qcgen_dsp_depthwise_step_both(r, in + 2 * pixel, out + step, store);
            qcgen_dsp_depthwise_step_both(r, in + 4 * pixel, out + 2 * step, store);
        }
        in += 2 * turns * pixel;
        out += turns * step;
    }
    for (int32_t i = 0; i < count % turns; i++) {
        qcgen_dsp_depthwise_step_both(r, in, out, store);
        in += 2 * pixel;
        out += step;
    }
    if (left + count < r->layer->out_columns) {
        const int32_t sum = qcgen_dsp_depthwise_add(r, qcgen_dsp_depthwise_read(r, in), 0, r->initial);

        store(r->channel, qcgen_dsp_depthwise_add_outside(r, 1, sum), out);
    }
}

/* A row of outputs with stride 2 along columns, for a kernel of three columns. */
static QCGEN_INLINE void qcgen_dsp_depthwise_outputs_2(
    const struct qcgen_dsp_depthwise_row *r, const int8_t *in, int8_t *out, qcgen_dsp_depthwise_store *store)
{
    const int32_t pixel = r->layer->channels, step = pixel * r->layer->y_bytes;
    const int32_t inside = (r->layer->in_columns + r->layer->left - 1) / 2; /* outputs with their last column inside */
    const int32_t turns = (r->layer->turns + 1) / 2, rest = inside % 4;
    int32_t a = qcgen_dsp_depthwise_begin(r, in), b = 0;

    in += (1 - r->layer->left) * pixel;
    for (int32_t i = 0; i < inside / (4 * turns); i++) {
        qcgen_dsp_depthwise_turn_2(r, in, &a, &b, out, store);
        if (turns == 2) {
            qcgen_dsp_depthwise_turn_2(r, in + 8 * pixel, &a, &b, out + 4 * step, store);
        }
        in += 8 * turns * pixel;
        out += 4 * turns * step;
    }
    for (int32_t i = 0; i < inside / 4 % turns; i++) {
        qcgen_dsp_depthwise_turn_2(r, in, &a, &b, out, store);
        in += 8 * pixel;
        out += 4 * step;
    }
    if (rest > 0) {
        qcgen_dsp_depthwise_step_2(r, in, &a, &b, out, store);
    }
    if (rest > 1) {
        qcgen_dsp_depthwise_step_2(r, in + 2 * pixel, &b, &a, out + step, store);
    }
    if (rest > 2) {
        qcgen_dsp_depthwise_step_2(r, in + 4 * pixel, &a, &b, out + 2 * step, store);
    }
    if (inside < r->layer->out_columns) {
        const struct qcgen_dsp_depthwise_column x = qcgen_dsp_depthwise_read(r, in + 2 * rest * pixel);

        a = qcgen_dsp_depthwise_add(r, x, 1, rest % 2 ? b : a);
        a = qcgen_dsp_depthwise_add_outside(r, 2, a);
        store(r->channel, a, out + rest * step);
    }
}

/* An output of a kernel of one column. */
static QCGEN_INLINE void qcgen_dsp_depthwise_step_alone(const struct qcgen_dsp_depthwise_row *r, const int8_t *in,
    int8_t *out, qcgen_dsp_depthwise_store *store)
{
    store(r->channel, qcgen_dsp_depthwise_add(r, qcgen_dsp_depthwise_read(r, in), 0, r->initial), out);
}

/* Three of them. */
static QCGEN_INLINE void qcgen_dsp_depthwise_turn_alone(const struct qcgen_dsp_depthwise_row *r, const int8_t *in,
    int8_t *out, qcgen_dsp_depthwise_store *store)
{
    const int32_t pixel = r->layer->channels * r->layer->column_stride, step = r->layer->channels * r->layer->y_bytes;

    qcgen_dsp_depthwise_step_alone(r, in, out, store);
    qcgen_dsp_depthwise_step_alone(r, in + pixel, out + step, store);
    qcgen_dsp_depthwise_step_alone(r, in + 2 * pixel, out + 2 * step, store);
}

/* A row of outputs of a kernel of one column. */
static QCGEN_INLINE void qcgen_dsp_depthwise_outputs_alone(
    const struct qcgen_dsp_depthwise_row *r, const int8_t *in, int8_t *out, qcgen_dsp_depthwise_store *store)
{
    const int32_t pixel = r->layer->channels * r->layer->column_stride, step = r->layer->channels * r->layer->y_bytes;
    const int32_t turns = r->layer->turns, outputs = r->layer->out_columns;

    for (int32_t i = 0; i < outputs / (3 * turns); i++) {
        qcgen_dsp_depthwise_turn_alone(r, in, out, store);
        if (turns == 3) {
            qcgen_dsp_depthwise_turn_alone(r, in + 3 * pixel, out + 3 * step, store);
            qcgen_dsp_depthwise_turn_alone(r, in + 6 * pixel, out + 6 * step, store);
        }
        in += 3 * turns * pixel;
        out += 3 * turns * step;
    }
    for (int32_t i = 0; i < outputs / 3 % turns; i++) {
        qcgen_dsp_depthwise_turn_alone(r, in, out, store);
        in += 3 * pixel;
        out += 3 * step;
    }
    if (outputs % 3 > 0) {
        qcgen_dsp_depthwise_step_alone(r, in, out, store);
    }
    if (outputs % 3 > 1) {
        qcgen_dsp_depthwise_step_alone(r, in + pixel, out + step, store);
    }
}

/* Weight i of a channel, where weights have 8 or 16 bits. */
static QCGEN_INLINE int32_t qcgen_dsp_depthwise_tap(
    const struct qcgen_dsp_depthwise_layer *layer, const void *weights, int32_t i)
{
    return (layer->weight_bits == 8 ? ((const int8_t *)weights)[i] : ((const int16_t *)weights)[i]) * layer->scale;
}

/* The word of weights that begins with column k of a row, 0 if there is none. */
static QCGEN_INLINE int32_t qcgen_dsp_depthwise_word(
    const struct qcgen_dsp_depthwise_layer *layer, const void *weights, int32_t row, int32_t k)
{
    const int is_last = row == layer->rows - 1;
    const int32_t low = row * layer->columns + k, high = low + (is_last ? 1 : layer->columns);

    if (row >= layer->rows || k >= layer->columns) {
        return 0;
    }
    if (layer->weight_bits == 32) {
        return ((const int32_t *)weights)[row / 2 * layer->columns + (is_last ? k / 2 : k)];
    }
    return qcgen_dsp_pair(qcgen_dsp_depthwise_tap(layer, weights, low),
        is_last && k + 1 >= layer->columns ? 0 : qcgen_dsp_depthwise_tap(layer, weights, high));
}

/* All weights of a channel. */
static QCGEN_INLINE struct qcgen_dsp_depthwise_taps qcgen_dsp_depthwise_load(
    const struct qcgen_dsp_depthwise_layer *layer, const void *weights)
{
    const int32_t none = layer->rows, upper = none >= 2 ? 0 : none, middle = none >= 4 ? 2 : none;
    const int32_t lower = none % 2 ? none - 1 : none;
    struct qcgen_dsp_depthwise_taps taps;

    taps.upper[0] = qcgen_dsp_depthwise_word(layer, weights, upper, 0);
    taps.upper[1] = qcgen_dsp_depthwise_word(layer, weights, upper, 1);
    taps.upper[2] = qcgen_dsp_depthwise_word(layer, weights, upper, 2);
    taps.middle[0] = qcgen_dsp_depthwise_word(layer, weights, middle, 0);
    taps.middle[1] = qcgen_dsp_depthwise_word(layer, weights, middle, 1);
    taps.middle[2] = qcgen_dsp_depthwise_word(layer, weights, middle, 2);
    taps.lower[0] = qcgen_dsp_depthwise_word(layer, weights, lower, 0);
    taps.lower[1] = qcgen_dsp_depthwise_word(layer, weights, lower, 2);
    return taps;
}

/* A sum, plus the products of the kernel's rows from `top` to `bottom` - 1, which are not on the image. */
static QCGEN_INLINE int32_t qcgen_dsp_depthwise_lost(
    const struct qcgen_dsp_depthwise_row *r, int32_t top, int32_t bottom, int32_t sum)
{
    const struct qcgen_dsp_depthwise_row lost = { r->layer, r->channel, r->taps, top, bottom, 0 };

    sum = qcgen_dsp_depthwise_add_outside(&lost, 0, sum);
    sum = r->layer->columns > 1 ? qcgen_dsp_depthwise_add_outside(&lost, 1, sum) : sum;
    sum = r->layer->columns > 2 ? qcgen_dsp_depthwise_add_outside(&lost, 2, sum) : sum;
    return sum;
}

/* `count` rows of outputs from i, whose windows have the same rows on the image, not all; x and y begin the channel. */
static QCGEN_INLINE void qcgen_dsp_depthwise_border(
    struct qcgen_dsp_depthwise_row *r, int32_t i, int32_t count, const int8_t *x, int8_t *y,
    qcgen_dsp_depthwise_outputs *outputs, qcgen_dsp_depthwise_store *store)
{
    const struct qcgen_dsp_depthwise_layer *const layer = r->layer;
    const int32_t apart = layer->row_dilation, in_row = layer->in_columns * layer->channels;
    const int32_t first = i * layer->row_stride - layer->above, beyond = (layer->in_rows - first + apart - 1) / apart;

    r->top = first < 0 ? (-first + apart - 1) / apart : 0;
    r->bottom = beyond < layer->rows ? beyond : layer->rows;
    r->initial = qcgen_dsp_depthwise_lost(r, 0, r->top, r->channel->bias);
    r->initial = qcgen_dsp_depthwise_lost(r, r->bottom, layer->rows, r->initial);
    for (int32_t n = 0; n < count; n++) {
        outputs(r, x + (first + n + r->top * apart) * in_row,
            y + (i + n) * layer->out_columns * layer->channels * layer->y_bytes, store);
    }
}

/* All outputs of a channel. */
static QCGEN_INLINE void qcgen_dsp_depthwise_channel_of(const struct qcgen_dsp_depthwise_layer *layer,
    const struct qcgen_dsp_depthwise_channel *channel, const void *weights, const int8_t *x, int8_t *y,
    qcgen_dsp_depthwise_outputs *outputs, qcgen_dsp_depthwise_store *store)
{
    const int32_t rows = layer->rows, stride = layer->row_stride, above = layer->above, apart = layer->row_dilation;
    const int32_t in_row = layer->in_columns * layer->channels, span = (rows - 1) * apart + 1;
    const int32_t out_row = layer->out_columns * layer->channels * layer->y_bytes;
    const int32_t begin = (above + stride - 1) / stride; /* the first row that does not begin above the image */
    const int32_t inside = (layer->in_rows + above - span + stride) / stride; /* the first that ends below it */
    const int32_t end = inside < begin ? begin : inside;
    const int32_t behind = layer->out_rows - end, top = begin > 0 ? (begin - 1) % apart + 1 : 0; /* rows cut alike */
    struct qcgen_dsp_depthwise_row r = { layer, channel, qcgen_dsp_depthwise_load(layer, weights), 0, rows, 0 };

    if (begin > 0) {
        qcgen_dsp_depthwise_border(&r, 0, top, x, y, outputs, store);
    }
    if (begin > top) {
        qcgen_dsp_depthwise_border(&r, top, apart, x, y, outputs, store);
    }
    r.top = 0;
    r.bottom = rows;
    r.initial = channel->bias;
    for (int32_t i = begin; i < inside; i++) {
        outputs(&r, x + (i * stride - above) * in_row, y + i * out_row, store);
    }
    if (behind > 0) {
        qcgen_dsp_depthwise_border(&r, end, behind < apart ? behind : apart, x, y, outputs, store);
    }
    if (behind > apart) {
        qcgen_dsp_depthwise_border(&r, end + apart, behind - apart, x, y, outputs, store);
    }
}

/* Adds the products of a row of weights to the sums of neighbouring outputs. Of the columns under their windows `first`
   is the first one on the image, at `in`, and `beyond` the first one behind it. */
static QCGEN_INLINE void qcgen_dsp_depthwise_add_row(const struct qcgen_dsp_depthwise_layer *layer, const void *weights,
    const int8_t *in, int32_t first, int32_t beyond, int32_t outputs, int32_t *sums)
{
    QCGEN_UNROLLED
    for (int32_t k = 0; k < layer->columns; k++) {
        const int32_t weight = qcgen_dsp_depthwise_tap(layer, weights, k);

        QCGEN_UNROLLED
        for (int32_t i = 0; i < outputs; i++) {
            const int32_t column = i * layer->column_stride + k * layer->column_dilation;
            const int8_t *const element = in + (column - first) * layer->channels;

            if (column < first || column >= beyond) {
                sums[i] = layer->zero_point ? qcgen_dsp_halves(weight, 0, layer->zero_point, 0, sums[i]) : sums[i];
            } else if (layer->is_unsigned) {
                sums[i] = qcgen_dsp_halves(weight, 0, *(const uint8_t *)element, 0, sums[i]);
            } else {
                sums[i] = qcgen_dsp_halves(weight, 0, *element, 0, sums[i]);
            }
        }
    }
}

/* Up to six neighbouring outputs; the first window begins in this column of the row that x is. */
static QCGEN_INLINE void qcgen_dsp_depthwise_together(const struct qcgen_dsp_depthwise_rows *r, const int8_t *x,
    int32_t column, int32_t outputs, int8_t *out, qcgen_dsp_depthwise_store *store,
    qcgen_dsp_depthwise_store *near_ties)
{
    const struct qcgen_dsp_depthwise_layer *const layer = r->layer;
    const int32_t first = column < 0 ? -column : 0, step = layer->channels * layer->y_bytes;
    const int is_outside = column >= layer->in_columns;
    const int8_t *in = x + (is_outside ? 0 : column + first) * layer->channels, *weights = r->weights;
    int32_t sums[6];

    QCGEN_UNROLLED
    for (int32_t i = 0; i < outputs; i++) {
        sums[i] = r->initial;
    }
    for (int32_t rows = r->rows; rows > 0; rows--) {
        qcgen_dsp_depthwise_add_row(layer, weights, in, first, layer->in_columns - column, outputs, sums);
        weights += layer->columns * layer->weight_bits / 8;
        in += layer->row_dilation * layer->in_columns * layer->channels;
    }
    if (near_ties != 0 && r->channel->is_guarded) {
        QCGEN_UNROLLED
        for (int32_t i = 0; i < outputs; i++) {
            near_ties(r->channel, sums[i], out + i * step);
        }
    } else {
        QCGEN_UNROLLED
        for (int32_t i = 0; i < outputs; i++) {
            store(r->channel, sums[i], out + i * step);
        }
    }
}

/* A row of outputs; x is the image's row under the first of the kernel's rows that are on the image. */
static QCGEN_INLINE void qcgen_dsp_depthwise_by_columns(const struct qcgen_dsp_depthwise_rows *r, const int8_t *x,
    int8_t *y, qcgen_dsp_depthwise_store *store, qcgen_dsp_depthwise_store *near_ties)
{
    const struct qcgen_dsp_depthwise_layer *const layer = r->layer;
    const int32_t outputs = layer->out_columns, stride = layer->column_stride, left = layer->left;
    const int32_t size = outputs <= 6 ? outputs : 4, groups = outputs / size, rest = outputs % size;
    const int32_t columns = size * stride, bytes = size * layer->channels * layer->y_bytes; /* of a group */
    const int32_t span = (layer->columns - 1) * layer->column_dilation + 1;
    /* Groups of which a window begins outside the image, and the first one behind these of which one ends outside. */
    const int32_t cut = ((left + stride - 1) / stride + size - 1) / size, begin = cut < groups ? cut : groups;
    const int32_t inside = (layer->in_columns + left - span + stride) / stride / size;
    const int32_t end = inside > begin ? inside : begin;

    QCGEN_UNROLLED
    for (int32_t i = 0; i < begin; i++) {
        qcgen_dsp_depthwise_together(r, x, i * columns - left, size, y + i * bytes, store, near_ties);
    }
    for (int32_t i = begin; i < end; i++) {
        const int8_t *const first = x + (i * columns - left) * layer->channels;

        qcgen_dsp_depthwise_together(r, first, 0, size, y + i * bytes, store, near_ties);
    }
    QCGEN_UNROLLED
    for (int32_t i = end; i < groups; i++) {
        qcgen_dsp_depthwise_together(r, x, i * columns - left, size, y + i * bytes, store, near_ties);
    }
    if (rest > 0) {
        qcgen_dsp_depthwise_together(r, x, groups * columns - left, rest, y + groups * bytes, store, near_ties);
    }
}

/* A sum, plus the products of weights that are not on the image: from number `begin` to `end` - 1. */
static QCGEN_INLINE int32_t qcgen_dsp_depthwise_add_lost(
    const struct qcgen_dsp_depthwise_layer *layer, const void *weights, int32_t begin, int32_t end, int32_t sum)
{
    for (int32_t i = begin; i < end; i++) {
        sum += layer->zero_point * qcgen_dsp_depthwise_tap(layer, weights, i);
    }
    return sum;
}

/* All outputs of a channel; near_ties is 0 if none has a guard band. */
static QCGEN_INLINE void qcgen_dsp_depthwise_by_rows(const struct qcgen_dsp_depthwise_layer *layer,
    const struct qcgen_dsp_depthwise_channel *channel, const void *weights, const int8_t *x, int8_t *y,
    qcgen_dsp_depthwise_store *store, qcgen_dsp_depthwise_store *near_ties)
{
    const int32_t apart = layer->row_dilation, columns = layer->columns, taps = layer->rows * columns;
    const int32_t span = (layer->rows - 1) * apart + 1, last = (layer->out_rows - 1) * layer->row_stride - layer->above;
    const int is_cut_above = layer->above > 0, is_cut_below = last > layer->in_rows - span;
    const int may_be_empty = layer->above >= span || last >= layer->in_rows || layer->in_rows < apart;

    for (int32_t i = 0; i < layer->out_rows; i++) {
        const int32_t begin = i * layer->row_stride - layer->above, behind = layer->in_rows - begin;
        const int32_t above = is_cut_above && begin < 0 ? (apart - 1 - begin) / apart : 0;
        const int32_t below = is_cut_below && behind < span ? (behind - 1 + apart) / apart : layer->rows;
        const int is_empty = may_be_empty && above >= below; /* none of the windows' rows is on the image */
        const int32_t top = is_empty ? 0 : above, bottom = is_empty ? 0 : below;
        const int32_t first = is_empty ? 0 : begin + top * apart;
        const int8_t *const bytes = weights;
        struct qcgen_dsp_depthwise_rows r = { layer, channel, bytes + top * columns * layer->weight_bits / 8, 0, 0 };

        r.rows = bottom - top;
        r.initial = qcgen_dsp_depthwise_add_lost(layer, weights, 0, top * columns, channel->bias);
        r.initial = qcgen_dsp_depthwise_add_lost(layer, weights, bottom * columns, taps, r.initial);
        qcgen_dsp_depthwise_by_columns(&r, x + first * layer->in_columns * layer->channels,
            y + i * layer->out_columns * layer->channels * layer->y_bytes, store, near_ties);
    }
}
