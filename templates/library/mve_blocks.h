/* The output step of Helium's kernels, and blocks of four output channels over one window or a pair of them. */
#pragma once
#include <stdint.h>
#include "compiler.h"
#include "helium.h"

/* A node's functions: lines of four accumulators; their codes; how close to a tie; stores exact codes from m on. */
typedef qcgen_mve_s32 qcgen_mve_scaled(qcgen_mve_s32 acc, qcgen_mve_s32 multiplier, qcgen_mve_s32 offset);
typedef qcgen_mve_s32 qcgen_mve_codes(qcgen_mve_s32 scaled);
typedef uint32_t qcgen_mve_closeness(uint32_t so_far, qcgen_mve_s32 scaled);
typedef void qcgen_mve_exact(const void *own, qcgen_mve_s32 acc, int32_t m, int32_t count, void *out);

/* Blocks of channels. Behind its weights a block has initial accumulators, multipliers, offsets, all bits of the lanes
   that have a guard band, and the first channel, as far as the output step needs them. */
struct qcgen_mve_blocks {
    int32_t steps, copies, words;          /* of sums; of a block behind its weights */
    int32_t channels, y_bytes;             /* of an output pixel; of an output */
    int32_t has_offsets, guarded, channel; /* whether each channel has one; where bits are and the channel */
    uint32_t limit;                        /* how close to a tie sums may come that need the exact function */
};

/* Sums of four channels over windows a and b, or over a alone; returns what follows the weights. */
typedef const int32_t *qcgen_mve_sums_over(int32_t steps, int32_t copies, const int8_t *a, const int8_t *b,
    const int32_t *weights, qcgen_mve_s32 *sums_a, qcgen_mve_s32 *sums_b);

/* Stores exact codes, if they are needed; returns whether. */
typedef int qcgen_mve_rare(const struct qcgen_mve_blocks *blocks, const void *own, qcgen_mve_closeness *closeness,
    qcgen_mve_exact *exact, int is_pair, qcgen_mve_s32 acc_a, qcgen_mve_s32 acc_b, qcgen_mve_s32 lines_a,
    qcgen_mve_s32 lines_b, const int32_t *parameters, int32_t count, int8_t *out);

/* Where they always are. */
static QCGEN_INLINE int qcgen_mve_always(const struct qcgen_mve_blocks *blocks, const void *own,
    qcgen_mve_closeness *closeness, qcgen_mve_exact *exact, int is_pair, qcgen_mve_s32 acc_a, qcgen_mve_s32 acc_b,
    qcgen_mve_s32 lines_a, qcgen_mve_s32 lines_b, const int32_t *parameters, int32_t count, int8_t *out)
{
    (void)closeness;
    (void)lines_a;
    (void)lines_b;
    exact(own, acc_a, blocks->channel ? parameters[blocks->channel] : 0, count, out);
    if (is_pair) {
        out += blocks->channels * blocks->y_bytes;
        exact(own, acc_b, blocks->channel ? parameters[blocks->channel] : 0, count, out);
    }
    return 1;
}

/* Whether a code of a channel that has a guard band may be wrong. */
static QCGEN_INLINE int qcgen_mve_is_near(const struct qcgen_mve_blocks *blocks, qcgen_mve_closeness *closeness,
    int is_pair, qcgen_mve_s32 lines_a, qcgen_mve_s32 lines_b, const int32_t *guarded)
{
    const qcgen_mve_s32 lanes = qcgen_mve_load(guarded);
    uint32_t closest = closeness(0, qcgen_mve_and(lines_a, lanes));

    closest = is_pair ? closeness(closest, qcgen_mve_and(lines_b, lanes)) : closest;
    return closest >= blocks->limit;
}

/* Where some channels have a guard band: in their blocks, with a limit only if sums come so close to a tie. Rarely,
   twice: gcc -O2 computes addresses ahead of likely branches, for blocks without one, too. */
static QCGEN_INLINE int qcgen_mve_guarded(const struct qcgen_mve_blocks *blocks, const void *own,
    qcgen_mve_closeness *closeness, qcgen_mve_exact *exact, int is_pair, qcgen_mve_s32 acc_a, qcgen_mve_s32 acc_b,
    qcgen_mve_s32 lines_a, qcgen_mve_s32 lines_b, const int32_t *parameters, int32_t count, int8_t *out)
{
    const int32_t *const guarded = parameters + blocks->guarded;

    if (QCGEN_RARELY(parameters[blocks->channel] >= 0)
        && (!closeness || QCGEN_RARELY(qcgen_mve_is_near(blocks, closeness, is_pair, lines_a, lines_b, guarded)))) {
        return qcgen_mve_always(
            blocks, own, closeness, exact, is_pair, acc_a, acc_b, lines_a, lines_b, parameters, count, out);
    }
    return 0;
}

/* The outputs of `count` channels; returns the constants of the next block. */
static QCGEN_INLINE const int32_t *qcgen_mve_block(const struct qcgen_mve_blocks *blocks, const void *own,
    qcgen_mve_sums_over *sums_over, qcgen_mve_scaled *scaled, qcgen_mve_codes *codes, qcgen_mve_closeness *closeness,
    qcgen_mve_exact *exact, qcgen_mve_rare *rare, int is_pair, const int8_t *a, const int8_t *b,
    const int32_t *constants, int32_t count, int8_t *out)
{
    qcgen_mve_s32 acc_a, acc_b, lines_a, lines_b, bias, multiplier, offset;

    constants = sums_over(blocks->steps, blocks->copies, a, b, constants, &acc_a, &acc_b);
    bias = qcgen_mve_load(constants);
    multiplier = scaled ? qcgen_mve_load(constants + 4) : bias;
    offset = blocks->has_offsets ? qcgen_mve_load(constants + 8) : bias;
    acc_a = qcgen_mve_add(acc_a, bias);
    lines_a = scaled ? scaled(acc_a, multiplier, offset) : acc_a;
    acc_b = is_pair ? qcgen_mve_add(acc_b, bias) : acc_a;
    lines_b = is_pair && scaled ? scaled(acc_b, multiplier, offset) : lines_a;
    if (!rare
        || !rare(blocks, own, closeness, exact, is_pair, acc_a, acc_b, lines_a, lines_b, constants, count, out)) {
        qcgen_mve_store_bytes(out, codes(lines_a), count);
        if (is_pair) {
            qcgen_mve_store_bytes(out + blocks->channels * blocks->y_bytes, codes(lines_b), count);
        }
    }
    return constants + blocks->words;
}

/* The outputs of all channels. */
static QCGEN_INLINE void qcgen_mve_channels(const struct qcgen_mve_blocks *blocks, const void *own,
    qcgen_mve_sums_over *sums_over, qcgen_mve_scaled *scaled, qcgen_mve_codes *codes, qcgen_mve_closeness *closeness,
    qcgen_mve_exact *exact, qcgen_mve_rare *rare, int is_pair, const int8_t *a, const int8_t *b,
    const int32_t *constants, void *y)
{
    const int32_t rest = blocks->channels % 4;
    int8_t *out = (int8_t *)y, *const end = out + (blocks->channels - rest) * blocks->y_bytes;

    if (blocks->channels >= 4) {
        do {
            constants = qcgen_mve_block(
                blocks, own, sums_over, scaled, codes, closeness, exact, rare, is_pair, a, b, constants, 4, out);
            out += 4 * blocks->y_bytes;
        } while (out != end);
    }
    if (rest > 0) {
        (void)qcgen_mve_block(
            blocks, own, sums_over, scaled, codes, closeness, exact, rare, is_pair, a, b, constants, rest, out);
    }
}
