/*
 * Calls generated models on an emulated core: what to call and the inputs come from the host's file inputs.bin, the
 * outputs go to outputs.bin.
 *
 * inputs.bin: for each call a struct call, then the elements of each input. outputs.bin: for each call the elements of
 * each output, the bytes of stack that were used and what the function returned, 0 if nothing (uint32 each). Every buffer stands between guard zones, and what the
 * model has to write is filled with garbage before.
 */
#include "machine.h"
#include "_models.h" /* MODELS, MAX_PORTS */

enum { SYS_OPEN = 0x01, SYS_WRITE = 0x05, SYS_READ = 0x06, READ_BINARY = 1, WRITE_BINARY = 5 };
enum { GUARD = 32, GUARD_BYTE = 0xA5, WIDEST = 16, PAINT = 0x5A };
enum { BROKEN_FILE = 2, WROTE_BESIDE = 3, NO_ROOM = 4 };

struct call {
    uint32_t model;
    uint32_t is_shifted; /* buffers are aligned to no more than their types ask for */
    uint32_t garbage;    /* a byte */
};

static void fail(const char *what, const char *name, int status)
{
    _say(what);
    _say(name);
    _say("\n");
    _leave(status);
}

static intptr_t open_file(const char *name, intptr_t length, intptr_t mode)
{
    const intptr_t block[3] = { (intptr_t)name, mode, length };

    return _semihost(SYS_OPEN, block);
}

/* How many bytes are missing at the end. */
static uint32_t transfer(intptr_t operation, intptr_t file, void *data, uint32_t bytes)
{
    const intptr_t block[3] = { file, (intptr_t)data, (intptr_t)bytes };

    return bytes ? (uint32_t)_semihost(operation, block) : 0;
}

static void fill(uint8_t *data, uint32_t bytes, uint32_t byte)
{
    for (uint32_t i = 0; i < bytes; i++) {
        data[i] = (uint8_t)byte;
    }
}

static uint8_t *next; /* the part of the pool that is still free starts here */

/* A buffer between two guard zones, aligned to WIDEST, or exactly to `align`. */
static uint8_t *lend(const char *name, uint32_t bytes, uint32_t align, uint32_t is_shifted)
{
    uint8_t *data = next + GUARD;

    data += -(uintptr_t)data % WIDEST + (is_shifted ? align % WIDEST : 0);
    if ((uintptr_t)(_pool_end - data) < bytes + 2 * GUARD) {
        fail("the emulated machine has too little memory for ", name, NO_ROOM);
    }
    fill(data - GUARD, GUARD, GUARD_BYTE);
    fill(data + bytes, GUARD, GUARD_BYTE);
    next = data + bytes + GUARD;
    return data;
}

static void check_guards(const char *name, const uint8_t *data, uint32_t bytes)
{
    for (int i = 0; i < GUARD; i++) {
        if (data[i - GUARD] != GUARD_BYTE || data[(int)bytes + i] != GUARD_BYTE) {
            fail("a write beside a buffer, in ", name, WROTE_BESIDE);
        }
    }
}

/* Between these two instructions are counted. */
__attribute__((noinline, used, weak)) void _measure_begin(void)
{
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline, used, weak)) void _measure_end(void)
{
    __asm__ volatile("" ::: "memory");
}

/* Calls a model; how many bytes of stack below this function it used. */
__attribute__((noinline)) static uint32_t measured(const struct model *model, void *const *tensors, void *arena)
{
    uint8_t *const top = _stack_pointer();
    uint8_t *lowest = _stack_begin;

    for (volatile uint8_t *paint = _stack_begin; paint < top; paint++) {
        *paint = PAINT;
    }
    _measure_begin();
    model->call(tensors, arena);
    _measure_end();
    if (*(volatile uint8_t *)lowest != PAINT) {
        fail("the stack is too small for ", model->name, NO_ROOM);
    }
    while (lowest < top && *(volatile uint8_t *)lowest == PAINT) {
        lowest++;
    }
    return (uint32_t)(top - lowest);
}

static void run(const struct call *call, intptr_t inputs, intptr_t outputs)
{
    const struct model *model = &MODELS[call->model];
    void *tensors[MAX_PORTS];
    uint8_t *arena;
    uint32_t stack;

    next = _pool_begin;
    for (uint32_t i = 0; i < model->ports; i++) {
        const struct port *port = &model->port[i];
        tensors[i] = lend(model->name, port->bytes, port->align, call->is_shifted);
        if (port->is_output) {
            fill(tensors[i], port->bytes, call->garbage);
        } else if (transfer(SYS_READ, inputs, tensors[i], port->bytes)) {
            fail("inputs.bin is too short for ", model->name, BROKEN_FILE);
        }
    }
    arena = lend(model->name, model->arena_bytes, model->arena_align, call->is_shifted);
    fill(arena, model->arena_bytes, call->garbage);
    model->put(tensors, arena);
    _status = 0;
    stack = measured(model, tensors, model->arena_bytes ? arena : 0);
    model->get(tensors, arena);
    check_guards(model->name, arena, model->arena_bytes);
    for (uint32_t i = 0; i < model->ports; i++) {
        const struct port *port = &model->port[i];
        check_guards(model->name, tensors[i], port->bytes);
        if (port->is_output && transfer(SYS_WRITE, outputs, tensors[i], port->bytes)) {
            fail("outputs.bin cannot be written for ", model->name, BROKEN_FILE);
        }
    }
    if (transfer(SYS_WRITE, outputs, &stack, sizeof stack) || transfer(SYS_WRITE, outputs, &_status, sizeof _status)) {
        fail("outputs.bin cannot be written for ", model->name, BROKEN_FILE);
    }
}

int main(void)
{
    const intptr_t inputs = open_file("inputs.bin", 10, READ_BINARY);
    const intptr_t outputs = open_file("outputs.bin", 11, WRITE_BINARY);
    struct call call;

    if (inputs < 0 || outputs < 0) {
        fail("inputs.bin or outputs.bin cannot be opened", "", BROKEN_FILE);
    }
    while (transfer(SYS_READ, inputs, &call, sizeof call) == 0) {
        run(&call, inputs, outputs);
    }
    return 0;
}
