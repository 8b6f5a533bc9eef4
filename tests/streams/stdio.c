/* Standard input and output. */
#include <stdio.h>
#include <stdlib.h>

#include "streams.h"

void open_streams(void)
{
}

size_t take(void *data, size_t bytes)
{
    return fread(data, 1, bytes, stdin);
}

void give(const void *data, size_t bytes)
{
    fwrite(data, 1, bytes, stdout);
}

void fail(const char *what, const char *name)
{
    fprintf(stderr, "%s%s\n", what, name);
    exit(1);
}

void close_streams(void)
{
    if (fflush(stdout) != 0) {
        exit(2);
    }
}
