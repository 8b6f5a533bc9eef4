/* Starts a Cortex-M, version 6 to 8.1 of the architecture, and reports faults; no CMSIS headers. */
#include "machine.h"

enum { SYS_WRITE0 = 0x04, SYS_EXIT_EXTENDED = 0x20, ADP_STOPPED_APPLICATION_EXIT = 0x20026, FAULT_STATUS = 99 };

#define CCR (*(volatile uint32_t *)0xE000ED14u)
#define CPACR (*(volatile uint32_t *)0xE000ED88u)

extern uint8_t _stack_end[];
extern uint32_t _data_load[], _data_begin[], _data_end[], _bss_begin[], _bss_end[];

int main(void);
void _reset(void);
void _fault(void);
void _report_fault(const uint32_t *frame, uint32_t exception);

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    _stack_end, _reset, _fault, _fault, _fault, _fault, _fault, _fault,
    0,          0,      0,      _fault, _fault, 0,      _fault, _fault,
};

intptr_t _semihost(intptr_t operation, const void *argument)
{
    register intptr_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;

    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

__attribute__((naked, noinline)) uint8_t *_stack_pointer(void)
{
    __asm__ volatile("mov r0, sp\n bx lr");
}

void _say(const char *text)
{
    _semihost(SYS_WRITE0, text);
}

void _leave(intptr_t status)
{
    const intptr_t block[2] = { ADP_STOPPED_APPLICATION_EXIT, status };

    for (;;) {
        _semihost(SYS_EXIT_EXTENDED, block);
    }
}

/* Hands the frame that the exception pushed to C: at its end stands the address of the instruction at fault. */
__attribute__((naked)) void _fault(void)
{
    __asm__ volatile("mrs r0, msp\n mrs r1, ipsr\n bl _report_fault");
}

void _report_fault(const uint32_t *frame, uint32_t exception)
{
    char text[] = "fault 00 at 00000000\n";
    const uint32_t pc = frame[6];

    text[6] = (char)('0' + exception / 10 % 10);
    text[7] = (char)('0' + exception % 10);
    for (int i = 0; i < 8; i++) {
        text[12 + i] = "0123456789abcdef"[pc >> (28 - 4 * i) & 15];
    }
    _say(text);
    _leave(FAULT_STATUS);
}

void _reset(void)
{
    const uint32_t *from = _data_load;

#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
    CPACR |= 0xFu << 20; /* the floating-point unit and Helium are off after reset */
    __asm__ volatile("dsb\n isb");
#endif
#ifndef __ARM_FEATURE_UNALIGNED
    CCR |= 1u << 3; /* the emulated core is a larger one: let it fault on unaligned words, as a Cortex-M0 does */
#endif
    for (uint32_t *to = _data_begin; to < _data_end;) {
        *to++ = *from++;
    }
    for (uint32_t *to = _bss_begin; to < _bss_end;) {
        *to++ = 0;
    }
    _leave(main());
}
