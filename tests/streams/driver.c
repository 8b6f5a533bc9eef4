/*
 * Calls generated models: which one and its inputs come from a stream, the outputs go to another; streams.h says what
 * they are on each machine.
 *
 * Input: for each call a struct call, then the elements of each input. Output: for each call the elements of each
 * output. A plain buffer is a heap block of its exact size, so that an address sanitizer sees each step beyond it; a
 * guarded one stands between guard zones, aligned to no more than it must be.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "models.h" /* MODELS, MAX_PORTS */
#include "streams.h"

enum { GUARD = 32, GUARD_BYTE = 0xA5, NO_OUTPUTS = 0x55 };

struct call {
    uint32_t model;
    uint32_t guarded;
    uint32_t fill; /* the byte that outputs and arena hold before */
};

struct buffer {
    unsigned char *block, *data;
    size_t bytes, room;
};

static struct buffer lend(const struct call *call, size_t bytes, size_t align)
{
    struct buffer b;

    b.bytes = bytes;
    b.room = call->guarded ? bytes + 2 * GUARD + 2 * align : bytes;
    b.block = malloc(b.room > 0 ? b.room : 1);
    if (b.block == NULL) {
        fail("too little memory for ", MODELS[call->model].name);
    }
    b.data = b.block;
    if (call->guarded) {
        memset(b.block, GUARD_BYTE, b.room);
        b.data += GUARD;
        while ((uintptr_t)b.data % (2 * align) != align) {
            b.data++;
        }
    }
    memset(b.data, (int)call->fill, bytes);
    return b;
}

static void take_back(struct buffer b, const char *name)
{
    size_t i;

    for (i = 0; i < b.room; i++) {
        if ((b.block + i < b.data || b.block + i >= b.data + b.bytes) && b.block[i] != GUARD_BYTE) {
            fail("a write beside a buffer, in ", name);
        }
    }
    free(b.block);
}

/* A number that one changed byte changes, too. */
static uint32_t checksum(struct buffer b)
{
    uint32_t sum = 1;
    size_t i;

    for (i = 0; i < b.bytes; i++) {
        sum = sum * 16777619u + b.data[i];
    }
    return sum;
}

static void run(const struct call *call)
{
    const struct model *const model = &MODELS[call->model];
    struct buffer buffers[MAX_PORTS], arena;
    uint32_t sums[MAX_PORTS];
    void *tensors[MAX_PORTS], *memory;
    uint32_t i;

    for (i = 0; i < model->ports; i++) {
        const struct port *const port = &model->port[i];

        buffers[i] = lend(call, port->bytes, port->align);
        tensors[i] = buffers[i].data;
        if (!port->is_output && take(tensors[i], port->bytes) != port->bytes) {
            fail("an input is too short, for ", model->name);
        }
        sums[i] = checksum(buffers[i]);
    }
    arena = lend(call, model->arena_bytes, model->arena_align);
    memory = model->arena_bytes > 0 ? arena.data : NULL;
    model->put(tensors, memory);
    _status = 0;
    model->call(tensors, memory);
    model->get(tensors, memory);
    for (i = 0; i < model->ports; i++) {
        if (model->port[i].is_output && _status != 0) { /* what it holds means nothing */
            memset(tensors[i], NO_OUTPUTS, model->port[i].bytes);
        }
        if (model->port[i].is_output) {
            give(tensors[i], model->port[i].bytes);
        } else if (checksum(buffers[i]) != sums[i]) {
            fail("an input is written, in ", model->name);
        }
        take_back(buffers[i], model->name);
    }
    take_back(arena, model->name);
}

int main(void)
{
    struct call call;

    open_streams();
    while (take(&call, sizeof call) == sizeof call) {
        run(&call);
    }
    close_streams();
    return 0;
}
