/*
 * A QEMU plugin that counts how often each translated block runs between two addresses, and for whom.
 *
 *     -plugin FILE.so,begin=ADDRESS,end=ADDRESS,code=FILE,out=FILE[,flash=FILE]
 *
 * The file "code" has a line "ADDRESS BYTES OWNER CYCLES" for each instruction, ascending; the address is hexadecimal. Code of
 * owner -1, such as memcpy, is counted for the owner that ran last. A block is a straight run of instructions; QEMU
 * leaves it only at its end, so its count is the count of each of them. For each block and owner the output has a line
 * "FIRST INSTRUCTIONS OWNER RUNS JUMPS REPEATS ENTRIES"; JUMPS are the runs after which the core did not go on behind the
 * block: taken branches, calls and returns; REPEATS are those of them that went back from where the last jump back did;
 * ENTRIES are the runs that a jump led to.
 *
 * With "flash=FILE" it counts what boards wait for flash, too. Each line of the file is a board: "BEGIN END WAIT_STATES
 * WORD_BYTES LINE_BYTES PREFETCH UNIFIED CODE_BYTES CODE_WAYS DATA_BYTES DATA_WAYS JUMP", addresses hexadecimal; see
 * flash_model.h.
 * The output then ends with lines "waits BOARD OWNER CYCLES".
 *
 * The declarations below are the whole of QEMU's plugin interface that is used; no header of QEMU is needed.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flash_model.h"

#ifndef QEMU_PLUGIN_VERSION
#define QEMU_PLUGIN_VERSION 1 /* 2 from QEMU 9.0 on */
#endif

struct qemu_plugin_tb;
struct qemu_plugin_insn;
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*callback)(uint64_t id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, void (*callback)(unsigned core, void *data),
                                          int flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, void (*callback)(unsigned core, void *data),
                                            int flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
                                      void (*callback)(unsigned core, uint32_t about, uint64_t address, void *data),
                                      int flags, int accesses, void *data);
void qemu_plugin_register_atexit_cb(uint64_t id, void (*callback)(uint64_t id, void *data), void *data);

__attribute__((visibility("default"))) int qemu_plugin_version = QEMU_PLUGIN_VERSION;

/* QEMU 7.2 confuses reads with writes where only one kind is asked for; nothing is written to flash. */
enum { NOBODY = -1, READS_AND_WRITES = 3 };

/* Sizes are not asked of QEMU: before a page's end it counts bytes that it has only looked at. */
struct instruction {
    uint64_t address;
    unsigned bytes;
    int owner;
    unsigned cycles; /* without wait states */
};

struct counts {
    uint64_t runs, jumps, repeats, entries;
};

struct block {
    uint64_t first, end;
    size_t instructions;
    int owner; /* of the last instruction */
    struct block *older;
    struct counts counts[]; /* for each owner */
};

static uint64_t begin_address, end_address;
static struct instruction *code;
static size_t code_count;
static int owner_count = 1;
static struct block *newest;
static FILE *out;
static struct flash *boards;
static size_t board_count;
static uint64_t *waits; /* of each board for each owner */

static bool counting;
static int current; /* the owner that ran last */
static struct block *previous;
static int previous_owner;
static const struct block *repeating; /* from its end the last jump back was */

static void *allocated(void *memory)
{
    if (memory == NULL) {
        fputs("count_blocks: no memory\n", stderr);
        exit(1);
    }
    return memory;
}

static const struct instruction *instruction_at(uint64_t address)
{
    static const struct instruction unknown = { 0, 0, NOBODY, 0 };
    size_t low = 0, high = code_count;

    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (code[middle].address == address) {
            return &code[middle];
        }
        if (code[middle].address < address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return &unknown;
}

static void on_run(unsigned core, void *data)
{
    struct block *block = data;

    (void)core;
    if (block->first == begin_address) {
        counting = true;
        current = 0;
        previous = NULL;
        repeating = NULL;
        return;
    }
    if (!counting) {
        return;
    }
    const bool jumped = previous != NULL && previous->end != block->first;
    if (jumped) {
        previous->counts[previous_owner].jumps++;
        previous->counts[previous_owner].repeats += previous == repeating && block->first < previous->end;
        repeating = block->first < previous->end ? previous : repeating;
    }
    if (block->first == end_address) {
        counting = false;
        return;
    }
    if (block->owner != NOBODY) {
        current = block->owner;
    }
    block->counts[current].runs++;
    block->counts[current].entries += jumped;
    previous = block;
    previous_owner = current;
}

static void on_instruction(unsigned core, void *data)
{
    const struct instruction *instruction = data;

    (void)core;
    for (size_t i = 0; counting && previous != NULL && i < board_count; i++) {
        waits[i * (size_t)owner_count + (size_t)current] +=
            fetch(&boards[i], instruction->address, instruction->bytes, instruction->cycles);
    }
}

static void on_access(unsigned core, uint32_t about, uint64_t address, void *data)
{
    (void)core;
    (void)about;
    (void)data;
    for (size_t i = 0; counting && previous != NULL && i < board_count; i++) {
        waits[i * (size_t)owner_count + (size_t)current] += load(&boards[i], address);
    }
}

static void watch(const struct qemu_plugin_tb *tb, size_t instructions)
{
    for (size_t i = 0; i < instructions; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        struct instruction *known = (struct instruction *)instruction_at(qemu_plugin_insn_vaddr(insn));
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_instruction, 0, known);
        qemu_plugin_register_vcpu_mem_cb(insn, on_access, 0, READS_AND_WRITES, NULL);
    }
}

