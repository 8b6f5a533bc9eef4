/* Where the driver's bytes come from and where they go. */
#ifndef STREAMS_H
#define STREAMS_H

#include <stddef.h>

void open_streams(void);

/* How many of the bytes there are; all of them but at the end. */
size_t take(void *data, size_t bytes);

void give(const void *data, size_t bytes);

/* Says what is wrong with which model, and ends the program. */
void fail(const char *what, const char *name);

void close_streams(void);

#endif
