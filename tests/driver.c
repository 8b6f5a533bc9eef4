/*
 * Runs generated models on inputs from standard input; outputs go to standard output.
 *
 *     driver exact|guarded FILL
 *
 * Input: records of the model's index in MODELS (uint32), then the elements of x. Output: the elements of y for each.
 * exact: every buffer is a heap block of its exact size, so that an address sanitizer sees each step beyond it.
 * guarded: every buffer stands between guard zones, aligned to no more than it must be. FILL is the byte that y and the
 * arena hold before the call. Exit status 0; 1 if a guard zone or an input was written; 2 for a broken command.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct model {
    const char *name;
    void (*run)(const void *x, void *y, void *arena);
    size_t x_bytes, x_align;
    size_t y_bytes, y_align;
    size_t arena_bytes, arena_align;
};

#include "models.h"

enum { GUARD = 64, GUARD_BYTE = 0xA5 };

struct buffer {
    unsigned char *block, *data;
    size_t bytes;
    int guarded;
};

static struct buffer lend(size_t bytes, size_t align, int guarded, int fill)
{
    struct buffer b;
    size_t room = guarded ? bytes + 2 * GUARD + 2 * align : bytes;

    b.block = malloc(room > 0 ? room : 1);
    if (b.block == NULL) {
        exit(2);
    }
    b.bytes = bytes;
    b.guarded = guarded;
    b.data = b.block;
    if (guarded) {
        memset(b.block, GUARD_BYTE, room);
        b.data += GUARD;
        while ((uintptr_t)b.data % (2 * align) != align) {
            b.data++;
        }
    }
    memset(b.data, fill, bytes);
    return b;
}

static void take_back(struct buffer b, size_t align, const char *name, const char *what)
{
    if (b.guarded) {
        const size_t room = b.bytes + 2 * GUARD + 2 * align;
        size_t i;

        for (i = 0; i < room; i++) {
            if ((b.block + i < b.data || b.block + i >= b.data + b.bytes) && b.block[i] != GUARD_BYTE) {
                fprintf(stderr, "%s writes beside its %s\n", name, what);
                exit(1);
            }
        }
    }
    free(b.block);
}

int main(int argc, char **argv)
{
    const int guarded = argc == 3 && strcmp(argv[1], "guarded") == 0;
    const int fill = argc == 3 ? atoi(argv[2]) : 0;
    uint32_t index;

    if (argc != 3) {
        return 2;
    }
    while (fread(&index, sizeof index, 1, stdin) == 1) {
        const struct model m = MODELS[index];
        struct buffer x = lend(m.x_bytes, m.x_align, guarded, 0);
        struct buffer kept = lend(m.x_bytes, 1, 0, 0);
        struct buffer y = lend(m.y_bytes, m.y_align, guarded, fill);
        struct buffer arena = lend(m.arena_bytes, m.arena_align, guarded, fill);

        if (fread(x.data, 1, m.x_bytes, stdin) != m.x_bytes) {
            return 2;
        }
        memcpy(kept.data, x.data, m.x_bytes);
        m.run(x.data, y.data, m.arena_bytes > 0 ? arena.data : NULL);
        if (memcmp(kept.data, x.data, m.x_bytes) != 0) {
            fprintf(stderr, "%s writes its input\n", m.name);
            return 1;
        }
        if (fwrite(y.data, 1, m.y_bytes, stdout) != m.y_bytes) {
            return 2;
        }
        take_back(x, m.x_align, m.name, "input");
        take_back(y, m.y_align, m.name, "output");
        take_back(arena, m.arena_align, m.name, "arena");
        take_back(kept, 1, m.name, "copy");
    }
    return 0;
}