static void on_translation(uint64_t id, struct qemu_plugin_tb *tb)
{
    const size_t instructions = qemu_plugin_tb_n_insns(tb);
    const uint64_t last = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, instructions - 1));
    const size_t bytes = sizeof(struct block) + (size_t)owner_count * sizeof(struct counts);
    struct block *block = allocated(calloc(1, bytes));

    (void)id;
    block->first = qemu_plugin_tb_vaddr(tb);
    block->end = last + instruction_at(last)->bytes;
    block->instructions = instructions;
    block->owner = instruction_at(last)->owner;
    block->older = newest;
    newest = block;
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_run, 0, block);
    if (board_count > 0) {
        watch(tb, instructions);
    }
}

static void write_counts(uint64_t id, void *data)
{
    (void)id;
    (void)data;
    for (const struct block *block = newest; block != NULL; block = block->older) {
        for (int owner = 0; owner < owner_count; owner++) {
            const struct counts *counts = &block->counts[owner];
            if (counts->runs > 0) {
                fprintf(out, "%" PRIx64 " %zu %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", block->first,
                        block->instructions, owner, counts->runs, counts->jumps, counts->repeats, counts->entries);
            }
        }
    }
    for (size_t i = 0; i < board_count; i++) {
        for (int owner = 0; owner < owner_count; owner++) {
            fprintf(out, "waits %zu %d %" PRIu64 "\n", i, owner, waits[i * (size_t)owner_count + (size_t)owner]);
        }
    }
    fclose(out);
}

static bool read_code(const char *name)
{
    FILE *file = fopen(name, "r");
    struct instruction read;

    if (file == NULL) {
        return false;
    }
    while (fscanf(file, "%" SCNx64 " %u %d %u", &read.address, &read.bytes, &read.owner, &read.cycles) == 4) {
        code = allocated(realloc(code, (code_count + 1) * sizeof *code));
        code[code_count++] = read;
        owner_count = read.owner >= owner_count ? read.owner + 1 : owner_count;
    }
    fclose(file);
    return true;
}

static bool read_boards(const char *name)
{
    FILE *file = fopen(name, "r");
    uint64_t begin, end;
    unsigned n[10];

    if (file == NULL) {
        return false;
    }
    while (fscanf(file, "%" SCNx64 " %" SCNx64 " %u %u %u %u %u %u %u %u %u %u", &begin, &end, &n[0], &n[1], &n[2],
                  &n[3], &n[4], &n[5], &n[6], &n[7], &n[8], &n[9]) == 12) {
        const struct cache held = new_cache(n[5], n[2], n[6]), data = new_cache(n[7], n[1], n[8]);
        boards = allocated(realloc(boards, (board_count + 1) * sizeof *boards));
        boards[board_count++] = new_flash(begin, end, n[0], n[1], n[2], n[3] != 0, n[4] != 0, held, data, n[9]);
    }
    fclose(file);
    return true;
}

__attribute__((visibility("default"))) int qemu_plugin_install(uint64_t id, const void *about, int count, char **words)
{
    (void)about;
    for (int i = 0; i < count; i++) {
        const char *value = strchr(words[i], '=');
        value = value == NULL ? "" : value + 1;
        if (strncmp(words[i], "begin=", 6) == 0) {
            begin_address = strtoull(value, NULL, 16);
        } else if (strncmp(words[i], "end=", 4) == 0) {
            end_address = strtoull(value, NULL, 16);
        } else if (strncmp(words[i], "out=", 4) == 0) {
            out = fopen(value, "w");
        } else if (strncmp(words[i], "code=", 5) == 0 && !read_code(value)) {
            return 1;
        } else if (strncmp(words[i], "flash=", 6) == 0 && !read_boards(value)) {
            return 1;
        }
    }
    waits = allocated(calloc((board_count + 1) * (size_t)owner_count, sizeof *waits));
    if (out == NULL) {
        return 1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, write_counts, NULL);
    return 0;
}
