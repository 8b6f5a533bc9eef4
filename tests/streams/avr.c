/* An AVR: input is inputs.bin in flash, output is lines of hexadecimal digits on the first serial port. */
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/pgmspace.h>
#include <avr/sleep.h>
#include <stdlib.h>

#include "streams.h"

__asm__(".section .progmem.inputs, \"a\"\n"
        ".global inputs_begin, inputs_end\n"
        "inputs_begin: .incbin \"inputs.bin\"\n"
        "inputs_end:\n"
        ".balign 2\n"
        ".text\n");

extern const uint8_t inputs_begin[], inputs_end[];

static uint32_t next, end; /* addresses in flash */

static void put(char character)
{
    while ((UCSR0A & (1 << UDRE0)) == 0) {
    }
    UDR0 = (uint8_t)character;
}

static void say(const char *text)
{
    while (*text != '\0') {
        put(*text++);
    }
}

/* The emulator ends when the core sleeps and nothing can wake it. */
static void stop(const char *last)
{
    say(last);
    put('\n');
    cli();
    sleep_enable();
    for (;;) {
        sleep_cpu();
    }
}

void open_streams(void)
{
    UCSR0A = 1 << U2X0;
    UBRR0 = 0;
    UCSR0B = 1 << TXEN0;
    next = pgm_get_far_address(inputs_begin);
    end = pgm_get_far_address(inputs_end);
}

size_t take(void *data, size_t bytes)
{
    uint8_t *to = data;
    size_t taken;

    for (taken = 0; taken < bytes && next < end; taken++) {
        *to++ = pgm_read_byte_far(next++);
    }
    return taken;
}

void give(const void *data, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *from = data;
    size_t i;

    for (i = 0; i < bytes; i++) {
        put(digits[from[i] >> 4]);
        put(digits[from[i] & 15]);
        if (i % 32 == 31 || i == bytes - 1) {
            put('\n');
        }
    }
}

void fail(const char *what, const char *name)
{
    say(what);
    stop(name);
}

void close_streams(void)
{
    stop("end");
}
