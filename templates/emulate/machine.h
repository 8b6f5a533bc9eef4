/*
 * What the startup code gives the driver. Names start with an underscore, as no generated symbol does, so that models
 * of any name link beside them.
 */
#ifndef QCGEN_MACHINE_H
#define QCGEN_MACHINE_H

#include <stdint.h>

/* From the linker script: the stack's lowest byte, and the memory for tensors and arena. */
extern uint8_t _stack_begin[], _pool_begin[], _pool_end[];

/* A semihosting call: the emulator does the work in the host's files. */
intptr_t _semihost(intptr_t operation, const void *argument);

/* The lowest byte of the stack that the caller uses. */
uint8_t *_stack_pointer(void);

/* Text to the host's standard error. */
void _say(const char *text);

/* Ends the emulation with this exit status. */
void _leave(intptr_t status);

#endif
